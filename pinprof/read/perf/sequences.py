"""Distinct sequences of numbers: call chains of places, and stacks of frames."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Int32, Int64
from pinprof.read.perf import kernels


class DistinctSequences:
    """Grows distinct sequences, numbered in the order in which they first appear."""

    def __init__(self) -> None:
        self._table, self._kept = kernels.HashTable.empty(), kernels.SequenceRows(factor=kernels.factor())
        room = self._table.room
        self._kept.point(flat=np.empty(0, np.int32), length=np.empty(room, np.int32), start=np.empty(room, np.int64))
        self._kept.table = ctypes.addressof(self._table)
        self._known: dict[bytes, int] = {}
        """Their numbers, where there is no library."""

    def __len__(self) -> int:
        return self._table.count

    @property
    def flat(self) -> Int32:
        """All sequences end to end."""
        flat: Int32 = self._kept.column("flat")[: self._kept.filled]
        return flat

    @property
    def start(self) -> Int64:
        """Where in `flat` each begins."""
        start: Int64 = self._kept.column("start")[: len(self)]
        return start

    @property
    def length(self) -> Int32:
        """How many numbers each has."""
        length: Int32 = self._kept.column("length")[: len(self)]
        return length

    def add(self, flat: Int32, length: Int32) -> Int32:
        """The number of each of some sequences, end to end, none of which is empty; they may repeat."""
        numbers = np.empty(len(length), np.int32)
        if (library := kernels.library()) is None:
            self._add_slowly(flat, length, numbers)
            return numbers
        flat, length = np.ascontiguousarray(flat, np.int32), np.ascontiguousarray(length, np.int32)
        done, position = 0, 0
        while done < len(length):
            rest = flat[position:], length[done:], len(length) - done, numbers[done:]
            columns = rest[0].ctypes.data, rest[1].ctypes.data, rest[2], rest[3].ctypes.data
            last = done + library.pinprof_perf_sequences(ctypes.byref(self._kept), *columns)
            position += int(length[done:last].sum(dtype=np.int64))
            done = last
            if done < len(length):
                self._reserve(1, int(length[done]))
        return numbers

    def _add_slowly(self, flat: Int32, length: Int32, numbers: Int32) -> None:
        begin = 0
        for row, size in enumerate(length.tolist()):
            sequence = flat[begin : begin + size]
            begin += size
            numbers[row] = self._known.setdefault(sequence.tobytes(), len(self))
            if numbers[row] == len(self):
                self._reserve(1, size)
                kept = self._kept
                kept.column("flat")[kept.filled : kept.filled + size] = sequence
                kept.column("start")[len(self)], kept.column("length")[len(self)] = kept.filled, size
                kept.filled += size
                self._table.count += 1

    def _reserve(self, more: int, size: int) -> None:
        """Room for `more` sequences of `size` numbers in all."""
        kept, count = self._kept, len(self)
        if count + more > self._table.room:
            self._table.reserve(more)
            room = self._table.room
            kept.point(
                length=kernels.grown(kept.column("length"), count, room),
                start=kernels.grown(kept.column("start"), count, room),
            )
        if kept.filled + size > kept.flat_room:
            kept.flat_room = max(kept.filled + size, kept.flat_room * 3 // 2, 1 << 12)
            kept.point(flat=kernels.grown(kept.column("flat"), kept.filled, kept.flat_room))


def positions(start: Int64, length: NDArray[np.integer]) -> Int64:
    """Indices start, start+1, … of each interval, end to end."""
    ends = np.cumsum(length, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(start - (ends - length), length)
