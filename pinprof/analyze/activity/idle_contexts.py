"""Contexts that give their GPU no work: each takes memory of that GPU, and time at its creation.

A process without any work has one, as a worker that only pins memory; or a process that works on one GPU has one more
on another, as a rank that touches GPU 0 first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.activity.results import IdleContext
from pinprof.base.columns import Int64, ascending, distinct
from pinprof.data.activity import Activity, CopyKind, OpKind
from pinprof.data.gpu_functions import Purpose

LEAST_NS = 1_000_000_000
"""How long a context lives in the recording without work before it counts as idle."""
LEAST_WORK = 100
"""Pieces of work of a process that show which GPUs it works on."""
RETAINS = "cuDevicePrimaryCtxRetain"
_WORK: tuple[Purpose, ...] = ("alloc device", "alloc managed", "copy", "set", "prefetch", "launch")
_ON_GPU = (OpKind.KERNEL, OpKind.COPY, OpKind.MEMSET, OpKind.MIGRATION)
_BETWEEN_GPUS = (CopyKind.PEER_TO_PEER, CopyKind.DEVICE_TO_DEVICE)


def idle_contexts(activity: Activity, calls: Calls) -> tuple[IdleContext, ...]:
    """Contexts of processes that launch nothing, copy nothing and allocate no memory of the GPU, then those beside the
    context of the GPU that a process works on.
    """
    return (*_without_work(activity, calls), *_beside_work(activity, calls))


def _without_work(activity: Activity, calls: Calls) -> Iterator[IdleContext]:
    """None counts where no process works, since another tool may have recorded what the GPU did."""
    table, ops = calls.table, activity.gpu_ops
    works = distinct(table.pid[calls.is_for(*_WORK) & (table.status <= 0)], ops.pid[np.isin(ops.kind, _ON_GPU)])
    rows = np.flatnonzero(calls.initial & ~np.isin(table.pid, works))
    # Work without a process may be anybody's.
    if not len(works) or (works < 0).any():
        return
    last_ns = int(table.end_ns.max(initial=0))
    for row in rows[last_ns - table.end_ns[rows] >= LEAST_NS].tolist():
        yield _of(calls, row, -1, 0)


def _beside_work(activity: Activity, calls: Calls) -> Iterator[IdleContext]:
    """Of processes whose work on GPUs was recorded, the contexts of other GPUs.

    Copies between GPUs may use the memory of one that runs nothing, so whoever makes them is not judged.
    """
    table, ops = calls.table, activity.gpu_ops
    if table.device is None:
        return
    ours = np.flatnonzero((table.device >= 0) & (table.status <= 0))
    taken = np.array([name == RETAINS for name in calls.names], np.bool_)[calls.name[ours]]
    for pid in ascending(table.pid[ours[taken]]).tolist():
        work = np.flatnonzero((ops.pid == pid) & np.isin(ops.kind, _ON_GPU))
        if len(work) < LEAST_WORK or np.isin(ops.copy_kind[work], _BETWEEN_GPUS).any() or (ops.device[work] < 0).any():
            continue
        last_ns = int(table.end_ns[table.pid == pid].max())
        for device in np.setdiff1d(table.device[ours[taken & (table.pid[ours] == pid)]], ops.device[work]).tolist():
            mine = (table.pid[ours] == pid) & (table.device[ours] == device)
            first = int(ours[mine & taken][0])
            let_go = _let_go(table.start_ns[ours[mine & ~taken]], int(taken[mine].sum()), last_ns)
            if let_go - int(table.end_ns[first]) >= LEAST_NS:
                yield _of(calls, first, device, len(work))


def _let_go(released_ns: Int64, taken: int, last_ns: int) -> int:
    """When the last of those who took a context let go of it."""
    return int(np.sort(released_ns)[taken - 1]) if len(released_ns) >= taken else last_ns


def _of(calls: Calls, row: int, device: int, work: int) -> IdleContext:
    table = calls.table
    site = -1 if table.site is None else int(table.site[row])
    pins = calls.is_for("alloc pinned", "register") & (table.status <= 0) & (table.pid == table.pid[row])
    return IdleContext(
        pid=int(table.pid[row]),
        call=calls.names[calls.name[row]],
        site=table.sites[site].text if site >= 0 else "",
        duration_ns=int(calls.duration_ns[row]),
        pinned_bytes=int(np.maximum(calls.size_bytes[pins], 0).sum()),
        device=device,
        work=work,
    )
