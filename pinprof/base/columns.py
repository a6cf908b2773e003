"""Tables of columns: the types of numpy arrays, what every table can do, and pairs of numbers as one key.

A pair of columns, (pid, tid) for example, is sorted, compared and looked up as one column of 64-bit keys, which numpy
does many times faster than with pairs.

Columns of many rows are made in a file without a name, which is gone with the last column in it. It is mapped, so that
only what somebody looks at takes memory, and that can be given back (`Table.unload`, `slices`).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pinprof.base import files
from pinprof.base.lazy_dataclass import dataclass

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

Integer = TypeVar("Integer", bound=np.integer)
Number = TypeVar("Number", bound=np.generic)

_DTYPES: dict[str, Any] = {
    "Int64": np.int64, "Int32": np.int32, "Int16": np.int16, "Int8": np.int8, "UInt64": np.uint64, "UInt8": np.uint8,
    "Bool": np.bool_, "Float64": np.float64, "Texts": None,
}  # fmt: skip
_TIMES = ("time_ns", "start_ns", "end_ns", "lived_ns")
_AT_ONCE = 1 << 16
"""Rows that are worked on in one go."""
LONG_ROWS = 2_000_000
"""From here on a column is written to a file."""
ROWS_AT_ONCE = 1 << 20
"""Rows that are moved in one go."""
_CLOSE = 4
"""Numbers lie close together if their range is less than this number of times their count."""
_columns_of: dict[type, Mapping[str, Any]] = {}
"""What `_columns` answered before."""


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns of one length: the fields of this module's types. A column with a default may be None: not recorded.

    Other fields (`names`, into which a column points) belong to all rows. Tables are compared by identity, since arrays
    have no one answer: `eq=False, repr=False` of each class leaves out what would only cost time to import.
    """

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} rows>"

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

    def take(self, rows: NDArray[Any] | slice) -> Self:
        """The rows of a boolean mask, an index array or a slice."""
        return replace(self, **{name: _taken(getattr(self, name), rows) for name in _columns(type(self))})

    def joined(self, *others: Self) -> Self:
        """The rows of this table, then those of others with the same `names`."""
        tables = (self, *others)
        return replace(self, **{name: _joined([getattr(t, name) for t in tables]) for name in _columns(type(self))})

    def within(self, start_ns: int, end_ns: int) -> Self:
        """The rows that happened, or began, in [start, end)."""
        begins = next(iter(self.times().values()))
        return self.take((begins >= start_ns) & (begins < end_ns))

    def unload(self) -> None:
        """Give back the memory of columns that lie in files; whoever looks at them again reads them again."""
        for name in _columns(type(self)):
            _unload(getattr(self, name))

    def times(self) -> dict[str, Int64]:
        """The columns that say when something happened, began or ended."""
        return {name: getattr(self, name) for name in _columns(type(self)) if name in _TIMES}

    def moved(self, offset_ns: int) -> Self:
        """The same at times that are later by `offset_ns`."""
        return replace(self, **{name: column + offset_ns for name, column in self.times().items()})


def unload(*columns: Any) -> None:
    """Give back the memory of columns that lie in files; what is none is left alone."""
    for column in columns:
        _unload(column)


def _unload(column: Any) -> None:
    if (mapped := _file_of(column)) is not None:
        mapped.madvise(mmap.MADV_DONTNEED)


def _file_of(column: Any) -> mmap.mmap | None:
    """The file in which a column lies, if it does."""
    base = column
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap) else None


def _columns(table: type[Table]) -> Mapping[str, Any]:
    """Column → type of its elements, None for text, in the order of the fields."""
    if table not in _columns_of:
        kinds = {entry.name: str(entry.type).removesuffix(" | None") for entry in fields(table)}
        _columns_of[table] = {name: _DTYPES[kind] for name, kind in kinds.items() if kind in _DTYPES}
    return _columns_of[table]


def _taken(column: Any, rows: NDArray[Any] | slice) -> Any:
    if not isinstance(column, tuple):
        return None if column is None else taken(column, rows)
    return tuple(map(column.__getitem__, np.arange(len(column))[rows].tolist()))


def _joined(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], tuple):
        return tuple(text for column in columns for text in column)
    if any(column is None for column in columns):
        return None
    filled = [column for column in columns if len(column)]
    if len(filled) == 1:
        return filled[0]
    rows = sum(map(len, columns))
    return np.concatenate(columns) if rows < LONG_ROWS else put_together(columns, rows, np.result_type(*columns))


def pack(first: NDArray[Any], second: NDArray[Any]) -> Int64:
    """Per row the key of two signed 32-bit numbers: different pairs have different keys, and keys sort as pairs do."""
    return np.asarray(first.astype(np.int64) << 32 | second.astype(np.int64) + (1 << 31))


def unpack(keys: Int64) -> tuple[Int64, Int64]:
    """Both columns of packed keys."""
    return keys >> 32, (keys & 0xFFFF_FFFF) - (1 << 31)


