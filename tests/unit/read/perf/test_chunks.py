"""However a recording is cut into chunks, and whoever reduces them, the same comes out."""

from __future__ import annotations

import errno
import io
import threading
from pathlib import Path

import numpy as np
import pytest

from pinprof import read
from pinprof.analyze import analyze
from pinprof.base import columns
from pinprof.base.columns import uniform
from pinprof.base.errors import CaptureError
from pinprof.data.model import Capture
from pinprof.read.perf import chunk, kernels, stream, workers
from pinprof.read.perf.samples import FilePart
from pinprof.report.export.plain import write_folded
from pinprof.report.gather import build
from tests.support import perf_file as pf

DATA = Path(__file__).parents[3] / "data"
CAPTURES = ("h200/both.perf.data.xz", "h200/staged.pinprof.tar.xz", "cases/host_churn.pinprof.tar.xz")
SMALLEST = 1 << 17
"""A chunk holds at least one record, of up to 64 KiB."""


def folded(capture: Capture) -> str:
    lines = io.StringIO()
    write_folded(capture, lines)
    return lines.getvalue()


def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few samples there are, two threads reduce them."""
    monkeypatch.setattr(stream, "CHUNK_BYTES", SMALLEST)
    monkeypatch.setattr(workers, "_WORTH_IT", 0)
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_small_chunks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read.read(DATA / name)
    monkeypatch.setattr(stream, "CHUNK_BYTES", SMALLEST)
    pieces = read.read(DATA / name)
    assert folded(pieces) == folded(whole)
    assert build(analyze(pieces), "json").to_json() == build(analyze(whole), "json").to_json()


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_reducers_that_forget_their_chains_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read.read(DATA / name)
    in_threads(monkeypatch)
    monkeypatch.setattr(chunk, "_REMEMBERED", 0)
    assert folded(read.read(DATA / name)) == folded(whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_columns_in_files_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read.read(DATA / name)
    monkeypatch.setattr(columns, "LONG_ROWS", 1)
    monkeypatch.setattr(columns, "ROWS_AT_ONCE", 700)
    in_files = read.read(DATA / name)
    assert folded(in_files) == folded(whole)
    assert build(analyze(in_files), "json").to_json() == build(analyze(whole), "json").to_json()


def test_rows_of_a_column_in_a_file_are_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LONG_ROWS", 3)
    column = np.arange(100_000)
    backwards, even = np.arange(99_999, -1, -1), column % 2 == 0
    for rows, found in ((backwards, column[::-1]), (even, column[::2])):
        taken = columns.taken(column, rows)
        assert not taken.flags.writeable
        np.testing.assert_array_equal(taken, found)
    assert columns.taken(column, np.array([5, 2])).flags.writeable
    assert columns.taken(uniform(7, 5, np.int64), np.arange(4)).strides == (0,)


def test_a_reducer_tells_of_each_chain_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec, path, told = pf.Spec(), tmp_path / "perf.data", []
    path.write_bytes(pf.file_mode([spec], pf.mmap2(spec, *pf.MAPPED) + pf.sample(spec) * 5000))
    reduced = chunk.Reducer.reduced

    def noted(reducer: chunk.Reducer, records: chunk.Chunk) -> chunk.Reduced:
        told.append(reduced(reducer, records))
        return told[-1]

    in_threads(monkeypatch)
    monkeypatch.setattr(chunk.Reducer, "reduced", noted)
    assert len(read.read(path).samples) == 5000
    assert len(told) > 2
    for number in {answer.reducer for answer in told}:
        lengths = [len(answer.chains.length) for answer in told if answer.reducer == number]
        assert lengths == [1] + [0] * (len(lengths) - 1)


def test_weights_of_one_event_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pf.file_mode([pf.Spec()], pf.sample(pf.Spec()) * 3))
    weight = read.read(path).samples.weight
    assert (len(weight), weight.strides) == (3, (0,))


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_threads_reduce_to_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read.read(DATA / name)
    in_threads(monkeypatch)
    began, begin = [], workers._Threads.begin

    def counted(threads: workers._Threads, part: chunk.Chunk) -> workers.Pending:
        began.append(part)
        return begin(threads, part)

    monkeypatch.setattr(workers._Threads, "begin", counted)
    pieces = read.read(DATA / name)
    assert folded(pieces) == folded(whole)
    assert build(analyze(pieces), "json").to_json() == build(analyze(whole), "json").to_json()
    assert len(began) > 2


@pytest.mark.parametrize("possible", [0, 1])
def test_where_no_more_threads_can_be_started_fewer_read(
    possible: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec, path, started = pf.Spec(), tmp_path / "perf.data", []
    path.write_bytes(pf.file_mode([spec], pf.mmap2(spec, *pf.MAPPED) + pf.sample(spec) * 5000))
    in_threads(monkeypatch)
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if len(started) == possible:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    assert len(read.read(path).samples) == 5000
    assert len(started) == possible


def test_what_fails_in_a_thread_fails_the_reading_and_leaves_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec, path = pf.Spec(), tmp_path / "perf.data"
    path.write_bytes(pf.file_mode([spec], pf.mmap2(spec, *pf.MAPPED) + pf.sample(spec) * 5000))
    in_threads(monkeypatch)

    def shorter(part: FilePart, file: int) -> bytes:
        raise OSError(errno.EIO, "it became shorter while it was read")

    monkeypatch.setattr(FilePart, "read", shorter)
    before = threading.active_count()
    with pytest.raises(CaptureError, match="shorter"):
        read.read(path)
    assert threading.active_count() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_without_the_library_the_same_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read.read(DATA / name)
    in_threads(monkeypatch)
    monkeypatch.setattr(kernels, "library", lambda: None)
    alone = read.read(DATA / name)
    assert folded(alone) == folded(whole)
    assert build(analyze(alone), "json").to_json() == build(analyze(whole), "json").to_json()


@pytest.mark.parametrize("least_rows", [1, 1 << 30])
def test_growing_column_is_what_was_appended(least_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LONG_ROWS", least_rows)
    parts = [uniform(3, 2, np.int32), uniform(3, 2000, np.int32), np.arange(5, dtype=np.int32), uniform(3, 1, np.int32)]
    for end in range(len(parts) + 1):
        column = columns.growing(np.int32, 100)
        for part in parts[:end]:
            column.extend(part)
        whole = column.whole()
        assert whole.tolist() == [value for part in parts[:end] for value in part.tolist()]
        assert (whole.strides == (0,)) == (end in (0, 1, 2))
