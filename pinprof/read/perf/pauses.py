"""What pauses of sampling hide, made good from records of switches (collect/native/switching.py).

In a pause, threads have no samples of time and no stacks of waits, but each time that one leaves a processor or comes
back is recorded. So it is known how long each thread ran in a pause, and how long each of its waits was:

    time on a processor     goes to the thread's next samples of time, those of one window alike
    short waits             are joined to one, with the stack of the thread's next wait that has one
    long waits              stay waits of their own, with the stack that was copied meanwhile (standing.py), if any

So the sums of a thread are what they would be without pauses. What a thread without any sample of time ran is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Table, ascending, pairs_of, uniform, unpack
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int64, UInt8
from pinprof.read.perf.chains import NO_CHAIN
from pinprof.read.perf.off_cpu import IN, OUT, PREEMPTED, Switches, ThreadSwitches, places
from pinprof.read.perf.samples import RawSamples

LONG_NS = 4_000_000
"""A wait of this length has its own row, unless thinning joins longer ones."""
_EVER_NS = 1 << 62


@dataclass(frozen=True, eq=False, repr=False)
class Pauses(Table):
    """One row per pause, ascending and apart."""

    begin_ns: Int64
    end_ns: Int64

    @classmethod
    def between(cls, turns: Iterable[tuple[int, bool]]) -> Self:
        """From (time, whether sampling is paused from then on), in any order; the first pause may have begun before."""
        begin, end = list[int](), list[int]()
        for time, pause in sorted(turns):
            if not pause and not begin:
                begin.append(0)
            if pause and len(begin) == len(end):
                begin.append(time)
            elif not pause and len(begin) > len(end):
                end.append(time)
        end += [_EVER_NS] * (len(begin) - len(end))
        return cls.of(len(begin), begin_ns=begin, end_ns=end)

    def before(self, time_ns: Int64) -> Int64:
        """How much of the time before each moment lies in pauses, in nanoseconds."""
        whole = np.append(0, np.cumsum(self.end_ns - self.begin_ns))
        place = np.searchsorted(self.begin_ns, time_ns, side="right") - 1
        started = place >= 0
        last = np.minimum(time_ns, self.end_ns[place]) - self.begin_ns[place]
        return np.where(started, whole[place] + last, 0)


@dataclass(frozen=True)
class Filled:
    """Samples and switches as if nothing had been paused."""

    samples: RawSamples
    """Waits in pauses follow those that were recorded."""
    kept: Bool
    """Per recorded sample whether it is among them: all but those of copied stacks."""
    switches: Switches
    paused_ns: int
    """Between the first switch and the last."""
    unsampled_ns: int
    """What threads ran of which there is no sample of time."""


def filled(
    samples: RawSamples,
    switches: Switches,
    pauses: Pauses,
    exits: Mapping[tuple[int, int], int],
    *,
    clocks: Sequence[int],
    waits: Sequence[int],
    joined_ns: int = 0,
) -> Filled:
    """Give samples what pauses hide; `clocks` and `waits` are the events of time and of switches, by number.

    `joined_ns`: how long waits are until thinning, which joins them, keeps one.
    """
    if not len(pauses) or not len(switches) or not len(waits):
        return Filled(samples, uniform(True, len(samples), np.bool_), switches, 0, 0)
    first, last = int(switches.time_ns.min()), max(int(switches.time_ns.max()), int(samples.clock.max(initial=0)))
    threads = ThreadSwitches.of(switches, samples.pid, samples.tid)
    until = _until(threads, exits, last)
    timed, waited = (np.flatnonzero(np.isin(samples.source, sources)) for sources in (clocks, waits))
    samples, unsampled = _with_time(samples, threads, pauses, until, timed)
    # Those that thinning joins are less than twice as long together.
    least_ns = max(LONG_NS, 2 * joined_ns)
    samples, kept, switches = _with_waits(samples, threads, until, waited, waits[0], least_ns)
    span = pauses.before(np.array([first, last]))
    return Filled(samples, kept, switches, int(span[1] - span[0]), unsampled)


def _until(threads: ThreadSwitches, exits: Mapping[tuple[int, int], int], last_ns: int) -> Int64:
    """Per record when what it began ended: at its thread's next one, with the thread, or with the recording."""
    ends = np.flatnonzero(np.append(threads.known[1:] != threads.known[:-1], True))
    until = np.append(threads.time_ns[1:], last_ns)
    gone = [exits.get(pair, last_ns) for pair in pairs_of(threads.keys[threads.known[ends]])]
    until[ends] = np.maximum(gone, threads.time_ns[ends])
    return until


