"""Copies between host and GPU: how much, how fast, who waited; and what the GPU did meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.activity.results import (
    BandwidthPoints,
    CopyResult,
    CopyTotals,
    DeviceTime,
    DeviceWork,
    Direction,
    DirectionTotals,
    Link,
    Serialisation,
    Spread,
    TransferAnalysis,
)
from pinprof.analyze.groups import group
from pinprof.analyze.intervals import Intervals, any_of, intersection, union, union_where
from pinprof.analyze.ranges.membership import Events, Scopes
from pinprof.analyze.ranges.sums import summed
from pinprof.base.columns import Float64, ascending, distinct, fitting, rows_of, slices, taken, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import CopyKind, GpuOpTable, MemoryKind, OpKind
from pinprof.data.model import Bool, Int8, Int32, Int64, UInt8

LARGE_COPY_BYTES = 16 << 20
"""From here on a copy shows what the link can do."""
PAGEABLE_ASYNC_BYTES = 64 << 10
"""Asynchronous copies to the device from pageable memory up to this size are staged at once and do not block."""
POINTS = 2000
"""At most this many points in a plot."""
LONGEST_GAPS = 10
NO_DEVICE = -1

DIRECTIONS: tuple[Direction, ...] = ("H2D", "D2H", "D2D", "H2H", "P2P", "other")
_DIRECTION_OF: dict[CopyKind, Direction] = {
    CopyKind.HOST_TO_DEVICE: "H2D", CopyKind.HOST_TO_ARRAY: "H2D", CopyKind.UVM_HOST_TO_DEVICE: "H2D",
    CopyKind.DEVICE_TO_HOST: "D2H", CopyKind.ARRAY_TO_HOST: "D2H", CopyKind.UVM_DEVICE_TO_HOST: "D2H",
    CopyKind.DEVICE_TO_DEVICE: "D2D", CopyKind.ARRAY_TO_ARRAY: "D2D", CopyKind.ARRAY_TO_DEVICE: "D2D",
    CopyKind.DEVICE_TO_ARRAY: "D2D", CopyKind.UVM_DEVICE_TO_DEVICE: "D2D", CopyKind.HOST_TO_HOST: "H2H",
    CopyKind.PEER_TO_PEER: "P2P",
}  # fmt: skip
DIRECTION: Int8 = np.full(256, DIRECTIONS.index("other"), np.int8)
"""`CopyKind` → index into `DIRECTIONS`."""
for _kind, _direction in _DIRECTION_OF.items():
    DIRECTION[_kind] = DIRECTIONS.index(_direction)

_H2D, _D2H = DIRECTIONS.index("H2D"), DIRECTIONS.index("D2H")


def memory_name(kind: int) -> str:
    """`pageable`, `pinned`, …; `unknown` for what has no name here."""
    return MemoryKind(min(kind, MemoryKind.UNKNOWN)).words


@dataclass(frozen=True)
class Copies:
    """Explicit copies, as columns, with what is known of the calls that made them."""

    pid: Int32
    device: Int32
    start_ns: Int64
    end_ns: Int64
    size_bytes: Int64
    direction: Int8
    """Index into `DIRECTIONS`."""
    memory: UInt8
    """`MemoryKind` on the host's side, of the source where no host is."""
    asynchronous: Bool
    host_ns: Int64
    """Time inside the call; of several copies of one call the first has it all, the others 0."""
    call: Int64
    """Row of the call; -1 when unknown."""
    scope_time_ns: Int64
    """When the call began, or the copy itself where no call is known."""

    @property
    def busy_ns(self) -> Int64:
        """Each copy's own time."""
        return self.end_ns - self.start_ns


def work_time(operations: GpuOpTable, calls: Calls, row: Int64 | slice) -> tuple[Int64, Int64]:
    """Per row of GPU work the row of its call, -1 without one, and the time it counts at: its call's start or its."""
    call = calls.launching(operations.pid[row], operations.correlation_id[row])
    time = np.array(operations.start_ns[row])
    for part in slices(len(time)):
        known = call[part] >= 0
        time[part][known] = calls.table.start_ns[call[part][known]]
    return call, time


