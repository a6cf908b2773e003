"""Compressed records of perf.data: one stream in pieces of any size, damaged, or made to fill memory."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import zstandard

from pinprof.data import perf_format as perf
from pinprof.read.perf import inflate
from tests.support import perf_file as pf
from tests.support.perf_file import MAPPED, Reader, frames


@pytest.mark.slow
@pytest.mark.parametrize("piece", [1, 7, 100, 5000])
def test_compressed_records_are_one_stream_cut_anywhere(capture_of: Reader, piece: int) -> None:
    spec = pf.Spec()
    plain = pf.mmap2(spec, *MAPPED) + b"".join(pf.sample(spec, time=time) for time in range(100, 150))
    compressor = zstandard.ZstdCompressor().compressobj()
    packed = b""
    for start in range(0, len(plain), piece):
        packed += compressor.compress(plain[start : start + piece])
        packed += compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    records = b"".join(pf.record(perf.RECORD_COMPRESSED, packed[at : at + 61]) for at in range(0, len(packed), 61))
    capture = capture_of(pf.file_mode([spec], records + pf.sample(spec, time=200)))
    assert len(capture.samples) == 51
    assert {tuple(frames(capture, row)) for row in range(51)} == {("[app]",)}
    assert capture.losses.corrupt_bytes == 0


def test_compressed_records_of_newer_perf_say_their_size_and_are_padded(capture_of: Reader) -> None:
    spec = pf.Spec()
    packed = zstandard.ZstdCompressor().compress(pf.sample(spec) * 3)
    body = struct.pack("<Q", len(packed)) + packed.ljust(len(packed) + -len(packed) % 8, b"\0")
    damaged = pf.record(perf.RECORD_COMPRESSED2, struct.pack("<Q", 99) + bytes(16))
    capture = capture_of(pf.file_mode([spec], pf.record(perf.RECORD_COMPRESSED2, body) + damaged + pf.sample(spec)))
    assert (len(capture.samples), capture.losses.corrupt_bytes) == (4, 32)


@pytest.mark.parametrize("length", [65_519, 65_566, 65_600, 150_000])
def test_compressed_records_whose_size_overflowed_are_read(capture_of: Reader, length: int) -> None:
    spec = pf.Spec()
    noise = np.random.default_rng(1).bytes(length - 3 * (length >> 16) - 200)
    plain = pf.sample(spec, time=1)
    plain += b"".join(pf.record(250, noise[at : at + 60_000]) for at in range(0, len(noise), 60_000))
    packed = zstandard.ZstdCompressor().compress(plain + pf.sample(spec, time=2))
    assert len(packed) > 65_000
    pieces = [packed[at : at + 65_519] for at in range(0, len(packed), 65_519)]
    body = pieces[0] + b"".join(
        struct.pack("<IHHQ", perf.RECORD_COMPRESSED2, 0, 16 + len(more), 77) + more for more in pieces[1:]
    )
    padding = -len(body) % 8 if len(body) + 16 <= 65_528 else 0
    size = (len(body) + 16 + 7 & ~7) % 65_536
    record = struct.pack("<IHHQ", perf.RECORD_COMPRESSED2, 0, size, len(body)) + body + bytes(padding)
    capture = capture_of(pf.file_mode([spec], record + pf.sample(spec, time=3)))
    assert (capture.samples.time_ns.tolist(), capture.losses.corrupt_bytes) == ([1, 2, 3], 0)


@pytest.mark.parametrize("gap", [0, 1, 7, 600])
def test_frames_of_compressed_records_that_follow_each_other_are_all_read(capture_of: Reader, gap: int) -> None:
    """perf inflates on across the end of a frame; some records end in zeros that fill them up."""
    spec = pf.Spec()
    plain = [pf.sample(spec, time=time) for time in (1, 2, 3)]
    cut = plain[1][:20]
    frames = [zstandard.ZstdCompressor().compress(data) for data in (plain[0] + cut, plain[1][20:], plain[2])]
    records = pf.record(perf.RECORD_COMPRESSED, frames[0] + frames[1] + bytes(gap)) + pf.record(
        perf.RECORD_COMPRESSED, frames[2]
    )
    capture = capture_of(pf.file_mode([spec], records))
    assert capture.samples.time_ns.tolist() == [1, 2, 3]
    assert (capture.losses.corrupt_bytes, [note for note in capture.losses.notes if "damaged" in note]) == (0, [])


@pytest.mark.slow
def test_copies_of_empty_stacks_are_no_forgery_however_small_they_become(capture_of: Reader) -> None:
    spec = pf.Spec()
    packer = zstandard.ZstdCompressor(level=19).compressobj()
    records = b""
    for number in range(500):
        plain = pf.sample(spec, time=number, behind=bytes(65000))
        packed = packer.compress(plain) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        records += pf.record(perf.RECORD_COMPRESSED, packed)
    assert len(records) * 1000 + (16 << 20) < 500 * 65000
    capture = capture_of(pf.file_mode([spec], records))
    assert (len(capture.samples), capture.losses.corrupt_bytes) == (500, 0)
    assert "damaged" not in str(capture.losses.notes)


@pytest.mark.slow
def test_millions_of_tiny_records_from_a_few_bytes_end_the_reading(capture_of: Reader) -> None:
    spec = pf.Spec()
    packed = zstandard.ZstdCompressor(level=19).compress(pf.record(65, b"") * (1 << 21))
    assert len(packed) < 1 << 16
    capture = capture_of(pf.file_mode([spec], pf.record(perf.RECORD_COMPRESSED, packed) + pf.sample(spec)))
    assert not len(capture.samples)
    assert "damaged" in " ".join(capture.losses.notes)


@pytest.mark.parametrize("inner", [b"", b"no zstd"])
def test_compressed_records_inside_compressed_ones_are_damage(capture_of: Reader, inner: bytes) -> None:
    spec = pf.Spec()
    nested = pf.sample(spec) + pf.record(perf.RECORD_COMPRESSED, inner) + pf.sample(spec)
    record = pf.record(perf.RECORD_COMPRESSED, zstandard.ZstdCompressor().compress(nested))
    capture = capture_of(pf.file_mode([spec], record + pf.sample(spec)))
    assert (len(capture.samples), capture.losses.corrupt_bytes) == (3, 8 + len(inner))


@pytest.mark.slow
def test_records_that_inflate_beyond_all_measure_are_given_up(
    capture_of: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflate, "MOST_INFLATION", 1000)
    spec = pf.Spec()
    packed = zstandard.ZstdCompressor().compress(pf.record(250, bytes(992)) * (1 << 16))
    capture = capture_of(pf.file_mode([spec], pf.record(perf.RECORD_COMPRESSED, packed[:60_000]) + pf.sample(spec)))
    assert any("damaged" in note for note in capture.losses.notes)
    assert not len(capture.samples)


def test_broken_compression_is_counted_and_the_rest_is_read(capture_of: Reader) -> None:
    spec = pf.Spec()
    records = pf.record(perf.RECORD_COMPRESSED, b"no zstd at all..") + pf.sample(spec)
    capture = capture_of(pf.file_mode([spec], records))
    assert len(capture.samples) == 1
    assert capture.losses.corrupt_bytes == 16
