"""Rules about managed memory. Each works from the causes of migrations alone; fault tables make it more exact."""

from __future__ import annotations

from collections.abc import Callable

from pinprof.analyze.activity.results import UvmAnalysis
from pinprof.analyze.activity.uvm import STORM_MIGRATIONS, STORM_SHARE, is_storm
from pinprof.analyze.results import Finding
from pinprof.analyze.rules.activity_view import ActivityRule, ActivityView, finding, gpu_facts, not_assessable, percent
from pinprof.units import format_bytes, format_count, format_ns, format_share

PREFETCH_MISSING = 0.80
FLIPS_PER_BLOCK, MOVED_PER_BYTE = 3, 4
EVICTED = 0.05
DRAIN = 0.10


def about_uvm(rule: str, subject: str, judge: Callable[[ActivityView, UvmAnalysis], Finding]) -> ActivityRule:
    """A rule about managed memory; without any it is clear, without a record of it not assessable."""

    def judged(view: ActivityView) -> Finding:
        if view.activity.uvm is not None:
            return judge(view, view.activity.uvm)
        if view.calls_for("alloc managed", "prefetch"):
            return not_assessable(rule, subject, "Migrations of managed memory.")
        return finding(rule, "ok", "The program uses no managed memory.", "No managed allocation, no migration.")

    return ActivityRule(rule, subject, judged)


def gpu_fault_storm(_view: ActivityView, uvm: UvmAnalysis) -> Finding:
    """7: kernels fault their data in, piece by piece."""
    rule, kernels = "gpu-fault-storm", uvm.kernels
    storm = is_storm(kernels)
    thresholds = f"thresholds {STORM_MIGRATIONS} faulted migrations in a kernel, {percent(STORM_SHARE)} of it waiting"
    lacks = "" if uvm.gpu_fault_groups is not None else "GPU page faults: time is judged by migrations alone."
    if not storm.any():
        return finding(rule, "ok", "No kernel is slowed by a storm of page faults.", f"{uvm.summary} {thresholds}.",
                        missing=lacks)  # fmt: skip
    total = int((kernels.end_ns - kernels.start_ns)[storm].sum())
    waiting = total - int(kernels.copying_ns[storm].sum())
    launches, migrations = int(storm.sum()), int(kernels.fault_migrations[storm].sum())
    lost = format_share(uvm.lost_ns, uvm.kernel_ns)
    evidence = [
        (
            f"{format_count(launches)} kernels with {format_count(migrations)} faulted migrations copy nothing in "
            f"{format_share(waiting, total)} of their {format_ns(total)} ({thresholds})."
        ),
        f"{lost} of {format_ns(uvm.kernel_ns)} kernel time is lost to faults, by {uvm.lost_from}.",
    ]
    if uvm.gpu_fault_groups is not None:
        evidence.append(
            f"{format_count(uvm.gpu_fault_groups)} groups of {format_count(uvm.gpu_faults or 0)} GPU faults took "
            f"{format_ns(uvm.gpu_fault_ns or 0)}."
        )
    return finding(
        rule, "warning", "Kernels stop for page faults on managed memory again and again.", *evidence,
        advice="cudaMemPrefetchAsync before the launch; else let one warp touch each 64 KiB page.", missing=lacks,
    )  # fmt: skip


def prefetch_missing(view: ActivityView, uvm: UvmAnalysis) -> Finding:
    """8: what kernels need comes by touch alone."""
    rule, kernels = "prefetch-missing", uvm.kernels
    moved, touched = int(kernels.uvm_bytes.sum()), int(kernels.fault_bytes.sum())
    asked = int(kernels.prefetch_bytes.sum())
    if not moved:
        return finding(
            rule, "ok", "Kernels find managed memory in place.", "Nothing migrated to the device in a kernel."
        )
    prefetched = format_bytes(asked) if asked else "nothing"
    evidence = [
        (
            f"{format_share(touched, moved)} of the {format_bytes(moved)} that migrated to the device inside kernels "
            f"was touched (threshold {percent(PREFETCH_MISSING)}), {prefetched} prefetched."
        )
    ]
    if touched < PREFETCH_MISSING * moved or asked:
        return finding(rule, "ok", "Kernels do not rely on page faults alone.", *evidence)
    rate, known = _pinned_rate(view)
    missing = ""
    if rate:
        saving = uvm.kernel_ns - moved / rate
        evidence.append(
            f"Kernels of {format_ns(uvm.kernel_ns)} against {format_ns(moved / rate)} for the same bytes at "
            f"{rate:.3g} GB/s ({known}): prefetching saves up to {format_ns(max(saving, 0))}."
        )
    else:
        missing = "A pinned copy's bandwidth, to say what prefetching would save."
    return finding(
        rule, "warning", "Managed memory reaches the GPU by page faults; nothing is prefetched.", *evidence,
        advice="cudaMemPrefetchAsync to the device before the launch; CUDA 13 takes a cudaMemLocation for the target.",
        missing=missing,
    )  # fmt: skip