def _with_time(
    samples: RawSamples, threads: ThreadSwitches, pauses: Pauses, until: Int64, rows: Int64
) -> tuple[RawSamples, int]:
    """Samples of time (`rows`) with what their threads ran in pauses; what threads without any ran."""
    ran = np.where(threads.way == IN, pauses.before(until) - pauses.before(threads.time_ns), 0)
    # What each thread ran in pauses before a record, by all threads' sum.
    before = np.append(0, np.cumsum(ran))
    thread, clock = threads.of_samples[rows], samples.clock[rows]
    order = np.lexsort((clock, thread))
    rows, thread, clock = rows[order], thread[order], clock[order]
    begins = np.searchsorted(threads.known, np.arange(len(threads.keys)))
    ends = np.searchsorted(threads.known, np.arange(len(threads.keys)), side="right")
    place = threads.last_at(thread, clock)
    there = np.maximum(place, 0)
    on = (place >= begins[thread]) & (threads.way[there] == IN)
    so_far = before[np.maximum(place, begins[thread])] - before[begins[thread]]
    so_far += np.where(on, pauses.before(clock) - pauses.before(threads.time_ns[there]), 0)
    new = np.append(True, thread[1:] != thread[:-1]) if len(rows) else np.zeros(0, np.bool_)
    more = so_far - np.where(new, 0, np.append(0, so_far[:-1])[: len(rows)])
    total = before[ends] - before[begins]
    final = np.append(new[1:], True) if len(rows) else new
    more[final] += total[thread[final]] - so_far[final]
    period = samples.period.copy()
    window = np.searchsorted(pauses.begin_ns, clock)
    period[rows] += _evenly(np.maximum(more, 0), np.append(True, new[1:] | (window[1:] != window[:-1]))[: len(rows)])
    unsampled = total.sum() - total[ascending(thread)].sum()
    return replace(samples, period=period), int(unsampled)


def _evenly(values: Int64, first: Bool) -> Int64:
    """Each group's sum, in as even parts as can be; `first` marks where groups begin."""
    if not len(values):
        return values
    begin = np.flatnonzero(first)
    count = np.diff(np.append(begin, len(values)))
    each, rest = np.divmod(np.add.reduceat(values, begin), count)
    return np.repeat(each, count) + (np.arange(len(values)) - np.repeat(begin, count) < np.repeat(rest, count))


def _with_waits(
    samples: RawSamples,
    threads: ThreadSwitches,
    until: Int64,
    rows: Int64,
    source: int,
    least_ns: int,
) -> tuple[RawSamples, Bool, Switches]:
    """The samples and those of waits in pauses, where `rows` are all other waits; which are kept; the switches of both.

    Waits shorter than `least_ns` are joined.
    """
    known, out = threads.known, threads.way != IN
    copied = _in_waits(threads, threads.of_samples[rows], samples.clock[rows])
    stack = np.full(len(known), NO_CHAIN, np.int32)
    stack[copied[copied >= 0]] = samples.chain[rows[copied >= 0]]
    kept = np.ones(len(samples), np.bool_)
    kept[rows[copied >= 0]] = False
    rows = rows[copied < 0]
    place = threads.first_at(threads.of_samples[rows], samples.clock[rows])
    sampled = np.zeros(len(known) + 1, np.bool_)
    sampled[place] = True
    # A record that is there twice, as around the turn to a pause, is no other wait.
    again = np.append(False, out[:-1] & (known[1:] == known[:-1]))
    # Some lie outside pauses: to switch the events of thousands of threads takes a while.
    alone = out & ~sampled[:-1] & ~again
    is_long = alone & (until - threads.time_ns >= least_ns)
    joined = _joined(threads, until, np.flatnonzero(alone & ~is_long), np.cumsum(sampled[:-1] | is_long))
    long = PausedWaits(known[is_long], threads.time_ns[is_long], until[is_long], threads.way[is_long])
    stacks = _Stacks.of(threads.of_samples[rows], np.append(threads.way, IN)[place], samples.clock[rows])
    both = joined.joined(long)
    chain = np.append(np.append(samples.chain[rows], NO_CHAIN)[stacks.next_of(joined)], stack[is_long])
    pid, tid = unpack(threads.keys[both.thread])
    unseen = RawSamples.of(
        len(both), clock=both.begin_ns, pid=pid, tid=tid, source=source, chain=chain, unchained=chain == NO_CHAIN
    )
    gone = alone & ~is_long
    gone |= np.append(False, gone[:-1] & ~out[1:] & (known[1:] == known[:-1]))
    switches = threads.table(~gone).joined(*joined.switches(threads.keys))
    return samples.take(kept).joined(unseen), kept, switches


