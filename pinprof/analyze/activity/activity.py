"""From CUDA and GPU activity to `ActivityAnalysis`: joins calls, copies, kernels, migrations and faults with ranges."""

from __future__ import annotations

from functools import partial

import numpy as np

from pinprof.analyze.activity.alloc_loops import alloc_loops
from pinprof.analyze.activity.call_results import context_init, summarise_calls
from pinprof.analyze.activity.calls import Calls, sampled_calls
from pinprof.analyze.activity.event_rows import activity_rows
from pinprof.analyze.activity.failed_pins import failed_pins
from pinprof.analyze.activity.idle_contexts import idle_contexts
from pinprof.analyze.activity.link import link_of
from pinprof.analyze.activity.migrations import prepare_migrations, summarise_migrations
from pinprof.analyze.activity.results import (
    ActivityAnalysis,
    CopyResult,
    Link,
    MigrationResult,
    ScopeActivity,
    TransferAnalysis,
    UvmAnalysis,
    Work,
)
from pinprof.analyze.activity.sampled import gpu_samples
from pinprof.analyze.activity.transfers import (
    DeviceSets,
    analyze_transfers,
    any_device,
    device_sets,
    prepare_copies,
    summarise_copies,
    work_by_scope,
    work_time,
)
from pinprof.analyze.activity.uvm import analyze_uvm, kernel_losses
from pinprof.analyze.activity.uvm_blocks import places_of
from pinprof.analyze.allocations.levels import of_kinds, peaks_of
from pinprof.analyze.allocations.results import Allocations
from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.intervals import any_of
from pinprof.analyze.ranges.iterations import iteration_spans
from pinprof.analyze.ranges.membership import Events, Membership, Scopes
from pinprof.analyze.ranges.sums import summed
from pinprof.base.columns import distinct, taken, uniform
from pinprof.data.activity import Activity, GpuOpTable, OpKind
from pinprof.data.gpu_functions import runs_on_host
from pinprof.data.model import Bool, Capture, Int32, Int64


def analyze_activity(
    capture: Capture, calls: Calls, history: Allocations | None, attribution: Attribution, members: Membership
) -> ActivityAnalysis | None:
    """Explain what a tracing tool recorded; None when nothing traced the program.

    `calls` and `history`, what was allocated, are the capture's.
    """
    activity = capture.activity
    if activity is None:
        return None
    operations, cuda = activity.gpu_ops, "cuda" in activity.recorded
    scopes = members.among(_pids(activity))
    samples = sampled_calls(capture, calls, attribution)
    activity.unload()
    link = link_of(capture.manifest.host)
    # One kind of event after the other: of each there may be millions, and nobody needs two kinds at once.
    # What lies in files is therefore unloaded between them.
    of_calls = summarise_calls(capture, calls, samples, scopes)
    activity.unload()
    kernels = _kernels(operations, calls, scopes)
    sets = tuple(device_sets(operations))
    activity.unload()
    work = work_by_scope(scopes, any_device(sets))
    by_device = [work_by_scope(scopes, entry) for entry in sets]
    of_copies, transfers = _copies(operations, calls, sets, link, scopes)
    activity.unload()
    of_migrations, uvm, lost_ns = _migrations(activity, history, sets, scopes)
    activity.unload()
    groups, gpu_faults, cpu_faults = _faults(activity, scopes)
    entries = tuple(
        ScopeActivity(
            path=scopes.paths[at - 1] if at else None,
            calls=of_calls[at],
            copies=of_copies[at],
            migrations=of_migrations[at],
            kernels=int(kernels[at]),
            kernel_ns=work[at].kernel_ns,
            copy_ns=work[at].copy_ns,
            overlap_ns=work[at].overlap_ns,
            busy_ns=work[at].busy_ns,
            lost_ns=int(lost_ns[at]),
            devices=tuple(of[at] for of in by_device if of[at].busy_ns),
            gpu_fault_groups=int(groups[at]),
            gpu_faults=int(gpu_faults[at]),
            cpu_faults=int(cpu_faults[at]),
        )
        for at in range(len(scopes))
    )
    explained = ActivityAnalysis(
        source=activity.source,
        recorded=activity.recorded,
        unrecorded=_unrecorded(activity, calls),
        span_ns=_span(activity),
        whole=entries[0],
        ranges=entries[1:],
        context_init=context_init(capture, calls, samples),
        loops=alloc_loops(calls, history, _began(activity, calls), iteration_spans(capture)),
        transfers=transfers,
        uvm=uvm,
        # Without a single call nothing is known of memory: a program may pin it without CUDA.
        memory=peaks_of(history) if "memory" in activity.recorded and (cuda or len(calls.table)) else None,
        make_rows=partial(activity_rows, operations, calls, samples, sets, scopes, entries[0]),
        sampled=gpu_samples(activity),
        failed_pins=failed_pins(activity, calls),
        idle_contexts=idle_contexts(activity, calls),
    )
    activity.unload()
    return explained


