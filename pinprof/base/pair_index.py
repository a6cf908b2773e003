"""Rows by a process and a number of 64 bits, as what a GPU does is found by its process and correlation id."""

from __future__ import annotations

from typing import Self

import numpy as np

from pinprof.base.columns import Int32, Int64, fitting, is_uniform, pack, slices
from pinprof.base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class PairIndex:
    """(process, number) → row, where numbers may have 64 bits."""

    numbers: Int64
    """The distinct numbers, ascending."""
    process: int | None
    """The process of all pairs; None where there are several."""
    keys: Int64
    """Of several processes, per row its process and the place of its number in `numbers`, packed; ascending."""
    rows: Int64
    """Per key its row; of one process, per number the first row that has it. No wider than needed."""

    @classmethod
    def of(cls, process: Int32, number: Int64, rows: Int64) -> Self:
        """An index of some rows of two columns."""
        numbers, process = number[rows], process[rows]
        rows = rows.astype(fitting(0, len(number)))
        none = np.zeros(0, np.int64)
        if is_uniform(process):
            if not bool((numbers[1:] > numbers[:-1]).all()):
                numbers, first = np.unique(numbers, return_index=True)
                rows = rows[first]
            return cls(numbers, int(process[0]) if len(process) else None, none, rows)
        numbers, place = np.unique(numbers, return_inverse=True)
        keys = pack(process, place)
        order = np.argsort(keys, kind="stable")
        return cls(numbers, None, keys[order], rows[order])

    def find(self, process: Int32, number: Int64) -> Int64:
        """Per pair the first row that has it, -1 where none does."""
        found = np.full(len(number), -1, self.rows.dtype)
        # Of different types, the look-up of each part would convert all of them.
        numbers = self.numbers.astype(np.result_type(self.numbers, number), copy=False)
        for part in slices(len(number) if len(self.rows) else 0):
            wanted = number[part].astype(numbers.dtype, copy=False)
            at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
            known = numbers[at] == wanted
            if self.process is None:
                keys = pack(process[part], at)
                at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
                known &= self.keys[at] == keys
            else:
                known &= process[part] == self.process
            found[part] = np.where(known, self.rows[at], -1)
        return found
