"""perf.data cut short or altered anywhere: what is whole is read, what is lost is counted, only PinprofErrors rise."""

from __future__ import annotations

import lzma
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pinprof import read
from pinprof.base.errors import PinprofError
from pinprof.data import perf_format as perf
from pinprof.data.model import NO_NODE, Capture
from pinprof.read.perf import records as rec
from tests.support import perf_file as pf
from tests.support.examples import examples, in_proportion

H200 = Path(__file__).parents[3] / "data" / "h200"


@pytest.fixture(scope="module")
def recording() -> bytes:
    return lzma.decompress((H200 / "uvm.perf.data.xz").read_bytes())


def check_invariants(capture: Capture) -> None:
    samples, stacks = capture.samples, capture.stacks
    assert (np.diff(samples.time_ns) >= 0).all()
    assert (samples.weight >= 0).all()
    assert ((samples.stack >= NO_NODE) & (samples.stack < len(stacks))).all()
    assert ((samples.event >= 0) & (samples.event < len(capture.events))).all()
    assert (stacks.parent < np.arange(len(stacks))).all()
    assert ((stacks.frame >= 0) & (stacks.frame < len(stacks.frames))).all()
    assert all(count >= 0 for count in (capture.losses.corrupt_bytes, capture.losses.lost_samples))


def small_file() -> bytes:
    """A file with every record this reader handles."""
    spec = pf.Spec(
        sample_type=pf.BASIC | perf.SAMPLE_IDENTIFIER | perf.SAMPLE_READ, read_format=perf.FORMAT_GROUP, ids=(1,)
    )
    other = pf.Spec(sample_type=pf.BASIC | perf.SAMPLE_IDENTIFIER | perf.SAMPLE_ADDR, config=2, ids=(2,))
    group = struct.pack("<3Q", 2, 5, 6)
    chain = (rec.CONTEXT_KERNEL, pf.KERNEL_IP, rec.CONTEXT_USER, pf.USER_IP, 0x7F0000001000)
    plain = b"".join(pf.sample(spec, chain, event_id=1, time=time, read=group) for time in (9, 5, 7))
    records = pf.mmap2(spec, 0x400000, 0x10000, "/opt/app") + pf.mmap(spec, 0x7F0000000000, 0x10000, "//anon")
    records += pf.comm(spec, "app", exec_=True, time=1) + pf.fork(spec, 8, 7, time=2)
    records += plain + pf.sample(other, chain, event_id=2, pid=8)
    records += pf.record(perf.RECORD_LOST, struct.pack("<QQ", 1, 4) + pf.trailer(spec, time=3, event_id=1))
    records += pf.record(perf.RECORD_COMPRESSED, zstandard.ZstdCompressor().compress(plain).ljust(200, b"\0"))
    records += pf.record(perf.RECORD_AUXTRACE, struct.pack("<QQQIIII", 16, 0, 0, 0, 0, 0, 0)) + bytes(16)
    features = pf.Features().command("perf", "record", "-a", "/opt/app").names(("cpu", (1,)), ("faults", (2,)))
    return pf.file_mode([spec, other], records, features.build_id("/opt/app", b"\x11" * 20).kernel("6.1"))


SMALL = small_file()


def read_or_refuse(path: Path, raw: bytes | None = None) -> Capture | None:
    """Read a file, of these bytes where they are given."""
    if raw is not None:
        path.write_bytes(raw)
    try:
        capture = read.read(path)
    except PinprofError:
        return None
    check_invariants(capture)
    return capture


@pytest.mark.slow
def test_file_cut_anywhere_yields_its_whole_samples(recording: bytes, tmp_path: Path) -> None:
    whole = read_or_refuse(tmp_path / "perf.data", recording)
    assert whole is not None
    counts = {}
    for percent in sorted({50, 99, *np.linspace(0, 99, in_proportion(100)).astype(int).tolist()}):
        capture = read_or_refuse(tmp_path / "perf.data", recording[: len(recording) * percent // 100])
        counts[percent] = 0 if capture is None else len(capture.samples)
        if capture is not None:
            assert capture.losses.damage
    assert list(counts.values()) == sorted(counts.values())
    assert counts[50] > 0.3 * len(whole.samples)
    assert counts[99] == len(whole.samples)


@pytest.mark.slow
def test_small_file_cut_at_many_bytes(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(SMALL)
    for length in reversed(range(0, len(SMALL), len(SMALL) // in_proportion(len(SMALL) // 3))):
        os.truncate(path, length)
        read_or_refuse(path)


@pytest.mark.slow
@examples(300)
@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=12))
def test_altered_bytes_raise_nothing_but_our_errors(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    raw = bytearray(SMALL)
    for place, value in changes:
        raw[place] = value
    read_or_refuse(tmp_path / "perf.data", bytes(raw))


@pytest.mark.slow
@examples(150)
@given(st.integers(0, len(SMALL) // 8 - 1), st.integers(0, 2**64 - 1), st.booleans())
def test_altered_words_raise_nothing_but_our_errors(tmp_path: Path, place: int, value: int, near: bool) -> None:
    raw = bytearray(SMALL)
    if near:
        value = (struct.unpack_from("<Q", raw, 8 * place)[0] + (value & 0xF) - 8) % 2**64
    struct.pack_into("<Q", raw, 8 * place, value)
    read_or_refuse(tmp_path / "perf.data", bytes(raw))


@examples(100)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_behind_a_header_raise_nothing_but_our_errors(tmp_path: Path, tail: bytes, pipe: bool) -> None:
    spec = pf.Spec()
    raw = pf.pipe_mode([spec], tail) if pipe else pf.file_mode([spec], pf.sample(spec) + tail)
    read_or_refuse(tmp_path / "perf.data", raw)


def test_hostile_names_are_kept_as_text(tmp_path: Path) -> None:
    spec = pf.Spec()
    records = (
        pf.comm(spec, b"\xff\xfe<script>")
        + pf.mmap2(spec, 0x400000, 0x1000, "/x;y\n\x1b[31m/..")
        + pf.sample(spec, (rec.CONTEXT_USER, 0x400010))
    )
    capture = read_or_refuse(tmp_path / "perf.data", pf.file_mode([spec], records))
    assert capture is not None
    assert capture.threads[7, 7] == "\ufffd\ufffd<script>"
    assert capture.stacks.frames.dsos[0].path == "/x;y\n\x1b[31m/.."