def _pinned_rate(view: ActivityView) -> tuple[float, str]:
    """(GB/s to the device, where from): of this run's large pinned copies, else the link's; (0, "") when unknown."""
    transfers = view.activity.transfers
    for entry in transfers.directions:
        if entry.direction == "H2D" and entry.large_pinned.busy_ns:
            return entry.large_pinned.size_bytes / entry.large_pinned.busy_ns, "pinned copies of this run"
    if transfers.link is None:
        return 0.0, ""
    return transfers.link.to_device_gb_per_s, f"{transfers.link.name} in practice"


def ping_pong(view: ActivityView, uvm: UvmAnalysis) -> Finding:
    """9: the same pages go back and forth."""
    rule = "ping-pong"
    lacks = "" if "memory" in view.activity.recorded else (
        "Allocations: memory freed and allocated again at the same address counts as the same."
    )  # fmt: skip
    evidence = (
        f"{uvm.flips_per_block:.3g} changes of direction per 2 MiB block and allocation (threshold {FLIPS_PER_BLOCK}); "
        f"{uvm.moved_per_byte:.3g} bytes moved for each distinct one (threshold {MOVED_PER_BYTE})."
    )
    if uvm.flips_per_block >= FLIPS_PER_BLOCK or uvm.moved_per_byte >= MOVED_PER_BYTE:
        return finding(
            rule, "warning", "Managed memory moves back and forth between CPU and GPU.", evidence,
            advice="Set the preferred location and let the other side map it (cudaMemAdviseSetAccessedBy), or split "
            "the data by who uses it.", missing=lacks,
        )  # fmt: skip
    return finding(rule, "ok", "Managed memory does not go back and forth.", evidence, missing=lacks)


def eviction(view: ActivityView, uvm: UvmAnalysis) -> Finding:
    """10: managed memory does not fit on the device."""
    rule = "eviction"
    capacity = max((size for size in gpu_facts(view.host, "memory_bytes") if isinstance(size, int)), default=0)
    live = view.activity.memory.managed_bytes if view.activity.memory else 0
    lacks = [] if capacity else ["the device's memory"]
    lacks += [] if view.activity.memory else ["allocations of managed memory"]
    evidence = [
        f"{format_share(uvm.eviction_share, 1)} of migrated bytes are evictions (threshold {percent(EVICTED)})."
    ]
    if capacity and live:
        evidence.append(f"{format_bytes(live)} of managed memory at most, on a device of {format_bytes(capacity)}.")
    missing = f"Not known: {', '.join(lacks)}." if lacks else ""
    if uvm.eviction_share >= EVICTED or (capacity and live > capacity):
        return finding(
            rule, "warning", "Managed memory does not fit on the device; pages are evicted to make room.", *evidence,
            advice="Work in tiles that fit, or leave what is rarely used on the host (zero-copy, accessed-by).",
            missing=missing,
        )  # fmt: skip
    return finding(rule, "ok", "The device holds what it works on.", *evidence, missing=missing)


def cpu_fault_drain(view: ActivityView, uvm: UvmAnalysis) -> Finding:
    """18: the CPU fetches results back page by page."""
    rule, wall = "cpu-fault-drain", view.wall_ns
    evidence = (
        f"{format_bytes(uvm.drain_bytes)} came back to the host by touch, outside kernels, in runs of "
        f"{format_ns(uvm.drain_ns)}: {format_share(uvm.drain_ns, wall)} of {format_ns(wall)} (threshold "
        f"{percent(DRAIN)})."
    )
    if uvm.drain_ns >= DRAIN * wall > 0:
        return finding(
            rule, "warning", "The CPU reads results back page by page.", evidence,
            advice="cudaMemPrefetchAsync to the host (cudaCpuDeviceId) before reading.",
        )  # fmt: skip
    return finding(rule, "ok", "Reading results on the CPU costs little.", evidence)


UVM_RULES: tuple[ActivityRule, ...] = (
    about_uvm("gpu-fault-storm", "Page faults of the GPU", gpu_fault_storm),
    about_uvm("prefetch-missing", "Prefetching of managed memory", prefetch_missing),
    about_uvm("ping-pong", "Managed memory going back and forth", ping_pong),
    about_uvm("eviction", "Eviction of managed memory", eviction),
    about_uvm("cpu-fault-drain", "Reading managed memory back", cpu_fault_drain),
)
"""In the order of reports."""