def _in_waits(threads: ThreadSwitches, thread: NDArray[Any], time_ns: Int64) -> Int64:
    """Per sample of a wait the record of leaving behind which it was copied; -1 where it is from before its record."""
    place = threads.last_at(thread, time_ns)
    there = np.maximum(place, 0)
    behind = (threads.known[there] == thread) & (threads.way[there] != IN) & (time_ns > threads.time_ns[there])
    return np.where((place >= 0) & behind, place, -1)


@dataclass(frozen=True, eq=False, repr=False)
class PausedWaits(Table):
    """One row per wait."""

    thread: Int64
    """By place among the keys of `ThreadSwitches`."""
    begin_ns: Int64
    end_ns: Int64
    way: UInt8
    """How the thread left its processor."""

    def switches(self, keys: Int64) -> tuple[Switches, Switches]:
        """The records of leaving, and of coming back."""
        pid, tid = (column.astype(np.int32) for column in unpack(keys[self.thread]))
        back = np.full(len(self), IN, np.uint8)
        return Switches(self.begin_ns, pid, tid, self.way), Switches(self.end_ns, pid, tid, back)


def _joined(threads: ThreadSwitches, until: Int64, rows: Int64, apart: Int64) -> PausedWaits:
    """Short waits (`rows`), those of a thread with nothing between them as one, where the last of them ends.

    Those that could have run on come before the others. `apart` grows with every record that is something else.
    """
    if not len(rows):
        return PausedWaits.empty()
    thread, end, number = threads.known[rows], until[rows], apart[rows]
    begin = np.flatnonzero(np.append(True, (thread[1:] != thread[:-1]) | (number[1:] != number[:-1])))
    ready = threads.way[rows] == PREEMPTED
    length = end - threads.time_ns[rows]
    runnable, waited = (np.add.reduceat(np.where(mine, length, 0), begin) for mine in (ready, ~ready))
    thread, end = thread[begin], np.maximum.reduceat(end, begin)
    # The thread is back a nanosecond before it leaves again.
    middle = end - waited
    first, then = (np.full(len(begin), way, np.uint8) for way in (PREEMPTED, OUT))
    both = PausedWaits(thread, middle - 1 - runnable, middle - 1, first).joined(PausedWaits(thread, middle, end, then))
    return both.take(both.end_ns > both.begin_ns)


@dataclass(frozen=True)
class _Stacks:
    """Waits that have stacks, thread by thread and way by way, in the order of time."""

    key: Int64
    time_ns: Int64
    row: Int64

    @classmethod
    def of(cls, thread: NDArray[Any], way: UInt8, time_ns: Int64) -> Self:
        """Of waits in any order."""
        key = thread * 2 + (way == PREEMPTED)
        order = np.lexsort((time_ns, key))
        return cls(key[order], time_ns[order], order)

    def next_of(self, waits: PausedWaits) -> Int64:
        """Per wait the next one of its thread that has a stack and left in the same way, or else the last; or -1."""
        key = waits.thread * 2 + (waits.way == PREEMPTED)
        place = places(self.key, self.time_ns, key, waits.begin_ns, behind=True)
        known, row = np.append(self.key, -1), np.append(self.row, -1)
        place = np.where(known[place] == key, place, place - 1)
        return np.where(known[place] == key, row[place], -1)
