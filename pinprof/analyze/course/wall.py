"""Where the critical thread's wall time went: its samples and waits, and waits for others charged to what those did."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.blame.charging import Blame
from pinprof.analyze.blame.waits import Charged, Waits
from pinprof.analyze.course.critical import AWAITS, Critical
from pinprof.analyze.course.results import PHASE_NAMES, Course, Phase, PhaseName, WallTable
from pinprof.analyze.intervals import numbers
from pinprof.analyze.ranges.membership import EVERYBODY, owners
from pinprof.base.columns import Int32, Int64, ascending, in_order, in_parts, looked_up, taken, uniform
from pinprof.data.model import Capture, clock_event

RUNNABLE = "wait.runnable"
"""Ready to run while the processor ran something else: the machine's doing, not the program's."""


def wall_of(capture: Capture, attribution: Attribution, critical: Critical, phases: tuple[Phase, ...]) -> WallTable:
    """The critical thread's time by sample; every wait's rows sum to its length exactly."""
    samples = capture.samples
    rows = capture.rows_of(critical.pid, critical.tid)
    rows = taken(rows, in_parts(lambda part: samples.weight[rows[part]] > 0, len(rows), np.bool_, rows, samples.weight))
    event = looked_up(samples.event, rows)
    starts, phase = _edges(phases)
    ran = taken(rows, event == clock_event(capture.events))
    edges = ascending(np.concatenate([starts, _edges_of_others(capture, critical)]))
    waited = _cut(capture, taken(rows, looked_up(capture.spans, event)), edges)
    awaits = waited.take(AWAITS[attribution.leaf[waited.sample]])
    charged = Charged.empty()
    if len(awaits):
        charged = Blame.of(capture, attribution, critical.pids).charge(critical.pid, critical.tid, awaits)
    # What others do not explain stays with the wait.
    explained = np.zeros(len(waited), np.int64)
    place = np.searchsorted(waited.start_ns, charged.start_ns, "right") - 1
    np.add.at(explained, place, charged.ns)
    left = waited.end_ns - waited.start_ns - explained
    kept = left > 0
    time, weight = taken(samples.time_ns, ran), taken(samples.weight, ran)

    def phases_at(part: slice) -> Int32:
        # A sample on a processor stands for the time before it.
        return _phase_at(starts, phase, time[part] - weight[part] // 2)

    of_thread = WallTable(
        time, weight, ran, uniform(-1, len(ran), np.int32), in_parts(phases_at, len(ran), np.int32, time, weight)
    )
    waits = WallTable.of(
        int(kept.sum()) + len(charged.ns),
        time_ns=np.concatenate([waited.start_ns[kept], charged.start_ns]),
        ns=np.concatenate([left[kept], charged.ns]),
        sample=np.concatenate([waited.sample[kept], charged.sample]),
        waiting=np.concatenate([waited.sample[kept], waited.sample[place]]),
        phase=_phase_at(starts, phase, np.concatenate([waited.start_ns[kept], charged.start_ns])),
    )
    table = of_thread.joined(waits) if len(waits) else of_thread
    return table.take(in_order(table.time_ns))


def disturbed_ns(course: Course, attribution: Attribution, phase: PhaseName) -> int:
    """How much of a phase processors ran something else, while the thread, or the one that it waited for, was ready.

    The same work takes longer on a busy machine, and does no less with memory: costs are a part of the rest.
    """
    wall = course.wall
    preempted = looked_up(attribution.leaf == LEAF[RUNNABLE], wall.sample)
    return int(wall.ns[preempted & (wall.phase == PHASE_NAMES.index(phase))].sum())


def tracing_ns(capture: Capture, course: Course) -> float:
    """By how much tracing calls made the critical thread's work longer."""
    activity, work = capture.activity, course.phase("work")
    if activity is None or activity.call_overhead is None or work is None:
        return 0.0
    calls = activity.calls
    inside = np.zeros(len(calls), np.bool_)
    for part in work.intervals:
        inside |= (calls.start_ns >= part.start_ns) & (calls.start_ns < part.end_ns)
    inside &= (calls.pid == course.pid) & (calls.tid == course.tid)
    return float(inside.sum()) * activity.call_overhead.around_ns


def _edges(phases: tuple[Phase, ...]) -> tuple[Int64, Int32]:
    """The intervals' starts, ascending, and each one's phase."""
    pairs = sorted(
        (interval.start_ns, PHASE_NAMES.index(phase.name)) for phase in phases for interval in phase.intervals
    )
    return np.array([start for start, _ in pairs], np.int64), np.array([phase for _, phase in pairs], np.int32)


def _edges_of_others(capture: Capture, critical: Critical) -> Int64:
    """Where ranges of other threads begin and end that count the thread; its own have cut its waits."""
    ranges = capture.ranges
    owner = owners(ranges, capture.samples.pid)
    others = ((owner == critical.pid) | (owner == EVERYBODY)) & (ranges.tid != critical.tid)
    return np.concatenate([ranges.start_ns[others], ranges.end_ns[others]])


def _phase_at(starts: Int64, phase: Int32, time: Int64) -> Int32:
    return phase[np.clip(np.searchsorted(starts, time, "right") - 1, 0, None)] if len(starts) else np.zeros(0, np.int32)


def _cut(capture: Capture, rows: Int32, edges: Int64) -> Waits:
    """The waits of one thread, in order of time without overlap, cut at these edges."""
    samples = capture.samples
    start, end = samples.time_ns[rows], samples.time_ns[rows] + samples.weight[rows]
    # A forged recording may let a thread wait twice at once.
    start[1:] = np.maximum(start[1:], np.maximum.accumulate(end)[:-1])
    kept = end > start
    rows, start, end = rows[kept], start[kept], end[kept]
    piece, edge = numbers(np.searchsorted(edges, start, "right"), np.searchsorted(edges, end, "left"))
    begin = np.append(start, edges[edge])
    source = np.append(np.arange(len(rows)), piece)
    order = np.argsort(begin, kind="stable")
    begin, source = begin[order], source[order]
    finish = np.minimum(end[source], np.append(begin[1:], np.iinfo(np.int64).max))
    return Waits(begin, finish, rows[source])