def prepare_copies(operations: GpuOpTable, calls: Calls) -> Copies:
    """The explicit copies among GPU work."""
    row = operations.rows(OpKind.COPY)
    call, time = work_time(operations, calls, row)
    direction = DIRECTION[operations.copy_kind[row]]
    memory = np.where(direction == _D2H, operations.dst_kind[row], operations.src_kind[row])
    by_name = np.array([*("Async" in name for name in calls.names), False], np.bool_)
    host = np.zeros(len(call), np.int64)
    number = np.arange(len(call), dtype=fitting(0, len(call)))
    first = np.zeros(len(calls.table) + 1, number.dtype)  # the last is of no call
    first[call[::-1]] = number[::-1]
    for part in slices(len(call)):
        mine = (call[part] >= 0) & (first[call[part]] == number[part])
        of = call[part][mine]
        host[part][mine] = calls.table.end_ns[of] - calls.table.start_ns[of]
    return Copies(
        pid=taken(operations.pid, row),
        device=taken(operations.device, row),
        start_ns=operations.start_ns[row],
        end_ns=operations.end_ns[row],
        size_bytes=operations.size_bytes[row],
        direction=direction,
        memory=memory,
        asynchronous=by_name[np.append(calls.name, -1)[call]],
        host_ns=host,
        call=call,
        scope_time_ns=time,
    )


def summarise_copies(copies: Copies, link: Link | None, scopes: Scopes) -> tuple[tuple[CopyResult, ...], ...]:
    """Per scope, copies by direction, memory kind and whether the call was asynchronous; most time first."""
    results: list[list[CopyResult]] = [[] for _ in range(len(scopes))]
    kinds = group(copies.direction, copies.memory, copies.asynchronous.view(np.int8))
    figures = (
        uniform(1, len(copies.pid), np.int64),
        copies.size_bytes,
        copies.end_ns - copies.start_ns,
        copies.host_ns,
    )
    events = Events(copies.scope_time_ns, copies.pid)
    for cells in summed(scopes, events, kinds.of, figures, copies.size_bytes):
        spread = cells.spreads
        assert spread is not None
        columns = (cells.scope, *(key[cells.code] for key in kinds.keys), *cells.amounts)
        for at, direction, memory, asynchronous, count, total, busy, host, least, median, most in zip(
            *(column.tolist() for column in (*columns, spread.least, spread.median, spread.most)), strict=True
        ):
            rate = link.rate(DIRECTIONS[direction]) if link else None
            results[at].append(
                CopyResult(
                    direction=DIRECTIONS[direction],
                    memory=memory_name(memory),
                    asynchronous=bool(asynchronous),
                    count=count,
                    size_bytes=Spread(total, least, median, most),
                    busy_ns=busy,
                    host_ns=host,
                    link_share=total / busy / rate if rate and busy else None,
                )
            )
    return tuple(tuple(sorted(entries, key=lambda entry: -entry.busy_ns)) for entries in results)


def lengths(start: Int64, end: Int64, row: Int64 | slice, part: slice) -> Int64:
    """How long some of the chosen rows take: a part of `row`, or of all rows where it is a slice of them all."""
    rows = part if isinstance(row, slice) else row[part]
    return end[rows] - start[rows]


@dataclass(frozen=True)
class DeviceSets:
    """When one GPU computed, copied, did both, did anything."""

    device: int
    kernels: Intervals
    copies: Intervals
    """Explicit copies and migrations."""
    overlap: Intervals
    busy: Intervals
    to_device: Intervals
    """The part of `copies` that crosses the link to the device."""
    to_host: Intervals


