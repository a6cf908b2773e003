"""Rules about managed memory. Each works from the causes of migrations alone; fault tables make it more exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pinprof.analyze.activity.results import UvmAnalysis
from pinprof.analyze.activity.uvm import STORM_MIGRATIONS, STORM_SHARE, WARP, at_most, is_storm
from pinprof.analyze.rules.rule import Verdict, View, clear, fired, percent
from pinprof.base.units import format_bytes, format_count, format_counted, format_ns, format_share

PREFETCH_MISSING = 0.80
FLIPS_PER_BLOCK, MOVED_PER_BYTE = 3, 4
EVICTED = 0.05
DRAIN = 0.10


def of_managed_memory(judge: Callable[[View, UvmAnalysis], Verdict]) -> Callable[[View], Verdict]:
    """Judge what migrated; clear where the program has no managed memory."""

    def judged(view: View) -> Verdict:
        if view.activity.uvm is not None:
            return judge(view, view.activity.uvm)
        return clear("The program uses no managed memory.", "No managed allocations or migrations.")

    return judged


@of_managed_memory
def gpu_fault_storm(view: View, uvm: UvmAnalysis) -> Verdict:
    """7: kernels fault their data in, piece by piece."""
    kernels = uvm.kernels
    storm = is_storm(kernels)
    thresholds = f"thresholds {STORM_MIGRATIONS} faulted migrations in a kernel, {percent(STORM_SHARE)} of it lost"
    missing = "" if uvm.gpu_fault_groups is not None else "GPU page faults; time is judged only by migrations."
    if not storm.any():
        return clear("Page-fault storms do not slow down kernels.", f"{uvm.summary} {thresholds}.", missing=missing)
    total = int((kernels.end_ns - kernels.start_ns)[storm].sum())
    lost = int(kernels.lost_ns[storm].sum())
    migrations = format_count(int(kernels.fault_migrations[storm].sum()))
    evidence = [
        (
            f"{format_counted(int(storm.sum()), 'kernel has', 'kernels have')} {migrations} faulted migrations. "
            f"Faults take {format_share(lost, total)} of {format_ns(total)} ({thresholds})."
        ),
        (
            f"{at_most(uvm)}{format_share(uvm.lost_ns, uvm.kernel_ns)} of {format_ns(uvm.kernel_ns)} kernel time is "
            f"lost to faults, by {uvm.lost_from}."
        ),
    ]
    if uvm.gpu_fault_groups is not None:
        evidence.append(
            f"{format_count(uvm.gpu_fault_groups)} groups of {format_count(uvm.gpu_faults or 0)} GPU faults took "
            f"{format_ns(uvm.gpu_fault_ns or 0)}."
        )
    return fired(
        "Kernels stop repeatedly for page faults on managed memory.",
        *evidence,
        advice="Call cudaMemPrefetchAsync before the launch, or let one warp touch each 64 KiB page.",
        stake=view.stake(lost),
        missing=missing,
    )


@of_managed_memory
def prefetch_missing(view: View, uvm: UvmAnalysis) -> Verdict:
    """8: what kernels need comes by touch alone."""
    kernels = uvm.kernels
    moved, touched = int(kernels.uvm_bytes.sum()), int(kernels.fault_bytes.sum())
    asked = int(kernels.prefetch_bytes.sum())
    if not moved:
        return clear(
            "Managed memory is in place when kernels start.", "No memory migrated to the device during a kernel."
        )
    prefetched = format_bytes(asked) if asked else "nothing"
    evidence = [
        (
            f"{format_share(touched, moved)} of the {format_bytes(moved)} that migrated to the device inside kernels "
            f"was touched (threshold {percent(PREFETCH_MISSING)}), {prefetched} prefetched."
        )
    ]
    if touched < PREFETCH_MISSING * moved or asked:
        return clear("Kernels do not depend on page faults alone.", *evidence)
    rate, known = _pinned_rate(view)
    missing, saving = "", float(uvm.kernel_ns)
    if rate:
        saving = max(uvm.stalled_ns - moved / rate, 0)
        evidence.append(
            f"Faults and the migrations they wait for take {at_most(uvm).lower()}{format_ns(uvm.stalled_ns)} of "
            f"{format_ns(uvm.kernel_ns)} in kernels, against {format_ns(moved / rate)} for the same bytes at "
            f"{rate:.3g} GB/s ({known}): prefetching saves up to {format_ns(saving)}."
        )
    else:
        missing = "The bandwidth of a pinned copy, to predict what prefetching saves."
    evidence += _serial(uvm)
    return fired(
        "Managed memory reaches the GPU only by page faults, without prefetching.",
        *evidence,
        advice="Call cudaMemPrefetchAsync to the device before the launch. In CUDA 13, the target is a "
        "cudaMemLocation.",
        stake=view.stake(saving),
        missing=missing,
    )


def _serial(uvm: UvmAnalysis) -> list[str]:
    """What the longest kernel computes with, where that is one warp or less and faults are not what it waits for."""
    kernels = uvm.kernels
    longest = int(np.argmax(kernels.end_ns - kernels.start_ns))
    duration, threads = int((kernels.end_ns - kernels.start_ns)[longest]), int(kernels.threads[longest])
    if not 0 < threads <= WARP or uvm.stalled_ns > uvm.kernel_ns / 2:
        return []
    name = kernels.names[kernels.name[longest]] if kernels.name[longest] >= 0 else "the longest kernel"
    with_threads = format_counted(threads, "thread", "threads")
    return [f"{name} runs {format_ns(duration)} on {with_threads}: most of that is its own sequential work."]


def _pinned_rate(view: View) -> tuple[float, str]:
    """(GB/s to the device, where from): of this run's large pinned copies, else the link's; (0, "") when unknown."""
    transfers = view.activity.transfers
    for entry in transfers.directions:
        if entry.direction == "H2D" and entry.large_pinned.busy_ns:
            return entry.large_pinned.size_bytes / entry.large_pinned.busy_ns, "pinned copies of this run"
    if transfers.link is None:
        return 0.0, ""
    return transfers.link.to_device_gb_per_s, f"{transfers.link.name} in practice"


def _migrating_ns(view: View) -> int:
    return sum(entry.busy_ns for entry in view.activity.whole.migrations)


@of_managed_memory
def ping_pong(view: View, uvm: UvmAnalysis) -> Verdict:
    """9: the same pages go back and forth."""
    missing = (
        ""
        if "memory" in view.activity.recorded
        else ("Allocations; memory freed and reallocated at the same address counts as the same memory.")
    )
    evidence = (
        f"{uvm.flips_per_block:.3g} direction changes per 2 MiB block and allocation (threshold {FLIPS_PER_BLOCK}); "
        f"{uvm.moved_per_byte:.3g} bytes moved per distinct byte (threshold {MOVED_PER_BYTE})."
    )
    if uvm.flips_per_block >= FLIPS_PER_BLOCK or uvm.moved_per_byte >= MOVED_PER_BYTE:
        return fired(
            "Managed memory moves back and forth between CPU and GPU.",
            evidence,
            advice="Set the preferred location and let the other side map it (cudaMemAdviseSetAccessedBy), or split "
            "the data by who uses it.",
            stake=view.stake(_migrating_ns(view)),
            missing=missing,
        )
    return clear("Managed memory does not move back and forth.", evidence, missing=missing)


@of_managed_memory
def eviction(view: View, uvm: UvmAnalysis) -> Verdict:
    """10: managed memory does not fit on the device."""
    capacity = max((size for size in view.gpu_facts("memory_bytes") if isinstance(size, int)), default=0)
    live = view.activity.memory.managed_bytes if view.activity.memory else 0
    unknown = [] if capacity else ["the device's memory"]
    unknown += [] if view.activity.memory else ["allocations of managed memory"]
    evidence = [
        f"{format_share(uvm.eviction_share, 1)} of migrated bytes are evictions (threshold {percent(EVICTED)})."
    ]
    if capacity and live:
        evidence.append(f"Managed memory peaks at {format_bytes(live)}; the device has {format_bytes(capacity)}.")
    missing = f"Not known: {', '.join(unknown)}." if unknown else ""
    if uvm.eviction_share >= EVICTED or (capacity and live > capacity):
        return fired(
            "Managed memory does not fit on the device, so the driver evicts pages to make room.",
            *evidence,
            advice="Work in tiles that fit, or keep rarely used data on the host (zero-copy, accessed-by).",
            stake=view.stake(_migrating_ns(view)),
            missing=missing,
        )
    return clear("The working set fits on the device.", *evidence, missing=missing)


@of_managed_memory
def cpu_fault_drain(view: View, uvm: UvmAnalysis) -> Verdict:
    """18: the CPU fetches results back page by page."""
    wall = view.wall_ns
    evidence = (
        f"{format_bytes(uvm.drain_bytes)} came back to the host by CPU faults, outside kernels, in "
        f"{format_ns(uvm.drain_ns)}: {format_share(uvm.drain_ns, wall)} of {format_ns(wall)} (threshold "
        f"{percent(DRAIN)})."
    )
    if uvm.drain_ns >= DRAIN * wall > 0:
        return fired(
            "The CPU reads results back page by page.",
            evidence,
            advice="Call cudaMemPrefetchAsync to the host (cudaCpuDeviceId) before reading.",
            stake=view.stake(uvm.drain_ns),
        )
    return clear("Reading results on the CPU costs little.", evidence)
