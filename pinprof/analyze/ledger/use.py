"""Which allocations copies use: the last copy of each, and how far copies reach into it."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.allocations.results import UNKNOWN, AllocationTable
from pinprof.analyze.course.copies import CopyTable
from pinprof.analyze.ledger.results import Use
from pinprof.base.columns import Int64
from pinprof.data.activity import MemoryKind
from pinprof.data.model import Bool

_STEPS_BACK = 64
"""Addresses before that of a copy at which a longer, older allocation is looked for."""


def use_of(table: AllocationTable, copies: CopyTable) -> Use:
    """Look every copy up among the allocations that live when it begins."""
    last = np.full(len(table), UNKNOWN, np.int64)
    begun, reached = table.size_bytes.copy(), np.zeros(len(table), np.int64)
    unplaced = int((may_use_locked(copies) & (copies.address == 0)).sum())
    held = np.flatnonzero((table.address > 0) & (table.size_bytes > 0))
    placed = np.flatnonzero(copies.address > 0)
    if len(held) and len(placed):
        copy, row = _found(table, held, copies, placed)
        np.maximum.at(last, row, copies.start_ns[copy])
        offset = (copies.address[copy] - table.address[row]).astype(np.int64)
        np.minimum.at(begun, row, offset)
        reach = np.minimum(offset + np.maximum(copies.size_bytes[copy], 0), table.size_bytes[row])
        np.maximum.at(reached, row, reach)
    return Use(last, begun, reached, unplaced)


def may_use_locked(copies: CopyTable) -> Bool:
    """Whether an end of these copies is page-locked or managed memory, or may be."""
    ends = (copies.source, copies.target)
    kinds = (MemoryKind.PINNED, MemoryKind.MANAGED, MemoryKind.UNKNOWN)
    return np.asarray(np.any([np.isin(end, kinds) for end in ends], axis=0))


def _found(table: AllocationTable, held: Int64, copies: CopyTable, placed: Int64) -> tuple[Int64, Int64]:
    """(copy, allocation) of all copies that begin inside one."""
    # By process, address and start; a copy belongs to the last row that is not behind it, or to one before.
    place = np.unique(np.concatenate([table.address[held], copies.address[placed]]), return_inverse=True)[1].reshape(-1)
    pid = np.concatenate([table.pid[held], copies.pid[placed]])
    time = np.concatenate([table.start_ns[held], copies.start_ns[placed]])
    is_copy = np.arange(len(pid)) >= len(held)
    order = np.lexsort((is_copy, time, place, pid))
    rows = np.flatnonzero(~is_copy[order])
    held = held[order[rows]]
    at = np.cumsum(~is_copy[order])[is_copy[order]] - 1
    copy = placed[order[is_copy[order]] - (len(pid) - len(placed))]
    # Of one address, older allocations are skipped at once.
    new = np.flatnonzero(np.append(True, (np.diff(table.address[held]) != 0) | (np.diff(table.pid[held]) != 0)))
    first = new[np.searchsorted(new, np.arange(len(held)), "right") - 1]
    found_copy, found_row = [], []
    for _ in range(_STEPS_BACK):
        known = at >= 0
        copy, at = copy[known], at[known]
        if not len(copy):
            break
        row = held[at]
        offset = copies.address[copy] - table.address[row]
        same = (table.pid[row] == copies.pid[copy]) & (copies.address[copy] >= table.address[row])
        lives = (table.start_ns[row] <= copies.start_ns[copy]) & (table.end_ns[row] > copies.start_ns[copy])
        hit = same & lives & (offset < table.size_bytes[row].astype(np.uint64))
        found_copy.append(copy[hit])
        found_row.append(row[hit])
        rest = same & ~hit
        copy, at = copy[rest], _before(table, held, first, at[rest], copies.start_ns[copy[rest]])
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *found_copy]), np.concatenate([none, *found_row])


def _before(table: AllocationTable, held: Int64, first: Int64, at: Int64, time: Int64) -> Int64:
    """The allocation at the address before that is the last one made by a time, -1 where there is none."""
    last = first[at] - 1
    before = np.maximum(last, 0)
    low, high = first[before], before
    # The starts of one address ascend: halve until the last one that is not later.
    while bool((low < high).any()):
        middle = (low + high + 1) // 2
        early = table.start_ns[held[middle]] <= time
        low, high = np.where(early, middle, low), np.where(early, high, middle - 1)
    return np.where(last < 0, -1, low)
