"""The ledger against counters of the kernel: VmPin of the program's processes, and the machine's pinned pages.

VmPin counts what a driver charges to a process; nr_foll_pin_acquired minus nr_foll_pin_released is what all of the
machine has pinned by pin_user_pages. Both are compared as changes, at looks that no call of the
program overlaps that makes or gives back page-locked memory. A change counts from the last look before the ledger has
most at which it had least: what the driver pins for itself when it creates a context is left out where a look lies
between that and the program's own pins.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pinprof.activity import ApiCallTable
from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.ledger.allocations import family_of, kind_of
from pinprof.analyze.ledger.levels import Level
from pinprof.analyze.ledger.results import HOST_KINDS, KINDS, AllocationTable, KernelView
from pinprof.columns import Int64
from pinprof.model import MemoryLog

_LOOK_NS = 2_000_000
"""A look may take as long."""


def kernel_views(table: AllocationTable, calls: Calls, log: MemoryLog | None, page: int) -> tuple[KernelView, ...]:
    """What each counter says; none without looks, or without page-locked memory."""
    locked = table.take(np.isin(table.kind, [KINDS.index(kind) for kind in HOST_KINDS]))
    if log is None or not len(locked):
        return ()
    level = Level.of(locked, -(-locked.granted_bytes // page) * page)
    return tuple(_views(level, _quiet(calls, log.time_ns), log, page))


def _views(level: Level, quiet: Int64, log: MemoryLog, page: int) -> Iterator[KernelView]:
    names = ("nr_foll_pin_acquired", "nr_foll_pin_released")
    pinned = np.zeros(len(log.time_ns), np.int64)
    for one in log.processes:
        if "pinned" in one.values:
            pinned[np.searchsorted(log.time_ns, one.time_ns)] += one.values["pinned"]
    if any("pinned" in one.values for one in log.processes):
        yield from _view("VmPin", pinned, level, quiet, log.time_ns)
    if all(name in log.machine for name in names):
        acquired, released = (log.machine[name] for name in names)
        yield from _view("nr_foll_pin", (acquired - released) * page, level, quiet, log.time_ns)


def _view(counter: str, counted: Int64, level: Level, quiet: Int64, time_ns: Int64) -> Iterator[KernelView]:
    if not len(quiet):
        return
    ours = level.at(time_ns[quiet])
    theirs = counted[quiet]
    most = len(ours) - 1 - int(np.argmax(ours[::-1]))
    begin = int(np.flatnonzero(ours[: most + 1] == ours[: most + 1].min())[-1])
    before = int(theirs[begin] - theirs[0])
    quiet, ours, theirs = quiet[begin:], ours[begin:] - ours[begin], theirs[begin:] - theirs[begin]
    most -= begin
    worst = int(np.argmax(np.abs(theirs - ours)))
    yield KernelView(
        counter="VmPin" if counter == "VmPin" else "nr_foll_pin",
        looks=len(quiet),
        time_ns=int(time_ns[quiet[most]]),
        counted_bytes=int(theirs[most]),
        ledger_bytes=int(ours[most]),
        worst_bytes=int((theirs - ours)[worst]),
        before_bytes=before,
    )


def _quiet(calls: Calls, looks: Int64) -> Int64:
    """The looks that no call overlaps which makes or gives back page-locked memory."""
    busy = _locking(calls)[calls.name]
    table: ApiCallTable = calls.table
    begins, ends = np.sort(table.start_ns[busy] - _LOOK_NS), np.sort(table.end_ns[busy] + _LOOK_NS)
    # Inside as many calls as have begun and not ended.
    inside = np.searchsorted(begins, looks, "right") - np.searchsorted(ends, looks)
    return np.flatnonzero(inside == 0)


def _locking(calls: Calls) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    locks = [kind_of(name) in HOST_KINDS or family_of(name) in ("host", "registered") for name in calls.names]
    return np.array(locks, np.bool_)
