"""A capture restricted to a part of it, before anything is counted: so every output and every sum is of the part.

- **Time** is cut by the part's window (`data.time_window`); waits were cut at its edges before (`ranges.spans`).
- **Samples** of a range are those by the rule of `ranges.membership`. What begins inside a range belongs to it, as
  everywhere.
- **Work of the GPU** belongs to the thread that called for it. What no call tells the thread of is left out where
  threads are chosen, and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from pinprof.analyze.activity.calls import Calls, prepare_calls
from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.intervals import Intervals, union
from pinprof.analyze.ranges.membership import Events, inside, owners, samples_inside
from pinprof.analyze.ranges.paths import enclosing
from pinprof.analyze.ranges.spans import cut_at
from pinprof.analyze.selection import Part
from pinprof.base.columns import Bool, Int32, Int64, ascending, looked_up, pack, pairs_of, slices
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import Activity
from pinprof.data.host_memory import LargeMemory
from pinprof.data.memory_log import MemoryLog
from pinprof.data.model import Capture, RangeTable

UNASSIGNED = "This part excludes what belongs to no thread: page faults on managed memory, and GPU work without a call."
_OF_THE_WHOLE = ("counters", "resources")
"""Facts of a run's outcome that count the whole run."""


@dataclass(frozen=True)
class Attributed:
    """A capture, or a part of one, with the cause of each sample and its calls."""

    capture: Capture
    attribution: Attribution
    calls: Calls | None

    @classmethod
    def of(cls, capture: Capture, attribution: Attribution) -> Self:
        """With the capture's calls."""
        return cls(capture, attribution, prepare_calls(capture.activity) if capture.activity is not None else None)

    def with_samples(self, capture: Capture, attribution: Attribution) -> Attributed:
        """The same calls beside other samples."""
        return Attributed(capture, attribution, self.calls)


def restricted(whole: Attributed, part: Part) -> Attributed:
    """The part of a capture, whose waits were cut at its edges; what is known of its calls stays known."""
    capture, attribution, calls = whole.capture, whole.attribution, whole.calls
    chosen = chosen_samples(capture, part)
    attribution = attribution.of_samples(chosen)
    smaller, rows = _restricted(capture, part, chosen)
    if calls is None or smaller.activity is None:
        return Attributed(smaller, attribution, None)
    return Attributed(smaller, attribution, _still_known(prepare_calls(smaller.activity), calls, rows))


