"""Managed memory: what moved and why, who faulted, and how much kernel time waiting for pages took.

Kernel time lost is the part of kernels that lies in fault windows while nothing was copied. Nsight Systems records
fault groups only when asked to. Without them a window is a migration that a touch caused, and before it as much as
serving its fault can take. The rest between two faults is the kernel's own computing: kernels of few threads compute
for milliseconds from one fault to the next.
"""

from __future__ import annotations

import numpy as np

from pinprof.analyze.activity.migrations import D2H, H2D, Migrations
from pinprof.analyze.activity.results import KernelTable, LostFrom, Pattern, SizeHistogram, UvmAnalysis
from pinprof.analyze.activity.transfers import DIRECTIONS, DeviceSets
from pinprof.analyze.activity.uvm_blocks import ManagedPlaces
from pinprof.analyze.groups import group
from pinprof.analyze.intervals import Intervals, any_of, difference, intersection, union, union_where
from pinprof.base.columns import ascending, fitting, narrowed, packed, rows_of, slices, taken, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_count, format_ns, format_share
from pinprof.data.activity import Activity, MigrationCause, OpKind, PageFaultTable
from pinprof.data.model import Bool, Int64

WARP = 32
SERVICE_NS, WARP_SERVICE_NS = 400_000, 100_000
"""At most this much of the time before a faulted migration is waiting for it; the second where one warp or less
computes, which has a few faults at a time. An H200 serves groups of faults of many threads in 87 to 396 µs, copies
included, and 99 % of the gaps between their migrations are shorter than 81 µs."""
STORM_MIGRATIONS = 100
"""Faulted migrations inside one kernel launch."""
STORM_SHARE = 0.20
"""The share of the kernel that was lost to faults."""
PREFETCHED_SHARE = 0.80
"""The share of the bytes migrated to the device that was asked for."""
DRAIN_GAP_NS = 100_000
"""Migrations back to the host this close to each other belong to one run of the CPU through the memory."""
FUNCTIONS = 10

_AT_MOST: dict[LostFrom, str] = {"fault windows": "", "migration causes": "At most "}


@dataclass(frozen=True)
class KernelWaits:
    """When the kernels of one device waited for pages, and its kernels that had to do with migrations."""

    lost: Intervals
    stalled: Intervals
    """`lost`, and the migrations waited for: what is gone where the data is there before."""
    kernels: KernelTable


def kernel_losses(activity: Activity, moved: Migrations, sets: tuple[DeviceSets, ...]) -> tuple[KernelWaits, ...]:
    """For every device, when its kernels waited for pages, and which kernels did."""
    return tuple(_device_losses(activity, moved, entry) for entry in sets)


def _device_losses(activity: Activity, moved: Migrations, entry: DeviceSets) -> KernelWaits:
    operations = activity.gpu_ops
    kernel = rows_of((operations.kind == OpKind.KERNEL) & (operations.device == entry.device))
    start, end = operations.start_ns[kernel], operations.end_ns[kernel]
    threads = uniform(0, len(start), np.int64)
    if operations.threads is not None:
        threads = taken(operations.threads, kernel)
    to_device = (moved.device == entry.device) & (moved.direction == H2D)
    touched = to_device & moved.touched
    if "gpu_faults" in activity.recorded:
        windows = _windows_by_faults(activity.faults, entry, moved, touched)
    else:
        wide = (threads == 0) | (threads > WARP)
        windows = _windows_by_cause(entry.kernels, union(start[wide], end[wide]), moved, touched)
    stalled = intersection(windows, entry.kernels)
    del windows
    lost = difference(stalled, entry.copies)
    inside, one_each = _Inside(moved.start_ns, start, end), uniform(1, len(moved), np.int64)
    moved.unload()
    table = KernelTable(
        start_ns=start,
        end_ns=end,
        name=operations.name[kernel],
        fault_migrations=narrowed(inside.sum(one_each, to_device & (moved.cause == MigrationCause.FAULT))),
        uvm_bytes=inside.sum(moved.size_bytes, to_device),
        fault_bytes=inside.sum(moved.size_bytes, touched),
        prefetch_bytes=inside.sum(moved.size_bytes, to_device & (moved.cause == MigrationCause.PREFETCH)),
        copying_ns=entry.copies.covered(start, end),
        lost_ns=lost.covered(start, end),
        threads=threads,
        names=operations.names,
    )
    return KernelWaits(lost, stalled, table.take(rows_of((table.uvm_bytes > 0) | (table.lost_ns > 0))))


