"""Integer columns of a large SQLite table, straight from the pages of its b-tree, by numpy.

SQLite hands out a Python object for every cell; here a step of numpy decodes a column of some ten thousand rows. Only
the plain case is read, which is what nsys writes: a table with row ids whose rows lie whole in their pages and have a
value for every column, integers in the wanted ones. Anything else raises `Unusual`, and SQLite reads the table: it
alone says what odd or damaged files mean.

Source: SQLite's "Database File Format", 1.3 (header), 1.6 (b-tree pages), 2.1 (records); all numbers are big-endian.
A page of a table's b-tree is a leaf (13) or holds children (5): its kind, at byte 3 its number of cells, then, from
byte 8 or 12 on, where each cell begins. A leaf's cell is the length of its record and its row id, both varints, and the
record: the length of its header and a type for each column, varints too, then the values. Types 0 to 9 are NULL,
integers of 1, 2, 3, 4, 6 and 8 bytes, a float, 0 and 1; from 12 on text and blobs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Bool, Int64, UInt8
from pinprof.base.lazy_dataclass import dataclass

_HEADER_BYTES = 100
_PLAIN_FORMAT = b"\x01\x01"
"""Bytes 18 and 19 of a file without a write-ahead log."""
_FRACTIONS = b"\x40\x20\x20"
"""Bytes 21 to 23 of every file."""
_LOCKED_BYTE = 1 << 30
"""The page that holds this byte belongs to nothing."""
_LEAF, _INNER = 13, 5
_LEAF_HEAD, _INNER_HEAD = 8, 12
_DEEPEST = 20
"""Levels that SQLite goes down."""
_NEVER_WHOLE = 35
"""A record longer than a page less this goes on in another page."""
_CHUNK_BYTES = 1 << 20
"""Decoded in one go: what a processor's cache holds."""
_SLACK_BYTES = 32
"""Behind a chunk, for what is looked at before it is known to lie inside."""

