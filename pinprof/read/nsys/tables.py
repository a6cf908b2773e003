"""An export's tables under pinprof's names, with defaults for what a version lacks and a count of what is unusable."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import ascending, in_order, packed, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int32, Int64, UInt8, UInt64
from pinprof.read.nsys.numbers import DTYPES, Numbers, missing
from pinprof.read.nsys.schema import MISSING, STRINGS, TableSchema
from pinprof.read.nsys.source import OpenedExport

_UNKNOWN = "[unknown]"
_DENSE = 1 << 20
"""String ids count from 0; up to here a table of them all is cheaper than sorting."""


@dataclass
class ExportTables:
    """Reads the tables of one export; counts what it could not use, and notes it."""

    source: OpenedExport
    bad_rows: int = 0
    """Rows without a time, or that end before they start; left out."""
    notes: list[str] = field(default_factory=list)

    def physical(self, schema: TableSchema) -> str | None:
        """The table's name in this export, None when it has none."""
        return next((name for name in schema.names if name in self.source.tables), None)

    def read(self, schema: TableSchema) -> Numbers:
        """All columns of a table, in its own order of rows, of length 0 when it is missing or unusable."""
        table = self.physical(schema)
        if table is not None:
            there = self.source.tables[table]
            columns = {c: next((name for name in c.of if name in there), None) for c in schema.columns}
            lacking = [c.of[0] for c, name in columns.items() if name is None and c.required]
            if not lacking:
                stored = [(column, name) for column, name in columns.items() if name is not None]
                numbers = self.source.numbers(table, stored) if stored else {}
                count = len(next(iter(numbers.values()))) if numbers else self.source.rows(table)
                for column, name in columns.items():
                    if name is None:
                        numbers[column.name] = uniform(missing(column), count, DTYPES[column.bits])
                return numbers
            self.notes.append(
                f"The table {table} lacks the column {' and '.join(lacking)} that every known version of nsys writes: "
                "it was left out."
            )
        return {column.name: np.zeros(0, DTYPES[column.bits]) for column in schema.columns}

    def read_timed(self, schema: TableSchema) -> Numbers:
        """As `read`, without rows that have no start, or an end before it."""
        numbers = self.read(schema)
        start, end = numbers["start"], numbers.get("end")
        bad = start == MISSING
        if end is not None:
            bad |= end < start
        if not (count := int(np.count_nonzero(bad))):
            return numbers
        self.bad_rows += count
        ending = "no time" if end is None else "no start, or an end before it"
        self.notes.append(f"{count} rows of {self.physical(schema)} have {ending}; they were left out.")
        return {name: values[~bad] for name, values in numbers.items()}

    def names(self, ids: Int32) -> tuple[Int32, tuple[str, ...]]:
        """Ids of strings as indices into a tuple of their texts; -1 stays -1."""
        if int(ids.max(initial=-1)) < 4 * len(ids) + _DENSE:
            used = np.zeros(int(ids.max(initial=-1)) + 1, np.bool_)
            used[ids[ids >= 0]] = True
            distinct: NDArray[Any] = np.flatnonzero(used)
            place = np.append(np.cumsum(used) - 1, -1)
            index = place[np.maximum(ids, -1)]
        else:
            distinct = ascending(ids[ids >= 0])
            index = np.where(ids >= 0, np.searchsorted(distinct, ids), -1)
        texts = self.strings(distinct)
        return index.astype(np.int32), tuple(texts[number] for number in distinct.tolist())

    def strings(self, ids: NDArray[Any]) -> dict[int, str]:
        """The texts of distinct string ids; ids without text have a stand-in."""
        wanted = [number for number in ascending(ids).tolist() if number >= 0]
        table, key, value = STRINGS
        known = {}
        if {key, value} <= self.source.tables.get(table, frozenset()):
            known = self.source.strings(table, key, value, wanted)
        return {number: known.get(number, _UNKNOWN) for number in wanted}


def time_order(start: Int64, end: Int64 | None = None) -> NDArray[np.int64] | slice:
    """What puts rows in order of start, longer ones first; nothing to move where they are so already."""
    if end is None or bool(np.all(start[1:] > start[:-1])):
        return in_order(start)
    return np.lexsort((-end, start))


def enum_column(values: NDArray[Any]) -> UInt8:
    """Enum values as the model has them: NULL is 255."""
    return packed(values.astype(np.uint8))


def address_column(values: NDArray[Any]) -> UInt64:
    """Addresses as the model has them: unsigned, NULL is 0."""
    missing = values == MISSING
    return (np.where(missing, 0, values) if missing.any() else values).view(np.uint64)


def id_column(values: NDArray[Any]) -> NDArray[Any]:
    """Unsigned 32-bit ids, of which -1 is NULL; of 32 bits where these are enough."""
    if int(values.min(initial=0)) >= -1:
        return values
    wide = values.astype(np.int64)
    return np.where(wide < -1, wide & 0xFFFF_FFFF, wide)


def amount_column(values: NDArray[Any]) -> Int64:
    """Sizes and counts: NULL and what is below zero are 0."""
    wide = values.astype(np.int64)
    return np.maximum(wide, 0, out=wide)