def device_sets(operations: GpuOpTable) -> Iterator[DeviceSets]:
    """The sets of every device that did anything; a graph launch recorded as a whole counts as a kernel."""
    for device in distinct(operations.device).tolist():

        def times(*kinds: OpKind, way: int | None = None, device: int = device) -> Intervals:
            return any_of([_times(operations, kind, device, way) for kind in kinds])

        kernels, copies = times(OpKind.KERNEL, OpKind.GRAPH), times(OpKind.COPY, OpKind.MIGRATION)
        busy = any_of((kernels, copies, times(OpKind.MEMSET)))
        if not len(busy) and not _works(operations, device):
            continue
        yield DeviceSets(
            device=device,
            kernels=kernels,
            copies=copies,
            overlap=intersection(kernels, copies),
            busy=busy,
            to_device=times(OpKind.COPY, OpKind.MIGRATION, way=_H2D),
            to_host=times(OpKind.COPY, OpKind.MIGRATION, way=_D2H),
        )


def _times(operations: GpuOpTable, kind: OpKind, device: int, way: int | None) -> Intervals:
    """When work of a kind ran on a device, in one direction or in any; of that kind alone memory is loaded."""
    operations.unload()
    row = operations.rows(kind)
    mine = taken(operations.device, row) == device
    if way is not None:
        mine &= DIRECTION.take(operations.copy_kind[row]) == way
    return union_where(mine, operations.start_ns[row], operations.end_ns[row])


def _works(operations: GpuOpTable, device: int) -> bool:
    return bool(((operations.device == device) & (operations.kind != OpKind.SYNC)).any())


def analyze_transfers(
    calls: Calls, copies: Copies, sets: tuple[DeviceSets, ...], link: Link | None
) -> TransferAnalysis:
    """Everything about copies that is asked of the whole recording."""
    return TransferAnalysis(
        link=link,
        devices=tuple(_device_time(entry) for entry in sets),
        directions=_directions(copies),
        points=bandwidth_points(copies),
        pageable_async=_pageable_async(copies),
        pageable_sync=_pageable_sync(copies),
        serial=_serialisation(calls, copies, sets),
    )


def _device_time(sets: DeviceSets) -> DeviceTime:
    gaps = sets.busy.gaps()
    length = gaps.end - gaps.start
    longest = np.argsort(-length, kind="stable")[:LONGEST_GAPS]
    return DeviceTime(
        device=sets.device,
        kernel_ns=sets.kernels.total,
        copy_ns=sets.copies.total,
        overlap_ns=sets.overlap.total,
        busy_ns=sets.busy.total,
        span_ns=sets.busy.span,
        to_device_ns=sets.to_device.total,
        to_host_ns=sets.to_host.total,
        idle_gaps=len(gaps),
        longest_gaps=tuple(zip(gaps.start[longest].tolist(), length[longest].tolist(), strict=True)),
    )


def _totals(copies: Copies, mask: Bool) -> CopyTotals:
    return CopyTotals(
        count=int(np.count_nonzero(mask)),
        size_bytes=int(copies.size_bytes[mask].sum()),
        busy_ns=int(copies.busy_ns[mask].sum()),
        host_ns=int(copies.host_ns[mask].sum()),
    )


def _directions(copies: Copies) -> tuple[DirectionTotals, ...]:
    large = (copies.memory == MemoryKind.PINNED) & (copies.size_bytes >= LARGE_COPY_BYTES)
    results = []
    for direction in ascending(copies.direction).tolist():
        mine = copies.direction == direction
        results.append(
            DirectionTotals(
                **vars(_totals(copies, mine)),
                direction=DIRECTIONS[direction],
                median_bytes=int(np.median(copies.size_bytes[mine])),
                large_pinned=_totals(copies, mine & large),
            )
        )
    return tuple(results)


def _crossing(copies: Copies) -> Bool:
    return np.asarray((copies.direction == _H2D) | (copies.direction == _D2H))


