"""Who a thread waited for, where nothing recorded who ended its waits.

The thread that was busy for most of a wait, and at its end, is the likely one: the wait is charged to what that thread
did meanwhile, the rest to the next such thread. Where no thread was, those that did something share. Busy is running on
a processor, or waiting for a disk, the kernel, a driver or the GPU: not for work, and not for a set time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.blame.timelines import Doing, ThreadPieces
from pinprof.analyze.blame.waits import Charged, HolderCertainty, Waits, inside, overlaps
from pinprof.analyze.intervals import Intervals
from pinprof.base.columns import Int64, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Capture, clock_event

MOST = 0.5
"""A thread that was busy for this part of a wait is the one that was awaited."""

ROUNDS = 2
"""What one thread does not cover of a wait may be another's: a worker, and then the thread that hands its result on."""


@dataclass(frozen=True)
class _Busy:
    pid: int
    pieces: ThreadPieces

    @property
    def time(self) -> Intervals:
        return self.pieces.time


def inferred(
    capture: Capture, attribution: Attribution, pid: int, tid: int, waits: Waits, threads: Sequence[Doing]
) -> Charged:
    """Charge waits of one thread to what the likely threads did, at most its length of each wait."""
    if not len(waits):
        return Charged.empty()
    busy = list(_candidates(pid, tid, waits, threads))
    parts, period = [], _period_ns(capture)
    for _ in range(ROUNDS):
        if not len(waits):
            break
        awaited = _awaited(attribution, pid, waits, busy, period)
        left = [waits.take(np.flatnonzero(awaited < 0))]
        for number in ascending(awaited[awaited >= 0]).tolist():
            rows = np.flatnonzero(awaited == number)
            parts.append(overlaps(waits, rows, np.ones(len(rows)), busy[number].pieces, HolderCertainty.BUSY))
            left.append(_left(waits.take(rows), busy[number].time))
        waits = Waits.empty().joined(*left)
        waits = waits.take(np.argsort(waits.start_ns, kind="stable"))
    return Charged.empty().joined(*parts, *_shared(attribution, pid, waits, busy))


def _candidates(pid: int, tid: int, waits: Waits, threads: Sequence[Doing]) -> Iterator[_Busy]:
    """The other threads of the program that did something while this one waited."""
    for thread in threads:
        if (thread.pid, thread.tid) == (pid, tid) or (pieces := thread.busy) is None:
            continue
        if pieces.time.end[-1] > waits.start_ns[0] and pieces.time.start[0] < waits.end_ns[-1]:
            yield _Busy(thread.pid, pieces)


def _awaited(attribution: Attribution, pid: int, waits: Waits, threads: Sequence[_Busy], period: int) -> Int64:
    """Per wait the thread that was busy for most of it, preferably at its end; -1 where none was."""
    best, awaited = np.zeros(len(waits), np.float64), np.full(len(waits), -1, np.int64)
    for number, busy in enumerate(threads):
        rows = _waits_for(attribution, pid, waits, busy)
        if not len(rows):
            continue
        start, end = waits.start_ns[rows], waits.end_ns[rows]
        share = busy.time.covered(start, end) / (end - start)
        rows, start, end, share = (column[share >= MOST] for column in (rows, start, end, share))
        score = share + (busy.time.covered(np.maximum(start, end - period), end) > 0)
        better = score > best[rows]
        best[rows[better]], awaited[rows[better]] = score[better], number
    return awaited


def _shared(attribution: Attribution, pid: int, waits: Waits, threads: Sequence[_Busy]) -> Iterator[Charged]:
    """What is left, shared by all threads in proportion to what they did."""
    total = np.zeros(len(waits), np.int64)
    shared = []
    for busy in threads if len(waits) else ():
        rows = _waits_for(attribution, pid, waits, busy)
        covered = busy.time.covered(waits.start_ns[rows], waits.end_ns[rows])
        total[rows] += covered
        if covered.any():
            shared.append((busy, rows[covered > 0]))
    part = np.minimum(1.0, (waits.end_ns - waits.start_ns) / np.maximum(total, 1))
    for busy, rows in shared:
        yield overlaps(waits, rows, part[rows], busy.pieces, HolderCertainty.SHARED)


def _period_ns(capture: Capture) -> int:
    weight = capture.samples.weight[capture.samples.event == clock_event(capture.events)]
    return int(np.median(weight)) if len(weight) else 1


def _waits_for(attribution: Attribution, pid: int, waits: Waits, busy: _Busy) -> Int64:
    """The waits during a thread's life that may be for it: children are processes, an address space is a process's."""
    low = int(np.searchsorted(waits.end_ns, busy.time.start[0], "right"))
    high = int(np.searchsorted(waits.start_ns, busy.time.end[-1], "left"))
    rows = np.arange(low, high)
    never = LEAF["wait.child"] if busy.pid == pid else LEAF["wait.mmap_lock"]
    return np.asarray(rows[attribution.leaf[waits.sample[rows]] != never])


def _left(waits: Waits, time: Intervals) -> Waits:
    """What is left of waits outside a set of time."""
    place, piece = inside(waits, time)
    row = np.append(np.arange(len(waits)), place)
    start = np.append(waits.start_ns, time.end[piece])
    end = np.append(waits.end_ns, time.start[piece])
    # The nth gap of a wait lies between its nth start and its nth end.
    row, start, end = np.sort(row), start[np.lexsort((start, row))], end[np.lexsort((end, row))]
    kept = end > start
    return Waits(start[kept], end[kept], waits.sample[row[kept]])
