"""Rows of a table thread by thread, and which intervals lie inside another of their thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Int32, Int64, is_uniform, pack


def threads(pid: Int32, tid: Int32) -> Iterator[NDArray[np.int64]]:
    """The rows of each thread, in order."""
    if is_uniform(pid) and is_uniform(tid):
        if len(pid):
            yield np.arange(len(pid))
        return
    thread = pack(pid, tid)
    rows = np.argsort(thread, kind="stable")
    bounds = np.flatnonzero(np.diff(thread[rows])) + 1
    yield from np.split(rows, bounds)


def outermost(start: Int64, end: Int64, pid: Int32, tid: Int32) -> NDArray[np.int64]:
    """Per interval the one of its thread that contains it and is in no other; itself if there is none.

    Intervals are ordered by start, longer ones first. What merely overlaps contains nothing.
    """
    result = np.arange(len(start))
    for rows in threads(pid, tid):
        if tid[rows[0]] < 0:
            continue
        reach = np.maximum.accumulate(end[rows])
        nested = np.zeros(len(rows), np.bool_)
        nested[1:] = (end[rows[1:]] <= reach[:-1]) & (start[rows[1:]] < reach[:-1])
        # The last call that was not nested is the one that reaches furthest.
        result[rows] = rows[np.maximum.accumulate(np.where(nested, 0, np.arange(len(rows))))]
    return result
