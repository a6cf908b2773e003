"""Records are walked once, by the library as without it, wherever their bytes look like headers; and read again where
they lie.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof import read
from pinprof.data import perf_format as perf
from pinprof.read.perf import kernels, passes, stream
from pinprof.read.perf.header import Header, read_header
from pinprof.read.perf.samples import FilePart
from tests.support import perf_file as pf
from tests.support.examples import examples

BAIT = struct.unpack("<Q", perf.RECORD_HEADER.pack(perf.RECORD_SAMPLE, 2, 16))[0]
"""A word that looks like the header of a sample of two words."""
WORD = st.sampled_from([BAIT, BAIT & 0xFFFFFFFF, BAIT + (1 << 51), 0, 1 << 47])
KINDS = [perf.RECORD_SAMPLE] * 6 + [perf.RECORD_SWITCH, perf.RECORD_LOST, 68, 250, 1 << 20]
RECORD = st.tuples(st.sampled_from(KINDS), st.lists(WORD, max_size=5), st.integers(0, 3))


def packed(records: list[tuple[int, list[int], int]]) -> bytes:
    """Records of whole words, but for some that are a few bytes longer."""
    made = b""
    for kind, words, more in records:
        made += pf.record(kind, struct.pack(f"<{len(words)}Q", *words) + bytes(more % 2 * 4 if more == 3 else 0))
    return made


def steps(buffer: bytes) -> tuple[list[int], list[int], int]:
    """Where samples and switches begin, and where the last whole record ends: a step for each."""
    samples, switches, position = [], [], 0
    while len(buffer) - position >= 8:
        kind, _, size = perf.RECORD_HEADER.unpack_from(buffer, position)
        if not 8 <= size <= len(buffer) - position:
            break
        if kind == perf.RECORD_SAMPLE:
            samples.append(position)
        elif kind == perf.RECORD_SWITCH:
            switches.append(position)
        position += size
    return samples, switches, position


class Walker(stream.RecordReader):
    """Notes where what it is given begins."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self.starts: list[int] = []
        self.switches: list[int] = []

    def _take(self, chunk: passes.Chunk, buffer: bytearray) -> None:
        self.starts += chunk.starts.tolist()

    def _take_switches(self, buffer: bytearray, end: int, starts: passes.Int32) -> None:
        self.switches += starts.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("library", [True, False])
@examples(300)
@given(records=st.lists(RECORD, max_size=40), cut=st.integers(0, 30))
def test_samples_are_found_by_walking_from_header_to_header(
    header: Header, library: bool, records: list[tuple[int, list[int], int]], cut: int
) -> None:
    buffer = packed(records)
    buffer = buffer[: len(buffer) - cut]
    walker = Walker(header)
    with pytest.MonkeyPatch.context() as patched:
        if not library:
            patched.setattr(kernels, "library", lambda: None)
        position = walker._walk(bytearray(buffer), len(buffer))
    assert (walker.starts, walker.switches, position) == steps(buffer)


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Header:
    path = tmp_path_factory.mktemp("header") / "perf.data"
    path.write_bytes(pf.file_mode([pf.Spec()], b""))
    with path.open("rb") as file:
        return read_header(file, str(path))


def test_a_file_is_walked_once_in_few_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, path, ends = pf.Spec(), tmp_path / "perf.data", []
    path.write_bytes(pf.file_mode([spec], pf.mmap2(spec, *pf.MAPPED) + pf.sample(spec) * 3000))
    monkeypatch.setattr(stream, "CHUNK_BYTES", 1 << 17)
    walked = stream.walked

    def counted(buffer: bytearray, position: int, end: int, found: kernels.FoundRecords) -> int:
        ends.append(walked(buffer, position, end, found) - position)
        return position + ends[-1]

    monkeypatch.setattr(stream, "walked", counted)
    assert len(read.read(path).samples) == 3000
    assert 1 < len(ends) < 10
    assert sum(ends) < path.stat().st_size


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"12345")
    file = os.open(path, os.O_RDONLY)
    assert FilePart(1, 4).read(file) == b"2345"
    with pytest.raises(OSError, match="shorter"):
        FilePart(1, 5).read(file)
    os.close(file)
