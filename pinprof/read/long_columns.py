"""Columns on their way into memory or, where they are long, into a file.

The file is mapped, so that only what somebody looks at takes memory, and that can be given back (`Table.unload`). It
has no name and is gone with the last column in it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pinprof.base import columns, files
from pinprof.base.columns import GrowingColumn, slices, uniform

LONG_ROWS = 8_000_000
"""From here on a column is written to a file."""
ROWS_AT_ONCE = 1 << 20
"""Rows that are moved in one go."""


class LongColumn:
    """A column that grows at its end, in a file; `uniform` as long as all that is appended is so, with one value."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._value = np.zeros(1, dtype)
        self._file: BinaryIO | None = None
        self._rows = 0

    def extend(self, values: NDArray[Any]) -> None:
        """Append some values, converted to the column's type."""
        if not len(values):
            return
        if self._file is None:
            if values.strides == (0,) and (not self._rows or bool(values[0] == self._value[0])):
                self._value[0] = values[0]
                self._rows += len(values)
                return
            self._file = files.nameless()
            self._write(self._file, uniform(self._value[0], self._rows, self._value.dtype))
        self._write(self._file, values)
        self._rows += len(values)

    def whole(self) -> NDArray[Any]:
        """All rows, read-only; once, at the end."""
        if self._file is None:
            return uniform(self._value[0], self._rows, self._value.dtype)
        self._file.flush()
        with self._file:
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._value.dtype, self._rows)

    def _write(self, file: BinaryIO, values: NDArray[Any]) -> None:
        for first in range(0, len(values), ROWS_AT_ONCE):
            part = np.ascontiguousarray(values[first : first + ROWS_AT_ONCE], self._value.dtype)
            file.write(part.data)


def growing(dtype: DTypeLike, rows: int) -> GrowingColumn | LongColumn:
    """A column that grows to about `rows` rows."""
    return LongColumn(dtype) if rows >= LONG_ROWS else GrowingColumn(dtype, rows)


def put_together(parts: Iterable[NDArray[Any]], rows: int, dtype: DTypeLike) -> NDArray[Any]:
    """A column of `rows` rows from parts one behind the other."""
    column = growing(dtype, rows)
    for part in parts:
        column.extend(part)
    return column.whole()


def taken(column: NDArray[Any], rows: NDArray[Any] | slice) -> NDArray[Any]:
    """`columns.taken`, into a file where there are many rows."""
    if isinstance(rows, slice) or column.strides == (0,):
        return columns.taken(column, rows)
    masked = rows.dtype == np.bool_
    count = int(np.count_nonzero(rows)) if masked else len(rows)
    if count < LONG_ROWS:
        return columns.taken(column, rows)
    parts = (column[part][rows[part]] if masked else column[rows[part]] for part in slices(len(rows)))
    return put_together(parts, count, column.dtype)
