"""Columns of tables: the types of numpy arrays, and pairs of numbers as one key; no I/O here.

A pair of columns, (pid, tid) for example, is sorted, compared and looked up as one column of 64-bit keys, which numpy
does many times faster than with pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int16 = NDArray[np.int16]
UInt64 = NDArray[np.uint64]
UInt8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]


def pack(first: NDArray[Any], second: NDArray[Any]) -> Int64:
    """Per row the key of two signed 32-bit numbers: different pairs have different keys, and keys sort as pairs do."""
    return np.asarray(first.astype(np.int64) << 32 | second.astype(np.int64) + (1 << 31))


def unpack(keys: Int64) -> tuple[Int64, Int64]:
    """Both columns of packed keys."""
    return keys >> 32, (keys & 0xFFFF_FFFF) - (1 << 31)


def pairs_of(keys: Int64) -> list[tuple[int, int]]:
    """The pairs of packed keys as Python's numbers."""
    return list(zip(*(column.tolist() for column in unpack(keys)), strict=True))


@dataclass(frozen=True)
class PairIndex:
    """(process, number) → row, where numbers may have 64 bits."""

    numbers: Int64
    """The distinct numbers, ascending."""
    keys: Int64
    """Per row its process and the place of its number in `numbers`, packed; ascending."""
    rows: Int64

    @classmethod
    def of(cls, process: Int32, number: Int64, rows: Int64) -> Self:
        """An index of some rows of two columns."""
        numbers, place = np.unique(number[rows], return_inverse=True)
        keys = pack(process[rows], place)
        order = np.argsort(keys, kind="stable")
        return cls(numbers, keys[order], rows[order])

    def find(self, process: Int32, number: Int64) -> Int64:
        """Per pair the first row that has it, -1 where none does."""
        if not len(self.keys):
            return np.full(len(number), -1, np.int64)
        place = np.minimum(np.searchsorted(self.numbers, number), len(self.numbers) - 1)
        keys = pack(process, place)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where((self.numbers[place] == number) & (self.keys[at] == keys), self.rows[at], -1)
