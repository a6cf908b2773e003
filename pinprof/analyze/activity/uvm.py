"""Managed memory: what moved and why, who faulted, and how much kernel time waiting for pages took.

Kernel time lost is the part of kernels that lies in fault windows while nothing was copied. Nsight Systems records
fault groups only when asked to; without them the causes of the migrations say which kernels faulted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pinprof.activity import Activity, MigrationCause, OpKind, PageFaultTable
from pinprof.analyze.activity.migrations import D2H, H2D, Migrations
from pinprof.analyze.activity.results import KernelTable, Pattern, SizeHistogram, UvmAnalysis
from pinprof.analyze.activity.transfers import DIRECTIONS, DeviceSets
from pinprof.analyze.activity.uvm_blocks import block_table, busiest, lives_of, moved_per_byte
from pinprof.analyze.groups import group
from pinprof.analyze.intervals import Intervals, difference, intersection, union, union_by_key
from pinprof.model import Bool, Int64
from pinprof.units import format_bytes, format_count, format_ns, format_share

STORM_MIGRATIONS = 100
"""Faulted migrations inside one kernel launch."""
STORM_SHARE = 0.20
"""The share of the kernel in which nothing was copied."""
PREFETCHED_SHARE = 0.80
"""The share of the bytes migrated to the device that was asked for."""
DRAIN_GAP_NS = 100_000
"""Migrations back to the host this close to each other belong to one run of the CPU through the memory."""
FUNCTIONS = 10


@dataclass(frozen=True)
class Losses:
    """When the kernels of one device waited for pages, and its kernels that had to do with migrations."""

    lost: Intervals
    kernels: KernelTable


def kernel_losses(activity: Activity, moved: Migrations, sets: tuple[DeviceSets, ...]) -> tuple[Losses, ...]:
    """For every device, when its kernels waited for pages, and which kernels did."""
    return tuple(_device_losses(activity, moved, entry) for entry in sets)


def _device_losses(activity: Activity, moved: Migrations, entry: DeviceSets) -> Losses:
    operations, faults = activity.gpu_ops, activity.faults
    kernel = np.flatnonzero((operations.kind == OpKind.KERNEL) & (operations.device == entry.device))
    start, end = operations.start_ns[kernel], operations.end_ns[kernel]
    mine = moved.device == entry.device
    to_device = mine & (moved.direction == H2D)
    touched = to_device & moved.touched
    if "gpu_faults" in activity.recorded:
        group_rows = faults.device == entry.device
        since = faults.time_ns[group_rows]
        windows = union(since, since + faults.duration_ns[group_rows])
    else:
        windows = _windows_by_cause(start, end, moved, touched)
    lost = difference(intersection(windows, entry.kernels), entry.copies)
    table = KernelTable(
        start_ns=start,
        end_ns=end,
        name=operations.name[kernel],
        fault_migrations=_within(moved, to_device & (moved.cause == MigrationCause.FAULT), start, end),
        uvm_bytes=_within(moved, to_device, start, end, moved.size_bytes),
        fault_bytes=_within(moved, touched, start, end, moved.size_bytes),
        prefetch_bytes=_within(
            moved, to_device & (moved.cause == MigrationCause.PREFETCH), start, end, moved.size_bytes
        ),
        copying_ns=entry.copies.covered(start, end),
        lost_ns=lost.covered(start, end),
        names=operations.names,
    )
    return Losses(lost, table.take((table.uvm_bytes > 0) | (table.lost_ns > 0)))


def _within(moved: Migrations, mask: Bool, start: Int64, end: Int64, amount: Int64 | None = None) -> Int64:
    """For each [start, end) how many of the migrations began inside, or the sum of their amounts."""
    times = moved.start_ns[mask]
    before = np.arange(len(times) + 1) if amount is None else np.append(0, np.cumsum(amount[mask]))
    low, high = np.searchsorted(times, start, "left"), np.searchsorted(times, np.maximum(start, end), "left")
    return np.asarray(before[high] - before[low])


def _windows_by_cause(start: Int64, end: Int64, moved: Migrations, touched: Bool) -> Intervals:
    """Kernels with faulted migrations, each from its start to the end of the last such migration that began inside."""
    times, reach = moved.start_ns[touched], np.maximum.accumulate(moved.end_ns[touched])
    low, high = np.searchsorted(times, start, "left"), np.searchsorted(times, end, "left")
    faulted = np.flatnonzero(high > low)
    return union(start[faulted], np.minimum(reach[high[faulted] - 1], end[faulted]))


def analyze_uvm(
    activity: Activity, moved: Migrations, sets: tuple[DeviceSets, ...], losses: tuple[Losses, ...]
) -> UvmAnalysis | None:
    """Everything about managed memory that is asked of the whole recording; None when none moved or faulted."""
    faults = activity.faults
    if not len(moved) and not len(faults):
        return None
    on_gpu = faults.device >= 0
    gpu_recorded, cpu_recorded = "gpu_faults" in activity.recorded, "cpu_faults" in activity.recorded
    kernels = _joined(tuple(entry.kernels for entry in losses))
    lost_ns = sum(entry.lost.total for entry in losses)
    kernel_ns = union(kernels.start_ns, kernels.end_ns).total
    drain = _drain(moved, sets)
    segment, page = lives_of(moved, activity.memory)
    blocks, flips = block_table(moved, faults, page, segment)
    total = int(moved.size_bytes.sum())
    pattern, summary = _pattern(moved, kernels, kernel_ns, lost_ns)
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
        lost_from="fault windows" if gpu_recorded else "migration causes",
        kernels=kernels,
        drain_ns=drain[0],
        drain_bytes=drain[1],
        blocks=busiest(blocks),
        block_count=len(blocks),
        flips_per_block=flips,
        moved_per_byte=moved_per_byte(moved, segment, page),
        eviction_share=int(moved.size_bytes[moved.cause == MigrationCause.EVICTION].sum()) / total if total else 0.0,
    )


def _joined(tables: tuple[KernelTable, ...]) -> KernelTable:
    if len(tables) <= 1:
        return tables[0] if tables else KernelTable.empty()
    joined = tables[0].joined(*tables[1:])
    return joined.take(np.argsort(joined.start_ns, kind="stable"))


def _fault_ns(faults: PageFaultTable, on_gpu: Bool) -> int:
    start, device = faults.time_ns[on_gpu], faults.device[on_gpu].astype(np.int64)
    _, first, last = union_by_key(device, start, start + faults.duration_ns[on_gpu])
    return int((last - first).sum())


def _functions(faults: PageFaultTable, on_cpu: Bool) -> tuple[tuple[str, int], ...]:
    named = on_cpu & (faults.function >= 0)
    cells = group(faults.function[named])
    count = cells.sum(faults.count[named])
    most = np.argsort(-count, kind="stable")[:FUNCTIONS]
    return tuple((faults.names[cells.keys[0][cell]], int(count[cell])) for cell in most.tolist())


def _sizes(moved: Migrations) -> tuple[SizeHistogram, ...]:
    power = np.floor(np.log2(np.maximum(moved.size_bytes, 1).astype(np.float64))).astype(np.int64)
    cells = group(moved.direction, power)
    amount = cells.sum(moved.size_bytes)
    return tuple(
        SizeHistogram(DIRECTIONS[direction], 1 << cells.keys[1][here], cells.count[here], amount[here])
        for direction in np.unique(cells.keys[0]).tolist()
        for here in [np.flatnonzero(cells.keys[0] == direction)]
    )


def _drain(moved: Migrations, sets: tuple[DeviceSets, ...]) -> tuple[int, int]:
    """(time, bytes) of touches by the CPU that brought pages back outside kernels."""
    mine = (moved.direction == D2H) & moved.touched & ~moved.in_kernel
    windows = union(moved.start_ns[mine], moved.end_ns[mine] + DRAIN_GAP_NS)
    windows = Intervals(windows.start, windows.end - DRAIN_GAP_NS)
    for entry in sets:
        windows = difference(windows, entry.kernels)
    return windows.total, int(moved.size_bytes[mine].sum())


def is_storm(kernels: KernelTable) -> Bool:
    """Which kernels faulted their data in piece by piece, and spent their time on that."""
    duration = kernels.end_ns - kernels.start_ns
    waiting = duration - kernels.copying_ns >= STORM_SHARE * duration
    return np.asarray((kernels.fault_migrations >= STORM_MIGRATIONS) & waiting)


def _pattern(moved: Migrations, kernels: KernelTable, kernel_ns: int, lost_ns: int) -> tuple[Pattern, str]:
    to_device = moved.direction == H2D
    if not to_device.any():
        return "host only", f"Nothing migrated to the device; {format_count(len(moved))} migrations among the rest."
    count, median = int(np.count_nonzero(to_device)), int(np.median(moved.size_bytes[to_device]))
    asked = int(moved.size_bytes[to_device & (moved.cause == MigrationCause.PREFETCH)].sum())
    total = int(moved.size_bytes[to_device].sum())
    inside = int(np.count_nonzero(to_device & moved.in_kernel))
    moves = (
        f"{format_count(count)} migrations to the device, {format_bytes(median)} in the median, "
        f"{format_count(inside)} of them inside kernels"
    )
    waits = f"kernels wait for pages {format_share(lost_ns, kernel_ns)} of {format_ns(kernel_ns)}"
    if is_storm(kernels).any():
        return "fault storm", f"{moves}: {waits}."
    if asked >= PREFETCHED_SHARE * total:
        share = format_share(asked, total)
        return "prefetched", f"{moves}; {share} of the bytes prefetched" + (f", {waits}." if lost_ns else ".")
    return "on demand", f"{moves}; {waits}." if kernel_ns else f"{moves}."