_ONE_BYTE = 128
"""Varints below this take one byte."""
_NULL, _FLOAT, _ZERO, _RESERVED, _TEXT = 0, 7, 8, 10, 12
_LENGTH = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((kind - 12) // 2 for kind in range(12, _ONE_BYTE))], np.int64)
"""Type → bytes of its value."""
_BEHIND = np.array([63, 56, 48, 40, 32, 16, 0, 0, 63, 63], np.int64)
"""Type → how many of the 64 bits that begin with its value lie behind it."""
_WHOLE = {1: ">i1", 2: ">i2", 4: ">i4", 6: ">i8"}
"""Types of integers that have a type of numpy."""


class Unusual(Exception):
    """Something that only SQLite reads, or finds damaged."""


@dataclass(frozen=True)
class Values:
    """A column of integers in some neighbouring rows."""

    of: NDArray[Any] | int
    """One for each row, or the one that all have; anything where they are NULL."""
    null: Bool | bool = False
    """Which rows are NULL, or whether all are."""


@dataclass(frozen=True)
class PageLayout:
    """How a file is divided into pages."""

    page_bytes: int
    usable_bytes: int
    """Each page's, without what is reserved for extensions at its end."""
    pages: int

    @classmethod
    def of(cls, path: Path) -> PageLayout:
        """From the header; Unusual where it is not as usual, or the file is not as long as it says."""
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
        page_bytes = int.from_bytes(head[16:18], "big")
        page_bytes = 65536 if page_bytes == 1 else page_bytes
        possible = len(head) == _HEADER_BYTES and page_bytes >= 512 and not page_bytes & (page_bytes - 1)
        if not possible or head[18:20] != _PLAIN_FORMAT or head[21:24] != _FRACTIONS or head[24:28] != head[92:96]:
            raise Unusual
        layout = cls(page_bytes, page_bytes - head[20], int.from_bytes(head[28:32], "big"))
        if layout.usable_bytes < 480 or path.stat().st_size != layout.pages * page_bytes:
            raise Unusual
        return layout


class TablePages:
    """One table of a file, given by the number of its first page and how many columns it has."""

    def __init__(self, path: Path, layout: PageLayout, root: int, columns: int) -> None:
        if not 0 < columns < _ONE_BYTE - 1:
            raise Unusual
        self._path, self._layout, self._root, self._columns = path, layout, root, columns
        with path.open("rb", buffering=0) as file:
            self.leaves = _leaves(file, layout, root)
        """Numbers of the pages that hold the rows, in the order of row ids."""

    @property
    def size_bytes(self) -> int:
        """The pages' that hold the rows."""
        return len(self.leaves) * self._layout.page_bytes

    def read(self, wanted: Collection[int]) -> Iterator[tuple[int, int, dict[int, Values]]]:
        """Goes of (leaves, rows, wanted column → its values), in the order of row ids.

        Unusual where something is, which may come after some goes: these are then to be forgotten.
        """
        step = max(_CHUNK_BYTES // self._layout.page_bytes, 1)
        with self._path.open("rb", buffering=0) as file:
            for first in range(0, len(self.leaves), step):
                numbers = self.leaves[first : first + step]
                content = _content(file, self._layout, numbers)
                cells, ends = _cells(content, self._layout, len(numbers))
                if not len(cells) and not (len(self.leaves) == 1 and self.leaves[0] == self._root):
                    raise Unusual
                records = _records(content, self._layout, cells, ends)
                yield len(numbers), len(cells), _columns(content, *records, self._columns, wanted)


def _leaves(file: FileIO, layout: PageLayout, root: int) -> Int64:
    """Level by level from the root down; all leaves are equally deep."""
    level = np.array([root], np.int64)
    seen = 0
    for _ in range(_DEEPEST):
        seen += len(level)
        unused = _LOCKED_BYTE // layout.page_bytes + 1
        # Where they are more pages than the file has, some are children of several.
        if level.min() < 2 or level.max() > layout.pages or bool((level == unused).any()) or seen > layout.pages:
            raise Unusual
        if _content(file, layout, level[:1])[0] == _LEAF:
            return level
        level = np.concatenate([_children(file, layout, number, root) for number in level.tolist()])
    raise Unusual


def _children(file: FileIO, layout: PageLayout, number: int, root: int) -> Int64:
    page = _content(file, layout, np.array([number], np.int64))
    count = int(page[3]) << 8 | int(page[4])
    edge = _INNER_HEAD + 2 * count
    if page[0] != _INNER or edge > layout.usable_bytes or not (count or number == root):
        raise Unusual
    at = page[_INNER_HEAD:edge].view(">u2").astype(np.int64)
    if count and (int(at.min()) < edge or int(at.max()) + 5 > layout.usable_bytes):
        raise Unusual
    children = _loaded(page, at, ">u4").astype(np.int64)
    return np.append(children, int.from_bytes(page[8:12].tobytes(), "big"))


def _content(file: FileIO, layout: PageLayout, numbers: Int64) -> UInt8:
    """The bytes of pages one behind the other, and some slack."""
    size = layout.page_bytes
    content = np.zeros(len(numbers) * size + _SLACK_BYTES, np.uint8)
    edges = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
    for first, last in pairwise(edges):
        file.seek((int(numbers[first]) - 1) * size)
        part = content[first * size : last * size].data
        while len(part):
            if not (count := file.readinto(part)):
                raise Unusual
            part = part[count:]
    return content


def _cells(content: UInt8, layout: PageLayout, pages: int) -> tuple[Int64, Int64]:
    """Where each cell begins, and where the usable part of its page ends."""
    head = content[: pages * layout.page_bytes].reshape(pages, -1)[:, :_LEAF_HEAD].astype(np.int64)
    count = head[:, 3] << 8 | head[:, 4]
    edge = _LEAF_HEAD + 2 * count
    if bool((head[:, 0] != _LEAF).any()) or int(edge.max()) > layout.usable_bytes or (pages > 1 and not count.all()):
        raise Unusual
    begin = np.arange(pages) * layout.page_bytes
    first = np.cumsum(count) - count
    pointer = 2 * np.arange(int(count.sum())) + np.repeat(begin + _LEAF_HEAD - 2 * first, count)
    offset = content.take(pointer).astype(np.int64) << 8 | content.take(pointer + 1)
    if bool((offset < np.repeat(edge, count)).any()) or bool((offset >= layout.usable_bytes).any()):
        raise Unusual
    begin = np.repeat(begin, count)
    return begin + offset, begin + layout.usable_bytes


def _records(content: UInt8, layout: PageLayout, cells: Int64, ends: Int64) -> tuple[Int64, Int64]:
    """Where each record begins and ends."""
    length = content.take(cells).astype(np.int64)
    at = cells + 1
    if bool((long := length >= _ONE_BYTE).any()):
        second = content.take(at)
        if bool((second[long] >= _ONE_BYTE).any()):
            raise Unusual
        length = np.where(long, (length & (_ONE_BYTE - 1)) << 7 | second, length)
        at = at + long
    # The row id: up to nine bytes, of which the last has no mark whether another follows.
    more = content.take(at) >= _ONE_BYTE
    at = at + 1
    for _ in range(8):
        if not more.any():
            break
        following = content.take(at) >= _ONE_BYTE
        at = at + more
        more = more & following
    end = at + length
    if bool((end > ends).any()) or int(length.max(initial=0)) > layout.usable_bytes - _NEVER_WHOLE:
        raise Unusual
    return at, end


def _columns(content: UInt8, start: Int64, end: Int64, columns: int, wanted: Collection[int]) -> dict[int, Values]:
    """The wanted columns of records, which are known to lie inside their pages."""
    if not len(start):
        return {column: Values(0) for column in wanted}
    if bool((content.take(start) != columns + 1).any()) or bool((end - start <= columns).any()):
        raise Unusual
    # A value begins where the record does, and so many bytes behind that: a number, while all rows agree.
    base, behind = start, columns + 1
    places: dict[int, tuple[Int64, UInt8]] = {}
    for column in range(columns):
        kind = content.take(start + (column + 1))
        least, most = int(kind.min()), int(kind.max())
        if most >= _ONE_BYTE or (most >= _RESERVED and least < _TEXT and _any_of(kind, _RESERVED, _RESERVED + 1)):
            raise Unusual
        if column in wanted:
            if most >= _RESERVED or (least <= _FLOAT <= most and _any_of(kind, _FLOAT)):
                raise Unusual
            places[column] = base + behind, kind
        if least == most:
            behind += int(_LENGTH[least])
        else:
            base = base + _LENGTH.take(kind)
    if bool((base + behind != end).any()):
        raise Unusual
    return {column: _integers(content, *place) for column, place in places.items()}


def _any_of(kind: UInt8, *values: int) -> bool:
    return any(bool((kind == value).any()) for value in values)


def _integers(content: UInt8, at: Int64, kind: UInt8) -> Values:
    least, most = int(kind.min()), int(kind.max())
    if most == _NULL:
        return Values(0, True)
    if least == most:
        if least >= _ZERO:
            return Values(least - _ZERO)
        if least in _WHOLE:
            return Values(_loaded(content, at, _WHOLE[least]))
    values = _loaded(content, at, ">i8") >> _BEHIND.take(kind)
    if most >= _ZERO:
        values = np.where(kind >= _ZERO, kind.astype(np.int64) - _ZERO, values)
    return Values(values, kind == _NULL if least == _NULL else False)


def _loaded(content: UInt8, at: Int64, dtype: str) -> NDArray[Any]:
    """Numbers of the machine's byte order from any places."""
    of = np.dtype(dtype)
    if of.itemsize == 1:
        return content.take(at).view(of)
    everywhere: NDArray[Any] = np.ndarray((len(content) - of.itemsize + 1,), of, content, strides=(1,))
    return everywhere[at].astype(of.newbyteorder("="), copy=False)
