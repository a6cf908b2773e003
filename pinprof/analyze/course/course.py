"""How a run went: its critical thread, its phases, its steps, and where the thread's wall time went."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.course.critical import Critical, critical_of
from pinprof.analyze.course.phases import phases_of
from pinprof.analyze.course.results import Course, Interval, Phase
from pinprof.analyze.course.steps import steps_of
from pinprof.analyze.course.wall import wall_of
from pinprof.analyze.intervals import Intervals, intersection, union
from pinprof.analyze.restriction import Attributed
from pinprof.base.columns import extent, slices
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import LATEST_NS, Capture


@dataclass(frozen=True)
class Around:
    """The whole recording, for a part of it: phases are what they are in the whole one."""

    whole: Attributed
    times: Intervals
    """The part's time."""


def course_of(
    capture: Capture, attribution: Attribution, calls: Calls | None, around: Around | None = None
) -> Course | None:
    """The course of a run; None where nothing sampled time, no process is known, or times are none that a clock shows.

    `capture` and `attribution` are those with the waits of idle threads apart (`idle.idle_apart`). For a part of a
    recording, the whole one (`around`) tells whose time counts and which phase it is.
    """
    if around is not None:
        return _course_within(capture, attribution, calls, around)
    if not _possible(capture, calls) or (critical := critical_of(capture, attribution, calls)) is None:
        return None
    life = _life(capture, calls, critical)
    if not life.duration_ns:
        return None
    phases = phases_of(capture, calls, critical, life)
    return Course(
        pid=critical.pid,
        tid=critical.tid,
        start_ns=life.start_ns,
        end_ns=life.end_ns,
        phases=phases,
        steps=steps_of(capture, calls, critical, phases),
        wall=wall_of(capture, attribution, critical, phases),
        pids=tuple(critical.pids.tolist()),
    )


def _course_within(capture: Capture, attribution: Attribution, calls: Calls | None, around: Around) -> Course | None:
    everything = (around.whole.capture, around.whole.attribution, around.whole.calls)
    whole = course_of(*everything)
    if whole is None:
        return None
    phases = tuple(
        Phase(phase.name, inside) for phase in whole.phases if (inside := _within(phase.intervals, around.times))
    )
    critical = critical_of(*everything)
    if critical is None or not phases:
        return None
    steps, wall = steps_of(capture, calls, critical, phases), wall_of(capture, attribution, critical, phases)
    start = min(phase.intervals[0].start_ns for phase in phases)
    end = max(phase.intervals[-1].end_ns for phase in phases)
    return replace(whole, start_ns=start, end_ns=end, phases=phases, steps=steps, wall=wall)


def _within(intervals: tuple[Interval, ...], times: Intervals) -> tuple[Interval, ...]:
    start, end = (np.array([getattr(one, name) for one in intervals], np.int64) for name in ("start_ns", "end_ns"))
    both = intersection(union(start, end), times)
    return tuple(Interval(*pair) for pair in zip(both.start.tolist(), both.end.tolist(), strict=True))


def _possible(capture: Capture, calls: Calls | None) -> bool:
    """Whether all times can be: forged ones would overflow, and every sum of them with it."""
    samples = capture.samples
    # They are ordered by time.
    times = [samples.time_ns[:: max(len(samples) - 1, 1)], samples.weight]
    if calls is not None:
        times += [calls.table.start_ns, calls.table.end_ns]
    ends = [extent(column) for column in times]
    within = all(low > -LATEST_NS and high < LATEST_NS for low, high in ends)
    weighs = float(samples.weight.sum(dtype=np.float64)) < LATEST_NS
    return within and weighs and ends[1][0] >= 0


def _life(capture: Capture, calls: Calls | None, critical: Critical) -> Interval:
    """From the process's first event to its last: samples, waits, calls and ranges."""
    samples, starts, ends = capture.samples, list[int](), list[int]()
    clocks = np.array([entry.clocks for entry in capture.events], np.bool_)
    for part in slices(len(samples), samples.pid, samples.time_ns, samples.weight, samples.event):
        mine = samples.pid[part] == critical.pid
        if mine.any():
            time, weight, event = samples.time_ns[part][mine], samples.weight[part][mine], samples.event[part][mine]
            starts.append(int((time - np.where(clocks[event], weight, 0)).min()))
            ends.append(int((time + np.where(capture.spans[event], weight, 0)).max()))
    if calls is not None and (own := calls.table.pid == critical.pid).any():
        starts.append(int(calls.table.start_ns[own].min()))
        ends.append(int(calls.table.end_ns[own].max()))
    return Interval(min(starts), max(max(ends), min(starts)))
