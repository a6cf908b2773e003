"""Columns of integers of an export as pinprof keeps them: cut to the wished width, one array each, nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import uniform
from pinprof.read.long_columns import LONG_ROWS, LongColumn
from pinprof.read.nsys.pages import TablePages, Unusual, Values
from pinprof.read.nsys.schema import MISSING, Column, GlobalIdPart

Numbers = dict[str, NDArray[Any]]
"""Column name → integers of the column's width; a column of one value alone may be read-only."""

DTYPES = {8: np.int8, 16: np.int16, 32: np.int32, 48: np.int64, 64: np.int64}
"""Bits of a column → what holds it."""
ID_MASK = 0xFFFFFF
_MOST_DIGITS = 18
SHIFT = {GlobalIdPart.PID: 24, GlobalIdPart.TID: 0}


def number(text: str) -> int | None:
    """A number that an export holds as text; None for any other text, and for one of more than 18 digits."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS else None


def missing(column: Column) -> int:
    """What stands for NULL."""
    return MISSING if column.bits == 64 else -1


def from_pages(table: TablePages, columns: Sequence[tuple[Column, int, bool]], count: Callable[[int], None]) -> Numbers:
    """Columns of a table, each with its place and whether it is never NULL; `count` gets the bytes that were read.

    Unusual where SQLite has to read them.
    """
    wanted = {place for _, place, _ in columns}
    growing = [ExportColumn(column) for column, _, _ in columns]
    pages = 0
    for leaves, rows, values in table.read(wanted):
        pages += leaves
        count(leaves * table.size_bytes // len(table.leaves))
        for column, (_, place, never_null) in zip(growing, columns, strict=True):
            if never_null and values[place].null is not False:
                raise Unusual
            column.append(values[place], rows, len(table.leaves) / pages)
    return {column.name: grown.whole() for (column, _, _), grown in zip(columns, growing, strict=True)}


class ExportColumn:
    """One column while it is read: a single value as long as all rows have the same one, then an array or a file."""

    def __init__(self, column: Column) -> None:
        self._column = column
        self._rows = 0
        self._value: int | None = None
        self._array: NDArray[Any] | None = None
        self._long: LongColumn | None = None

    def append(self, values: Values, rows: int, growth: float) -> None:
        """The next rows; `growth` is how many times as many there will be in all, about."""
        if not rows:
            return
        cut = _cut(values, self._column)
        if self._array is None and self._long is None:
            value = int(cut) if np.ndim(cut) == 0 else _only(cut)
            if value is not None and self._value in (None, value):
                self._value = value
                self._rows += rows
                return
            if (self._rows + rows) * growth >= LONG_ROWS:
                self._long = LongColumn(DTYPES[self._column.bits])
                self._long.extend(uniform(self._value or 0, self._rows, DTYPES[self._column.bits]))
        end = self._rows + rows
        if self._long is not None:
            self._long.extend(np.broadcast_to(cut, rows))
        else:
            if self._array is None or len(self._array) < end:
                self._enlarge(max(int(end * growth), end) + end // 16)
            assert self._array is not None
            self._array[self._rows : end] = cut
        self._rows = end

    def _enlarge(self, rows: int) -> None:
        # What is never written takes no memory.
        larger = np.empty(rows, DTYPES[self._column.bits])
        larger[: self._rows] = (self._value or 0) if self._array is None else self._array[: self._rows]
        self._array = larger

    def whole(self) -> NDArray[Any]:
        """All rows."""
        if self._long is not None:
            return self._long.whole()
        if self._array is not None:
            return self._array[: self._rows]
        return uniform(self._value or 0, self._rows, DTYPES[self._column.bits])


def _only(values: NDArray[Any]) -> int | None:
    """The value of all rows; None where they differ."""
    first = int(values[0])
    return first if first == int(values[-1]) and bool((values == first).all()) else None


def _cut(values: Values, column: Column) -> NDArray[Any]:
    """Values of the column's width: what is next to it falls off, its sign is kept."""
    if values.null is True:
        return np.array(missing(column), DTYPES[column.bits])
    of = np.asarray(values.of)
    if column.part is not GlobalIdPart.ALL:
        of = of.astype(np.int64) >> SHIFT[column.part] & ID_MASK
    if column.bits == 48 and of.dtype.itemsize > 4:
        of = of << 16 >> 16
    cut = of.astype(DTYPES[column.bits], copy=False)
    if values.null is False:
        return cut
    return np.where(values.null, np.array(missing(column), cut.dtype), cut)
