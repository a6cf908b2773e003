"""Rows that share a key, and sums, extremes and medians over them: what `GROUP BY` is to a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import extent, fitting, in_parts, looked_up, slices, uniform
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int64

_TOO_MANY = 1 << 62
"""Combinations of values for which 64 bits do not suffice."""


@dataclass(frozen=True)
class Groups:
    """Rows sorted into groups by integer columns; groups stand in ascending order of their keys."""

    keys: tuple[Int64, ...]
    """Per column, the value of each group."""
    of: NDArray[np.signedinteger]
    """Per row, its group; of a type no wider than needed, for there may be millions of rows and a few groups."""
    count: Int64
    """Per group, its rows; never 0."""

    def __len__(self) -> int:
        return len(self.count)

    def rows(self) -> list[Int64]:
        """Per group its rows, ascending."""
        return np.split(np.argsort(self.of, kind="stable"), np.cumsum(self.count)[:-1]) if len(self) else []

    def sum(self, values: NDArray[np.integer] | Bool) -> Int64:
        """Exact sums by group."""
        if len(self) == 1:
            return np.array([values.sum()], np.int64)
        total = np.zeros(len(self), np.int64)
        add_at(total, self.of, values)
        return total

    def sum_of(self, values: Callable[[slice], NDArray[np.integer]]) -> Int64:
        """Exact sums by group of values that are made of a number of rows at a time."""
        total = np.zeros(len(self), np.int64)
        for part in slices(len(self.of)):
            add_at(total, self.of[part], values(part))
        return total

    def min(self, values: Int64) -> Int64:
        """Least value by group."""
        if len(self) == 1:
            return np.array([values.min()], np.int64)
        least = np.full(len(self), np.iinfo(np.int64).max)
        _each_at(np.minimum, least, self.of, values)
        return least

    def max(self, values: Int64) -> Int64:
        """Greatest value by group."""
        if len(self) == 1:
            return np.array([values.max()], np.int64)
        most = np.full(len(self), np.iinfo(np.int64).min)
        _each_at(np.maximum, most, self.of, values)
        return most

    def median(self, values: Int64) -> Int64:
        """The middle value by group, the lower one of two."""
        if not len(self):
            return np.zeros(0, np.int64)
        low, width = int(values.min()), int(values.max()) - int(values.min()) + 1
        middle = np.cumsum(self.count) - self.count + (self.count - 1) // 2
        if width * len(self) < 1 << 62:
            key = np.empty(len(values), np.int32 if width * len(self) < 1 << 31 else np.int64)
            for part in slices(len(values)):
                key[part] = self.of[part].astype(np.int64) * width + (values[part] - low)
            key.sort()
            return np.asarray(key[middle].astype(np.int64) % width + low)
        return np.asarray(values[np.lexsort((values, self.of))][middle])

    def first(self, values: Int64) -> Int64:
        """The value of each group's first row."""
        row = self.min(np.arange(len(self.of)))
        return np.asarray(values[row])


def group(*columns: NDArray[np.integer]) -> Groups:
    """Group rows by columns of any integers."""
    lowest, sizes = _extents(columns)
    if (cells := math.prod(sizes)) >= _TOO_MANY:
        return _sparse(*columns)
    code = _code(columns, lowest, sizes)
    if cells <= 4 * len(code) + 1024:
        present = np.zeros(cells, np.int64)
        add_at(present, code, uniform(1, len(code), np.int64))
        distinct = np.flatnonzero(present)
        of, count = code, present[distinct]
        if len(distinct) < cells:
            place = np.zeros(cells, code.dtype)
            place[distinct] = np.arange(len(distinct))
            of = looked_up(place, code)
    else:
        distinct, of, count = np.unique(code, return_inverse=True, return_counts=True)
        of = of.reshape(-1)
    keys = []
    rest = distinct.astype(np.int64)
    for low, size in zip(reversed(lowest[1:]), reversed(sizes[1:]), strict=True):
        rest, key = np.divmod(rest, size)
        keys.append(key + low)
    return Groups((rest + lowest[0], *reversed(keys)), of, count.astype(np.int64, copy=False))


def codes(*columns: NDArray[np.integer]) -> NDArray[np.signedinteger]:
    """Per row a number: equal where rows agree in all columns, and in the same order as rows."""
    lowest, sizes = _extents(columns)
    return _sparse(*columns).of if math.prod(sizes) >= _TOO_MANY else _code(columns, lowest, sizes)


def _extents(columns: Sequence[NDArray[np.integer]]) -> tuple[list[int], list[int]]:
    """Per column its least value, and how many there are from that to its greatest."""
    ends = [extent(column) for column in columns]
    return [low for low, _ in ends], [high - low + 1 for low, high in ends]


def _code(
    columns: Sequence[NDArray[np.integer]], lowest: Sequence[int], sizes: Sequence[int]
) -> NDArray[np.signedinteger]:
    """Per row its place in a table of all combinations. There may be millions of rows: one array of them is enough."""

    def places(part: slice) -> Int64:
        cell = np.zeros(part.stop - part.start, np.int64)
        for column, low, size in zip(columns, lowest, sizes, strict=True):
            if size > 1:
                cell *= size
                cell += column[part].astype(np.int64, copy=False) - low
        return cell

    rows = len(columns[0])
    return in_parts(places, rows, fitting(0, math.prod(sizes)), *columns)


def add_at(total: Int64, index: NDArray[np.integer], values: NDArray[np.integer] | Bool) -> None:
    """Add each value at its index."""
    _each_at(np.add, total, index, values)


def _each_at(what: np.ufunc, total: Int64, index: NDArray[np.integer], values: NDArray[np.integer] | Bool) -> None:
    for part in slices(len(values), values):
        # Of these two types alone numpy does it fast.
        what.at(total, index[part].astype(np.intp, copy=False), values[part].astype(np.int64, copy=False))


def _sparse(*columns: NDArray[np.integer]) -> Groups:
    """Groups where the columns' extents are too wide for one number: what came before gives way to its rank."""
    of, cells = np.zeros(len(columns[0]), np.int64), 1
    for column, low, size in zip(columns, *_extents(columns), strict=True):
        if cells * size >= _TOO_MANY:
            cells, of = _ranks(of)
        if cells * size >= _TOO_MANY:
            # Ranks are below the rows, so that a code of two columns has 64 bits for 2^31 rows.
            size, place = _ranks(column.astype(np.int64))
        else:
            place = column.astype(np.int64) - low
        of, cells = of * size + place, cells * size
    of = _ranks(of)[1]
    first, count = np.unique(of, return_index=True, return_counts=True)[1:]
    keys = tuple(column.astype(np.int64)[first] for column in columns)
    return Groups(keys, of.astype(np.int64), count.astype(np.int64))


def _ranks(values: Int64) -> tuple[int, Int64]:
    """How many different values there are, and the place of each among them."""
    distinct, place = np.unique(values, return_inverse=True)
    return len(distinct), place.reshape(-1)
