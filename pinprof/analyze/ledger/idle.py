"""Page-locked memory that is kept although no copy uses it any more, as a cache of pinned memory keeps it.

What refutes it: a copy from or to it, or a copy whose place in page-locked memory is not known, in the last half of its
life up to the process's last copy. What is made while such memory of its size is there shows that nobody uses that
again: the cache grows.
"""

from __future__ import annotations

import numpy as np

from pinprof.analyze.allocations.results import HOST_KINDS, KINDS, AllocationTable, IdlePins
from pinprof.analyze.course.copies import CopyTable
from pinprof.analyze.groups import group
from pinprof.analyze.ledger.results import Use
from pinprof.analyze.ledger.use import may_use_locked
from pinprof.base.columns import Int64, ascending

IDLE_SHARE, LEAST_IDLE_NS = 0.5, 1_000_000_000
"""For this part of its life, and so long at least, no copy used it."""


def idle_of(table: AllocationTable, sites: tuple[str, ...], use: Use, copies: CopyTable) -> tuple[IdlePins, ...]:
    """By line and process, most bytes first."""
    kinds = [KINDS.index(kind) for kind in HOST_KINDS]
    rows = np.flatnonzero(np.isin(table.kind, kinds) & (table.address > 0) & (table.size_bytes > 0))
    locked = may_use_locked(copies)
    rows, last, until = _with_uses(table, rows, use, copies, locked)
    kept = (table.start_ns[rows] < until) & (table.end_ns[rows] >= until)
    idle_ns, life_ns = until - last, until - table.start_ns[rows]
    kept &= (idle_ns >= LEAST_IDLE_NS) & (idle_ns >= IDLE_SHARE * life_ns)
    rows, last, until = rows[kept], last[kept], until[kept]
    if not len(rows):
        return ()
    cells = group(table.site[rows].astype(np.int64), table.pid[rows].astype(np.int64))
    found = []
    for mine in cells.rows():
        site = int(table.site[rows[mine[0]]])
        found.append(
            IdlePins(
                line=sites[site] if site >= 0 else "",
                pid=int(table.pid[rows[mine[0]]]),
                count=len(mine),
                bytes=int(table.granted_bytes[rows[mine]].sum()),
                idle_ns=int((until - last)[mine].min()),
                made_beside=_made_beside(table.start_ns[rows[mine]], table.size_bytes[rows[mine]], last[mine]),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.bytes))


def _with_uses(
    table: AllocationTable, rows: Int64, use: Use, copies: CopyTable, locked: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Int64, Int64, Int64]:
    """These allocations of processes that copy, when each may have been used last, and when its process copied last."""
    kept, last, until = [], [], []
    for pid in ascending(table.pid[rows]).tolist():
        mine, theirs = rows[table.pid[rows] == pid], copies.pid == pid
        if not theirs.any():
            continue
        astray = copies.start_ns[theirs & locked & (copies.address == 0)].max(initial=0)
        kept.append(mine)
        last.append(np.maximum(np.maximum(use.last_ns[mine], table.start_ns[mine]), astray))
        until.append(np.full(len(mine), int(copies.start_ns[theirs].max()), np.int64))
    none = np.zeros(0, np.int64)
    return (np.concatenate([none, *kept]), np.concatenate([none, *last]), np.concatenate([none, *until]))


def _made_beside(start: Int64, size: Int64, last: Int64) -> int:
    """How many of these were made while one of their size or larger was idle for good."""
    order = np.argsort(last, kind="stable")
    largest = np.append(0, np.maximum.accumulate(size[order]))
    return int((largest[np.searchsorted(last[order], start, "left")] >= size).sum())
