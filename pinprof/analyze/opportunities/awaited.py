"""What the threads did that the critical thread waited for.

Nothing records who ends a wait. The thread that was busy for most of it, and at its end, is the likely one: the wait is
charged to what that thread did meanwhile, the rest to the next such thread. Where no thread was, those that did
something share. Busy is running on a
processor, or waiting for a disk, the kernel, a driver or the GPU: not for work, and not for a set time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF
from pinprof.analyze.groups import group
from pinprof.analyze.idle import IDLE_EVENT
from pinprof.analyze.intervals import Intervals, numbers, union
from pinprof.analyze.opportunities.critical import Critical
from pinprof.columns import Float64, Int32, Int64, Table, pack
from pinprof.model import Capture, clock_event

MOST = 0.5
"""A thread that was busy for this part of a wait is the one that was awaited."""

ROUNDS = 2
"""What one thread does not cover of a wait may be another's: a worker, and then the thread that hands its result on."""

_BUSY_WAIT = np.isin(
    [row.name for row in CATEGORIES],
    [
        "wait.disk", "wait.gpu", "wait.uvm", "wait.driver", "wait.kernel", "wait.reclaim", "wait.uffd",
        "wait.mmap_lock", "wait.runnable", "wait.exit",
    ],
)  # fmt: skip
_RUN_FACTOR, _RUN_SLACK_NS = 2, 20_000_000
"""A thread cannot have run for much longer than its samples say: else its waits were not all recorded."""


@dataclass(frozen=True, eq=False, repr=False)
class Waits(Table):
    """Waits of one thread, in order of time, without overlap."""

    start_ns: Int64
    end_ns: Int64
    sample: Int32
    """Row of `Capture.samples`."""


@dataclass(frozen=True, eq=False, repr=False)
class Charged(Table):
    """Time of waits, charged to samples of other threads."""

    start_ns: Int64
    """When it began, inside the wait."""
    ns: Int64
    sample: Int32


@dataclass(frozen=True)
class _Busy:
    """What one thread did: pieces in order of time, without overlap."""

    pid: int
    time: Intervals
    sample: Int64


def charge(capture: Capture, attribution: Attribution, critical: Critical, waits: Waits) -> Charged:
    """Charge waits to what the awaited threads did, at most its length of each wait."""
    if not len(waits):
        return Charged.empty()
    threads = list(_threads(capture, attribution, critical, waits))
    parts, period = [], _period_ns(capture)
    for _ in range(ROUNDS):
        awaited = _awaited(attribution, critical, waits, threads, period)
        left = [waits.take(np.flatnonzero(awaited < 0))]
        for number in np.unique(awaited[awaited >= 0]).tolist():
            rows = np.flatnonzero(awaited == number)
            parts.append(_overlaps(waits, rows, np.ones(len(rows)), threads[number]))
            left.append(_left(waits.take(rows), threads[number].time))
        waits = Waits.empty().joined(*left)
        waits = waits.take(np.argsort(waits.start_ns, kind="stable"))
    return Charged.empty().joined(*parts, *_shared(attribution, critical, waits, threads))


def _awaited(
    attribution: Attribution, critical: Critical, waits: Waits, threads: Sequence[_Busy], period: int
) -> Int64:
    """Per wait the thread that was busy for most of it, preferably at its end; -1 where none was."""
    best, awaited = np.zeros(len(waits), np.float64), np.full(len(waits), -1, np.int64)
    for number, busy in enumerate(threads):
        rows = _waits_for(attribution, critical, waits, busy)
        start, end = waits.start_ns[rows], waits.end_ns[rows]
        share = busy.time.covered(start, end) / (end - start)
        at_end = busy.time.covered(np.maximum(start, end - period), end) > 0
        score = np.where(share >= MOST, share + at_end, 0)
        better = score > best[rows]
        best[rows[better]], awaited[rows[better]] = score[better], number
    return awaited


def _shared(attribution: Attribution, critical: Critical, waits: Waits, threads: Sequence[_Busy]) -> Iterator[Charged]:
    """What is left, shared by all threads in proportion to what they did."""
    total = np.zeros(len(waits), np.int64)
    for busy in threads:
        rows = _waits_for(attribution, critical, waits, busy)
        total[rows] += busy.time.covered(waits.start_ns[rows], waits.end_ns[rows])
    part = np.minimum(1.0, (waits.end_ns - waits.start_ns) / np.maximum(total, 1))
    for busy in threads:
        rows = _waits_for(attribution, critical, waits, busy)
        yield _overlaps(waits, rows, part[rows], busy)


def _period_ns(capture: Capture) -> int:
    weight = capture.samples.weight[capture.samples.event == clock_event(capture.events)]
    return int(np.median(weight)) if len(weight) else 1


def _waits_for(attribution: Attribution, critical: Critical, waits: Waits, busy: _Busy) -> Int64:
    """The waits during a thread's life that may be for it: children are processes, an address space is a process's."""
    low = int(np.searchsorted(waits.end_ns, busy.time.start[0], "right"))
    high = int(np.searchsorted(waits.start_ns, busy.time.end[-1], "left"))
    rows = np.arange(low, high)
    never = LEAF["wait.child"] if busy.pid == critical.pid else LEAF["wait.mmap_lock"]
    return np.asarray(rows[attribution.leaf[waits.sample[rows]] != never])


