"""The loops in `chains.c`, and the memory that they work in.

Without the library, for want of a compiler where pinprof was installed without it, Python does the same: a microsecond
for each address instead of a few nanoseconds.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.errors import PinprofError
from pinprof.machine.libraries import CHAINS

_POINTER, _WORD, _SIZE = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
_FIRST_BITS = 10


@cache
def library() -> ctypes.CDLL | None:
    """The C library; None where it cannot be built."""
    try:
        loaded = ctypes.CDLL(str(CHAINS.find()))
    except (PinprofError, OSError):
        return None
    loaded.pinprof_perf_walk.argtypes = (_POINTER, _SIZE, _SIZE, _POINTER, _POINTER)
    loaded.pinprof_perf_addresses.argtypes = (_POINTER, _SIZE, _POINTER, _POINTER, _SIZE, *(_POINTER,) * 4)
    loaded.pinprof_perf_refill.argtypes = (_POINTER,)
    loaded.pinprof_perf_places.argtypes = (*(_POINTER,) * 5, _SIZE, _POINTER)
    loaded.pinprof_perf_numbers.argtypes = (*(_POINTER,) * 3, _SIZE, _POINTER)
    loaded.pinprof_perf_sequences.argtypes = (*(_POINTER,) * 3, _SIZE, _POINTER)
    for function in ("walk", "addresses", "places", "sequences"):
        getattr(loaded, f"pinprof_perf_{function}").restype = _SIZE
    loaded.pinprof_perf_refill.restype = loaded.pinprof_perf_numbers.restype = None
    return loaded


class LibraryStruct(ctypes.Structure):
    """A struct of the library with columns that it points to."""

    def point(self, **columns: NDArray[Any]) -> None:
        """Let fields point to columns, which live as long as this."""
        vars(self).update({f"of_{name}": column for name, column in columns.items()})
        for name, column in columns.items():
            setattr(self, name, column.ctypes.data)

    def column(self, name: str) -> Any:
        """What a field points to."""
        return vars(self)[f"of_{name}"]


class FoundRecords(LibraryStruct):
    """`struct found`: what walking over records comes by."""

    sample_count: int
    switch_count: int
    walked: int
    _fields_ = (
        ("samples", _POINTER), ("switches", _POINTER),
        ("sample_count", _WORD), ("switch_count", _WORD), ("walked", _WORD),
    )  # fmt: skip

    @classmethod
    def within(cls, size: int) -> FoundRecords:
        """Nothing yet, with room for what may lie in this many bytes."""
        found, room = cls(), size // 8 + 1
        found.point(samples=np.empty(room, np.int32), switches=np.empty(room, np.int32))
        return found


class SpaceColumns(LibraryStruct):
    """`struct spaces`: the columns of mappings.SpaceTable."""

    _fields_ = (
        *((name, _POINTER) for name in ("first", "last", "owner", "start", "end", "shift", "dso", "by_process")),
        ("versions", _WORD),
    )  # fmt: skip


class HashTable(LibraryStruct):
    """`struct table`: numbers of distinct things by their hash."""

    bits: int
    room: int
    count: int
    _fields_ = (("slots", _POINTER), ("hashes", _POINTER), ("bits", _WORD), ("room", _WORD), ("count", _WORD))

    @classmethod
    def empty(cls) -> HashTable:
        """One with nothing in it."""
        table = cls()
        table.point(hashes=np.empty(0, np.uint64))
        table.reserve(1)
        return table

    def reserve(self, more: int) -> None:
        """Make room for `more` new things, and twice as many slots."""
        self.bits = max(_FIRST_BITS, (2 * (self.count + more) - 1).bit_length())
        self.room = 1 << self.bits - 1
        hashes = grown(self.column("hashes"), self.count, self.room)
        self.point(slots=np.full(2 * self.room, -1, np.int32), hashes=hashes)
        if (known := library()) is not None:
            known.pinprof_perf_refill(ctypes.byref(self))


class PlaceRows(LibraryStruct):
    """`struct places`: what addresses mean (chains.py)."""

    _fields_ = (("table", _POINTER), ("kinds", _POINTER), ("offsets", _POINTER), ("cache", _POINTER), ("factor", _WORD))


class SequenceRows(LibraryStruct):
    """`struct sequences`: distinct sequences of numbers end to end (sequences.py)."""

    filled: int
    flat_room: int
    _fields_ = (
        ("table", _POINTER), ("flat", _POINTER), ("length", _POINTER), ("start", _POINTER),
        ("filled", _WORD), ("flat_room", _WORD), ("factor", _WORD),
    )  # fmt: skip


def grown(column: NDArray[Any], filled: int, room: int) -> NDArray[Any]:
    """A column of `room` rows that begins with the first `filled` ones of another."""
    larger = np.empty(room, column.dtype)
    larger[:filled] = column[:filled]
    return larger


def factor() -> int:
    """An odd number that no file can know: keys of hostile ones would share a hash. No number depends on it."""
    return int.from_bytes(os.urandom(8), "little") | 1