class _Inside:
    """What began in each of some intervals."""

    def __init__(self, times: Int64, start: Int64, end: Int64) -> None:
        """`times` ascend."""
        self._low, self._high = np.zeros((2, len(start)), fitting(0, len(times)))
        for part in slices(len(start)):
            self._low[part] = np.searchsorted(times, start[part], "left")
            self._high[part] = np.searchsorted(times, np.maximum(start[part], end[part]), "left")

    def sum(self, amount: Int64, mask: Bool) -> Int64:
        """Per interval the sum of the amounts of those of a mask."""
        before = np.zeros(len(amount) + 1, np.int64)
        for part in slices(len(amount)):
            np.multiply(amount[part], mask[part], out=before[part.start + 1 : part.stop + 1])
        np.cumsum(before, out=before)
        total = np.zeros(len(self._low), np.int64)
        for part in slices(len(total)):
            total[part] = before[self._high[part]] - before[self._low[part]]
        return packed(total)


def _windows_by_faults(faults: PageFaultTable, entry: DeviceSets, moved: Migrations, touched: Bool) -> Intervals:
    """Fault groups of a device, and the migrations that a touch caused."""
    mine = faults.device == entry.device
    since = faults.time_ns[mine]
    groups = union(since, since + faults.duration_ns[mine])
    return any_of((groups, union_where(touched, moved.start_ns, moved.end_ns)))


def _windows_by_cause(kernels: Intervals, wide: Intervals, moved: Migrations, touched: Bool) -> Intervals:
    """Migrations that a touch caused inside kernels, each with the time before it that serving the fault can take.

    `wide` are the kernels of more than a warp, or of unknown shape.
    """
    inside = touched & kernels.contains(moved.start_ns)
    times = moved.start_ns[inside]
    began = kernels.start[np.searchsorted(kernels.start, times, "right") - 1]
    service = np.where(wide.contains(times), SERVICE_NS, WARP_SERVICE_NS)
    return union(np.maximum(times - service, began), moved.end_ns[inside])


def analyze_uvm(
    activity: Activity,
    moved: Migrations,
    places: ManagedPlaces,
    sets: tuple[DeviceSets, ...],
    losses: tuple[KernelWaits, ...],
) -> UvmAnalysis | None:
    """Everything about managed memory that is asked of the whole recording; None when none moved or faulted."""
    faults = activity.faults
    if not len(moved) and not len(faults):
        return None
    on_gpu = faults.device >= 0
    gpu_recorded, cpu_recorded = "gpu_faults" in activity.recorded, "cpu_faults" in activity.recorded
    kernels = _joined(tuple(entry.kernels for entry in losses))
    lost_ns, stalled_ns = any_of(entry.lost for entry in losses).total, any_of(entry.stalled for entry in losses).total
    kernel_ns = union(kernels.start_ns, kernels.end_ns).total
    drain = _drain(moved, sets)
    moved.unload()
    total = int(moved.size_bytes.sum())
    lost_from: LostFrom = "fault windows" if gpu_recorded else "migration causes"
    pattern, summary = _pattern(moved, kernels, kernel_ns, lost_ns, lost_from, seen="cuda" in activity.recorded)
    activity.unload()
    return UvmAnalysis(
        pattern=pattern,
        summary=summary,
        sizes=_sizes(moved),
        gpu_fault_groups=int(np.count_nonzero(on_gpu)) if gpu_recorded else None,
        gpu_faults=int(faults.count[on_gpu].sum()) if gpu_recorded else None,
        gpu_fault_ns=_fault_ns(faults, on_gpu) if gpu_recorded else None,
        cpu_faults=int(faults.count[~on_gpu].sum()) if cpu_recorded else None,
        cpu_fault_functions=_functions(faults, ~on_gpu),
        kernel_ns=kernel_ns,
        lost_ns=lost_ns,
        stalled_ns=stalled_ns,
        lost_from=lost_from,
        kernels=kernels,
        drain_ns=drain[0],
        drain_bytes=drain[1],
        blocks=places.blocks,
        block_count=places.count,
        flips_per_block=places.flips,
        moved_per_byte=places.moved_per_byte,
        eviction_share=int(moved.size_bytes[moved.cause == MigrationCause.EVICTION].sum()) / total if total else 0.0,
    )


