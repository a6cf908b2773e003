"""Filling memory that is new each time, in huge pages, against filling memory that stays: what keeping it saves.

A kernel that zeroes a new huge page leaves it in the caches, from where the program's first writes profit. So what
keeping memory saves depends on the caches, and on how the memory is filled: that is done here as programs do it.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable

import numpy as np

from pinprof.base.columns import Float64
from pinprof.base.errors import ScenarioError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.bench.timers import ALONE, Timer, fresh, repeated

_PAGE = mmap.PAGESIZE
_OF_MALLOC = 16
"""How far behind the beginning of a page malloc and NumPy put large memory."""
_Fill = Callable[[Float64], object]


class _Mapping:
    """Private memory, in huge pages where the kernel has some, until it is closed."""

    def __init__(self, size_bytes: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._pages = mmap.mmap(-1, size_bytes + _PAGE, flags=flags)
        self._pages.madvise(mmap.MADV_HUGEPAGE)
        self.array = np.frombuffer(self._pages, np.float64, size_bytes // 8, _OF_MALLOC)

    def close(self) -> None:
        """Give it back to the kernel."""
        del self.array
        self._pages.close()


@dataclass(frozen=True)
class Refill:
    """One way to fill memory of a size, by what it holds then."""

    size_bytes: int
    fill: _Fill
    expected: float

    @classmethod
    def copy(cls, size_bytes: int, value: float) -> Refill:
        """By a memcpy of other memory, as `numpy.concatenate` does."""
        source = np.full(size_bytes // 8, value)
        return cls(
            size_bytes, lambda target: ctypes.memmove(target.ctypes.data, source.ctypes.data, target.nbytes), value
        )

    @classmethod
    def add(cls, size_bytes: int, value: float) -> Refill:
        """By the sum of two arrays, as `a + b` of NumPy does."""
        first, second = np.full(size_bytes // 8, value), np.full(size_bytes // 8, 2 * value)
        return cls(size_bytes, lambda target: np.add(first, second, out=target), 3 * value)

    def new(self) -> Timer:
        """A timer of making memory, filling it, and giving it back."""

        def once(_: object) -> None:
            made = _Mapping(self.size_bytes)
            self.fill(made.array)
            made.close()

        return fresh(lambda: None, once, lambda _: None, clock=ALONE)

    def kept(self) -> Timer:
        """A timer of filling memory that stays."""
        memory = _Mapping(self.size_bytes)
        self.fill(memory.array)
        return repeated(lambda: self.fill(memory.array), lambda _: self._check(memory.array), clock=ALONE)

    def _check(self, filled: Float64) -> None:
        if not (filled == self.expected).all():
            raise ScenarioError(
                "Filling memory left wrong data in it.", "Check the memory of this machine.", "wrong-result"
            )