def during(whole: Attributed, times: Intervals) -> Attributed:
    """The samples of some times, and the parts of waits that lie in these; all else as it is."""
    capture, row = cut_at(whole.capture, np.sort(np.concatenate([times.start, times.end])))
    samples, attribution = capture.samples, whole.attribution
    clocks = looked_up(np.array([event.clocks for event in capture.events], np.bool_), samples.event)
    chosen = np.empty(len(samples), np.bool_)
    for part in slices(len(samples), samples.time_ns, samples.weight):
        # A sample on a processor stands for the time before it.
        before = np.where(clocks[part], samples.weight[part] // 2, 0)
        chosen[part] = times.contains(samples.time_ns[part] - before)
    kept = chosen if row is None else row[chosen]
    return whole.with_samples(replace(capture, samples=samples.take(chosen)), attribution.of_samples(kept))


def part_of(capture: Capture, part: Part) -> Capture:
    """The part of a capture without an analysis."""
    return _restricted(capture, part, chosen_samples(capture, part))[0]


def is_empty(capture: Capture) -> bool:
    """Whether nothing of a part was recorded."""
    rows = len(capture.samples) + len(capture.ranges)
    return not rows + (sum(map(len, capture.activity.tables.values())) if capture.activity is not None else 0)


def chosen_samples(capture: Capture, part: Part) -> Bool:
    """Per sample, whether it belongs to the part."""
    samples = capture.samples
    chosen = part.window.holds(samples.time_ns) & _of_threads(part, samples.pid, samples.tid)
    return chosen if part.ranges is None else chosen & samples_inside(capture, part.ranges)


def _of_threads(part: Part, pid: Int32, tid: Int32) -> Bool:
    if part.threads is not None:
        return np.isin(pack(pid, tid), part.threads)
    return np.ones(len(pid), np.bool_) if part.pids is None else np.isin(pid, part.pids)


def _restricted(capture: Capture, part: Part, chosen: Bool) -> tuple[Capture, Int64]:
    """The capture with these samples and all else that belongs to the part; and which rows of the calls remain."""
    activity, rows = (None, np.zeros(0, np.int64))
    if capture.activity is not None:
        activity, rows = _activity(capture, capture.activity, part)
    marks = capture.marks
    outcome = {name: fact for name, fact in capture.manifest.outcome.items() if name not in _OF_THE_WHOLE}
    smaller = replace(
        capture,
        manifest=replace(capture.manifest, outcome=outcome),
        samples=capture.samples.take(chosen),
        ranges=_ranges(capture.ranges, capture, part),
        activity=activity,
        marks=marks.take(_in_ranges(capture, marks.time_ns, marks.pid, part) & _of_threads(part, marks.pid, marks.tid)),
        memory=_memory(capture.memory, part),
        host_memory=_host_memory(capture, part),
        threads=_named(capture.threads, part),
        renamed=_named(capture.renamed, part),
    )
    if part.threads is not None and capture.activity is not None and capture.activity.recorded - {"cuda calls"}:
        smaller = smaller.with_notes(UNASSIGNED)
    return part.window.cut(smaller), rows


def _host_memory(capture: Capture, part: Part) -> LargeMemory | None:
    memory = capture.host_memory
    if memory is None:
        return None
    table = memory.table
    kept = _in_ranges(capture, table.time_ns, table.pid, part) & _of_threads(part, table.pid, table.tid)
    return replace(memory, table=table.take(kept))


def _named(names: Mapping[tuple[int, int], Any], part: Part) -> dict[tuple[int, int], Any]:
    if part.threads is None and part.pids is None:
        return dict(names)
    kept = set(pairs_of(part.threads)) if part.threads is not None else None
    pids = set(part.pids.tolist()) if part.pids is not None else set()
    return {pair: name for pair, name in names.items() if (pair in kept if kept is not None else pair[0] in pids)}


def _in_ranges(capture: Capture, time: Int64, pid: Int32, part: Part) -> Bool:
    chosen = np.ones(len(time), np.bool_)
    if part.ranges is not None:
        chosen &= inside(capture.ranges, Events(time, pid), part.ranges)
    return chosen if part.pids is None else chosen & np.isin(pid, part.pids)


def _ranges(ranges: RangeTable, capture: Capture, part: Part) -> RangeTable:
    """Those of the part's processes; of chosen ranges only themselves and what lies wholly inside them."""
    kept = part.window.reaches(ranges.start_ns, ranges.end_ns)
    if part.pids is not None:
        kept &= np.isin(ranges.pid, part.pids) | (ranges.pid < 1)
    if part.ranges is not None:
        kept &= part.ranges | _wholly_inside(ranges, capture, part.ranges)
    return replace(ranges, depth=_depths(ranges, kept)).take(kept)


def _wholly_inside(ranges: RangeTable, capture: Capture, chosen: Bool) -> Bool:
    result = np.zeros(len(ranges), np.bool_)
    owner = owners(ranges, capture.samples.pid)
    for process in ascending(owner[chosen]).tolist():
        mine = chosen & (owner == process)
        times = union(ranges.start_ns[mine], ranges.end_ns[mine])
        length = ranges.end_ns - ranges.start_ns
        whole = (length > 0) & (times.covered(ranges.start_ns, ranges.end_ns) == length)
        result |= whole & Events(ranges.start_ns, ranges.pid).counted(process)
    return result


def _depths(ranges: RangeTable, kept: Bool) -> Int32:
    """How deep each range lies among those that are kept."""
    if kept.all():
        return ranges.depth
    outer, stays = enclosing(ranges).tolist(), kept.tolist()
    depth = [0] * len(ranges)
    for row in np.lexsort((ranges.depth, ranges.start_ns)).tolist():
        above = outer[row]
        if above >= 0:
            depth[row] = depth[above] + int(stays[above])
    return np.array(depth, np.int32)


def _activity(capture: Capture, activity: Activity, part: Part) -> tuple[Activity, Int64]:
    """What was traced for the part, at any time; and which of the calls are in its window, too."""
    calls = activity.calls

    def kept(table: Any, *, called_for: bool = False) -> Any:
        begins = next(iter(table.times().values()))
        chosen = _in_ranges(capture, begins, table.pid, part)
        chosen &= _called_for(table, calls, part) if called_for else _of_threads(part, table.pid, table.tid)
        return table.take(chosen)

    faults = activity.faults
    by_time = part.threads is None and part.ranges is None and part.pids is None  # work in windows has no calls
    chosen_calls = _in_ranges(capture, calls.start_ns, calls.pid, part) & _of_threads(part, calls.pid, calls.tid)
    smaller = replace(
        activity,
        calls=calls.take(chosen_calls),
        gpu_ops=kept(activity.gpu_ops, called_for=True),
        windows=activity.windows if by_time else activity.windows.take(slice(0)),
        window_ops=activity.window_ops if by_time else activity.window_ops.take(slice(0)),
        os_calls=kept(activity.os_calls),
        sched=kept(activity.sched),
        faults=faults.take(_in_ranges(capture, faults.time_ns, faults.pid, part) & (part.threads is None)),
        memory=kept(activity.memory, called_for=True),
        marks=kept(activity.marks),
        part=True,
    )
    return smaller, np.flatnonzero(chosen_calls & part.window.reaches(calls.start_ns, calls.end_ns))


def _called_for(table: Any, calls: Any, part: Part) -> Bool:
    """Per row, whether a call of the chosen threads caused it."""
    if part.threads is None:
        return np.ones(len(table), np.bool_)
    mine = np.isin(pack(calls.pid, calls.tid), part.threads) & (calls.correlation_id > 0)
    known = set(zip(calls.pid[mine].tolist(), calls.correlation_id[mine].tolist(), strict=True))
    pairs = zip(table.pid.tolist(), table.correlation_id.tolist(), strict=True)
    return np.fromiter((pair in known for pair in pairs), np.bool_, len(table))


def _still_known(smaller: Calls, calls: Calls, rows: Int64) -> Calls:
    """The part's calls with what all of them told: which created a context."""
    place = {row: at for at, row in enumerate(rows.tolist())}
    typical = {place[row]: ns for row, ns in calls.typical_ns.items() if row in place}
    return replace(smaller, initial=calls.initial[rows], typical_ns=typical)


def _memory(log: MemoryLog | None, part: Part) -> MemoryLog | None:
    """Memory of the part's processes, at any time."""
    if log is None or part.pids is None:
        return log
    return replace(log, processes=tuple(process for process in log.processes if process.pid in part.pids))
