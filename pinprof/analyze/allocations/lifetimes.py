"""When each allocation ends: by the address that a call gives back, without addresses by what can only be meant.

A free ends the allocation of its address before it, in each process. Two allocations of one address without a free in
between: the first was given back unseen, and ends where the next begins. A free of an address that nothing is known of
ends an allocation of unknown address, where all that may be meant have one size and one line;
else it is undecided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.allocations.recorded import FreeTable, families_of, recorded
from pinprof.analyze.allocations.results import FOREVER, Allocations, AllocationTable
from pinprof.analyze.groups import group
from pinprof.base.columns import Int64, UInt8
from pinprof.data.memory_log import MemoryLog
from pinprof.data.model import Capture

_ALIVE_NS = 1_000_000_000
"""A process that was not looked at for so long at the end had ended."""


def allocations_of(capture: Capture, calls: Calls) -> Allocations | None:
    """The history of a capture; None where no allocation and no free was recorded."""
    activity = capture.activity
    if activity is None:
        return None
    made, frees = recorded(activity, calls)
    if not len(made) and not len(frees):
        return None
    sites = tuple(site.text for site in calls.table.sites)
    return with_ends(made, frees, calls.names, sites, _ended(capture.memory, calls))


def _ended(log: MemoryLog | None, calls: Calls) -> dict[int, int]:
    """When processes were last seen that ended before the program did."""
    if log is None:
        return {}
    seen = {one.pid: int(one.time_ns[-1]) for one in log.processes if len(one.time_ns)}
    gone = {pid: time for pid, time in seen.items() if time < int(log.time_ns[-1]) - _ALIVE_NS}
    for pid, time in gone.items():
        gone[pid] = max(time, int(calls.table.end_ns[calls.table.pid == pid].max(initial=0)))
    return gone


def with_ends(
    made: AllocationTable, frees: FreeTable, names: tuple[str, ...], sites: tuple[str, ...], ended: Mapping[int, int]
) -> Allocations:
    """The allocations with their ends; `ended`: when processes did that ended before the recording."""
    made = replace(made, end_ns=made.end_ns.copy(), freed=made.freed.copy(), free=made.free.copy())
    family, end = families_of(made.kind, names, made.api), made.end_ns
    left = _by_address(made, family, frees)
    unknown, undecided = _by_exclusion(made, family, frees, left)
    for pid, time in ended.items():
        mine = (made.pid == pid) & (end == FOREVER)
        end[mine] = np.maximum(made.start_ns[mine], time)
    unsized = made.size_bytes < 0
    table = replace(
        made,
        end_ns=np.maximum(end, made.start_ns),
        size_bytes=np.where(unsized, 0, made.size_bytes),
        wanted_bytes=np.where(unsized, 0, made.wanted_bytes),
        granted_bytes=np.maximum(made.granted_bytes, 0),
    )
    table = table.take(np.argsort(table.start_ns, kind="stable"))
    return Allocations(table, names, sites, int(table.freed.sum()), unknown, undecided, int(unsized.sum()))


def _by_address(made: AllocationTable, of: UInt8, frees: FreeTable) -> Int64:
    """Set the ends that addresses tell; the frees that are left. `of`: the family of each allocation."""
    placed = np.flatnonzero(made.address > 0)
    rows = np.concatenate([placed, -1 - np.arange(len(frees))])
    address = np.concatenate([made.address[placed], frees.address])
    pid = np.concatenate([made.pid[placed], frees.pid]).astype(np.int64)
    family = np.concatenate([of[placed], frees.family]).astype(np.int64)
    time = np.concatenate([made.start_ns[placed], frees.start_ns])
    place = np.unique(address, return_inverse=True)[1].reshape(-1).astype(np.int64)
    cell = group(pid, family, place).of
    # A free at the time of an allocation is of the one before.
    order = np.lexsort((rows >= 0, time, cell))
    rows, cell, time = rows[order], cell[order], time[order]
    follows = np.append(cell[1:] == cell[:-1], False)
    after = np.append(rows[1:], 0)
    closed = np.flatnonzero((rows >= 0) & follows & (after < 0))
    lost = np.flatnonzero((rows >= 0) & follows & (after >= 0))
    made.end_ns[rows[closed]] = time[closed + 1]
    made.freed[rows[closed]] = 1
    made.free[rows[closed]] = frees.call[-1 - after[closed]]
    made.end_ns[rows[lost]] = time[lost + 1]
    used = np.zeros(len(frees), np.bool_)
    used[-1 - after[closed]] = True
    return np.flatnonzero(~used)


def _by_exclusion(made: AllocationTable, family: UInt8, frees: FreeTable, left: Int64) -> tuple[int, int]:
    """Let frees of unknown addresses end allocations of unknown address; how many are of nothing, and undecided."""
    adrift = np.flatnonzero(made.address == 0)
    events = sorted(
        [
            *zip(made.start_ns[adrift].tolist(), [0] * len(adrift), range(len(adrift)), strict=True),
            *zip(frees.start_ns[left].tolist(), [1] * len(left), left.tolist(), strict=True),
        ]
    )
    alive: dict[tuple[int, int], dict[tuple[int, int, int], list[int]]] = defaultdict(dict)
    latest: dict[tuple[int, int], list[int]] = defaultdict(list)
    unknown = undecided = 0
    pids, of, kinds = made.pid[adrift].tolist(), family[adrift].tolist(), made.kind[adrift].tolist()
    sizes, sites = made.size_bytes[adrift].tolist(), made.site[adrift].tolist()
    free_pids, free_of = frees.pid.tolist(), frees.family.tolist()
    for time, frees_it, at in events:
        if not frees_it:
            latest[pids[at], of[at]].append(adrift[at])
            alike = alive[pids[at], of[at]]
            alike.setdefault((kinds[at], sizes[at], sites[at]), []).append(at)
            continue
        alike = alive[free_pids[at], free_of[at]]
        if not alike:
            unknown += 1
        elif len(alike) > 1:
            undecided += 1
            likely = latest[free_pids[at], free_of[at]]
            while likely and (made.freed[likely[-1]] or made.free[likely[-1]] >= 0):
                likely.pop()
            if likely:
                made.free[likely.pop()] = frees.call[at]
        else:
            ((key, mine),) = alike.items()
            row = adrift[mine.pop()]
            made.end_ns[row], made.freed[row], made.free[row] = time, 1, frees.call[at]
            if not mine:
                del alike[key]
    return unknown, undecided
