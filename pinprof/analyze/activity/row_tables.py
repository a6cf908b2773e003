"""The single calls, copies and migrations behind results, as tables: what a page sums again for a part of them."""

from __future__ import annotations

from pinprof.base.columns import Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int32, Int64


@dataclass(frozen=True, eq=False, repr=False)
class EventRows(Table):
    """Single calls, copies or migrations behind the whole recording's results, in order of their start; columns."""

    group: Int32
    """Index into `calls`, `copies` or `migrations` of the whole recording."""
    start_ns: Int64
    end_ns: Int64
    scope_ns: Int64
    """When the ranges it belongs to last: at its start, or where its call began."""
    pid: Int32
    tid: Int32
    """The calling thread, -1 where unknown."""
    size_bytes: Int64
    """0 when not recorded."""
    extra: Int64
    """For copies the time inside their calls, for migrations 1 when they began while a kernel ran; else 0."""


@dataclass(frozen=True)
class CallTime:
    """Sampled time inside single calls; columns, ordered by call."""

    call: Int64
    """Index into `ActivityRows.calls`."""
    leaf: Int32
    """Index into the taxonomy."""
    weight_ns: Int64


@dataclass(frozen=True)
class ActivityRows:
    """The rows that results were summed from, so that a part of them can be summed again."""

    calls: EventRows
    copies: EventRows
    migrations: EventRows
    times: CallTime
    """Empty without samples of the calling threads."""
    scope: Int64
    """Per merged interval of a range's calls, the index into `Run.ranges`; columns with the next three."""
    scope_start_ns: Int64
    scope_end_ns: Int64
    scope_pid: Int64
    """The process whose events count; -1 for all."""
