"""CUDA calls: how often, how long, for how many bytes, and where inside the kernel their time went.

The call that creates a process's context is taken out first: it pays for the driver, not for what it asks for.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.groups import group
from pinprof.base.columns import ascending, is_uniform, narrowed, pack, packed
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.pair_index import PairIndex
from pinprof.data.activity import (
    Activity,
    ApiCallTable,
    Location,
    OpKind,
)
from pinprof.data.cuda_errors import NOT_READY, UNLOADING
from pinprof.data.gpu_functions import PURPOSES, Purpose, allocates_by_place, purpose_of
from pinprof.data.model import KERNEL, Bool, Capture, Int32, Int64, clock_event

CONTEXT_INIT_NS = 50_000_000
CONTEXT_INIT_FACTOR = 5
"""A first call that is this many times as long as later ones of its size."""
CONTEXT_SHARE = 0.8
"""The part of a call that calls inside it take to create a context; one with as much work of its own is what its name
says."""
BOOKKEEPING_NS = 1_000_000
"""Calls that ask for a version or a setting before any context exists are shorter than this."""
UNKNOWN_SIZE = -1
SYNC_SOON_NS = 50_000
"""A copy whose thread starts to wait within this time after the call is as good as synchronous.

Of 224 copies that PyTorch's `.cpu()` made on an H100, traced, the wait followed after 2 to 36 µs; a program that has
work between its copy and its wait (`not_async`, 63 copies) took 105 µs and more.
"""

_LOCATIONS = {Location.HOST: "host", Location.HOST_NUMA: "host NUMA", Location.HOST_NUMA_CURRENT: "host NUMA"}


@dataclass(frozen=True)
class Calls:
    """The calls of a capture with what the rest of the analysis asks about them; columns of the table's length."""

    table: ApiCallTable
    names: tuple[str, ...]
    """Each once, the last one for calls without a name."""
    name: NDArray[np.signedinteger]
    """Index into `names`, of a type no wider than needed."""
    purpose: NDArray[np.int8]
    """Index into `PURPOSES`."""
    size_bytes: Int64
    """UNKNOWN_SIZE where not recorded."""
    initial: Bool
    """Whether the call created its process's context."""
    typical_ns: dict[int, int]
    """Row of an initial call → what such calls take otherwise."""
    correlation: PairIndex
    """(pid, correlation id) → row of the call."""

    @property
    def duration_ns(self) -> Int64:
        """Time inside each call."""
        return self.table.end_ns - self.table.start_ns

    @cached_property
    def waited_by(self) -> Int64:
        """Per call the row of its thread's next call, if that waits for the GPU and follows at once; -1 otherwise."""
        table = self.table
        wait = np.full(len(table), -1, np.int64)
        before: Int64 | slice = slice(len(table) - 1)
        after: Int64 = np.arange(1, len(table))
        if not (is_uniform(table.pid) and is_uniform(table.tid)):
            order = np.lexsort((table.start_ns, table.tid, table.pid))
            before, after = order[:-1], order[1:]
        follows = (
            (table.pid[before] == table.pid[after])
            & (table.tid[before] == table.tid[after])
            & self.is_for("sync")[after]
            & (table.start_ns[after] - table.end_ns[before] <= SYNC_SOON_NS)
        )
        wait[before] = np.where(follows, after, -1)
        return wait

    @property
    def failed(self) -> Bool:
        """Which calls returned an error."""
        return (self.table.status > 0) & ~np.isin(self.table.status, (NOT_READY, UNLOADING))

    def launching(self, pid: Int32, correlation_id: Int64) -> Int64:
        """For each piece of work, the row of the call that caused it; -1 when there is none."""
        return self.correlation.find(pid, correlation_id)

    def is_for(self, *purposes: Purpose) -> Bool:
        """Which calls have one of these purposes."""
        return np.isin(self.purpose, [PURPOSES.index(purpose) for purpose in purposes])