def _inside(waits: Waits, time: Intervals) -> tuple[Int64, Int64]:
    """(wait, interval) of all that overlap."""
    first = np.searchsorted(time.end, waits.start_ns, "right")
    last = np.searchsorted(time.start, waits.end_ns, "left")
    return numbers(first.astype(np.int64), last.astype(np.int64))


def _left(waits: Waits, time: Intervals) -> Waits:
    """What is left of waits outside a set of time."""
    place, piece = _inside(waits, time)
    row = np.append(np.arange(len(waits)), place)
    start = np.append(waits.start_ns, time.end[piece])
    end = np.append(waits.end_ns, time.start[piece])
    # The nth gap of a wait lies between its nth start and its nth end.
    row, start, end = np.sort(row), start[np.lexsort((start, row))], end[np.lexsort((end, row))]
    kept = end > start
    return Waits(start[kept], end[kept], waits.sample[row[kept]])


def _overlaps(waits: Waits, rows: Int64, shared: Float64, busy: _Busy) -> Charged:
    """The time of waits in which a thread was busy, by its sample."""
    place, piece = _inside(waits.take(rows), busy.time)
    if not len(place):
        return Charged.empty()
    start = np.maximum(busy.time.start[piece], waits.start_ns[rows][place])
    overlap = np.minimum(busy.time.end[piece], waits.end_ns[rows][place]) - start
    cells = group(place, busy.sample[piece])
    ns = (cells.sum(overlap) * shared[cells.keys[0]]).astype(np.int64)
    kept = ns > 0
    return Charged(cells.min(start)[kept], ns[kept], cells.keys[1][kept].astype(np.int32))


def _threads(capture: Capture, attribution: Attribution, critical: Critical, waits: Waits) -> Iterator[_Busy]:
    """The other threads of the program that did something while the critical one waited."""
    samples = capture.samples
    clock = clock_event(capture.events)
    spans = np.array([event.spans for event in capture.events], np.bool_)[samples.event]
    idle = np.array([event.name == IDLE_EVENT for event in capture.events], np.bool_)[samples.event]
    used = (spans | (samples.event == clock)) & (samples.weight > 0) & np.isin(samples.pid, critical.pids)
    used &= (samples.pid != critical.pid) | (samples.tid != critical.tid)
    rows = np.flatnonzero(used)
    key = pack(samples.pid[rows], samples.tid[rows])
    rows = rows[np.argsort(key, kind="stable")]
    bounds = np.flatnonzero(np.diff(np.sort(key))) + 1
    for mine in np.split(rows, bounds):
        if not len(mine):
            continue
        waiting = spans[mine]
        explains = waiting & _BUSY_WAIT[attribution.leaf[mine]] & ~idle[mine]
        busy = _busy(capture, mine[~waiting], mine[waiting], mine[explains])
        if busy is not None and busy.time.end[-1] > waits.start_ns[0] and busy.time.start[0] < waits.end_ns[-1]:
            yield busy


def _busy(capture: Capture, ran: Int64, waited: Int64, explaining: Int64) -> _Busy | None:
    """One thread's busy pieces: between its waits it runs, and each sample stands for the time since the one before."""
    samples = capture.samples
    time, weight = samples.time_ns, samples.weight
    start, end, owner = np.maximum(time[ran] - weight[ran], np.append(-(1 << 62), time[ran][:-1])), time[ran], ran
    if len(waited) and len(ran):
        off = union(time[waited], time[waited] + weight[waited])
        first = min(int(start[0]), int(off.start[0]))
        gaps = Intervals(np.append(first, off.end), np.append(off.start, max(int(time[ran[-1]]), int(off.end[-1]))))
        running = union(gaps.start, gaps.end)
        if running.total <= _RUN_FACTOR * int(weight[ran].sum()) + _RUN_SLACK_NS:
            start, end, owner = _between_samples(running, time[ran], ran)
    start, end = np.append(start, time[explaining]), np.append(end, time[explaining] + weight[explaining])
    owner = np.append(owner, explaining)
    order = np.argsort(start, kind="stable")
    start, end, owner = start[order], end[order], owner[order]
    end[:-1] = np.minimum(end[:-1], start[1:])
    kept = end > start
    if not kept.any():
        return None
    pid = int(samples.pid[owner[0]])
    return _Busy(pid, Intervals(start[kept], end[kept]), owner[kept])


def _between_samples(running: Intervals, time: Int64, ran: Int64) -> tuple[Int64, Int64, Int64]:
    """Running time cut at the samples; what follows the last one is its own."""
    low = np.searchsorted(time, running.start, "right").astype(np.int64)
    high = np.searchsorted(time, running.end, "left").astype(np.int64)
    piece, cut = numbers(low, high)
    start = np.append(running.start, time[cut])
    place = np.append(np.arange(len(running)), piece)
    order = np.argsort(start, kind="stable")
    start, place = start[order], place[order]
    end = np.minimum(running.end[place], np.append(start[1:], np.iinfo(np.int64).max))
    return start, end, ran[np.minimum(np.searchsorted(time, start, "right"), len(ran) - 1)]
