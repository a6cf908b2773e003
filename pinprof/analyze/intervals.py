"""Sets of time, as sorted disjoint half-open intervals; every operation is a few passes over numpy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np

from pinprof.base.columns import in_parts, is_uniform, slices, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int64

BATCH_ROWS = 1 << 20
"""About how many rows an expansion of intervals holds at a time."""


@dataclass(frozen=True)
class Intervals:
    """A set of instants: [start, end) rows in ascending order, none empty, none touching the next."""

    start: Int64
    end: Int64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total(self) -> int:
        """Length of the whole set."""
        return int((self.end - self.start).sum())

    @property
    def span(self) -> int:
        """From the first instant to the last; 0 of nothing."""
        return int(self.end[-1] - self.start[0]) if len(self) else 0

    def covered(self, start: Int64, end: Int64) -> Int64:
        """For each [start, end), how much of it lies in the set; nothing of an interval that ends before it starts."""
        return in_parts(
            lambda part: self._before(np.maximum(start[part], end[part])) - self._before(start[part]),
            len(start), np.int64, start, end,
        )  # fmt: skip

    def contains(self, instant: Int64) -> Bool:
        """For each instant, whether it lies in the set."""
        inside, end = np.zeros(len(instant), np.bool_), np.append(self.end, 0)
        for part in slices(len(instant)):
            place = np.searchsorted(self.start, instant[part], "right") - 1
            inside[part] = (place >= 0) & (instant[part] < end[place])
        return inside

    def gaps(self) -> Intervals:
        """What lies between the intervals."""
        return Intervals(self.end[:-1], self.start[1:])

    def _before(self, instant: Int64) -> Int64:
        """Length of the set before each instant."""
        if not len(self):
            return np.zeros(len(instant), np.int64)
        place = np.maximum(np.searchsorted(self.start, instant, "right") - 1, 0)
        into = np.minimum(np.maximum(instant, self.start[place]), self.end[place]) - self.start[place]
        return np.asarray(self._sums[place] + into)

    @cached_property
    def _sums(self) -> Int64:
        """Length of the set before each of its intervals."""
        length = self.end - self.start
        return np.asarray(np.cumsum(length) - length)


def union(start: Int64, end: Int64) -> Intervals:
    """The instants in any of the given intervals, which may overlap and come in any order; empty ones count nothing."""
    kept = end > start
    if not kept.all():
        start, end = start[kept], end[kept]
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    fresh = np.ones(len(start), np.bool_)
    fresh[1:] = start[1:] > reach[:-1]
    if fresh.all():
        return Intervals(start, end)
    leaders = np.flatnonzero(fresh)
    return Intervals(start[leaders], reach[np.append(leaders[1:], len(start))[: len(leaders)] - 1])


def union_where(mask: Bool, start: Int64, end: Int64, longer_ns: int = 0) -> Intervals:
    """The union of the intervals of a mask, each that much longer, in pieces: of millions few may be left."""
    if not longer_ns and mask.all() and _are_apart(start, end):
        return Intervals(start, end)
    pieces = [
        union(start[part][mask[part]], end[part][mask[part]] + longer_ns) for part in slices(len(mask), start, end)
    ]
    return any_of(pieces)


def _are_apart(start: Int64, end: Int64) -> bool:
    """Whether intervals are a set as they are."""
    for part in slices(len(start)):
        following = start[part.start + 1 : part.stop + 1]
        if not ((start[part] < end[part]).all() and (end[part][: len(following)] < following).all()):
            return False
    return True


def any_of(sets: Iterable[Intervals]) -> Intervals:
    """The instants in any of the sets."""
    known = tuple(sets)
    if len(known) == 1:
        return known[0]
    none = np.zeros(0, np.int64)
    # What is put together here lies nowhere else, so that it is gone once it is sorted.
    return union(
        np.concatenate([none, *(one.start for one in known)]), np.concatenate([none, *(one.end for one in known)])
    )


def intersection(left: Intervals, right: Intervals) -> Intervals:
    """The instants in both sets."""
    if len(left) < len(right):
        left, right = right, left  # a part of the longer one has few partners
    none = np.zeros(0, np.int64)
    starts, ends = [none], [none]
    for part in slices(len(left)):
        start, end = left.start[part], left.end[part]
        low, high = np.searchsorted(right.end, start, "right"), np.searchsorted(right.start, end, "left")
        mine, other = numbers(low, high)
        start, end = np.maximum(start[mine], right.start[other]), np.minimum(end[mine], right.end[other])
        kept = end > start
        starts.append(start[kept])
        ends.append(end[kept])
    return Intervals(np.concatenate(starts), np.concatenate(ends))


def difference(left: Intervals, right: Intervals) -> Intervals:
    """The instants of the left set that are not in the right one."""
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return intersection(left, Intervals(np.append(least, right.end), np.append(right.start, most)))


def union_by_key(key: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """The union within each key ≥ 0: (key, start, end) of what remains, ordered by key and start."""
    if not len(key):
        return key, start, end
    if is_uniform(key):
        merged = union_where(end > start, start, end)
        return uniform(key[0], len(merged), np.int64), merged.start, merged.end
    low, width = int(start.min()), max(int(end.max()), int(start.max())) - int(start.min()) + 1
    if width * (int(key.max()) + 1) < 1 << 62:
        offset = key * width - low
        merged = union(start + offset, np.maximum(end, start) + offset)
        kept = merged.start // width
        return kept, merged.start - kept * width + low, merged.end - kept * width + low
    instants, rank = np.unique(np.concatenate([start, end]), return_inverse=True)
    first, last = np.split(rank.reshape(-1).astype(np.int64), 2)
    width = len(instants) + 1
    merged = union(key * width + first, key * width + last)
    kept = merged.start // width
    return kept, instants[merged.start - kept * width], instants[merged.end - kept * width]


def numbers(first: Int64, last: Int64) -> tuple[Int64, Int64]:
    """All integers of the ranges [first, last), each with the position of its range."""
    length = np.maximum(last - first, 0)
    return np.repeat(np.arange(len(first)), length), joined_up(first, length)


def joined_up(first: Int64, length: Int64) -> Int64:
    """All integers of the ranges [first, first + length), one range after the other; no length is below 0."""
    first, length = first[length > 0], length[length > 0]
    number = np.ones(int(length.sum()), np.int64)
    if len(first):
        # Steps of one, but for those from the last of a range to the first of the next.
        number[0] = first[0]
        number[np.cumsum(length)[:-1]] = first[1:] - (first[:-1] + length[:-1] - 1)
        np.cumsum(number, out=number)
    return number


def highest(low: Int64, high: Int64, value: Int64, count: int) -> Int64:
    """Per place below `count` the greatest value, of 0 or more, of the intervals [low, high) that hold it, else -1.

    An interval is two that overlap, as long as a power of two; from the longest to the shortest, halves take over.
    """
    best = np.full(count, -1, np.int64)
    low, high, value = (column[high > low] for column in (low, high, value))
    power = np.log2(high - low).astype(np.int64)
    for bit in range(int(power.max(initial=-1)), -1, -1):
        mine = power == bit
        np.maximum.at(best, low[mine], value[mine])
        np.maximum.at(best, high[mine] - (1 << bit), value[mine])
        if half := 1 << bit >> 1:
            best[half:] = np.maximum(best[half:], best[:-half])
    return best


def batches(size: Int64) -> Iterator[tuple[int, int]]:
    """Runs [first, last) of neighbours whose sizes come to about BATCH_ROWS; one that is larger is a run by itself."""
    batch = np.cumsum(size) // BATCH_ROWS
    first = np.flatnonzero(np.diff(batch, prepend=-1))
    yield from pairwise(np.append(first, len(size)).tolist())
