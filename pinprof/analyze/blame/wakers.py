"""Who ended a wait, where wake-ups were recorded.

The first wake-up of a thread after it left the processor ends its wait. A wait for a lock with a time limit, such as
Python's for its interpreter, ends by a timer repeatedly: whoever ends the last of them was awaited in all.

The kernel wakes whoever joins a thread when that thread ends, and may have stopped recording it by then. So a wait
inside a join that nobody is known to have ended is ended by the last thread of its process that ended meanwhile.
"""

from __future__ import annotations

import re
from typing import Self

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.blame.waits import Waits
from pinprof.base.columns import Int32, Int64, ascending, pack, unpack
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import BY_EXIT, BY_INTERRUPT, CONTINUED, NO_NODE, Capture, ExitTable, WakeupTable

_JOINS = re.compile(r"_*pthread_(timed|clock)?join\w*|thrd_join|std::thread::join(\(\))?")
"""Functions that wait until a thread ends: of glibc and musl, C11 and libstdc++."""
_AGAIN_NS = 1_000_000
"""A wait that begins sooner after the one before is the same, gone on with."""
NOBODY = -1


@dataclass(frozen=True)
class Wakers:
    """The wake-ups of a capture, by woken thread and time."""

    table: WakeupTable
    """In that order."""
    key: Int64
    """The woken thread and the place of its wake-up's time among all, packed."""
    times: Int64
    """All times, ascending."""
    begin: Int64
    """The thread of each wait, packed with the place in `begins_ns` of the time at which it began, in that order."""
    begins_ns: Int64
    """When any wait began, ascending."""
    recorded: bool
    """Whether the kernel recorded wake-ups, or only ends of threads are known."""

    @classmethod
    def of(cls, capture: Capture) -> Self | None:
        """None where neither wake-ups were recorded nor a thread ended that another one joined."""
        samples = capture.samples
        spans = capture.spans[samples.event]
        joins = _joins(capture, np.flatnonzero(spans))
        if capture.wakeups is None and not len(joins):
            return None
        wakeups = WakeupTable.empty() if capture.wakeups is None else capture.wakeups
        wakeups = wakeups.joined(joins)
        times = ascending(wakeups.time_ns)
        key = pack(wakeups.woken, np.searchsorted(times, wakeups.time_ns))
        order = np.argsort(key, kind="stable")
        if samples.wait is not None:
            spans = spans & (samples.wait & CONTINUED == 0)
        rows = np.flatnonzero(spans)
        begins = ascending(samples.time_ns[rows])
        begin = np.sort(pack(samples.tid[rows], np.searchsorted(begins, samples.time_ns[rows])))
        return cls(wakeups.take(order), key[order], times, begin, begins, capture.wakeups is not None)

    def ending(self, tid: Int32, waits: Waits, attribution: Attribution) -> Int64:
        """Per wait the row of `table` that ended it, NOBODY where none did; `tid`: whose wait it is."""
        if not len(self.key):
            return np.full(len(waits), NOBODY, np.int64)
        at = np.searchsorted(self.key, pack(tid, np.searchsorted(self.times, waits.start_ns)))
        row = np.minimum(at, len(self.key) - 1)
        mine = (at < len(self.key)) & (self.table.woken[row] == tid)
        mine &= self.table.time_ns[row] < self._next(tid, waits)
        found = np.where(mine, row, NOBODY)
        by_thread = np.lexsort((waits.start_ns, tid))
        found[by_thread] = self._gone_on_with(tid[by_thread], waits.take(by_thread), found[by_thread], attribution)
        return found

    def _next(self, tid: Int32, waits: Waits) -> Int64:
        """Per wait when its thread's next one begins; later than everything where there is none."""
        never = np.iinfo(np.int64).max
        if not len(self.begin):
            return np.full(len(waits), never)
        at = np.searchsorted(self.begin, pack(tid, np.searchsorted(self.begins_ns, waits.start_ns, "right")))
        whose, place = unpack(self.begin[np.minimum(at, len(self.begin) - 1)])
        return np.where((at < len(self.begin)) & (whose == tid), self.begins_ns[place], never)

    def _gone_on_with(self, tid: Int32, waits: Waits, found: Int64, attribution: Attribution) -> Int64:
        """The same, with the waker of the last one for waits for a lock that timers ended; each thread's in order."""
        if not self.recorded:
            return found
        known = found >= 0
        timer = ~known | (self.table.context[np.maximum(found, 0)] == BY_INTERRUPT)
        lock = attribution.leaf[waits.sample] == LEAF["wait.lock"]
        again = np.zeros(len(waits), np.bool_)
        again[:-1] = lock[:-1] & lock[1:] & (waits.start_ns[1:] - waits.end_ns[:-1] <= _AGAIN_NS) & timer[:-1]
        again[:-1] &= tid[1:] == tid[:-1]
        # The first wait at or after each that is not gone on with.
        last = np.where(again, len(waits), np.arange(len(waits)))
        last = np.minimum.accumulate(last[::-1])[::-1]
        return np.asarray(found[last]) if len(waits) else found


def _joins(capture: Capture, waits: Int64) -> WakeupTable:
    """Wake-ups by threads that ended, of those that joined them; `waits` are rows of the samples."""
    samples, exits = capture.samples, capture.exits
    waits = waits[capture.stacks.under(capture.stacks.frames.named(_JOINS))[samples.stack[waits]]]
    waits = waits[np.lexsort((samples.time_ns[waits], samples.tid[waits]))]
    if not len(waits) or not len(exits):
        return WakeupTable.empty()
    begins = np.append(True, np.diff(samples.tid[waits]) != 0)
    if samples.wait is not None:
        # Ranges cut a wait in pieces.
        begins |= samples.wait[waits] & CONTINUED == 0
    first = np.flatnonzero(begins)
    end = np.maximum.reduceat(samples.time_ns[waits] + samples.weight[waits], first)
    waits = waits[first]
    ended = _last_ended(exits, samples.pid[waits].astype(np.int64), end)
    found = np.maximum(ended, 0)
    kept = (ended >= 0) & (exits.time_ns[found] > samples.time_ns[waits])
    waits, found = waits[kept], found[kept]
    return WakeupTable.of(
        len(waits), time_ns=exits.time_ns[found], pid=exits.pid[found], tid=exits.tid[found],
        woken=samples.tid[waits], context=BY_EXIT, stack=NO_NODE,
    )  # fmt: skip


def _last_ended(exits: ExitTable, pid: Int64, end_ns: Int64) -> Int64:
    """Per wait the row of the last thread of its process that ended before it did, NOBODY where none did."""
    last = np.full(len(pid), NOBODY, np.int64)
    for process in ascending(pid).tolist():
        rows, mine = np.flatnonzero(exits.pid == process), pid == process
        place = np.searchsorted(exits.time_ns[rows], end_ns[mine], "right")
        last[mine] = np.append(NOBODY, rows)[place]
    return last