def prepare_calls(activity: Activity) -> Calls:
    """Name, purpose and size of every call, and which of them created a context."""
    table = activity.calls
    names = (*table.names, "(no name)")
    name = table.name.astype(np.int64)
    name[name < 0] = len(table.names)
    names, name = _by_location(names, name, table)
    purpose = np.array([PURPOSES.index(purpose_of(text)) for text in names], np.int8)[name]
    correlation = PairIndex.of(table.pid, table.correlation_id, np.flatnonzero(table.correlation_id > 0))
    size = np.full(len(table), UNKNOWN_SIZE, np.int64)
    if table.size_bytes is not None:
        size[:] = table.size_bytes
    usage, operations = activity.memory, activity.gpu_ops
    row = correlation.find(usage.pid, usage.correlation_id)
    # One more element, read by -1: no call.
    unsized = (row >= 0) & (np.append(size, 0)[row] < 0)
    _add_sizes(size, row[unsized], usage.size_bytes[unsized])
    moved = np.flatnonzero((operations.kind == OpKind.COPY) | (operations.kind == OpKind.MEMSET))
    row = correlation.find(operations.pid[moved], operations.correlation_id[moved])
    # What arguments say is whole: the work of the GPU says the same again.
    untold = (row >= 0) & (True if table.size_bytes is None else np.append(table.size_bytes, 0)[row] < 0)
    _add_sizes(size, row[untold], operations.size_bytes[moved[untold]])
    # What failed allocated and copied nothing.
    size[table.status > 0] = UNKNOWN_SIZE
    initial, typical = _context_init(activity, name, purpose, size)
    return Calls(table, names, narrowed(name), purpose, size, packed(initial), typical, correlation)


def _by_location(names: tuple[str, ...], name: Int64, table: ApiCallTable) -> tuple[tuple[str, ...], Int64]:
    """Names that tell the host's memory from the device's, where one function allocates both; the last stays last."""
    if table.location is None:
        return names, name
    allocates = np.array([allocates_by_place(text) for text in names], np.bool_)[name]
    result = name.copy()
    more: dict[str, int] = {}
    for location, words in _LOCATIONS.items():
        for row in np.flatnonzero(allocates & (table.location == location)).tolist():
            result[row] = more.setdefault(f"{names[name[row]]} ({words})", len(more)) + len(names) - 1
    # The calls without a name keep the last one.
    result[name == len(names) - 1] = len(names) - 1 + len(more)
    return (*names[:-1], *more, names[-1]), result


def _add_sizes(size: Int64, row: Int64, amount: Int64) -> None:
    size[row] = np.maximum(size[row], 0)
    np.add.at(size, row, amount)


def size_class(size: Int64) -> Int64:
    """The number of the power of two that a size rounds up to; UNKNOWN_SIZE stays."""
    classes = np.ceil(np.log2(np.maximum(size, 1).astype(np.float64))).astype(np.int64)
    return np.where(size < 0, UNKNOWN_SIZE, classes)


_NEEDS_CONTEXT: tuple[Purpose, ...] = (
    "alloc device", "alloc pinned", "alloc managed", "register", "copy", "set", "prefetch", "launch",
)  # fmt: skip
"""Calls that only a process with a context makes well."""


def _context_existed(activity: Activity, purpose: NDArray[np.int8], row: int) -> bool:
    """Whether a process had its context before a call: other calls or work of the GPU came before, as in a recording
    that begins in mid-run, or the GPU does meanwhile what no recorded call asked for.
    """
    table, ops = activity.calls, activity.gpu_ops
    pid, start, end = int(table.pid[row]), int(table.start_ns[row]), int(table.end_ns[row])
    wanted = np.isin(purpose, [PURPOSES.index(one) for one in _NEEDS_CONTEXT])
    if (wanted & (table.pid == pid) & (table.start_ns < start) & (table.status <= 0)).any():
        return True
    worked = np.isin(ops.kind, (OpKind.KERNEL, OpKind.COPY, OpKind.MEMSET)) & np.isin(ops.pid, (pid, -1))
    asked = np.isin(ops.correlation_id, table.correlation_id[table.correlation_id > 0])
    unasked = worked & (ops.correlation_id > 0) & ~asked & (ops.start_ns < end)
    # Where no work is joined with calls, ids tell nothing.
    return bool((worked & (ops.start_ns < start)).any() or (asked.any() and unasked.any()))


