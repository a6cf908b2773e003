"""Columns on their way into memory or, where they are long, into a file: it is mapped, so that of millions of rows only
what somebody looks at takes memory, and that can be given back (`Table.unload`).

The file has no name and is gone with the last column in it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pinprof import files

LONG_ROWS = 8_000_000
"""From here on a column is written to a file."""
ROWS_AT_ONCE = 1 << 20
"""Rows that are moved in one go."""


class LongColumn:
    """A column that grows at its end, in a file."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = files.nameless()
        self._rows = 0

    def append(self, values: NDArray[Any]) -> None:
        """More rows, converted to the column's type."""
        for first in range(0, len(values), ROWS_AT_ONCE):
            part = np.ascontiguousarray(values[first : first + ROWS_AT_ONCE], self._dtype)
            self._file.write(part.data)
        self._rows += len(values)

    def whole(self) -> NDArray[Any]:
        """All rows, read-only."""
        self._file.flush()
        with self._file:
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._dtype, self._rows)


def put_together(parts: Iterable[NDArray[Any]], rows: int, dtype: DTypeLike) -> NDArray[Any]:
    """A column of so many rows from parts one behind the other."""
    if rows < LONG_ROWS:
        return np.concatenate([np.zeros(0, dtype), *(part.astype(dtype, copy=False) for part in parts)])
    column = LongColumn(dtype)
    for part in parts:
        column.append(part)
    return column.whole()
