"""Columns of integers of an export as pinprof keeps them: cut to the wished width, one array each, nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import GrowingColumn, LongColumn, growing, packed
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
    made: list[GrowingColumn | LongColumn] = []
    for leaves, rows, values in table.read(wanted):
        count(leaves * table.size_bytes // len(table.leaves))
        # The first pages tell how many rows there will be, about; what is never written takes no memory.
        expected = rows * len(table.leaves) // leaves
        made = made or [growing(DTYPES[column.bits], expected + expected // 16) for column, _, _ in columns]
        for grown, (column, place, never_null) in zip(made, columns, strict=True):
            if never_null and values[place].null is not False:
                raise Unusual
            grown.extend(packed(np.broadcast_to(cut(values[place], column), rows)))
    return {column.name: grown.whole() for (column, _, _), grown in zip(columns, made, strict=True)}


def cut(values: Values, column: Column) -> NDArray[Any]:
    """Values of the column's width: what is next to it falls off, its sign is kept."""
    if values.null is True:
        return np.array(missing(column), DTYPES[column.bits])
    of = np.asarray(values.of)
    if column.part is not GlobalIdPart.ALL:
        of = of.astype(np.int64) >> SHIFT[column.part] & ID_MASK
    if column.bits == 48 and of.dtype.itemsize > 4:
        of = of << 16 >> 16
    narrow = of.astype(DTYPES[column.bits], copy=False)
    if values.null is False:
        return narrow
    return np.where(values.null, np.array(missing(column), narrow.dtype), narrow)