def _pageable_sync(copies: Copies) -> CopyTotals:
    return _totals(copies, _crossing(copies) & ~copies.asynchronous & (copies.memory == MemoryKind.PAGEABLE))


def _pageable_async(copies: Copies) -> CopyTotals:
    blocks = (copies.direction == _D2H) | ((copies.direction == _H2D) & (copies.size_bytes > PAGEABLE_ASYNC_BYTES))
    return _totals(copies, copies.asynchronous & (copies.memory == MemoryKind.PAGEABLE) & blocks)


def _serialisation(calls: Calls, copies: Copies, sets: tuple[DeviceSets, ...]) -> Serialisation:
    """Copies between host and device by synchronous calls, or by asynchronous ones that are waited for at once.

    Copies of pageable memory block their callers however they are made: what to do about them is another question.
    """
    overlappable = _crossing(copies) & (copies.memory != MemoryKind.PAGEABLE)
    known = copies.call >= 0
    waited = np.append(calls.waited_by >= 0, False)[copies.call]
    serial = np.flatnonzero(overlappable & known & (~copies.asynchronous | waited))
    copy_ns = overlapped = 0
    device = copies.device[serial]
    for entry in sets:
        mine = serial[device == entry.device]
        times = union(copies.start_ns[mine], copies.end_ns[mine])
        copy_ns += times.total
        overlapped += intersection(times, entry.kernels).total
    return Serialisation(len(serial), copy_ns, overlapped, sum(entry.busy.span for entry in sets), len(sets))


def bandwidth_points(copies: Copies) -> BandwidthPoints:
    """Size and bandwidth of every copy that took time; above `POINTS` copies that lie close together become one."""
    timed = rows_of((copies.end_ns > copies.start_ns) & (copies.size_bytes > 0))
    size = copies.size_bytes[timed]
    rate = size / (copies.end_ns[timed] - copies.start_ns[timed])
    kinds = group(copies.direction[timed], copies.memory[timed])
    groups = tuple(
        (DIRECTIONS[direction], memory_name(memory))
        for direction, memory in zip(*(key.tolist() for key in kinds.keys), strict=True)
    )
    if len(size) <= POINTS:
        return BandwidthPoints(size, rate, np.ones(len(size), np.int64), kinds.of.astype(np.int32), groups)
    x, y = np.log2(size), np.log2(rate, out=rate)
    # Steps of an eighth of an octave to begin with, coarser until the points are few enough.
    step = 1 / 8
    while True:
        cells = group(kinds.of, _floors(x, 0.0, step), _floors(y, y.min(), step))
        if len(cells) <= max(POINTS, len(kinds)):
            break
        step *= 2
    mean_x, mean_y = (np.bincount(cells.of, weights=values) / cells.count for values in (x, y))
    return BandwidthPoints(
        np.round(np.exp2(mean_x)).astype(np.int64), np.exp2(mean_y), cells.count, cells.keys[0].astype(np.int32), groups
    )


def _floors(values: Float64, low: float, step: float) -> Int32:
    """In which step above `low` each value lies."""
    floors = np.zeros(len(values), np.int32)
    for part in slices(len(values)):
        floors[part] = np.floor((values[part] - low) / step)
    return floors


def any_device(sets: tuple[DeviceSets, ...]) -> DeviceSets:
    """When any device computed, copied, did both, did anything."""
    names = [entry.name for entry in fields(DeviceSets) if entry.name != "device"]
    return DeviceSets(NO_DEVICE, **{name: any_of(getattr(entry, name) for entry in sets) for name in names})


def work_by_scope(scopes: Scopes, sets: DeviceSets) -> list[DeviceWork]:
    """Per scope, how long a device worked meanwhile."""
    columns = [scopes.covered(times).tolist() for times in (sets.kernels, sets.copies, sets.overlap, sets.busy)]
    return [DeviceWork(sets.device, *times) for times in zip(*columns, strict=True)]
