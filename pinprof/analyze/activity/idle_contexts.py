"""Contexts of processes that give the GPU no work: each takes memory of a GPU, and time at its creation."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.activity.results import IdleContext
from pinprof.data.activity import Activity, OpKind
from pinprof.data.gpu_functions import Purpose

LEAST_NS = 1_000_000_000
"""How long a context lives in the recording without work before it counts as idle."""
_WORK: tuple[Purpose, ...] = ("alloc device", "alloc managed", "copy", "set", "prefetch", "launch")


def idle_contexts(activity: Activity, calls: Calls) -> tuple[IdleContext, ...]:
    """Processes that create a context and then launch nothing, copy nothing and allocate no memory of the GPU.

    None counts where no process works, since another tool may have recorded what the GPU did.
    """
    table, ops = calls.table, activity.gpu_ops
    kinds = (OpKind.KERNEL, OpKind.COPY, OpKind.MEMSET, OpKind.MIGRATION)
    works = np.union1d(table.pid[calls.is_for(*_WORK) & (table.status <= 0)], ops.pid[np.isin(ops.kind, kinds)])
    rows = np.flatnonzero(calls.initial & ~np.isin(table.pid, works))
    # Work without a process may be anybody's.
    if not len(works) or (works < 0).any():
        return ()
    last_ns = int(table.end_ns.max(initial=0))
    pins = calls.is_for("alloc pinned", "register") & (table.status <= 0)
    found = []
    for row in rows[last_ns - table.end_ns[rows] >= LEAST_NS].tolist():
        site = -1 if table.site is None else int(table.site[row])
        pinned = calls.size_bytes[pins & (table.pid == table.pid[row])]
        found.append(
            IdleContext(
                pid=int(table.pid[row]),
                call=calls.names[calls.name[row]],
                site=table.sites[site].text if site >= 0 else "",
                duration_ns=int(calls.duration_ns[row]),
                pinned_bytes=int(np.maximum(pinned, 0).sum()),
            )
        )
    return tuple(found)
