"""Which ranges an event belongs to: one join of all events with all ranges, instead of a search for each.

Scope 0 is the whole recording; scope n + 1 is the nth path of `ranges.range_paths`, in the order of `Analysis.ranges`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pinprof.analyze.intervals import Intervals, numbers, union_by_key
from pinprof.analyze.ranges.summary import range_paths
from pinprof.model import Int32, Int64, RangeTable

WHOLE = 0
"""The scope that holds everything."""
BATCH_ROWS = 1 << 22


@dataclass(frozen=True)
class Scopes:
    """The ranges of a capture, merged so that no scope counts an event twice."""

    paths: tuple[tuple[str, ...], ...]
    """Names of the enclosing ranges and the range's own, one for each scope but the first."""
    scope: Int64
    """Per merged interval: its scope."""
    start_ns: Int64
    end_ns: Int64
    pid: Int64
    """The process whose events count; -1 for all."""

    def __len__(self) -> int:
        return len(self.paths) + 1

    def members(self, time_ns: Int64, pid: Int32) -> Iterator[tuple[Int64, Int64]]:
        """(scope, row) of every event in every scope it belongs to, in batches; rows ascend within a scope.

        The whole recording comes first. A batch holds whole scopes and about `BATCH_ROWS` rows, so that ranges which
        overlap without end cost time, not memory.
        """
        everything = np.arange(len(time_ns))
        yield np.zeros(len(time_ns), np.int64), everything
        if not self.paths:
            return
        order = everything
        if (time_ns[1:] < time_ns[:-1]).any():
            order = np.argsort(time_ns, kind="stable")
        ordered = time_ns[order]
        low = np.searchsorted(ordered, self.start_ns, "left")
        high = np.maximum(low, np.searchsorted(ordered, self.end_ns, "left"))
        size = np.zeros(len(self), np.int64)
        np.add.at(size, self.scope, high - low)
        batch = np.cumsum(size)[self.scope] // BATCH_ROWS
        first = np.flatnonzero(np.diff(batch, prepend=-1))
        for start, end in pairwise(np.append(first, len(batch)).tolist()):
            place, number = numbers(low[start:end], high[start:end])
            scope, row, owner = self.scope[start:end][place], order[number], self.pid[start:end][place]
            mine = (owner < 0) | (pid[row] == owner)
            scope, row = scope[mine], row[mine]
            if (owner < 0).any() and (owner >= 0).any():
                scope, row = np.divmod(np.unique(scope * (len(time_ns) + 1) + row), len(time_ns) + 1)
            yield scope, row

    def covered(self, times: Intervals) -> Int64:
        """Per scope, how much of its wall time lies in a set of time; all of the set in the whole recording."""
        if not self.paths:
            return np.array([times.total])
        scope, start, end = union_by_key(self.scope, self.start_ns, self.end_ns)
        total = np.zeros(len(self), np.int64)
        np.add.at(total, scope, times.covered(start, end))
        total[WHOLE] = times.total
        return total


def scopes_of(ranges: RangeTable, pids: Int32) -> Scopes:
    """The scopes of a capture whose events come from the processes `pids`.

    A range counts the events of its process. One whose process is unknown, or has no events at all (another PID
    namespace), counts those of every process.
    """
    none = np.zeros(0, np.int64)
    if not len(ranges):
        return Scopes((), none, none, none, none)
    path, paths = range_paths(ranges)
    owner = np.where(np.isin(ranges.pid, pids) & (ranges.pid >= 0), ranges.pid, -1).astype(np.int64)
    processes, index = np.unique(owner, return_inverse=True)
    key, start, end = union_by_key(path * len(processes) + index.reshape(-1), ranges.start_ns, ranges.end_ns)
    return Scopes(tuple(paths), key // len(processes) + 1, start, end, processes[key % len(processes)])
