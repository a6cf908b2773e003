"""What lay at an address of a process, and when: disjoint intervals with a value each, later ones over earlier ones."""

from __future__ import annotations

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

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._values: list[int] = []

    def copy(self) -> Places:
        """What a forked process begins with."""
        other = Places()
        other._starts, other._ends, other._values = self._starts.copy(), self._ends.copy(), self._values.copy()
        return other

    @property
    def columns(self) -> tuple[list[int], list[int], list[int]]:
        """Starts, ends and values, ascending."""
        return self._starts, self._ends, self._values

    def put(self, start: int, end: int, value: int) -> None:
        """Lay an interval over what is there; NOTHING takes away."""
        end = min(end, _END)
        if start >= end:
            return
        first = bisect_right(self._ends, start)
        last = max(bisect_left(self._starts, end), first)
        rows: list[tuple[int, int, int]] = [] if value == NOTHING else [(start, end, value)]
        if first < last:
            if self._starts[first] < start:
                rows.insert(0, (self._starts[first], start, self._values[first]))
            if self._ends[last - 1] > end:
                rows.append((end, self._ends[last - 1], self._values[last - 1]))
        self._starts[first:last] = [row[0] for row in rows]
        self._ends[first:last] = [row[1] for row in rows]
        self._values[first:last] = [row[2] for row in rows]

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
