"""Calls that the agent summed in place, as calls: as many, of as many bytes and as long together, where they may lie.

A sum says when its first call began and its last one ended. Its calls are laid out evenly between these, one after
another among the other calls of the thread, each of the mean length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int64
from pinprof.read.by_thread import threads
from pinprof.read.inside.file import InsideFile
from pinprof.read.inside.layout import NOT_KNOWN, Kind

MOST_ROWS = 1 << 21
"""Calls of sums that are laid out by themselves; beyond these a row stands for several."""
_LATEST_NS = 1 << 61
_ROUNDS = 8
"""Most often none of them lies across another call after the first."""


@dataclass(frozen=True)
class Expanded:
    """A row for each call, by start."""

    record: Int64
    """The record that it is of, …"""
    summed: NDArray[np.bool_]
    """… and whether that is a sum."""
    begin_ns: Int64
    end_ns: Int64
    size_bytes: Int64
    """-1 where not known."""
    left_out: int
    """Calls that have no row of their own."""


def expanded(file: InsideFile) -> Expanded:
    """All calls of a process."""
    records = file.records
    sums = records["kind"] == Kind.SUM
    calls = np.where(sums, records["address"], np.uint64(1)).astype(np.int64)
    each = max(-(-int(calls[sums].sum()) // MOST_ROWS), 1)
    rows = -(-calls // np.where(sums, each, 1))
    record = np.repeat(np.arange(len(records)), rows)
    number = np.arange(len(record)) - np.repeat(np.cumsum(rows) - rows, rows)
    of, took = rows[record], file.took_ns[record]
    known = records["bytes"][record] != NOT_KNOWN
    total = np.where(known, records["bytes"][record], np.uint64(0)).astype(np.int64)
    length = _share(took, of, number)
    room = (file.end_ns - file.begin_ns)[record] - length
    step, rest = room // np.maximum(of - 1, 1), room % np.maximum(of - 1, 1)
    begin: Int64 = file.begin_ns[record] + step * number + rest * number // np.maximum(of - 1, 1)
    summed = sums[record]
    tid = file.tid[record]
    for mine in threads(np.zeros(len(record), np.int32), tid):
        if summed[mine].any():
            begin[mine] = _apart(begin[mine], length[mine], summed[mine])
    order = np.lexsort((-length, begin))
    return Expanded(
        record=record[order],
        summed=summed[order],
        begin_ns=begin[order],
        end_ns=(begin + length)[order],
        size_bytes=np.where(known, _share(total, of, number), -1)[order],
        left_out=int((calls - rows).sum()),
    )


def _share(total: Int64, parts: Int64, number: Int64) -> Int64:
    """The part of a total that the first `parts` have, which differ by one at most."""
    return total // parts + (number < total % parts)


def _apart(begin: Int64, length: Int64, summed: NDArray[np.bool_]) -> Int64:
    """Where calls of one thread begin: those that were summed make way for each other and for the others."""
    exact = np.flatnonzero(~summed)
    exact = exact[np.lexsort((-length[exact], begin[exact]))]
    # One that begins and ends within a nanosecond has that to itself: what begins with it would hold it otherwise.
    start, end = begin[exact], begin[exact] + np.maximum(length[exact], 1)
    reach = np.maximum.accumulate(end)
    outer = np.append(True, end[1:] > reach[:-1])[: len(end)]
    start, end = start[outer], end[outer]
    # On a clock that stands still in the others, summed calls only have to follow one another.
    taken = np.append(0, np.cumsum(end - start))
    free = np.append(start - taken[:-1], np.iinfo(np.int64).max)
    mine = np.flatnonzero(summed)
    mine = mine[np.argsort(begin[mine], kind="stable")]
    before = np.searchsorted(start, begin[mine], side="right")
    left = np.maximum(np.append(0, end)[before] - begin[mine], 0) * (before > 0)
    place = begin[mine] - taken[before] + left
    passed = np.cumsum(length[mine]) - length[mine]
    for _ in range(_ROUNDS):
        place = np.maximum.accumulate(place - passed) + passed
        after = np.searchsorted(free, place, side="right")
        crosses = place + length[mine] > free[after]
        if not crosses.any():
            break
        place = np.where(crosses, free[after], place)
    result = begin.copy()
    result[mine] = place + taken[np.searchsorted(free, place, side="right")]
    return np.clip(result, begin, _LATEST_NS)  # which only changes what damage makes
