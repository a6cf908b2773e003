"""Tables of columns: the types of numpy arrays, what every table can do, and pairs of numbers as one key; no I/O here.

A pair of columns, (pid, tid) for example, is sorted, compared and looked up as one column of 64-bit keys, which numpy
does many times faster than with pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int16 = NDArray[np.int16]
Int8 = NDArray[np.int8]
UInt64 = NDArray[np.uint64]
UInt8 = NDArray[np.uint8]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]
Texts = tuple[str, ...]
"""A column of text."""

_DTYPES: dict[str, Any] = {
    "Int64": np.int64, "Int32": np.int32, "Int16": np.int16, "Int8": np.int8, "UInt64": np.uint64, "UInt8": np.uint8,
    "Bool": np.bool_, "Float64": np.float64, "Texts": None,
}  # fmt: skip
_TIMES = ("time_ns", "start_ns", "end_ns")


@dataclass(frozen=True)
class Table:
    """Columns of one length: the fields of this module's types. A column with a default may be None: not recorded.

    Other fields (`names`, into which a column points) belong to all rows.
    """

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    @classmethod
    def of(cls, count: int, /, **values: Any) -> Self:
        """A table of `count` rows: columns from arrays or sequences, a number for all rows, 0 where none is given."""
        for entry in fields(cls):
            dtype, given = _columns(cls).get(entry.name), values.get(entry.name)
            if dtype is not None and (given is not None or entry.default is MISSING):
                given = 0 if given is None else given
                values[entry.name] = np.full(count, given, dtype) if np.isscalar(given) else np.asarray(given, dtype)
            elif entry.default is MISSING:
                values.setdefault(entry.name, ())
        return cls(**values)

    @classmethod
    def empty(cls) -> Self:
        """A table without rows."""
        return cls.of(0)

    def take(self, rows: NDArray[Any]) -> Self:
        """The rows of a boolean mask or an index array."""
        return replace(self, **{name: _taken(getattr(self, name), rows) for name in _columns(type(self))})

    def joined(self, *others: Self) -> Self:
        """The rows of this table, then those of others with the same `names`."""
        tables = (self, *others)
        return replace(self, **{name: _joined([getattr(t, name) for t in tables]) for name in _columns(type(self))})

    def within(self, start_ns: int, end_ns: int) -> Self:
        """The rows that happened, or began, in [start, end)."""
        begins: Int64 = next(getattr(self, name) for name in _columns(type(self)) if name in _TIMES)
        return self.take((begins >= start_ns) & (begins < end_ns))

    def moved(self, offset_ns: int) -> Self:
        """The same at times that are later by `offset_ns`."""
        return replace(
            self, **{name: getattr(self, name) + offset_ns for name in _columns(type(self)) if name in _TIMES}
        )


def _columns(table: type[Table]) -> dict[str, Any]:
    """Column → type of its elements, None for text, in the order of the fields."""
    kinds = {entry.name: str(entry.type).removesuffix(" | None") for entry in fields(table)}
    return {name: _DTYPES[kind] for name, kind in kinds.items() if kind in _DTYPES}


def _taken(column: Any, rows: NDArray[Any]) -> Any:
    if not isinstance(column, tuple):
        return None if column is None else column[rows]
    return tuple(map(column.__getitem__, np.arange(len(column))[rows].tolist()))


def _joined(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], tuple):
        return tuple(text for column in columns for text in column)
    return None if any(column is None for column in columns) else np.concatenate(columns)


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
