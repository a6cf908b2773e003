"""Waits of all threads with their holders, as columns: what the rows of a report are made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.blame.charging import AWAITED, Blame
from pinprof.analyze.blame.results import HolderKind
from pinprof.analyze.blame.timelines import Doing
from pinprof.analyze.blame.waits import Charged, HolderCertainty, Waits
from pinprof.analyze.ranges.spans import IDLE_EVENT
from pinprof.base.columns import Bool, Int32, Int64, Table, UInt8
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import BY_EXIT, BY_INTERRUPT, NO_NODE, READY

KINDS = tuple(HolderKind)
_KIND = {kind: number for number, kind in enumerate(KINDS)}
_BY_KIND = {
    LEAF["wait.gpu"]: HolderKind.GPU,
    LEAF["wait.disk"]: HolderKind.DISK,
    LEAF["wait.reclaim"]: HolderKind.KERNEL,
}
"""Waits that say themselves whom they are for."""
BLAMED = AWAITED.copy()
BLAMED[[*_BY_KIND]] = True
BLAMED[LEAF["wait.idle"]] = False
"""Leaf → whether a wait is for somebody: not for a processor, a set time, or work."""
MOST_THREADS = 64
"""Threads whose waits are looked at: those that wait longest."""
MOST_WAITS = 1 << 18
"""Waits of one thread that are looked at: the longest."""


@dataclass(frozen=True, eq=False, repr=False)
class Parts(Table):
    """Time of waits with whom it is charged to; a wait has one or more."""

    wait: Int32
    """Row of `Capture.samples`."""
    start_ns: Int64
    ns: Int64
    kind: UInt8
    """Index into `KINDS`."""
    pid: Int32
    tid: Int32
    sample: Int32
    """Row of `Capture.samples` that says what the holder did; -1 where none does."""
    stack: Int32
    """The holder's, in `Capture.stacks`; NO_NODE where it is not known."""
    how: UInt8


@dataclass(frozen=True)
class AllParts:
    """Those of all threads."""

    table: Parts
    waited_ns: int
    late_ns: int
    threads_left_out: int


def parts_of(blame: Blame) -> AllParts:
    """All waits for somebody, of the threads that wait longest."""
    waiting = [(thread, rows) for thread in blame.threads if len(rows := _waits(blame, thread))]
    weight = blame.capture.samples.weight
    waiting.sort(key=lambda pair: -int(weight[pair[1]].sum()))
    tables, waited, late = [], 0, 0
    for thread, rows in waiting[:MOST_THREADS]:
        waits = _table(blame, rows)
        table, unready = _of_thread(blame, thread, waits)
        tables.append(table)
        waited += int((waits.end_ns - waits.start_ns).sum())
        late += unready
    return AllParts(Parts.empty().joined(*tables), waited, late, max(len(waiting) - MOST_THREADS, 0))


def _waits(blame: Blame, thread: Doing) -> Int64:
    """The rows of a thread's waits that are for somebody."""
    capture, rows = blame.capture, thread.waited
    samples = capture.samples
    idle = np.array([event.name == IDLE_EVENT for event in capture.events], np.bool_)[samples.event[rows]]
    ready = samples.wait[rows] & READY > 0 if samples.wait is not None else np.zeros(len(rows), np.bool_)
    rows = rows[BLAMED[blame.attribution.leaf[rows]] & ~idle & ~ready]
    if len(rows) > MOST_WAITS:
        rows = np.sort(rows[np.argsort(-samples.weight[rows], kind="stable")[:MOST_WAITS]])
    return rows


def _table(blame: Blame, rows: Int64) -> Waits:
    """In order of time, without overlap."""
    samples = blame.capture.samples
    start, end = samples.time_ns[rows], samples.time_ns[rows] + samples.weight[rows]
    # A forged recording may let a thread wait twice at once.
    start[1:] = np.maximum(start[1:], np.maximum.accumulate(end)[:-1])
    kept = end > start
    return Waits(start[kept], end[kept], rows[kept].astype(np.int32))


