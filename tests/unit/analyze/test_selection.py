"""A part of a recording: sums of parts are those of the whole, ranges count as elsewhere."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pinprof import read
from pinprof.analyze import Run, analyze
from pinprof.analyze.extent import timed_span
from pinprof.analyze.selection import Selection
from pinprof.base.errors import UsageError
from pinprof.data.model import Capture

DATA = Path(__file__).parents[2] / "data"
TRACED = DATA / "h200" / "pinned-perf-nsys.pinprof.tar.xz"
MANAGED = DATA / "h200" / "uvm-perf-nsys.pinprof.tar.xz"
PLAIN = DATA / "cases" / "fresh_h2d.pinprof.tar.xz"


@cache
def part(path: Path, selection: Selection | None = None) -> Run:
    return analyze(_read(path), selection=selection)


@cache
def _read(path: Path) -> Capture:
    return read.read(path)


def causes(*parts: Run) -> Counter[tuple[str, str]]:
    total: Counter[tuple[str, str]] = Counter()
    for one in parts:
        for event in one.events:
            total.update({(event.name, leaf): weight for leaf, weight in event.by_leaf.items()})
    return total


@pytest.mark.slow
@pytest.mark.parametrize("path", [TRACED, MANAGED, PLAIN])
def test_the_parts_of_a_time_add_up_to_the_whole(path: Path) -> None:
    whole = part(path)
    span = timed_span(whole.capture)
    assert span is not None
    middle = (span[1] - span[0]) // 3
    before, after = part(path, Selection(until_ns=middle)), part(path, Selection(after_ns=middle))
    assert causes(before, after) == causes(whole)
    assert all(causes(one) for one in (before, after))
    for table in ("calls", "gpu_ops"):
        if whole.capture.activity is None or not len(getattr(whole.capture.activity, table)):
            continue
        tables = [getattr(one.capture.activity, table) for one in (before, after, whole)]
        lengths = [int((one.end_ns - one.start_ns).sum()) for one in tables]
        assert lengths[0] + lengths[1] == lengths[2]
    phases = [
        {phase.name: phase.wall_ns for phase in one.course.phases} if one.course else {}
        for one in (before, after, whole)
    ]
    assert {name: phases[0].get(name, 0) + phases[1].get(name, 0) for name in phases[2]} == phases[2]


def test_work_that_reaches_across_an_edge_is_cut_with_its_bytes_in_proportion() -> None:
    operations = part(TRACED).capture.activity.gpu_ops  # type: ignore[union-attr]
    span = timed_span(part(TRACED).capture)
    assert span is not None
    longest = int(np.argmax(np.where(operations.size_bytes > 0, operations.end_ns - operations.start_ns, 0)))
    start, end = int(operations.start_ns[longest]), int(operations.end_ns[longest])
    cut = start + (end - start) // 4
    first = part(TRACED, Selection(until_ns=cut - span[0])).capture.activity
    assert first is not None
    last = int(np.argmax(first.gpu_ops.end_ns))
    assert int(first.gpu_ops.end_ns[last]) == cut
    assert int(first.gpu_ops.size_bytes[last]) == pytest.approx(int(operations.size_bytes[longest]) / 4, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("path", [TRACED, MANAGED])
def test_a_range_counts_what_its_row_of_the_whole_counts(path: Path) -> None:
    whole = part(path)
    for name in ("init", "iteration"):
        row = next(entry for entry in whole.ranges if entry.name == name)
        chosen = part(path, Selection(ranges=(name,)))
        assert [(event.name, event.by_leaf) for event in chosen.events if event.total] == [
            (event.name, event.by_leaf) for event in row.events if event.total
        ]
        inside = [entry for entry in chosen.ranges if entry.name == name]
        assert [(entry.count, entry.wall_ns, entry.depth) for entry in inside] == [(row.count, row.wall_ns, 0)]


@pytest.mark.slow
def test_threads_of_a_process_add_up_to_it() -> None:
    whole = part(MANAGED)
    pid = int(np.bincount(whole.capture.samples.pid[whole.capture.samples.pid > 0]).argmax())
    threads = {int(tid) for tid in whole.capture.samples.tid[whole.capture.samples.pid == pid]}
    alone = part(MANAGED, Selection(processes=(str(pid),)))
    parts = []
    for tid in threads:
        one = part(MANAGED, Selection(threads=(str(tid),), processes=(str(pid),)))
        assert set(one.capture.samples.tid.tolist()) == {tid}
        assert set(zip(one.capture.threads, strict=True)) <= {((pid, tid),)}
        parts.append(one)
    assert causes(*parts) == causes(alone)


def test_the_work_of_the_gpu_goes_with_the_thread_that_called_for_it() -> None:
    whole = part(TRACED).capture
    assert whole.activity is not None
    tids = np.unique(whole.activity.calls.tid)
    chosen = part(TRACED, Selection(threads=(str(int(tids[0])),))).capture
    assert chosen.activity is not None
    calls = set(chosen.activity.calls.correlation_id.tolist())
    assert len(chosen.activity.gpu_ops)
    assert set(chosen.activity.gpu_ops.correlation_id.tolist()) <= calls


@pytest.mark.slow
def test_a_report_says_that_it_shows_a_part() -> None:
    chosen = part(PLAIN, Selection(after_ns=200_000_000, until_ns=1_000_000_000, threads=("fresh_h2d",)))
    assert chosen.answer.startswith("Part of the recording: 200 ms to 1 s of 2.38 s, thread fresh_h2d. ")
    assert chosen.opportunities is not None
    assert chosen.opportunities.found[0].cost_ns < 800_000_000


def test_counters_of_the_whole_run_are_no_counters_of_a_part() -> None:
    assert "counters" in part(PLAIN).capture.manifest.outcome
    assert "counters" not in part(PLAIN, Selection(after_ns=1)).capture.manifest.outcome


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        (Selection(threads=("fresh_h2",)), "no thread 'fresh_h2'. The nearest names are: fresh_h2d"),
        (Selection(threads=("nobody",)), "There are: fresh_h2d, cuda"),
        (Selection(ranges=("load",)), "The recording has no ranges"),
        (Selection(processes=("77",)), "no process '77'"),
        (Selection(after_ns=10**12), "nothing follows"),
        (Selection(after_ns=2, until_ns=1), "There is no time between 2 ns and 1 ns"),
        (Selection(after_ns=0, until_ns=0), "There is no time between"),
    ],
)
def test_what_is_not_there_is_named(selection: Selection, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        part(PLAIN, selection)
    assert said in str(refused.value)


def test_a_part_without_anything_is_an_error() -> None:
    whole = part(TRACED).capture
    span = timed_span(whole)
    assert span is not None
    last = max(int(whole.samples.tid.max()), 1)
    with pytest.raises(UsageError, match="part of the recording is empty"):
        part(TRACED, Selection(ranges=("init",), until_ns=1, threads=(str(last),)))


@pytest.mark.slow
@pytest.mark.parametrize("word", ["fresh*", "?resh_h2d"])
def test_names_may_be_patterns(word: str) -> None:
    assert causes(part(PLAIN, Selection(threads=(word,)))) == causes(part(PLAIN, Selection(threads=("fresh_h2d",))))