def halves(words: UInt64) -> tuple[Int32, Int32]:
    """The lower and the upper 32 bits of each word, as signed numbers."""
    pairs = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.int32).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def pairs_of(keys: Int64) -> list[tuple[int, int]]:
    """The pairs of packed keys as Python's numbers."""
    return list(zip(*(column.tolist() for column in unpack(keys)), strict=True))


def distinct_pairs(first: NDArray[Any], second: NDArray[Any]) -> Int64:
    """The packed keys of all pairs in two columns, ascending."""
    parts = [ascending(pack(first[part], second[part])) for part in slices(len(first), first, second)]
    return ascending(np.concatenate([np.zeros(0, np.int64), *parts]))


def numbered(column: NDArray[Integer]) -> tuple[NDArray[Integer], Int64]:
    """The numbers in a column, ascending, and per row the place of its own among them; without sorting where they lie
    close together.
    """
    low, high = extent(column)
    if high - low >= _CLOSE * len(column):
        known, place = np.unique(column, return_inverse=True)
        return known, place.reshape(-1).astype(np.int64, copy=False)
    there = np.zeros(high - low + 1, np.bool_)
    there[column - low] = True
    known = np.flatnonzero(there)
    return (known + low).astype(column.dtype), (np.cumsum(there) - 1)[column - low]


