"""What lay at an address of a process, and when: disjoint intervals with a value each, later ones over earlier ones."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

import numpy as np

from pinprof.base.columns import Int64, UInt64

NOTHING = -1
_END = 2**64 - 1
"""Damaged records may say more than there are addresses."""
_FEW = 16
"""Addresses that are looked up one by one: to make columns of the intervals costs more."""


class Places:
    """The intervals [start, end) of one address space as it is now."""

    __slots__ = ("_ends", "_starts", "_values")

    def __init__(self) -> None:
        self._starts = array("Q")
        self._ends = array("Q")
        self._values = array("q")

    def copy(self) -> Places:
        """What a forked process begins with."""
        other = Places()
        other._starts, other._ends, other._values = self._starts[:], self._ends[:], self._values[:]
        return other

    @property
    def columns(self) -> tuple[array[int], array[int], array[int]]:
        """Starts, ends and values, ascending."""
        return self._starts, self._ends, self._values

    def put(self, start: int, end: int, value: int) -> None:
        """Lay an interval over what is there; NOTHING takes away."""
        end = min(end, _END)
        if start >= end:
            return
        first, last = self._overlapping(start, end)
        rows: list[tuple[int, int, int]] = [] if value == NOTHING else [(start, end, value)]
        if first < last:
            if self._starts[first] < start:
                rows.insert(0, (self._starts[first], start, self._values[first]))
            if self._ends[last - 1] > end:
                rows.append((end, self._ends[last - 1], self._values[last - 1]))
        self._starts[first:last] = array("Q", [row[0] for row in rows])
        self._ends[first:last] = array("Q", [row[1] for row in rows])
        self._values[first:last] = array("q", [row[2] for row in rows])

    def within(self, start: int, end: int) -> array[int]:
        """The values that lie somewhere in [start, end), ascending by address."""
        first, last = self._overlapping(start, end)
        return self._values[first:last]

    def _overlapping(self, start: int, end: int) -> tuple[int, int]:
        first = bisect_right(self._ends, start)
        return first, max(bisect_left(self._starts, end), first)

    def at(self, addresses: UInt64) -> Int64:
        """The value at each address, NOTHING where none is."""
        if len(addresses) <= _FEW:
            return np.array([self._at(address) for address in addresses.tolist()], np.int64)
        starts, ends = np.array([0, *self._starts], np.uint64), np.array([0, *self._ends], np.uint64)
        values = np.array([NOTHING, *self._values], np.int64)
        row = np.searchsorted(starts, addresses, side="right") - 1
        return np.where(addresses < ends[row], values[row], NOTHING)

    def _at(self, address: int) -> int:
        row = bisect_right(self._starts, address) - 1
        return self._values[row] if row >= 0 and address < self._ends[row] else NOTHING