def _context_init(
    activity: Activity, name: Int64, purpose: NDArray[np.int8], size: Int64
) -> tuple[Bool, dict[int, int]]:
    """Rule 0: in each process the first call other than bookkeeping, if it is long for a call of its size.

    It is compared with later calls of the same name and size class, else with those of the same name; alone it counts
    only if it allocates and moves nothing, since a large allocation may well take that long. Where the context was
    there before, a long call waits for something else.
    """
    table = activity.calls
    initial = np.zeros(len(table), np.bool_)
    typical: dict[int, int] = {}
    duration = table.end_ns - table.start_ns
    if table.context_ns is not None:
        initial |= (table.context_ns >= CONTEXT_INIT_NS) & (table.context_ns >= CONTEXT_SHARE * duration)
    # Where calls inside a call were not recorded, its length must tell.
    longer = np.flatnonzero((duration >= BOOKKEEPING_NS) & ~np.isin(table.pid, table.pid[initial]))
    _, first = np.unique(table.pid[longer], return_index=True)
    for row in longer[first].tolist():
        if duration[row] < CONTEXT_INIT_NS or _context_existed(activity, purpose, row):
            continue
        later = np.arange(row + 1, len(table))
        later = later[(table.pid[later] == table.pid[row]) & (name[later] == name[row])]
        alike = later[size_class(size[later]) == size_class(size[row : row + 1])]
        compared = alike if len(alike) else later
        if not len(compared):
            initial[row] = size[row] <= 0
            continue
        median = int(np.median(duration[compared]))
        initial[row] = duration[row] >= CONTEXT_INIT_FACTOR * median
        if initial[row]:
            typical[row] = median
    return initial, typical


@dataclass(frozen=True)
class Samples:
    """Sampled time inside calls: columns (call, leaf, weight, samples), ordered by call."""

    event: int
    call: Int64
    leaf: Int64
    weight: Int64
    count: Int64


def sampled_calls(capture: Capture, calls: Calls, attribution: Attribution) -> Samples | None:
    """Samples of the calling thread inside each call, by leaf; None when nothing sampled time on the calls' clock.

    The first event that weighs nanoseconds counts, and waits beside it: a thread cannot enter or leave a call while it
    is off the CPU, so that each lies in one call. Samples that cannot show the kernel split nothing.
    """
    event = clock_event(capture.events)
    samples, table = capture.samples, calls.table
    if event is None or not len(table) or not (capture.stacks.frames.mode == KERNEL).any():
        return None
    timed = [event, *(number for number, other in enumerate(capture.events) if other.spans)]
    rows = np.flatnonzero(np.isin(samples.event, timed) & np.isin(samples.pid, ascending(table.pid)))
    call_thread = pack(table.pid, table.tid)
    sample_thread = pack(samples.pid[rows], samples.tid[rows])
    by_thread = np.argsort(call_thread, kind="stable")
    ordered = np.argsort(sample_thread, kind="stable")
    threads, first = np.unique(call_thread[by_thread], return_index=True)
    starts, ends = (np.searchsorted(sample_thread[ordered], threads, side) for side in ("left", "right"))
    bounds = np.append(first, len(by_thread))
    found_calls, found_rows = [], []
    for number in np.flatnonzero(ends > starts).tolist():
        mine, here = by_thread[bounds[number] : bounds[number + 1]], rows[ordered[starts[number] : ends[number]]]
        place = np.searchsorted(table.start_ns[mine], samples.time_ns[here], "right") - 1
        inside = (place >= 0) & (samples.time_ns[here] < table.end_ns[mine][place])
        found_calls.append(mine[place[inside]])
        found_rows.append(here[inside])
    if not found_calls:
        return None
    call, row = np.concatenate(found_calls), np.concatenate(found_rows)
    cells = group(call, attribution.leaf[row].astype(np.int64))
    return Samples(event, cells.keys[0], cells.keys[1], cells.sum(samples.weight[row]), cells.count)
