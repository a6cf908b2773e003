"""Who ended a wait, where wake-ups were recorded.

The first wake-up of a thread after it left the processor ends its wait. A wait for a lock with a time limit, such as
Python's for its interpreter, ends by a timer again and again: whoever ends the last of them was awaited in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.blame.waits import Waits
from pinprof.columns import Int64, pack
from pinprof.model import BY_INTERRUPT, CONTINUED, Capture, WakeupTable

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
    begins: dict[int, Int64]
    """Thread → when its waits began."""

    @classmethod
    def of(cls, capture: Capture) -> Self | None:
        """None where no wake-ups were recorded."""
        wakeups, samples = capture.wakeups, capture.samples
        if wakeups is None:
            return None
        times = np.unique(wakeups.time_ns)
        key = pack(wakeups.woken, np.searchsorted(times, wakeups.time_ns))
        order = np.argsort(key, kind="stable")
        spans = np.array([event.spans for event in capture.events], np.bool_)[samples.event]
        if samples.wait is not None:
            spans = spans & (samples.wait & CONTINUED == 0)
        rows = np.flatnonzero(spans)
        rows = rows[np.lexsort((samples.time_ns[rows], samples.tid[rows]))]
        tids, first = np.unique(samples.tid[rows], return_index=True)
        parts = np.split(samples.time_ns[rows], first[1:]) if len(tids) else []
        begins = dict(zip(tids.tolist(), parts, strict=True))
        return cls(wakeups.take(order), key[order], times, begins)

    def ending(self, tid: int, waits: Waits, attribution: Attribution) -> Int64:
        """Per wait of a thread the row of `table` that ended it, NOBODY where none did."""
        woken = np.full(len(waits), tid, np.int32)
        at = np.searchsorted(self.key, pack(woken, np.searchsorted(self.times, waits.start_ns)))
        row = np.minimum(at, len(self.key) - 1)
        if not len(self.key):
            return np.full(len(waits), NOBODY, np.int64)
        begins = self.begins.get(tid, np.zeros(0, np.int64))
        following = np.append(begins, np.iinfo(np.int64).max)[np.searchsorted(begins, waits.start_ns, "right")]
        mine = (at < len(self.key)) & (self.table.woken[row] == tid) & (self.table.time_ns[row] < following)
        found = np.where(mine, row, NOBODY)
        return self._gone_on_with(waits, found, attribution)

    def _gone_on_with(self, waits: Waits, found: Int64, attribution: Attribution) -> Int64:
        """The same, with the waker of the last one for waits for a lock that timers ended."""
        known = found >= 0
        timer = ~known | (self.table.context[np.maximum(found, 0)] == BY_INTERRUPT)
        lock = attribution.leaf[waits.sample] == LEAF["wait.lock"]
        again = np.zeros(len(waits), np.bool_)
        again[:-1] = lock[:-1] & lock[1:] & (waits.start_ns[1:] - waits.end_ns[:-1] <= _AGAIN_NS) & timer[:-1]
        # The first wait at or after each that is not gone on with.
        last = np.where(again, len(waits), np.arange(len(waits)))
        last = np.minimum.accumulate(last[::-1])[::-1]
        return np.asarray(found[last]) if len(waits) else found
