"""Wall time of ranges: CPU time by cause, waits cut at the edges, and a remainder that is shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinprof.analyze import Run, analyze
from pinprof.analyze.ranges import spans as spans_module
from pinprof.data.model import CONTINUED, READY, Capture
from pinprof.report.sections.calls import split_parts
from pinprof.report.sections.ranges.walls import REMAINDER
from tests.support.activities import Call, activity
from tests.support.stacks import CLOCK, OFF_CPU, Range, Sample, capture

EVENTS = (CLOCK, OFF_CPU)
MAIN = ["main@/app"]
SLEEP = [
    "main@/app",
    "entry_SYSCALL_64_after_hwframe",
    "do_syscall_64",
    "hrtimer_nanosleep",
    "do_nanosleep",
    "schedule",
]
POOL = ["work@/libpool.so", "pthread_cond_wait@/libc.so.6", "do_syscall_64", "do_futex", "futex_wait", "schedule"]
LOCK = ["main@/app", "do_syscall_64", "do_futex", "futex_wait", "schedule"]
SPIN = ["main@/app", "cuCtxSynchronize@/libcuda.so.1", "clock_gettime@/libc.so.6", "[vdso]@[vdso]"]
BLOCK = ["main@/app", "cuCtxSynchronize@/libcuda.so.1", "poll@/libc.so.6", "do_syscall_64", "do_sys_poll", "schedule"]


def on(time: int, weight: int, stack: list[str] = MAIN, tid: int = 100) -> Sample:
    return Sample(stack, weight, time, tid=tid)


def off(time: int, weight: int, stack: list[str] = SLEEP, tid: int = 100) -> Sample:
    return Sample(stack, weight, time, tid=tid, event=1)


def own(name: str, start: int, end: int, depth: int = 0, tid: int = 100) -> Range:
    return Range(name, start, end, depth, 100, tid)


def told(capture: Capture) -> Run:
    return analyze(capture)


def test_processor_time_waits_and_remainder_sum_to_the_wall_time() -> None:
    found = told(
        capture([on(10, 40), off(60, 500), on(900, 30), off(905, 60, LOCK)], [own("work", 0, 1000)], events=EVENTS)
    )
    wall = found.ranges[0].wall
    assert wall is not None
    assert (wall.wall_ns, wall.on_cpu, wall.off_cpu) == (1000, {"user.app": 70}, {"wait.sleep": 500, "wait.lock": 60})
    assert wall.remainder_ns == 1000 - 70 - 560
    assert wall.on_cpu_ns + wall.off_cpu_ns + wall.remainder_ns == wall.wall_ns


def test_waiting_for_the_gpu_counts_spinning_and_blocking() -> None:
    found = told(capture([on(10, 300, SPIN), off(400, 200, BLOCK)], [own("sync", 0, 700)], events=EVENTS))
    wall = found.ranges[0].wall
    assert wall is not None
    assert (wall.on_cpu, wall.off_cpu, wall.gpu_ns) == ({"sync.poll": 300}, {"wait.gpu": 200}, 500)


def test_only_the_thread_that_opened_the_range_counts() -> None:
    samples = [on(10, 40), on(20, 900, tid=101), off(60, 500), off(60, 800, tid=101)]
    found = told(capture(samples, [own("work", 0, 1000)], events=EVENTS))
    wall = found.ranges[0].wall
    assert wall is not None
    assert (wall.on_cpu_ns, wall.off_cpu_ns, wall.remainder_ns) == (40, 500, 460)
    assert [part.total for part in found.ranges[0].events] == [940, 1300]


def test_a_remainder_below_zero_is_shown_as_such() -> None:
    found = told(capture([on(10, 400), off(100, 700)], [own("work", 0, 1000)], events=EVENTS))
    assert found.ranges[0].wall is not None
    assert found.ranges[0].wall.remainder_ns == -100


def test_without_recorded_waits_no_wall_time_is_claimed() -> None:
    assert told(capture([on(10, 40)], [own("work", 0, 1000)])).ranges[0].wall is None


def test_a_thread_without_any_sample_claims_nothing() -> None:
    found = told(
        capture([on(10, 40), off(60, 500)], [own("work", 0, 1000), own("other", 0, 900, tid=7)], events=EVENTS)
    )
    assert [entry.wall is None for entry in found.ranges] == [False, True]


def test_a_wait_across_the_edges_of_another_threads_range_counts_its_overlap_once() -> None:
    samples = [on(5, 10, tid=100), off(100, 1000, tid=101)]
    ranges = [own("outer", 0, 800), own("inner", 300, 600, depth=1)]
    found = told(capture(samples, ranges, events=EVENTS))
    assert [(entry.name, entry.events[1].total, entry.events[1].samples) for entry in found.ranges] == [
        ("outer", 700, 1), ("inner", 300, 0),
    ]  # fmt: skip
    assert (found.events[1].total, found.events[1].samples) == (1000, 1)
    assert found.capture.samples.weight.tolist() == [10, 1000]
    pieces = found.in_pieces.capture.samples
    assert pieces.wait is not None
    rows = pieces.event == 1
    assert pieces.time_ns[rows].tolist() == [100, 300, 600, 800]
    assert pieces.wait[rows].tolist() == [0, CONTINUED, CONTINUED, CONTINUED]


def test_pieces_keep_whether_the_thread_could_have_run() -> None:
    found = capture([on(5, 10), off(100, 1000, tid=101)], [own("outer", 0, 800)], events=EVENTS)
    found = replace(found, samples=replace(found.samples, wait=np.array([0, READY], np.uint8)))
    assert told(found).events[1].by_leaf == {"wait.runnable": 1000}


def test_too_many_pieces_are_counted_where_they_began_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    samples, ranges = [on(5, 10), off(100, 1000)], [own("outer", 0, 800), own("inner", 300, 600, depth=1)]
    for most, outer in ((3, {"wait.sleep": 700}), (2, {"wait.sleep": 1000})):
        monkeypatch.setattr(spans_module, "MOST_PIECES", most)
        found = told(capture(samples, ranges, events=EVENTS))
        assert [entry.events[1].total for entry in found.ranges] == [700, 300]
        assert found.ranges[0].wall is not None
        assert found.ranges[0].wall.off_cpu == outer
        assert any("where they began" in note for note in found.capture.losses.notes) == (most == 2)


@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 90), st.integers(1, 3)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 60), st.sampled_from([100, 200])), min_size=1, max_size=8),
)
def test_every_piece_lies_inside_or_outside_every_range_of_its_process(
    waits: list[tuple[int, int, int]], ranges: list[tuple[int, int, int]]
) -> None:
    before = capture(
        [Sample(SLEEP, weight, time, tid=tid, event=1) for time, weight, tid in waits],
        [Range(str(number), start, start + length, 0, pid, 1) for number, (start, length, pid) in enumerate(ranges)],
        events=EVENTS,
    )
    after = spans_module.cut_capture(before, spans_module.every(before)).samples
    begin, end = after.time_ns, after.time_ns + after.weight
    assert after.weight.sum() == before.samples.weight.sum()
    assert (after.weight > 0).all()
    assert (np.diff(begin) >= 0).all()
    for start, length, _ in ranges:
        stop = start + length
        assert ((end <= start) | (begin >= stop) | ((begin >= start) & (end <= stop))).all()
        overlap = sum(max(0, min(time + weight, stop) - max(time, start)) for time, weight, _ in waits)
        inside = (begin >= start) & (begin < stop)
        assert after.weight[inside].sum() == overlap


_TIMES = st.tuples(st.integers(0, 900), st.integers(1, 300))


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=6),
    st.lists(st.tuples(_TIMES, st.sampled_from([100, 100, -1])), min_size=1, max_size=8),
)
def test_waits_of_threads_without_work_are_in_ranges_for_as_long_as_in_pieces(
    lives: list[tuple[int, int]], ranges: list[tuple[tuple[int, int], int]]
) -> None:
    idle = [
        Sample(POOL, 1000 - begin - end, begin, tid=201 + number, event=1) for number, (begin, end) in enumerate(lives)
    ]
    named = [
        Range(f"range {number % 3}", start, start + length, 0, pid, 100)
        for number, ((start, length), pid) in enumerate(ranges)
    ]
    found = told(capture([on(5, 5), *idle, off(20, 960), on(995, 5)], named, events=EVENTS))
    assert found.events[2].event.name == "idle-threads"
    whole = found.capture.samples.event == 2
    assert whole.sum() == len(idle)
    pieces = found.in_pieces
    assert [(entry.events, entry.wall) for entry in found.ranges] == [
        (entry.events, entry.wall) for entry in pieces.ranges
    ]
    assert found.events == pieces.events
    assert pieces.capture.samples.weight.sum() == found.capture.samples.weight.sum()
    for entry in found.ranges:
        times = [
            (start, start + length)
            for number, ((start, length), _) in enumerate(ranges)
            if f"range {number % 3}" == entry.path.name
        ]
        waits = [range(one.time_ns, one.time_ns + one.weight) for one in idle]
        covered = [time for time in range(1000) if any(begin <= time < end for begin, end in times)]
        assert entry.events[2].total == sum(time in wait for wait in waits for time in covered)


def test_a_wait_across_ranges_is_one_wait_for_somebody() -> None:
    worker = [on(time, 100, tid=101) for time in range(100, 1001, 100)]
    steps = [own(f"step {number}", 100 * number, 100 * number + 50) for number in range(1, 9)]
    found = told(capture([on(40, 40), off(50, 900, LOCK), *worker, on(990, 40)], steps, events=EVENTS))
    assert found.blame is not None
    held = [row for row in found.blame.rows if row.waiter.tid == 100]
    assert [(row.count, row.holder.tid) for row in held] == [(1, 101)]
    assert held[0].longest_ns == held[0].ns == 900
    assert sum(entry.events[1].total for entry in found.ranges) == 8 * 50


def test_a_call_is_explained_by_samples_and_waits_of_its_thread() -> None:
    mapped = [*MAIN, "entry_SYSCALL_64_after_hwframe", "do_syscall_64", "sys_mprotect"]
    samples = [on(110, 40, mapped), off(200, 500, BLOCK), off(300, 100, LOCK, tid=101)]
    data = capture(samples, events=EVENTS)
    calls = activity([Call("cudaStreamSynchronize", 100, 1000, pid=100, tid=100)])
    found = analyze(replace(data, activity=calls)).activity
    assert found is not None
    split = found.whole.calls[0].split
    assert split is not None
    assert (split.by_leaf, split.unsampled_ns, split.waits) == ({"wait.gpu": 500, "mm.vma": 40}, 360, True)
    assert [part.label for part in split_parts(split)] == ["wait.gpu", "mm.vma", REMAINDER]


@pytest.mark.parametrize(("slept", "told"), [(60, ""), (30, "Neither on the CPU nor in a known wait: work 31 % of")])
def test_a_known_wait_is_no_gap_and_an_unknown_one_is(slept: int, told: str) -> None:
    ms = 1_000_000
    samples = [*(on(number * ms // 3, ms // 3) for number in range(117)), off(40 * ms, slept * ms)]
    found = analyze(capture(samples, [own("work", 0, 100 * ms)], events=EVENTS)).findings
    (gap,) = [finding for finding in found if finding.rule == "sampling-gap"]
    assert any(told in line for line in gap.evidence)
    assert gap.severity == ("info" if told else "ok")
