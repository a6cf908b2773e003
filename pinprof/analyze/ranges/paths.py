"""The tree of ranges: a path for each domain and name under the same enclosing ranges, and the path of each range."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int64, RangeTable

_BETWEEN = " > "
_READABLE = 16
"""Names of a path that people are shown."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RangePath:
    """A range's place in the tree. It knows its parent instead of all names above it; every path exists once, so `is`
    compares paths.
    """

    name: str
    domain: str
    parent: RangePath | None
    """The enclosing range's path; None for an outermost range."""
    depth: int
    """Ranges around it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the enclosing ranges, outermost first, then its own; takes as long as the range lies deep."""
        return tuple(path.name for path in self._upward())[::-1]

    def __str__(self) -> str:
        """The names, of a range that lies deeper than anybody reads the innermost ones."""
        innermost = [path.name for path in islice(self._upward(), _READABLE)]
        return _BETWEEN.join([*(["…"] if self.depth >= _READABLE else []), *reversed(innermost)])

    def is_called(self, text: str) -> bool:
        """Whether a text is the name, or all names; takes as long as the text is, however deep the range lies."""
        path, left = self, text
        while path.parent is not None and left.endswith(_BETWEEN + path.name):
            left = left.removesuffix(_BETWEEN + path.name)
            path = path.parent
        return text == self.name or (path.parent is None and left == path.name)

    def _upward(self) -> Iterator[RangePath]:
        path: RangePath | None = self
        while path:
            yield path
            path = path.parent


def range_paths(ranges: RangeTable) -> tuple[Int64, tuple[RangePath, ...]]:
    """Per range the number of its path, and the paths in the order of their first start, a parent before its children.

    One pass in linear time and memory, however deep the ranges lie.
    """
    outer_row = enclosing(ranges).tolist()
    path = np.zeros(len(ranges), np.int64).tolist()
    paths: list[RangePath] = []
    numbers: dict[tuple[int, str, str], int] = {}
    for row in np.lexsort((ranges.depth, ranges.start_ns)).tolist():
        parent = path[outer_row[row]] if outer_row[row] >= 0 else -1
        key = (parent, ranges.domain[row], ranges.name[row])
        number = numbers.setdefault(key, len(paths))
        if number == len(paths):
            outer = paths[parent] if parent >= 0 else None
            paths.append(RangePath(key[2], key[1], outer, outer.depth + 1 if outer else 0))
        path[row] = number
    return np.array(path, np.int64), tuple(paths)


def enclosing(ranges: RangeTable) -> Int64:
    """Per range the row of the last one before it in its thread, a level up, if that is still open; -1 without one."""
    count, depth = len(ranges), ranges.depth.astype(np.int64)
    order = np.lexsort((depth, ranges.start_ns, ranges.tid, ranges.pid))
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    # Level by level in the order of places: what stands before the place of a range, one level up.
    ordered = np.sort(depth * count + place)
    before = np.searchsorted(ordered, (depth - 1) * count + place) - 1
    level, candidate = np.divmod(ordered[before], max(count, 1))
    outer = order[candidate]
    encloses = (before >= 0) & (level == depth - 1) & (ranges.end_ns[outer] >= ranges.start_ns)
    encloses &= (ranges.pid[outer] == ranges.pid) & (ranges.tid[outer] == ranges.tid)
    return np.where(encloses, outer, -1)
