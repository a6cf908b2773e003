"""Samples are found in runs, once, wherever their bytes look like headers; and read again where they lie."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof import read
from pinprof.data import perf_format as perf
from pinprof.read.perf import passes, stream
from pinprof.read.perf.header import Header, read_header
from pinprof.read.perf.samples import FilePart
from pinprof.read.perf.stream import sample_runs
from tests.support import perf_file as pf
from tests.support.examples import examples

BAIT = struct.unpack("<Q", perf.RECORD_HEADER.pack(perf.RECORD_SAMPLE, 2, 16))[0]
"""A word that looks like the header of a sample of two words."""
WORD = st.sampled_from([BAIT, BAIT & 0xFFFFFFFF, BAIT + (1 << 51), 0, 1 << 47])
RECORD = st.tuples(
    st.sampled_from([perf.RECORD_SAMPLE] * 6 + [perf.RECORD_LOST, 250]), st.lists(WORD, max_size=5), st.integers(0, 3)
)


def packed(records: list[tuple[int, list[int], int]]) -> bytes:
    """Records of whole words, but for some that are a few bytes longer."""
    made = b""
    for kind, words, more in records:
        made += pf.record(kind, struct.pack(f"<{len(words)}Q", *words) + bytes(more % 2 * 4 if more == 3 else 0))
    return made


def walked(header: Header, buffer: bytes) -> tuple[int, list[int], int]:
    """How far a reader comes, where it finds samples, and what it counts as damaged."""
    reader = passes.TaskReader(header)
    position = reader._walk(bytearray(buffer), len(buffer))
    return position, [start for chunk in reader.chunks for start in chunk.starts.tolist()], reader._corrupt


@pytest.mark.slow
@examples(300)
@given(st.lists(RECORD, max_size=40), st.integers(0, 30))
def test_runs_are_what_walking_from_header_to_header_finds(
    header: Header, records: list[tuple[int, list[int], int]], cut: int
) -> None:
    buffer = packed(records)
    buffer = buffer[: len(buffer) - cut]
    with pytest.MonkeyPatch.context() as patched:
        found = walked(header, buffer)
        patched.setattr(stream, "sample_runs", lambda *_: {})
        assert found == walked(header, buffer)


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Header:
    path = tmp_path_factory.mktemp("header") / "perf.data"
    path.write_bytes(pf.file_mode([pf.Spec()], b""))
    with path.open("rb") as file:
        return read_header(file, str(path))


def test_samples_in_a_row_are_one_run_and_bait_inside_ends_it() -> None:
    plain, bait = (
        pf.record(perf.RECORD_SAMPLE, bytes(24)),
        pf.record(perf.RECORD_SAMPLE, struct.pack("<3Q", BAIT, 0, 0)),
    )
    buffer = plain * 9 + bait + plain * 5
    runs = sample_runs(buffer, len(buffer))
    assert runs[0][0].tolist() == list(range(0, 320, 32))
    assert runs[320][0].tolist() == list(range(320, 480, 32))
    assert runs[320][1] == len(buffer)
    assert sample_runs(buffer, len(buffer) - 1)[320][1] == len(buffer) - 32
    longer = plain * 5 + pf.record(perf.RECORD_SAMPLE, struct.pack("<3Q", 0, BAIT, 0))
    assert sample_runs(longer, len(longer) - 1)[0][1] == 160, "the bait lies in a sample that is not whole"


def test_a_file_is_walked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, path, buffers = pf.Spec(), tmp_path / "perf.data", []
    path.write_bytes(pf.file_mode([spec], pf.mmap2(spec, *pf.MAPPED) + pf.sample(spec) * 3000))
    monkeypatch.setattr(stream, "CHUNK_BYTES", 1 << 17)

    def counted(buffer: bytearray, end: int) -> dict[int, tuple[np.ndarray, int]]:
        buffers.append(end)
        return sample_runs(buffer, end)

    monkeypatch.setattr(stream, "sample_runs", counted)
    assert len(read.read(path).samples) == 3000
    assert len(buffers) > 1
    assert sum(buffers) < 1.2 * path.stat().st_size


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"12345")
    file = os.open(path, os.O_RDONLY)
    assert FilePart(1, 4).read(file) == b"2345"
    with pytest.raises(OSError, match="shorter"):
        FilePart(1, 5).read(file)
    os.close(file)
