"""Managed memory over time: every migration by its size and by its place, with the kernels and faults around it."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.activity.results import BlockTable
from pinprof.analyze.activity.transfers import DIRECTION, DIRECTIONS
from pinprof.analyze.groups import group
from pinprof.analyze.intervals import union
from pinprof.base.columns import ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import GpuOpTable, MigrationCause, OpKind, PageFaultTable
from pinprof.data.model import Capture, Int32, Int64, UInt8, UInt64
from pinprof.report.styles import CAUSES, Style
from pinprof.report.thinning import Spans, thin

FIELD_LIMIT = 12_000
"""Migrations drawn one by one, about."""
FIELD_KERNELS, FIELD_GROUPS = 1_500, 2_500
STRIPES = 96
"""Parts of the memory in which migrations are merged apart from each other."""

FIELD_STYLES: tuple[Style, ...] = tuple(CAUSES.values())
_CAUSE_STYLE: dict[int, int] = {
    MigrationCause.PREFETCH: 0, MigrationCause.FAULT: 1, MigrationCause.SPECULATIVE: 2, MigrationCause.EVICTION: 3,
    MigrationCause.ACCESS_COUNTERS: 4,
}  # fmt: skip
_BLOCK_BITS = 21
"""The driver's unit, uvm_va_block: 2 MiB."""


@dataclass(frozen=True)
class Marks:
    """Migrations to draw; in `spans`, `style` is the cause (FIELD_STYLES), `depth` 0 to the device, 1 to the host."""

    spans: Spans
    place: Int64
    """First byte; of a merged one, that of its first."""

    def __len__(self) -> int:
        return len(self.spans)


@dataclass(frozen=True)
class MovedBlocks:
    """The 2 MiB blocks that moved most, in the order of their places; columns of one length."""

    place: Int64
    """Rank among all blocks that moved."""
    to_device: Int64
    """Bytes."""
    to_host: Int64
    faults: Int64
    """Faults of the GPU and the CPU."""
    flips: Int64
    """How often the direction of its migrations changed."""


@dataclass(frozen=True)
class MigrationField:
    """Times are nanoseconds since `start_ns`.

    Places are bytes in the memory that ever moved, its 2 MiB blocks side by side in the order of their addresses.
    """

    start_ns: int
    span_ns: int
    place_bytes: int
    """Extent of all places."""
    by_size: Marks
    """Merged only with others of their size, to a power of two."""
    by_place: Marks
    """Merged only with neighbours; the same as `by_size` where nothing had to be merged."""
    kernels: Spans
    """Time in which any kernel ran."""
    faults: Spans
    """Groups of GPU faults, from first fault to served; `size_bytes` counts faults."""
    count: int
    """Migrations, before any were merged."""
    blocks: MovedBlocks | None
    """None when no block's direction ever changed."""


def migration_field(capture: Capture, table: BlockTable | None = None) -> MigrationField | None:
    """Everything to draw, with what is known by block; None when no managed memory moved."""
    assert capture.activity is not None
    operations = capture.activity.gpu_ops
    moved = operations.take(operations.kind == OpKind.MIGRATION)
    if not len(moved):
        return None
    start, end, kernels = _extent(operations, moved)
    first, last = moved.address >> _BLOCK_BITS, (moved.address + moved.size_bytes.astype(np.uint64)) >> _BLOCK_BITS
    blocks = ascending(np.concatenate([first, np.maximum(first, last - (last > first))]))
    place, extent = _places(blocks, moved.address), len(blocks) << _BLOCK_BITS
    # The table is ordered by start, and so are these: rows stay the same.
    spans = Spans.single(
        moved.start_ns - start,
        moved.end_ns - start,
        cause_styles(moved.cause),
        np.zeros(len(moved), np.int32),
        (DIRECTION[moved.copy_kind] == DIRECTIONS.index("D2H")).astype(np.int32),
        moved.size_bytes,
    )
    power = np.log2(np.maximum(moved.size_bytes, 1)).astype(np.int64)
    by_size = _marks(spans, place, power)
    return MigrationField(
        start_ns=start,
        span_ns=end - start,
        place_bytes=extent,
        by_size=by_size,
        by_place=by_size if len(moved) <= FIELD_LIMIT else _marks(spans, place, place * STRIPES // extent),
        kernels=kernels,
        faults=_faults(capture.activity.faults, start, end),
        count=len(moved),
        blocks=_blocks(table, blocks) if table is not None and table.flips.any() else None,
    )


def _blocks(table: BlockTable, blocks: UInt64) -> MovedBlocks:
    # Two processes may use the same address: their blocks are one place here, as in the field.
    number = table.address >> _BLOCK_BITS
    known = np.isin(number, blocks)
    cells = group(np.searchsorted(blocks, number[known]).astype(np.int64))
    return MovedBlocks(
        place=cells.keys[0],
        to_device=cells.sum(table.to_device_bytes[known]),
        to_host=cells.sum(table.to_host_bytes[known]),
        faults=cells.sum((table.gpu_faults + table.cpu_faults)[known]),
        flips=cells.sum(table.flips[known]),
    )


def cause_styles(cause: UInt8) -> Int32:
    """Per `MigrationCause` the index into FIELD_STYLES."""
    style = np.full(256, len(FIELD_STYLES) - 1, np.int32)
    for known, index in _CAUSE_STYLE.items():
        style[known] = index
    return style[cause]


def _extent(operations: GpuOpTable, moved: GpuOpTable) -> tuple[int, int, Spans]:
    """(start, end, kernels since start): from the first migration, or the kernel around it, to the last."""
    start = int(moved.start_ns.min())
    end = max(int(moved.end_ns.max()), start + 1)
    compute = operations.take(operations.kind == OpKind.KERNEL)
    compute = compute.take((compute.end_ns > start) & (compute.start_ns < end))
    busy = union(compute.start_ns, compute.end_ns)
    if len(busy):
        start, end = min(start, int(busy.start[0])), max(end, int(busy.end[-1]))
    nothing = np.zeros(len(busy), np.int32)
    return start, end, thin(Spans.single(busy.start - start, busy.end - start, nothing, nothing), FIELD_KERNELS).spans


def _marks(spans: Spans, place: Int64, apart: Int64) -> Marks:
    drawn = thin(spans, FIELD_LIMIT, apart)
    return Marks(drawn.spans, place[drawn.first])


def _faults(faults: PageFaultTable, start: int, end: int) -> Spans:
    faults = faults.take((faults.device >= 0) & (faults.time_ns >= start) & (faults.time_ns < end))
    time, nothing = faults.time_ns - start, np.zeros(len(faults), np.int32)
    groups = Spans.single(time, time + faults.duration_ns, nothing, nothing, size_bytes=faults.count)
    return thin(groups, FIELD_GROUPS).spans


def _places(blocks: UInt64, address: UInt64) -> Int64:
    rank = np.searchsorted(blocks, address >> _BLOCK_BITS).astype(np.int64)
    return (rank << _BLOCK_BITS) + (address & np.uint64((1 << _BLOCK_BITS) - 1)).astype(np.int64)
