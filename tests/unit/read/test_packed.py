"""Every input may be compressed with gzip, xz or zstd, in one piece or several, whole or broken, and is bounded."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.errors import CaptureError, FormatError, PinprofError
from pinprof.read import packed, read
from pinprof.read.byte_source import ByteSource
from pinprof.read.packed import PackedError, is_packed, plain_pieces, unpacked
from pinprof.read.ranges import read_ranges
from pinprof.read.symbols.kallsyms import load_kallsyms
from tests.support import perf_file as pf
from tests.support.nsys_file import call, session, write_export

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, mtime=0),
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
    "stream.zst": lambda data: (stream := zstandard.ZstdCompressor().compressobj()).compress(data) + stream.flush(),
    "skip.zst": lambda data: struct.pack("<II", 0x184D2A5E, 3) + b"abc" + zstandard.ZstdCompressor().compress(data),
}
FOLDED = b"main;work;malloc 12\nmain;idle 3\n"


@pytest.fixture(params=PACKERS)
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_folded_stacks_are_read_from_every_compression(suffix: str, tmp_path: Path) -> None:
    capture = read(written(tmp_path, f"a.folded.{suffix}", PACKERS[suffix](FOLDED)))
    assert sorted(capture.samples.weight.tolist()) == [3, 12]
    assert capture.path == str(tmp_path / f"a.folded.{suffix}")


def test_a_recording_of_perf_is_read_from_every_compression(suffix: str, tmp_path: Path) -> None:
    spec = pf.Spec()
    data = pf.file_mode([spec], pf.sample(spec, time=5) + pf.sample(spec, time=9))
    capture = read(written(tmp_path, f"perf.data.{suffix}", PACKERS[suffix](data)))
    assert capture.samples.time_ns.tolist() == [5, 9]
    assert capture.path == str(tmp_path / f"perf.data.{suffix}")


def test_an_export_of_nsys_is_read_from_every_compression(suffix: str, tmp_path: Path) -> None:
    tables = {"TARGET_INFO_SESSION_START_TIME": session(), "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 9, 1, 1)]}
    plain = write_export(tmp_path / "a.sqlite", tables, strings={1: "cudaFree_v3020"})
    capture = read(written(tmp_path, f"a.sqlite.{suffix}", PACKERS[suffix](plain.read_bytes())))
    assert capture.activity is not None
    assert [capture.activity.calls.names, len(capture.activity.calls)] == [("cudaFree",), 1]


def test_ranges_may_be_compressed(suffix: str, tmp_path: Path) -> None:
    line = b'{"name": "alloc", "start_ns": 1, "end_ns": 9}\n'
    assert read_ranges(written(tmp_path, "ranges", PACKERS[suffix](line))).table.name == ("alloc",)
    with pytest.raises(CaptureError, match="truncated"):
        read_ranges(written(tmp_path, "cut", PACKERS[suffix](line)[:-1]))


@pytest.mark.parametrize("head", [struct.pack("<5Q", 0, 3, 0, 10000, 0), b"heap profile:   1:  8 [ 1: 8] @ heap\n"])
def test_profiles_in_the_formats_of_gperftools_say_how_to_convert_them(head: bytes, tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as error:
        read(written(tmp_path, "cpu.prof", head + bytes(64)))
    assert (error.value.slug, "pprof -proto" in error.value.remedy) == ("unknown-format", True)


def test_pieces_that_follow_each_other_are_one_input(suffix: str, tmp_path: Path) -> None:
    pack = PACKERS[suffix]
    source = ByteSource(written(tmp_path, "a", pack(FOLDED) + pack(FOLDED) + bytes(8) + pack(FOLDED)))
    assert (b"".join(source.chunks()), source.damage) == (FOLDED * 3, "")
    garbage = ByteSource(written(tmp_path, "b", pack(FOLDED) + b"something else"))
    assert (b"".join(garbage.chunks()), garbage.damage) == (FOLDED, "")


@pytest.mark.slow
def test_what_ends_early_is_read_as_far_as_it_goes(suffix: str, tmp_path: Path) -> None:
    lines = b"".join(b"main;f%d %d\n" % (number * 7919 % 10007, number) for number in range(1, 30000))
    whole = PACKERS[suffix](lines)
    source = ByteSource(written(tmp_path, "a", whole[: len(whole) * 3 // 4]))
    begin = b"".join(source.chunks())
    assert lines.startswith(begin)
    assert source.damage.startswith("truncated ")
    damaged = bytearray(whole)
    damaged[len(whole) // 2 : len(whole) // 2 + 64] = bytes(64)
    source = ByteSource(written(tmp_path, "b", bytes(damaged)))
    assert len(b"".join(source.chunks())) <= len(lines) + (1 << 18)


def test_a_recording_cut_short_while_compressed_says_so(tmp_path: Path) -> None:
    spec = pf.Spec()
    records = b"".join(pf.sample(spec, time=time, period=time * 7919 % 1009) for time in range(3000))
    whole = gzip.compress(pf.file_mode([spec], records))
    damage = " ".join(read(written(tmp_path, "perf.data.gz", whole[: len(whole) // 2])).losses.damage)
    assert "truncated gzip data" in damage


def test_errors_name_the_file_that_was_given(suffix: str, tmp_path: Path) -> None:
    data = PACKERS[suffix](pf.file_mode([pf.Spec()], b"")[:60])
    path = written(tmp_path, f"perf.data.{suffix}", data)
    with pytest.raises(FormatError) as error:
        read(path)
    assert error.value.problem.startswith(f"{path}: ")


def test_small_files_unpack_within_a_limit(suffix: str) -> None:
    data = PACKERS[suffix](FOLDED)
    assert unpacked(data, 100) == FOLDED == unpacked(FOLDED, 0)
    with pytest.raises(PackedError, match="too large"):
        unpacked(data, 10)
    with pytest.raises(PackedError, match="truncated"):
        unpacked(data[:-1], 100)


@pytest.mark.slow
def test_a_few_bytes_do_not_fill_memory_or_disk(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "SPARED_BYTES", 1 << 16)
    monkeypatch.setattr(packed, "MOST_RATIO", 50)
    bomb = written(tmp_path, "bomb", PACKERS[suffix](b"a;b 1\n" * (1 << 20)))
    with pytest.raises(FormatError, match="at most 50 times their size"):
        read(bomb)
    monkeypatch.setattr(packed, "MOST_RATIO", 100_000)
    monkeypatch.setattr(packed, "MOST_BYTES", 1 << 20)
    with pytest.raises(FormatError, match="compressed data of at most"):
        read(bomb)


@pytest.mark.slow
def test_pieces_stay_small_whatever_they_come_from(suffix: str) -> None:
    data = PACKERS[suffix](bytes(32 << 20))
    assert max(map(len, plain_pieces(io.BytesIO(data), 1 << 20))) <= 2 << 20


def test_compression_that_asks_for_too_much_memory_is_refused() -> None:
    greedy = lzma.compress(b"a" * 100, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}])
    with pytest.raises(PackedError, match="xz needs too much memory"):
        list(plain_pieces(io.BytesIO(greedy), 1 << 20))


def test_kernel_symbols_may_be_compressed(suffix: str, tmp_path: Path) -> None:
    text = b"ffffffff81000000 T _text\nffffffff81000100 T do_work\nffffffff81000200 T after\n"
    symbols = load_kallsyms(written(tmp_path, "kallsyms", PACKERS[suffix](text)))
    assert len(symbols.around(np.array([0xFFFFFFFF81000100], np.uint64))) == 3


@given(st.sampled_from(sorted(PACKERS)), st.binary(max_size=300), st.integers(0, 400), st.integers(0, 255))
def test_no_bytes_raise_anything_but_what_is_said(suffix: str, data: bytes, at: int, value: int) -> None:
    whole = bytearray(PACKERS[suffix](data))
    if at < len(whole):
        whole[at] = value
    try:
        if is_packed(bytes(whole)):
            list(plain_pieces(io.BytesIO(bytes(whole)), 1 << 16))
    except (PackedError, PinprofError):
        pass