def _kernels(operations: GpuOpTable, calls: Calls, scopes: Scopes) -> Int64:
    """Per scope, the kernels."""
    row = operations.rows(OpKind.KERNEL)
    _, time = work_time(operations, calls, row)
    return _counted(scopes, Events(time, taken(operations.pid, row)), uniform(1, len(time), np.int64))


def _copies(
    operations: GpuOpTable, calls: Calls, sets: tuple[DeviceSets, ...], link: Link | None, scopes: Scopes
) -> tuple[tuple[tuple[CopyResult, ...], ...], TransferAnalysis]:
    """Copies by scope, and what is asked of all of them."""
    copies = prepare_copies(operations, calls)
    for table in (operations, calls.table):
        table.unload()
    by_scope = summarise_copies(copies, link, scopes)
    operations.unload()
    return by_scope, analyze_transfers(calls, copies, sets, link)


def _migrations(
    activity: Activity, history: Allocations | None, sets: tuple[DeviceSets, ...], scopes: Scopes
) -> tuple[tuple[tuple[MigrationResult, ...], ...], UvmAnalysis | None, Int64]:
    """Migrations by scope, what is asked of all of them, and kernel time lost to faults by scope."""
    moved = prepare_migrations(activity.gpu_ops, sets)
    by_scope = summarise_migrations(moved, scopes)
    activity.unload()
    places = places_of(moved, activity.faults, of_kinds(history, ["managed"]))
    activity.unload()
    losses = kernel_losses(activity, moved, sets)
    lost_ns = scopes.covered(any_of(entry.lost for entry in losses))
    activity.unload()
    return by_scope, analyze_uvm(activity, moved, places, sets, losses), lost_ns


def _pids(activity: Activity) -> Int32:
    tables = (activity.calls, activity.gpu_ops, activity.faults)
    return distinct(*(table.pid for table in tables))


def _began(activity: Activity, calls: Calls) -> int | None:
    """When the program's work began: its first kernel, else its first launch, else its first copy."""
    operations = activity.gpu_ops
    for times in (
        operations.start_ns[operations.rows(OpKind.KERNEL)],
        activity.calls.start_ns[_launches(calls)],
        activity.calls.start_ns[calls.is_for("copy") & ~calls.failed],
    ):
        if len(times):
            return int(times.min())
    return None


def _launches(calls: Calls) -> Bool:
    """Calls that launched work of the GPU; a function of the host's is none."""
    on_host = np.array([runs_on_host(name) for name in calls.names], np.bool_)[calls.name]
    return np.asarray(calls.is_for("launch") & ~on_host & ~calls.failed)


def _unrecorded(activity: Activity, calls: Calls) -> frozenset[Work]:
    """Work that calls asked the GPU for and of which the recording holds nothing."""
    if "cuda" not in activity.recorded:
        return frozenset({"kernels", "copies"})
    kinds = activity.gpu_ops.kind
    asked: dict[Work, Bool] = {"kernels": _launches(calls), "copies": calls.is_for("copy") & ~calls.failed}
    seen: dict[Work, Bool] = {"kernels": np.isin(kinds, (OpKind.KERNEL, OpKind.GRAPH)), "copies": kinds == OpKind.COPY}
    return frozenset(work for work in asked if asked[work].any() and not seen[work].any())


def _span(activity: Activity) -> int:
    tables = [table for table in (activity.calls, activity.gpu_ops) if len(table)]
    if not tables:
        return 0
    end = max(int(table.end_ns.max()) for table in tables)
    activity.unload()
    return end - min(int(table.start_ns.min()) for table in tables)


def _counted(scopes: Scopes, events: Events, amount: Int64) -> Int64:
    """Per scope, the sum of what happened in it."""
    total = np.zeros(len(scopes), np.int64)
    for cells in summed(scopes, events, uniform(0, len(events), np.int8), (amount,)):
        total[cells.scope] += cells.amounts[0]
    return total


def _faults(activity: Activity, scopes: Scopes) -> tuple[Int64, Int64, Int64]:
    """Per scope: groups of GPU faults, GPU faults, CPU faults."""
    faults = activity.faults
    on_gpu = (faults.device >= 0).astype(np.int64)
    amounts = (on_gpu, on_gpu * faults.count, (1 - on_gpu) * faults.count)
    groups, gpu, cpu = (_counted(scopes, Events(faults.time_ns, faults.pid), amount) for amount in amounts)
    return groups, gpu, cpu
