"""Single ranges, calls, copies and migrations as bounded columns: what the page sums again for a filtered part.

Times are nanoseconds since the timeline's start. The longest intervals travel one by one; of very many, short
neighbours of one kind and thread travel as one row that says how many it stands for (`thinning`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze import Run
from pinprof.analyze.activity.row_tables import ActivityRows, CallTime, EventRows
from pinprof.analyze.extent import start_ns
from pinprof.analyze.groups import group
from pinprof.base.columns import in_order
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int32, Int64
from pinprof.report.rows import range_threads, threads_of
from pinprof.report.thinning import Spans, thin
from pinprof.report.threads import thread_numbers

ROW_LIMIT = 12_000
"""Rows of one kind, about."""
SCOPE_LIMIT = 100_000
"""With more merged intervals of ranges than this, calls and copies are not filtered by range."""

_NONE = np.zeros(0, np.int64)
_NUMBERS = _NONE.astype(np.int32)
_NO_EVENTS = EventRows(_NUMBERS, _NONE, _NONE, _NONE, _NUMBERS, _NUMBERS, _NONE, _NONE)
_NO_ROWS = ActivityRows(*(_NO_EVENTS,) * 3, CallTime(_NONE, _NUMBERS, _NONE), *(_NONE,) * 4)
"""The rows of a recording without activity."""
_SINGLE = ("time_call", "time_leaf", "time_ns", "scope", "scope_start_ns", "scope_length_ns", "scope_pid")


@dataclass(frozen=True)
class Instances:
    """Rows of one kind in order of their start; columns of one length."""

    group: Int32
    """The row of the section's table that it is counted in; of ranges the row of `Shared.shown`."""
    start_ns: Int64
    length_ns: Int64
    before_ns: Int64
    """How long before its start the moment lies that says which ranges it belongs to."""
    thread: Int32
    """Index into `Shared.threads`, -1 where none is known."""
    pid: Int32
    size_bytes: Int64
    count: Int64
    """Events that the row stands for."""
    busy_ns: Int64
    """Sum of their own times."""
    extra: Int64
    """Sum of `EventRows.extra`."""

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True)
class InstanceData:
    """What can be summed again for a span of time, a range or a thread."""

    ranges: Instances
    calls: Instances
    copies: Instances
    migrations: Instances
    time_call: Int64
    """Sampled time inside calls: index into `calls`; columns with the next two."""
    time_leaf: Int32
    time_ns: Int64
    scope: Int64
    """Per merged interval of a range's events, the row of `Shared.shown`; columns with the next three."""
    scope_start_ns: Int64
    scope_length_ns: Int64
    scope_pid: Int64
    scoped: bool
    """Whether all such intervals are here."""
    samples_start_ns: int
    """The first sample."""

    @property
    def merged(self) -> bool:
        """Whether some rows stand for several events."""
        return any(len(rows) and int(rows.count.max()) > 1 for rows in (self.calls, self.copies, self.migrations))

    def columns(self) -> list[tuple[str, NDArray[np.generic]]]:
        """(column, values) as the page reads them: starts as differences."""
        kinds = {"range": self.ranges, "call": self.calls, "copy": self.copies, "move": self.migrations}
        columns = [
            (f"{kind}_{name}", np.diff(values, prepend=np.int64(0)) if name == "start_ns" else values)
            for kind, rows in kinds.items()
            for name, values in vars(rows).items()
        ]
        columns += [(name, getattr(self, name)) for name in _SINGLE]
        return columns


def instance_data(analysis: Run, place: Int32) -> InstanceData:
    """The rows of a recording that has a timeline; `place` is that of `ShownRanges`."""
    capture = analysis.capture
    start, threads = start_ns(capture), thread_numbers(capture)
    rows = analysis.activity.rows if analysis.activity else _NO_ROWS
    calls, of_call = _instances(rows.calls, start, threads)
    cells = group(of_call[rows.times.call], rows.times.leaf)
    kept = np.flatnonzero(place[rows.scope] >= 0)
    scoped = len(kept) <= SCOPE_LIMIT
    kept = kept if scoped else kept[:0]
    return InstanceData(
        ranges=_instances(_range_rows(analysis, place), start, threads)[0],
        calls=calls,
        copies=_instances(rows.copies, start, threads)[0],
        migrations=_instances(rows.migrations, start, threads)[0],
        time_call=cells.keys[0],
        time_leaf=cells.keys[1].astype(np.int32),
        time_ns=cells.sum(rows.times.weight_ns),
        scope=place[rows.scope[kept]].astype(np.int64),
        scope_start_ns=rows.scope_start_ns[kept] - start,
        scope_length_ns=(rows.scope_end_ns - rows.scope_start_ns)[kept],
        scope_pid=rows.scope_pid[kept],
        scoped=scoped,
        samples_start_ns=int(capture.samples.time_ns[0]) - start if len(capture.samples) else 0,
    )


def _range_rows(analysis: Run, place: Int32) -> EventRows:
    """The ranges that are shown."""
    ranges, group = analysis.capture.ranges, place[analysis.members.path]
    pid, tid = range_threads(analysis.capture)
    rows = EventRows.of(
        len(ranges),
        group=group,
        start_ns=ranges.start_ns,
        end_ns=ranges.end_ns,
        scope_ns=ranges.start_ns,
        pid=pid,
        tid=tid,
    )
    return rows.take(np.flatnonzero(group >= 0))


def _instances(events: EventRows, start: int, threads: dict[tuple[int, int], int]) -> tuple[Instances, Int64]:
    """The rows, bounded, and per event the row that it is part of."""
    order = in_order(events.start_ns)
    events = events.take(order)
    pairs, of_pair = threads_of(events.pid, events.tid)
    number = np.array([threads.get(pair, -1) for pair in pairs], np.int32)
    spans = Spans.single(
        events.start_ns - start, events.end_ns - start, events.group, events.group, size_bytes=events.size_bytes
    )
    few = thin(spans, ROW_LIMIT, of_pair)
    extra = np.zeros(len(few.spans), np.int64)
    np.add.at(extra, few.of, events.extra)
    place = np.empty(len(few.of), np.int64)
    place[order] = few.of
    first = few.first
    return (
        Instances(
            group=few.spans.style,
            start_ns=few.spans.start_ns,
            length_ns=few.spans.end_ns - few.spans.start_ns,
            before_ns=(events.start_ns - events.scope_ns)[first],
            thread=number[of_pair[first]] if len(events) else _NUMBERS,
            pid=events.pid[first],
            size_bytes=few.spans.size_bytes,
            count=few.spans.count,
            busy_ns=few.spans.busy_ns,
            extra=extra,
        ),
        place,
    )
