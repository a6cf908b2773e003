"""When a rank waits for others: its thread's waits that nothing in its own process explains, joined to whole ones.

A barrier is many short waits: a hub takes one message after the other, a wait is cut where ranges begin, and some
programs look at shared memory repeatedly and sleep between. What lies less than `GAP_NS` of a thread's own time
apart is one wait. Time in which the thread could have run, while the processor ran something else, is nobody's.
"""

from __future__ import annotations

import numpy as np

from pinprof.analyze.attribution.categories import LEAF
from pinprof.analyze.groups import group
from pinprof.analyze.intervals import Intervals
from pinprof.base.columns import Bool, Int32, Int64, Table, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.ranks.spent import Spent

GAP_NS = 300_000
POLL_NS = 5_000_000
"""A sleep is part of polling up to this length."""
_POLLS, _IN_A_ROW = 20, 3
"""The short sleeps that a place has at least that polls, and those that follow each other there on average."""


@dataclass(frozen=True)
class RankWaits(Table):
    """Waits of one thread, or collectives of one GPU, in order of time, without overlap."""

    start_ns: Int64
    end_ns: Int64
    place: Int32
    """Where the longest part of it waits, -1 where that is not known."""


def waits_for_others(spent: Spent, runnable: Intervals) -> RankWaits:
    """The waits of a rank's thread for what its own process does not do."""
    rows = np.flatnonzero(spent.outside | _polling(spent, runnable))
    if not len(rows):
        return RankWaits.empty()
    start, end = spent.start_ns[rows], np.maximum.accumulate(spent.end_ns[rows])
    whole = _joined(start, end, runnable, GAP_NS)
    first, last = np.flatnonzero(np.diff(whole, prepend=-1)), np.flatnonzero(np.diff(whole, append=whole[-1] + 1))
    return RankWaits(start[first], end[last], _longest(whole, spent.place[rows], spent.ns[rows]))


def _joined(start: Int64, end: Int64, runnable: Intervals, gap_ns: int) -> Int64:
    """Per piece the number of the wait that it is a part of; pieces are in order of time."""
    gap = np.maximum(start[1:] - end[:-1], 0)
    own = gap - runnable.covered(end[:-1], np.maximum(start[1:], end[:-1]))
    return np.append(0, np.cumsum(own > gap_ns)).astype(np.int64)


def _polling(spent: Spent, runnable: Intervals) -> Bool:
    """Which sleeps are those of a loop that looks whether others have come."""
    short = (spent.cause == LEAF["wait.sleep"]) & (spent.end_ns - spent.start_ns <= POLL_NS)
    result = np.zeros(len(spent), np.bool_)
    for place in ascending(spent.place[short]).tolist():
        rows = np.flatnonzero(short & (spent.place == place))
        if len(rows) < _POLLS:
            continue
        start, end = spent.start_ns[rows], np.maximum.accumulate(spent.end_ns[rows])
        runs = int(_joined(start, end, runnable, GAP_NS)[-1]) + 1
        result[rows] = len(rows) >= _IN_A_ROW * runs
    return result


def _longest(whole: Int64, place: Int32, ns: Int64) -> Int32:
    """Per wait the place with most of its time."""
    cells = group(whole, place.astype(np.int64) + 1)
    time = cells.sum(ns)
    order = np.lexsort((time, cells.keys[0]))
    last = np.flatnonzero(np.diff(cells.keys[0][order], append=-1))
    return (cells.keys[1][order][last] - 1).astype(np.int32)
