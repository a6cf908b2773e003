"""A capture restricted to a part of it, before anything is counted: so every output and every sum is of the part.

- **Samples** belong to the part in which they were taken; those of a range by the rule of `ranges.membership`.
- **Waits** were cut at the part's edges (`ranges.spans`), and the pieces inside remain.
- **Ranges, calls, work of the GPU** that reach across the time's edges are cut there, a copy's bytes in proportion, so
  that rates stay what they were. What begins inside a range belongs to it, as everywhere.
- **Work of the GPU** belongs to the thread that called for it. What no call tells the thread of is left out where
  threads are chosen, and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np

from pinprof.analyze.activity.calls import Calls, prepare_calls
from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.intervals import union
from pinprof.analyze.ranges.membership import Events, inside, owners, samples_inside
from pinprof.analyze.ranges.paths import enclosing
from pinprof.analyze.selection import Part
from pinprof.base.columns import Bool, Int32, Int64, Table, pack, pairs_of
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import Activity
from pinprof.data.model import Capture, MemoryLog, RangeTable

_Table = TypeVar("_Table", bound=Table)

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


def restricted(whole: Attributed, part: Part) -> Attributed:
    """The part of a capture, whose waits were cut at its edges; what is known of its calls stays known."""
    capture, attribution, calls = whole.capture, whole.attribution, whole.calls
    chosen = chosen_samples(capture, part)
    attribution = replace(
        attribution,
        **{name: getattr(attribution, name)[chosen] for name in ("leaf", "work", "groups", "heuristic")},
    )
    smaller, rows = _without_samples(replace(capture, samples=capture.samples.take(chosen)), capture, part)
    if calls is None or smaller.activity is None:
        return Attributed(smaller, attribution, None)
    return Attributed(smaller, attribution, _still_known(prepare_calls(smaller.activity), calls, rows))


def part_of(capture: Capture, part: Part) -> Capture:
    """The part of a capture without an analysis."""
    chosen = chosen_samples(capture, part)
    return _without_samples(replace(capture, samples=capture.samples.take(chosen)), capture, part)[0]


def is_empty(capture: Capture) -> bool:
    """Whether nothing of a part was recorded."""
    rows = len(capture.samples) + len(capture.ranges)
    return not rows + (sum(map(len, capture.activity.tables.values())) if capture.activity is not None else 0)


def chosen_samples(capture: Capture, part: Part) -> Bool:
    """Per sample, whether it belongs to the part."""
    samples = capture.samples
    chosen = (samples.time_ns >= part.from_ns) & (samples.time_ns < part.to_ns)
    if part.ranges is not None:
        chosen &= samples_inside(capture, part.ranges)
    return chosen & _of_threads(part, samples.pid, samples.tid)


def _of_threads(part: Part, pid: Int32, tid: Int32) -> Bool:
    if part.threads is not None:
        return np.isin(pack(pid, tid), part.threads)
    return np.ones(len(pid), np.bool_) if part.pids is None else np.isin(pid, part.pids)


def _without_samples(smaller: Capture, capture: Capture, part: Part) -> tuple[Capture, Int64]:
    """All but the samples restricted; and which rows of the calls remain."""
    activity, rows = (None, np.zeros(0, np.int64))
    if capture.activity is not None:
        activity, rows = _activity(capture, capture.activity, part)
    marks = capture.marks
    outcome = {name: fact for name, fact in capture.manifest.outcome.items() if name not in _OF_THE_WHOLE}
    smaller = replace(
        smaller,
        manifest=replace(capture.manifest, outcome=outcome),
        ranges=_ranges(capture.ranges, capture, part),
        activity=activity,
        marks=marks.take(_begins(capture, marks.time_ns, marks.pid, part) & _of_threads(part, marks.pid, marks.tid)),
        memory=_memory(capture.memory, part),
        threads=_named(capture.threads, part),
        renamed=_named(capture.renamed, part),
    )
    if part.threads is not None and capture.activity is not None and capture.activity.recorded - {"cuda calls"}:
        smaller = smaller.with_notes(UNASSIGNED)
    return smaller, rows


def _named(names: Mapping[tuple[int, int], Any], part: Part) -> dict[tuple[int, int], Any]:
    if part.threads is None and part.pids is None:
        return dict(names)
    kept = set(pairs_of(part.threads)) if part.threads is not None else None
    pids = set(part.pids.tolist()) if part.pids is not None else set()
    return {pair: name for pair, name in names.items() if (pair in kept if kept is not None else pair[0] in pids)}


def _begins(capture: Capture, time: Int64, pid: Int32, part: Part) -> Bool:
    """Per event, whether it begins in the part's time, in its ranges and in its processes."""
    chosen = (time >= part.from_ns) & (time < part.to_ns)
    return chosen & _in_ranges(capture, time, pid, part)


def _overlaps(capture: Capture, table: Any, part: Part) -> Bool:
    """The same for what lasts: some of it lies in the part's time."""
    start, end = table.start_ns, table.end_ns
    chosen = (start < part.to_ns) & ((end > part.from_ns) | (start >= part.from_ns))
    return np.asarray(chosen & _in_ranges(capture, start, table.pid, part))


