"""From CUDA and GPU activity to `ActivityAnalysis`: joins calls, copies, kernels, migrations and faults with ranges."""

from __future__ import annotations

import numpy as np

from pinprof.activity import Activity, OpKind
from pinprof.analyze.activity.calls import (
    Calls,
    alloc_loops,
    context_init,
    memory_peaks,
    sampled_calls,
    summarise_calls,
)
from pinprof.analyze.activity.event_rows import activity_rows
from pinprof.analyze.activity.link import link_of
from pinprof.analyze.activity.migrations import prepare_migrations, summarise_migrations
from pinprof.analyze.activity.results import ActivityAnalysis, Purpose, ScopeActivity, UvmAnalysis
from pinprof.analyze.activity.transfers import (
    analyze_transfers,
    device_sets,
    prepare_copies,
    sum_covered,
    summarise_copies,
    work_time,
)
from pinprof.analyze.activity.uvm import analyze_uvm, kernel_losses
from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.ranges.iterations import iteration_spans
from pinprof.analyze.ranges.membership import Events, Membership, Scopes
from pinprof.model import Capture, Int32, Int64
from pinprof.units import format_bytes, format_count, format_ns, format_share

_MEMORY_CALLS: tuple[Purpose, ...] = (
    "alloc device", "alloc pinned", "alloc managed", "register", "free device", "free pinned", "unregister", "copy",
    "set", "prefetch",
)  # fmt: skip


def analyze_activity(
    capture: Capture, calls: Calls, attribution: Attribution, members: Membership
) -> ActivityAnalysis | None:
    """Explain what a tracing tool recorded; None when nothing traced the program. `calls` are the capture's."""
    activity = capture.activity
    if activity is None:
        return None
    operations, cuda = activity.gpu_ops, "cuda" in activity.recorded
    scopes = members.among(_pids(activity))
    samples = sampled_calls(capture, calls, attribution)
    call, time = work_time(operations, calls)
    copies = prepare_copies(operations, calls, call, time)
    sets = tuple(device_sets(operations))
    link = link_of(capture.manifest.host)
    moved = prepare_migrations(operations, sets)
    losses = kernel_losses(activity, moved, sets)

    by_scope = (
        summarise_calls(capture, calls, samples, scopes),
        summarise_copies(operations, copies, link, scopes),
        summarise_migrations(moved, scopes),
    )
    kernel = np.flatnonzero(operations.kind == OpKind.KERNEL)
    kernels = _counted(scopes, Events(time[kernel], operations.pid[kernel]), np.ones(len(kernel), np.int64))
    kernel_ns, copy_ns, overlap_ns, busy_ns = (
        sum_covered(scopes, sets, which) for which in ("kernels", "copies", "overlap", "busy")
    )
    lost_ns = np.zeros(len(scopes), np.int64)
    for entry in losses:
        lost_ns += scopes.covered(entry.lost)
    groups, gpu_faults, cpu_faults = _faults(activity, scopes)
    entries = tuple(
        ScopeActivity(
            path=scopes.paths[at - 1] if at else None,
            calls=by_scope[0][at],
            copies=by_scope[1][at],
            migrations=by_scope[2][at],
            kernels=int(kernels[at]),
            kernel_ns=int(kernel_ns[at]),
            copy_ns=int(copy_ns[at]),
            overlap_ns=int(overlap_ns[at]),
            busy_ns=int(busy_ns[at]),
            lost_ns=int(lost_ns[at]),
            gpu_fault_groups=int(groups[at]),
            gpu_faults=int(gpu_faults[at]),
            cpu_faults=int(cpu_faults[at]),
        )
        for at in range(len(scopes))
    )
    return ActivityAnalysis(
        source=activity.source,
        recorded=activity.recorded,
        span_ns=_span(activity),
        whole=entries[0],
        ranges=entries[1:],
        context_init=context_init(capture, calls, samples),
        loops=alloc_loops(calls, _began(activity, calls), iteration_spans(capture)),
        transfers=analyze_transfers(operations, calls, copies, sets, link),
        uvm=analyze_uvm(activity, moved, sets, losses),
        # Without a single call nothing is known of memory: a program may pin it without CUDA.
        memory=memory_peaks(activity.memory) if "memory" in activity.recorded and (cuda or len(calls.table)) else None,
        rows=activity_rows(operations, calls, samples, copies, moved, scopes, entries[0]),
    )


