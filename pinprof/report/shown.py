"""Which ranges a reader is shown: all of a few, of very many the longest ones, so that a page stays small.

Programs that number their ranges (`aten::copy_, op_id = 990350`) have tens of thousands of paths, each with one call.
JSON has them all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pinprof.analyze.results import RangeResult
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int32

MOST_RANGES = 300
"""Rows of a table that somebody may read."""


@dataclass(frozen=True)
class ShownRanges:
    """A choice of ranges, in their order."""

    index: Int32
    """Those that are shown, into `Run.ranges`, ascending."""
    place: Int32
    """Per range its row among the shown ones; -1 for the others."""
    hidden_calls: int
    """Calls of ranges that are not shown."""
    longest_hidden_ns: int
    """The longest total wall time of one that is not shown."""

    @property
    def hidden(self) -> int:
        """Ranges that are not shown."""
        return len(self.place) - len(self.index)


def shown_ranges(ranges: Sequence[RangeResult], most: int = MOST_RANGES) -> ShownRanges:
    """The most ranges of the longest total wall time, each with those around it."""
    number = {id(entry.path): index for index, entry in enumerate(ranges)}
    parent = [number.get(id(entry.path.parent), -1) for entry in ranges]
    # A range is as long as the longest inside it: those around a range then come before it.
    reach = [*(entry.wall_ns for entry in ranges), 0]
    for index in reversed(range(len(ranges))):
        reach[parent[index]] = max(reach[parent[index]], reach[index])
    kept = np.zeros(len(ranges), np.bool_)
    kept[sorted(range(len(ranges)), key=lambda index: (-reach[index], ranges[index].depth, index))[:most]] = True
    hidden = [ranges[index] for index in np.flatnonzero(~kept).tolist()]
    return ShownRanges(
        np.flatnonzero(kept).astype(np.int32),
        np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32),
        sum(entry.count for entry in hidden),
        max((entry.wall_ns for entry in hidden), default=0),
    )
