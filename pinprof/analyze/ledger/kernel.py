"""The ledger against counters of the kernel: VmPin of the program's processes, and the machine's pinned pages.

VmPin counts what a driver charges to a process; nr_foll_pin_acquired minus nr_foll_pin_released is what all of the
machine has pinned by pin_user_pages. Both are compared as changes, at looks that no call of the
program overlaps that makes or gives back page-locked memory, and before a process ends that holds such memory: the
kernel gives it back then, without a call. A change counts from the last look before the ledger has most at which it had
least. What a counter grows by between two looks at which the ledger has the same is not the program's: the driver
pins memory for itself, when it creates a context and later, and other programs count too. It is shown apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.allocations.levels import StepFunction
from pinprof.analyze.allocations.results import FOREVER, HOST_KINDS, KINDS, AllocationTable
from pinprof.analyze.ledger.results import KernelView
from pinprof.base.columns import Int64, ascending
from pinprof.data.activity import ApiCallTable
from pinprof.data.gpu_functions import allocates, frees
from pinprof.data.memory_log import MemoryLog
from pinprof.data.model import Capture

_LOOK_NS = 2_000_000
"""A look may take as long."""
_ENDS = re.compile(r"do_exit|do_group_exit|exit_mm|exit_mmap|mmput")


def kernel_views(table: AllocationTable, calls: Calls, capture: Capture, page: int) -> tuple[KernelView, ...]:
    """What each counter says; none without looks, or without page-locked memory."""
    log = capture.memory
    locked = table.take(np.isin(table.kind, [KINDS.index(kind) for kind in HOST_KINDS]))
    if log is None or not len(locked):
        return ()
    level = StepFunction.of(locked, -(-locked.granted_bytes // page) * page)
    quiet = _quiet(calls, log.time_ns)
    holders = ascending(locked.pid[locked.end_ns == FOREVER])
    return tuple(_views(level, quiet[log.time_ns[quiet] <= _alive_until(capture, calls, holders)], log, page))


def _alive_until(capture: Capture, calls: Calls, pids: Int64) -> int:
    """The time by which the first of some processes may have begun to end, by the last that is known of it."""
    samples, until = capture.samples, FOREVER
    ends = capture.stacks.under(capture.stacks.frames.named(_ENDS))[samples.stack]
    spans = capture.spans[samples.event]
    last = samples.time_ns + np.where(spans, samples.weight, 0)
    for pid in pids.tolist():
        seen = last[(samples.pid == pid) & ~ends]
        if len(seen):
            until = min(until, max(int(seen.max()), int(calls.table.end_ns[calls.table.pid == pid].max(initial=0))))
    return until


def _views(level: StepFunction, quiet: Int64, log: MemoryLog, page: int) -> Iterator[KernelView]:
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


def _view(counter: str, counted: Int64, level: StepFunction, quiet: Int64, time_ns: Int64) -> Iterator[KernelView]:
    if not len(quiet):
        return
    ours = level.at(time_ns[quiet])
    theirs = counted[quiet]
    most = len(ours) - 1 - int(np.argmax(ours[::-1]))
    begin = int(np.flatnonzero(ours[: most + 1] == ours[: most + 1].min())[-1])
    # From the last look that ends a stretch without change.
    stretch = int(np.flatnonzero(np.append(True, np.diff(ours[: begin + 1]) != 0))[-1])
    quiet, ours, theirs = quiet[stretch:], ours[stretch:] - ours[begin], theirs[stretch:]
    most -= stretch
    first = np.flatnonzero(np.append(True, np.diff(ours) != 0))
    place = int(np.searchsorted(first, most, "right")) - 1
    begins, ends = _edges(theirs, first)
    changes = np.append(0, np.cumsum(begins[1:] - ends[:-1]))
    off = changes - ours[first]
    yield KernelView(
        counter="VmPin" if counter == "VmPin" else "nr_foll_pin",
        looks=len(quiet),
        time_ns=int(time_ns[quiet[most]]),
        counted_bytes=int(changes[place]),
        ledger_bytes=int(ours[most]),
        worst_bytes=int(off[np.argmax(np.abs(off))]),
        before_bytes=int(ends[0] - counted[0]),
        beside_bytes=int((ends - begins)[1 : place + 1].sum()),
    )


def _edges(counted: Int64, first: Int64) -> tuple[Int64, Int64]:
    """By stretch of looks without a change of the ledger the counter at its begin and at its end.

    A page that is pinned for an instant only is seen by single looks: of the two outermost the lower counts.
    """
    last = np.append(first[1:], len(counted)) - 1
    begins = np.minimum(counted[first], counted[np.minimum(first + 1, last)])
    return begins, np.minimum(counted[last], counted[np.maximum(last - 1, first)])


def _quiet(calls: Calls, looks: Int64) -> Int64:
    """The looks that no call overlaps which makes or gives back page-locked memory."""
    busy = _locking(calls)[calls.name]
    table: ApiCallTable = calls.table
    begins, ends = np.sort(table.start_ns[busy] - _LOOK_NS), np.sort(table.end_ns[busy] + _LOOK_NS)
    # Inside as many calls as have begun and not ended.
    inside = np.searchsorted(begins, looks, "right") - np.searchsorted(ends, looks)
    return np.flatnonzero(inside == 0)


def _locking(calls: Calls) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    locks = [allocates(name) in HOST_KINDS or frees(name) in ("host", "registered") for name in calls.names]
    return np.array(locks, np.bool_)