def _of_thread(blame: Blame, thread: Doing, waits: Waits) -> tuple[Parts, int]:
    """A thread's waits by holder, and for how long it was ready meanwhile."""
    leaf = blame.attribution.leaf[waits.sample]
    ended = (
        blame.wakers.ending(blame.capture.samples.tid[waits.sample], waits, blame.attribution)
        if blame.wakers is not None
        else np.full(len(waits), -1, np.int64)
    )
    woken = blame.wakers.table.time_ns[np.maximum(ended, 0)] if blame.wakers and (ended >= 0).any() else waits.end_ns
    end = np.where(ended >= 0, np.clip(woken, waits.start_ns, waits.end_ns), waits.end_ns)
    late = int((waits.end_ns - end).sum())
    awaits = AWAITED[leaf]
    charged = blame.charge(thread.pid, thread.tid, waits.take(awaits))
    place = np.searchsorted(waits.start_ns, charged.start_ns, "right") - 1
    taken = np.zeros(len(waits), np.int64)
    np.add.at(taken, place, charged.ns)
    left = np.maximum(end - waits.start_ns - taken, 0)
    rows = np.flatnonzero(left > 0)
    rest = _unexplained(blame, thread, waits.take(rows), ended[rows], left[rows])
    return _explained(blame, waits, charged, place).joined(rest), late


def _explained(blame: Blame, waits: Waits, charged: Charged, place: Int64) -> Parts:
    samples = blame.capture.samples
    return Parts.of(
        len(charged),
        wait=waits.sample[place],
        start_ns=charged.start_ns,
        ns=charged.ns,
        kind=_KIND[HolderKind.THREAD],
        pid=samples.pid[charged.sample],
        tid=samples.tid[charged.sample],
        sample=charged.sample,
        stack=samples.stack[charged.sample],
        how=charged.how,
    )


def _unexplained(blame: Blame, thread: Doing, waits: Waits, ended: Int64, left: Int64) -> Parts:
    """What no thread's samples explain: by who ended the wait, else by its kind."""
    count = len(waits)
    kind = np.full(count, _KIND[HolderKind.UNKNOWN], np.uint8)
    pid, tid, stack = np.zeros(count, np.int32), np.zeros(count, np.int32), np.full(count, NO_NODE, np.int32)
    how = np.full(count, HolderCertainty.KIND, np.uint8)
    if blame.wakers is not None:
        kind[:] = _KIND[HolderKind.OUTSIDE if blame.wakers.recorded else HolderKind.UNKNOWN]
        for rows, which, party in _ended_by(blame, thread, ended):
            by_exit = blame.wakers.table.context[ended[rows]] == BY_EXIT
            kind[rows], how[rows] = _KIND[which], np.where(by_exit, HolderCertainty.JOIN, HolderCertainty.WAKER)
            if party:
                table = blame.wakers.table
                pid[rows], tid[rows] = table.pid[ended[rows]], table.tid[ended[rows]]
                stack[rows] = table.stack[ended[rows]]
    leaf = blame.attribution.leaf[waits.sample]
    for number, which in _BY_KIND.items():
        mine = leaf == number
        kind[mine], how[mine] = _KIND[which], HolderCertainty.KIND
        pid[mine], tid[mine], stack[mine] = 0, 0, NO_NODE
    return Parts.of(
        count, wait=waits.sample, start_ns=waits.start_ns, ns=left, kind=kind, pid=pid, tid=tid, sample=-1,
        stack=stack, how=how,
    )  # fmt: skip


def _ended_by(blame: Blame, thread: Doing, ended: Int64) -> Iterator[tuple[Int64, HolderKind, bool]]:
    """Rows by who ended them, and whether process, thread and stack of that one are known."""
    assert blame.wakers is not None
    rows = np.flatnonzero(ended >= 0)
    if not len(rows):
        return
    table = blame.wakers.table.take(ended[rows])
    by_interrupt: Bool = table.context == BY_INTERRUPT
    mine = np.array(
        [
            pair in blame.place and pair != (thread.pid, thread.tid)
            for pair in zip(table.pid.tolist(), table.tid.tolist(), strict=True)
        ],
        np.bool_,
    )
    yield rows[by_interrupt], HolderKind.KERNEL, False
    yield rows[~by_interrupt & mine], HolderKind.THREAD, True
    other = ~by_interrupt & ~mine & (table.pid > 0)
    # A thread of the kernel has no stack in a program.
    known = table.stack != NO_NODE
    yield rows[other & (known | (table.tid < 0))], HolderKind.PROCESS, True
    yield rows[other & ~known & (table.tid >= 0)], HolderKind.KERNEL, True
    yield rows[~by_interrupt & ~mine & ~other], HolderKind.KERNEL, False
