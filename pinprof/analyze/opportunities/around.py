"""The NVTX ranges around a cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from pinprof.analyze.intervals import union_by_key
from pinprof.analyze.opportunities.results import Course
from pinprof.columns import Int64
from pinprof.model import RangeTable


@dataclass(frozen=True)
class RangesAround:
    """The times of the critical thread's ranges by name; intervals of one name do not overlap."""

    course: Course
    names: tuple[str, ...]
    shortest_ns: Int64
    """Per name the length of its shortest range: the innermost name has the least."""
    name: Int64
    """Per interval, an index into `names`."""
    start_ns: Int64
    end_ns: Int64

    @classmethod
    def of(cls, ranges: RangeTable, course: Course) -> Self:
        """The ranges of the thread, and those of no known thread, that end before the program does."""
        mine = np.flatnonzero((ranges.end_ns < course.end_ns) & ((ranges.tid == course.tid) | (ranges.tid < 0)))
        start, end = ranges.start_ns[mine], ranges.end_ns[mine]
        number: dict[str, int] = {}
        name = np.array([number.setdefault(ranges.name[row], len(number)) for row in mine.tolist()], np.int64)
        shortest = np.full(len(number), np.iinfo(np.int64).max)
        np.minimum.at(shortest, name, end - start)
        return cls(course, tuple(number), shortest, *union_by_key(name, start, end))

    def innermost(self, rows: Int64) -> str:
        """The innermost name around more than half of the time of these wall rows, empty where there is none."""
        wall = self.course.wall
        rows = rows[np.argsort(wall.time_ns[rows], kind="stable")]
        time, before = wall.time_ns[rows], np.append(0, np.cumsum(wall.ns[rows]))
        inside = before[np.searchsorted(time, self.end_ns)] - before[np.searchsorted(time, self.start_ns)]
        weight = np.zeros(len(self.names), np.int64)
        np.add.at(weight, self.name, inside)
        around = np.flatnonzero(2 * weight > before[-1])
        return self.names[int(around[np.argmin(self.shortest_ns[around])])] if len(around) else ""