def activity_headline(activity: ActivityAnalysis) -> str:
    """One sentence for a recording without samples of the kernel, never empty."""
    if activity.uvm and activity.uvm.pattern == "fault storm":
        return _storm_sentence(activity, activity.uvm)
    memory = [call for call in activity.whole.calls if call.purpose in _MEMORY_CALLS]
    if memory:
        dearest = max(memory, key=lambda call: call.time_ns.total)
        moved = f" for {format_bytes(dearest.size_bytes)}" if dearest.size_bytes else ""
        return (
            f"{dearest.name} takes {format_share(dearest.time_ns.total, activity.span_ns)} of the run: "
            f"{format_ns(dearest.time_ns.total)} in {_calls(dearest.count)}{moved}; "
            f"kernels run {format_ns(activity.whole.kernel_ns)}, copies {format_ns(activity.whole.copy_ns)}."
        )
    if not activity.whole.calls:
        return "This recording holds no CUDA calls."
    return f"Kernels run {format_ns(activity.whole.kernel_ns)}, copies {format_ns(activity.whole.copy_ns)}."


def _storm_sentence(activity: ActivityAnalysis, uvm: UvmAnalysis) -> str:
    """`53 % of the kernels' time is lost to 319 GPU fault groups; 192 MiB migrated on demand in 6,915 pieces.`"""
    touched = [
        moved
        for moved in activity.whole.migrations
        if moved.direction == "H2D" and moved.cause in ("fault", "speculative")
    ]
    what = f"{format_count(uvm.gpu_fault_groups)} GPU fault groups" if uvm.gpu_fault_groups else "GPU faults"
    return (
        f"{format_share(uvm.lost_ns, uvm.kernel_ns)} of the kernels' time is lost to {what}; "
        f"{format_bytes(sum(moved.size_bytes.total for moved in touched))} migrated on demand in "
        f"{format_count(sum(moved.count for moved in touched))} pieces."
    )


def _calls(count: int) -> str:
    return f"{format_count(count)} {'call' if count == 1 else 'calls'}"


def _pids(activity: Activity) -> Int32:
    tables = (activity.calls, activity.gpu_ops, activity.faults)
    return np.unique(np.concatenate([table.pid for table in tables]))


def _began(activity: Activity, calls: Calls) -> int | None:
    """When the program's work began: its first kernel or, where calls alone were recorded, its first copy."""
    operations = activity.gpu_ops
    kernels = operations.start_ns[operations.kind == OpKind.KERNEL]
    copies = activity.calls.start_ns[calls.is_for("copy")] if "cuda" not in activity.recorded else kernels[:0]
    times = kernels if len(kernels) else copies
    return int(times.min()) if len(times) else None


def _span(activity: Activity) -> int:
    tables = [table for table in (activity.calls, activity.gpu_ops) if len(table)]
    if not tables:
        return 0
    return int(max(table.end_ns.max() for table in tables) - min(table.start_ns.min() for table in tables))


def _counted(scopes: Scopes, events: Events, amount: Int64) -> Int64:
    """Per scope, the sum of what happened in it."""
    total = np.zeros(len(scopes), np.int64)
    for scope, row in scopes.members(events):
        np.add.at(total, scope, amount[row])
    return total


def _faults(activity: Activity, scopes: Scopes) -> tuple[Int64, Int64, Int64]:
    """Per scope: groups of GPU faults, GPU faults, CPU faults."""
    faults = activity.faults
    on_gpu = (faults.device >= 0).astype(np.int64)
    amounts = (on_gpu, on_gpu * faults.count, (1 - on_gpu) * faults.count)
    groups, gpu, cpu = (_counted(scopes, Events(faults.time_ns, faults.pid), amount) for amount in amounts)
    return groups, gpu, cpu