def _joined(tables: tuple[KernelTable, ...]) -> KernelTable:
    if len(tables) <= 1:
        return tables[0] if tables else KernelTable.empty()
    joined = tables[0].joined(*tables[1:])
    return joined.take(np.argsort(joined.start_ns, kind="stable"))


def _fault_ns(faults: PageFaultTable, on_gpu: Bool) -> int:
    start = faults.time_ns[on_gpu]
    return union(start, start + faults.duration_ns[on_gpu]).total


def _functions(faults: PageFaultTable, on_cpu: Bool) -> tuple[tuple[str, int], ...]:
    named = on_cpu & (faults.function >= 0)
    cells = group(faults.function[named])
    count = cells.sum(faults.count[named])
    most = np.argsort(-count, kind="stable")[:FUNCTIONS]
    return tuple((faults.names[cells.keys[0][cell]], int(count[cell])) for cell in most.tolist())


def _sizes(moved: Migrations) -> tuple[SizeHistogram, ...]:
    power = np.zeros(len(moved), np.int8)
    for part in slices(len(moved)):
        power[part] = np.floor(np.log2(np.maximum(moved.size_bytes[part], 1).astype(np.float64)))
    cells = group(moved.direction, power)
    amount = cells.sum(moved.size_bytes)
    return tuple(
        SizeHistogram(DIRECTIONS[direction], 1 << cells.keys[1][here], cells.count[here], amount[here])
        for direction in ascending(cells.keys[0]).tolist()
        for here in [np.flatnonzero(cells.keys[0] == direction)]
    )


def _drain(moved: Migrations, sets: tuple[DeviceSets, ...]) -> tuple[int, int]:
    """(time, bytes) of touches by the CPU that brought pages back outside kernels."""
    mine = (moved.direction == D2H) & moved.touched & ~moved.in_kernel
    windows = union_where(mine, moved.start_ns, moved.end_ns, longer_ns=DRAIN_GAP_NS)
    windows = Intervals(windows.start, windows.end - DRAIN_GAP_NS)
    for entry in sets:
        windows = difference(windows, entry.kernels)
    return windows.total, int(moved.size_bytes[mine].sum())


def is_storm(kernels: KernelTable) -> Bool:
    """Which kernels faulted their data in piece by piece, and spent their time on that."""
    waiting = kernels.lost_ns >= STORM_SHARE * (kernels.end_ns - kernels.start_ns)
    return np.asarray((kernels.fault_migrations >= STORM_MIGRATIONS) & waiting)


def at_most(uvm: UvmAnalysis) -> str:
    """How a sentence begins that tells lost time: `At most `, or nothing where faults were recorded."""
    return _AT_MOST[uvm.lost_from]


def _pattern(
    moved: Migrations, kernels: KernelTable, kernel_ns: int, lost_ns: int, lost_from: LostFrom, *, seen: bool
) -> tuple[Pattern, str]:
    """`seen`: kernels were recorded."""
    to_device = moved.direction == H2D
    if not to_device.any():
        return "host only", f"No memory migrated to the device; {format_count(len(moved))} other migrations."
    count, median = int(np.count_nonzero(to_device)), int(np.median(moved.size_bytes[to_device]))
    asked = int(moved.size_bytes[to_device & (moved.cause == MigrationCause.PREFETCH)].sum())
    total = int(moved.size_bytes[to_device].sum())
    inside = int(np.count_nonzero(to_device & moved.in_kernel))
    moves = f"{format_count(count)} migrations to the device, median {format_bytes(median)}"
    if seen:
        moves += f", {format_count(inside)} of them inside kernels"
    share = format_share(lost_ns, kernel_ns)
    waits = f"kernels wait for pages {_AT_MOST[lost_from].lower()}{share} of {format_ns(kernel_ns)}"
    if is_storm(kernels).any():
        return "fault storm", f"{moves}: {waits}."
    if asked >= PREFETCHED_SHARE * total:
        share = format_share(asked, total)
        return "prefetched", f"{moves}; {share} of the bytes prefetched" + (f", {waits}." if lost_ns else ".")
    return "on demand", f"{moves}; {waits}." if kernel_ns else f"{moves}."