def numbered_pairs(first: NDArray[Integer], second: NDArray[Integer]) -> tuple[Int64, Int64]:
    """The packed keys of all pairs in two columns, ascending, and per row the place of its own among them."""
    (one, row), (other, column) = numbered(first), numbered(second)
    both, place = numbered(row * len(other) + column)
    return pack(one[both // max(len(other), 1)], other[both % max(len(other), 1)]), place


def ascending(column: NDArray[Number]) -> NDArray[Number]:
    """The distinct numbers in a column, ascending; none of them is NaN.

    `numpy.unique` puts them into a hash table first, which takes fifty times as long where they are many, and imports
    all of `numpy.ma` to ask whether values are masked.
    """
    ordered = np.sort(column)
    fresh = np.ones(len(ordered), np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh]


def distinct(*columns: NDArray[Integer]) -> NDArray[Integer]:
    """The numbers in any of some columns of one type, ascending; fast where a column has one alone, as processes do."""
    found = [columns[0][:0]]
    for column in columns:
        parts = (column[part] for part in slices(len(column), column))
        found += [column[:1]] if is_uniform(column) else map(ascending, parts)
    return ascending(np.concatenate(found))


def extent(column: NDArray[Any]) -> tuple[int, int]:
    """The least and the greatest of a column's numbers; 0 where it has none."""
    if not len(column):
        return 0, 0
    if column.strides == (0,):
        return int(column[0]), int(column[0])
    ends = [(int(column[part].min()), int(column[part].max())) for part in slices(len(column), column)]
    return min(low for low, _ in ends), max(high for _, high in ends)


def is_uniform(column: NDArray[Any]) -> bool:
    """Whether all rows, if there are any, have the same value."""
    if not len(column) or column.strides == (0,):
        return True
    parts = slices(len(column), column)
    return bool(column[0] == column[-1]) and all(bool((column[part] == column[0]).all()) for part in parts)


def uniform(value: int, count: int, dtype: DTypeLike) -> NDArray[Any]:
    """A read-only column that has one value in all its rows, of whatever number, in the memory of one."""
    return np.broadcast_to(np.array(value, dtype), count)


def taken(column: NDArray[Any], rows: NDArray[Any] | slice) -> NDArray[Any]:
    """Some rows of a column, in any order; of a `uniform` one a uniform one, in a file where they are many."""
    if isinstance(rows, slice) or not len(column):
        return np.asarray(column[rows])
    masked = rows.dtype == np.bool_
    count = int(np.count_nonzero(rows)) if masked else len(rows)
    if column.strides == (0,):
        return uniform(column[0], count, column.dtype)
    if count < LONG_ROWS and _file_of(column) is None:
        return np.asarray(column[rows])
    parts = (column[part][rows[part]] if masked else column[rows[part]] for part in slices(len(rows), column))
    return put_together(parts, count, column.dtype)


def looked_up(values: NDArray[Any], index: NDArray[np.integer]) -> NDArray[Any]:
    """Per row the value at its index; a uniform column, which is read-only, as long ones are, where either is one.

    For other indices than its own, numpy would make a column of 64 bits.
    """
    if len(index) and (index.strides == (0,) or (len(values) and values.strides == (0,))):
        return uniform(values[index[0]], len(index), values.dtype)
    if len(index) < ROWS_AT_ONCE:
        return np.asarray(values[index])
    return in_parts(lambda part: values[index[part]], len(index), values.dtype, index, values)


def in_order(start: Int64) -> Int64 | slice:
    """What puts rows in the order of `start`; nothing to move where they are so already."""
    pieces = (start[part.start : part.stop + 1] for part in slices(len(start), start))
    ordered = all(bool((piece[1:] >= piece[:-1]).all()) for piece in pieces)
    return slice(None) if ordered else np.argsort(start, kind="stable")


def stable_order(column: NDArray[np.signedinteger]) -> Int64:
    """What puts rows in the order of a column, equal ones as they stand: `numpy.argsort`, in a tenth of its time."""
    (low, high), bits = extent(column), len(column).bit_length()
    if low == high:
        return np.arange(len(column))
    if (high - low).bit_length() + bits > 63:
        return np.argsort(column, kind="stable")
    # A value and a row are one number: to sort these takes no more memory.
    keys = (column.astype(np.int64) - low) << bits | np.arange(len(column))
    keys.sort()
    keys &= (1 << bits) - 1
    return keys


def give_back() -> None:
    """Give the system back what freed columns leave between those in use, where the C library can."""
    with suppress(AttributeError, OSError):
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)


def slices(rows: int, *columns: NDArray[Any]) -> Iterator[slice]:
    """All rows of a column, in parts so short that what lies between them stays in a processor's cache.

    The memory of `columns` that lie in files is given back behind each.
    """
    for first in range(0, rows, _AT_ONCE):
        yield slice(first, min(first + _AT_ONCE, rows))
        for column in columns:
            _unload(column)


def rows_of(mask: Bool) -> Int64 | slice:
    """The rows of a mask; a slice, which copies nothing, where they lie side by side."""
    first, count = int(mask.argmax()) if len(mask) else 0, int(np.count_nonzero(mask))
    return slice(first, first + count) if bool(mask[first : first + count].all()) else np.flatnonzero(mask)


def narrowed(column: NDArray[Any]) -> NDArray[Any]:
    """The column in the narrowest signed type that holds it, for numbers that nobody reckons with."""
    if is_uniform(column):
        return packed(column)
    return column.astype(fitting(*extent(column)), copy=False)


def changes(column: NDArray[Any]) -> Int64:
    """The first row, and those that differ from the one before."""
    found = [np.zeros(min(len(column), 1), np.int64)]
    for part in slices(len(column), column):
        piece = column[max(part.start - 1, 0) : part.stop]
        found.append(np.flatnonzero(piece[1:] != piece[:-1]) + max(part.start, 1))
    return np.concatenate(found)


def repeated(values: NDArray[Any], edge: Int64) -> NDArray[Any]:
    """Each value for all rows from its edge to the next; the edges begin with 0 and ascend."""

    def rows(part: slice) -> NDArray[Any]:
        first, last = int(np.searchsorted(edge, part.start, "right")) - 1, int(np.searchsorted(edge, part.stop))
        bounds = np.clip(edge[first : last + 1], part.start, part.stop)
        return np.repeat(values[first:last], bounds[1:] - bounds[:-1])

    return in_parts(rows, int(edge[-1]), values.dtype)


def fitting(low: int, high: int) -> type[np.signedinteger[Any]]:
    """The narrowest signed type from `low` to `high`."""
    kinds = (np.int8, np.int16, np.int32)
    return next((kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max), np.int64)


def packed(column: NDArray[Any]) -> NDArray[Any]:
    """The column, as a `uniform` one where it has one value alone."""
    return uniform(column[0], len(column), column.dtype) if len(column) and is_uniform(column) else column


class GrowingColumn:
    """A column that is appended to; `uniform` as long as all that is appended is so, with one value."""

    def __init__(self, dtype: DTypeLike, room: int = 0) -> None:
        """`room`: how many values are expected; memory is taken as they come."""
        self._column: NDArray[Any] = np.zeros(1, dtype)
        self._room = room
        self._uniform = True
        self._filled = 0

    @property
    def view(self) -> NDArray[Any]:
        """The column as it stands; what is appended later may replace its memory."""
        if self._uniform:
            return uniform(self._column[0], self._filled, self._column.dtype)
        return self._column[: self._filled]

    def whole(self) -> NDArray[Any]:
        """The column when all is appended."""
        return self.view

    def extend(self, values: NDArray[Any]) -> None:
        """Append some values."""
        if not len(values):
            return
        one = values.strides == (0,) and (not self._filled or bool(values[0] == self._column[0]))
        end = self._filled + len(values)
        if self._uniform and one:
            self._column[0] = values[0]
        else:
            if end > len(self._column):
                grown = np.empty(max(end, self._room, len(self._column) * 3 // 2), self._column.dtype)
                grown[: self._filled] = self.view
                self._column = grown
            elif self._uniform:
                self._column[: self._filled] = self._column[0]
            self._column[self._filled : end] = values
            self._uniform = False
        self._filled = end


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


def in_parts(
    make: Callable[[slice], NDArray[Any]], rows: int, dtype: DTypeLike, *columns: NDArray[Any]
) -> NDArray[Any]:
    """A column that is made a part at a time, of `columns` whose memory is given back meanwhile (`slices`)."""
    return put_together(map(make, slices(rows, *columns)), rows, dtype)


def put_together(parts: Iterable[NDArray[Any]], rows: int, dtype: DTypeLike) -> NDArray[Any]:
    """A column of `rows` rows from parts one behind the other."""
    column = growing(dtype, rows)
    for part in parts:
        column.extend(part)
    return column.whole()
