"""However a recording is cut into chunks, and whoever reduces them, the same comes out."""

from __future__ import annotations

import io
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pinprof import read
from pinprof.analyze import analyze
from pinprof.base import columns
from pinprof.base.columns import uniform
from pinprof.data.model import Capture
from pinprof.read.perf import chunk, stream, workers
from pinprof.read.perf.samples import RawSamples
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


def no_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are handed to processes that end at once."""
    monkeypatch.setattr(workers, "_WORTH_IT", 0)
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(workers.sys, "executable", "/bin/true")


@pytest.mark.slow
def test_workers_that_do_not_answer_are_ended_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read.read(DATA / CAPTURES[0])
    deaf = tmp_path / "deaf"
    deaf.write_text("#!/bin/sh\nexec sleep 600\n")
    deaf.chmod(0o700)
    monkeypatch.setattr(stream, "CHUNK_BYTES", SMALLEST)
    no_process_starts(monkeypatch)
    monkeypatch.setattr(workers.sys, "executable", str(deaf))
    monkeypatch.setattr(workers, "PATIENCE_S", 0.05)
    assert folded(read.read(DATA / CAPTURES[0])) == folded(whole)


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
    monkeypatch.setattr(stream, "CHUNK_BYTES", SMALLEST)
    monkeypatch.setattr(chunk, "_REMEMBERED", 0)
    no_process_starts(monkeypatch)
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

    monkeypatch.setattr(stream, "CHUNK_BYTES", SMALLEST)
    monkeypatch.setattr(chunk.Reducer, "reduced", noted)
    no_process_starts(monkeypatch)
    assert len(read.read(path).samples) == 5000
    assert [len(answer.chains.length) for answer in told] == [1] + [0] * (len(told) - 1)
    assert len(told) > 2


def test_columns_of_one_value_stay_so_on_the_way_from_a_process() -> None:
    table = RawSamples.of(3, tid=[1, 2, 3], pid=uniform(7, 3, np.int32))
    again = pickle.loads(pickle.dumps(table))
    assert (again.tid.tolist(), again.pid.tolist()) == ([1, 2, 3], [7, 7, 7])
    assert again.pid.strides == (0,)


def test_weights_of_one_event_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pf.file_mode([pf.Spec()], pf.sample(pf.Spec()) * 3))
    weight = read.read(path).samples.weight
    assert (len(weight), weight.strides) == (3, (0,))


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_other_processes_reduce_to_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read.read(DATA / name)
    monkeypatch.setattr(stream, "CHUNK_BYTES", SMALLEST)
    monkeypatch.setattr(workers, "_WORTH_IT", 0)
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: {0, 1})
    started = Counter[str]()
    reduced = workers._Worker.reduced

    def counted(worker: workers._Worker, chunk: workers.Chunk) -> workers.Reduced:
        answer = reduced(worker, chunk)
        started["answers"] += 1
        return answer

    monkeypatch.setattr(workers._Worker, "reduced", counted)
    assert folded(read.read(DATA / name)) == folded(whole)
    assert started["answers"]


@pytest.mark.slow
def test_modules_in_the_current_directory_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("numpy", "pickle", "pinprof"):
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "_WORTH_IT", 0)
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: {0, 1})
    read.read(DATA / CAPTURES[0])
    assert not (tmp_path / "imported").exists()


@pytest.mark.slow
def test_chunks_of_a_process_that_ends_are_reduced_here(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read.read(DATA / CAPTURES[0])
    no_process_starts(monkeypatch)
    assert folded(read.read(DATA / CAPTURES[0])) == folded(whole)


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
