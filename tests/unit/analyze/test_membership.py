"""What belongs to a range: one rule for samples, waits, copies by their loops, and everything that CUDA traced."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze import intervals
from pinprof.analyze.ranges.membership import Events, Membership, membership, samples_inside
from pinprof.analyze.ranges.spans import cut_capture
from tests.support.stacks import CLOCK, OFF_CPU, Range, Sample, capture

APP, IDLE = ("main@/app",), ("cpu_startup_entry", "do_idle")
KERNEL_THREAD = ("ret_from_fork_asm", "kthread", "kswapd")
PIDS = st.integers(-1, 3)
SAMPLES = st.lists(st.tuples(st.integers(0, 20), PIDS, st.booleans()), max_size=12)
RANGES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), PIDS, st.sampled_from("ab")), max_size=6)


def pairs(members: Membership, events: Events, pids: np.ndarray) -> list[tuple[str, int]]:
    """(name of the path, row), sorted."""
    inside = members.among(pids).inside(events)
    return [
        (members.paths[path].name, row) for p, r in inside for path, row in zip(p.tolist(), r.tolist(), strict=True)
    ]


def expected(ranges: list[Range], events: list[tuple[int, int, bool]], *, samples: bool) -> list[tuple[str, int]]:
    """The rule as documented, for each range and event by itself."""
    present = {pid for _, pid, _ in events if pid > 0}
    belongs = {
        (entry.name, row)
        for entry in ranges
        for row, (time, pid, kernel) in enumerate(events)
        if entry.start_ns <= time < entry.end_ns
        and ((samples and kernel) or (pid == entry.pid if entry.pid in present else not samples or pid != 0))
    }
    return sorted(belongs)


@given(SAMPLES, RANGES)
def test_the_rule_holds_for_samples_and_for_what_was_traced(
    taken: list[tuple[int, int, bool]], opened: list[tuple[int, int, int, str]]
) -> None:
    taken.sort(key=lambda sample: sample[0])
    ranges = [Range(name, start, start + length, pid=pid) for start, length, pid, name in sorted(opened)]
    stacks = [Sample(KERNEL_THREAD if kernel else APP, 1, time, pid, pid) for time, pid, kernel in taken]
    data = capture(stacks, ranges)
    members = membership(data)
    assert sorted(pairs(members, members.samples, data.samples.pid)) == expected(ranges, taken, samples=True)
    traced = Events(data.samples.time_ns, data.samples.pid)
    assert sorted(pairs(members, traced, data.samples.pid)) == expected(ranges, taken, samples=False)
    chosen = np.array([name == "a" for name in data.ranges.name], np.bool_)
    rows = {row for name, row in expected(ranges, taken, samples=True) if name == "a"}
    assert np.flatnonzero(samples_inside(data, chosen)).tolist() == sorted(rows)


def test_events_may_come_in_any_order() -> None:
    members = membership(capture([], [Range("a", 10, 20)]))
    events = Events(np.array([30, 19, 5, 10]), np.array([1, 1, 1, 1], np.int32))
    assert sorted(pairs(members, events, events.pid)) == [("a", 1), ("a", 3)]


@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_batches_hold_whole_paths(batch_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "BATCH_ROWS", batch_rows)
    ranges = [Range("outer", 0, 10), Range("inner", 2, 8, depth=1), Range("core", 3, 4, depth=2)]
    members = membership(capture([Sample(APP, time_ns=time) for time in range(10)], ranges))
    batches = [path.tolist() for path, _ in members.of_samples.inside(members.samples)]
    assert sorted(path for batch in batches for path in batch) == [0] * 10 + [1] * 6 + [2]
    assert all(not {*one} & {*other} for number, one in enumerate(batches) for other in batches[:number])


def test_waits_of_kernel_threads_are_cut_where_ranges_that_count_them_begin_and_end() -> None:
    waits = [Sample(KERNEL_THREAD, 10, 0, 70, 70, event=1), Sample(APP, 10, 0, 1, 1, event=1)]
    others = [Sample(APP, 1, time, 2, 2) for time in (0, 9)]
    data = cut_capture(
        capture([*waits, *others], [Range("a", 4, 6, pid=2, tid=2)], events=(CLOCK, OFF_CPU)), np.ones(1, np.bool_)
    )
    columns = (data.samples.pid, data.samples.time_ns, data.samples.weight)
    pieces = sorted(zip(*(column.tolist() for column in columns), strict=True))
    assert [piece for piece in pieces if piece[0] != 2] == [(1, 0, 10), (70, 0, 4), (70, 4, 2), (70, 6, 4)]
    members = membership(data)
    assert {int(data.samples.time_ns[row]) for _, row in pairs(members, members.samples, data.samples.pid)} == {4}


def test_a_range_of_the_idle_process_counts_what_programs_did() -> None:
    data = capture([Sample(APP, pid=1), Sample(IDLE, pid=0)], [Range("copy", 0, 1, pid=0)])
    assert samples_inside(data, np.ones(1, np.bool_)).tolist() == [True, False]