def _in_ranges(capture: Capture, time: Int64, pid: Int32, part: Part) -> Bool:
    chosen = np.ones(len(time), np.bool_)
    if part.ranges is not None:
        chosen &= inside(capture.ranges, Events(time, pid), part.ranges)
    return chosen if part.pids is None else chosen & np.isin(pid, part.pids)


def _clipped(table: _Table, part: Part) -> _Table:
    """Rows with a start and an end, cut where the part's time begins and ends, their bytes in proportion."""
    rows: Any = table
    start, end = np.maximum(rows.start_ns, part.from_ns), np.minimum(rows.end_ns, part.to_ns)
    changed: dict[str, Any] = {"start_ns": start, "end_ns": np.maximum(end, start)}
    size = getattr(rows, "size_bytes", None)
    if size is not None:
        length = rows.end_ns - rows.start_ns
        cut = (size > 0) & (end - start < length)
        changed["size_bytes"] = np.where(cut, np.round(size * ((end - start) / np.maximum(length, 1))), size)
        changed["size_bytes"] = changed["size_bytes"].astype(size.dtype)
    return replace(table, **changed)


def _ranges(ranges: RangeTable, capture: Capture, part: Part) -> RangeTable:
    """Those that reach into the part's time; of chosen ranges only themselves and what lies wholly inside them."""
    kept = (ranges.start_ns < part.to_ns) & ((ranges.end_ns > part.from_ns) | (ranges.start_ns >= part.from_ns))
    if part.pids is not None:
        kept &= np.isin(ranges.pid, part.pids) | (ranges.pid < 1)
    if part.ranges is not None:
        kept &= part.ranges | _wholly_inside(ranges, capture, part.ranges)
    depth = _depths(ranges, kept)
    return _clipped(replace(ranges, depth=depth).take(kept), part)


def _wholly_inside(ranges: RangeTable, capture: Capture, chosen: Bool) -> Bool:
    result = np.zeros(len(ranges), np.bool_)
    owner = owners(ranges, capture.samples.pid)
    for process in np.unique(owner[chosen]).tolist():
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
    """What was traced in the part; and which of the calls that is."""
    calls, operations = activity.calls, activity.gpu_ops
    kept_calls = _overlaps(capture, calls, part) & _of_threads(part, calls.pid, calls.tid)
    kept_work = _overlaps(capture, operations, part) & _called_for(operations, calls, part)
    os_calls, sched, faults, usage, marks = (
        activity.os_calls, activity.sched, activity.faults, activity.memory, activity.marks,
    )  # fmt: skip
    switches = _begins(capture, sched.time_ns, sched.pid, part) & _of_threads(part, sched.pid, sched.tid)
    smaller = replace(
        activity,
        calls=_clipped(calls.take(kept_calls), part),
        gpu_ops=_clipped(operations.take(kept_work), part),
        os_calls=_clipped(
            os_calls.take(_overlaps(capture, os_calls, part) & _of_threads(part, os_calls.pid, os_calls.tid)), part
        ),
        sched=sched.take(switches),
        faults=faults.take(_begins(capture, faults.time_ns, faults.pid, part) & (part.threads is None)),
        memory=usage.take(_begins(capture, usage.time_ns, usage.pid, part) & _called_for(usage, calls, part)),
        marks=marks.take(_begins(capture, marks.time_ns, marks.pid, part) & _of_threads(part, marks.pid, marks.tid)),
        part=True,
    )
    return smaller, np.flatnonzero(kept_calls)


def _called_for(table: Any, calls: Any, part: Part) -> Bool:
    """Per row, whether a call of the chosen threads caused it."""
    if part.threads is None:
        return np.ones(len(table), np.bool_)
    mine = np.isin(pack(calls.pid, calls.tid), part.threads) & (calls.correlation_id > 0)
    known = set(zip(calls.pid[mine].tolist(), calls.correlation_id[mine].tolist(), strict=True))
    pairs = zip(table.pid.tolist(), table.correlation_id.tolist(), strict=True)
    return np.fromiter((pair in known for pair in pairs), np.bool_, len(table))


def _still_known(smaller: Calls, calls: Calls, rows: Int64) -> Calls:
    """The part's calls with what all of them told: which created a context, and what memory they made."""
    place = {row: at for at, row in enumerate(rows.tolist())}
    typical = {place[row]: ns for row, ns in calls.typical_ns.items() if row in place}
    return replace(smaller, initial=calls.initial[rows], typical_ns=typical, memory=calls.memory[rows])


def _memory(log: MemoryLog | None, part: Part) -> MemoryLog | None:
    """Memory over the part's time, of its processes; None where nothing remains."""
    if log is None:
        return None
    inside_time = (log.time_ns >= part.from_ns) & (log.time_ns < part.to_ns)
    processes = []
    for process in log.processes:
        looked = (process.time_ns >= part.from_ns) & (process.time_ns < part.to_ns)
        if looked.any() and (part.pids is None or process.pid in part.pids):
            values = {name: value[looked] for name, value in process.values.items()}
            processes.append(replace(process, time_ns=process.time_ns[looked], values=values))
    if not inside_time.any() and not processes:
        return None
    machine = {name: value[inside_time] for name, value in log.machine.items()}
    return replace(log, time_ns=log.time_ns[inside_time], machine=machine, processes=tuple(processes))
