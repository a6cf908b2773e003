"""Allocations of a backend: freed exactly once, by the scenario or by whoever cleans up after it."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pinprof.base.errors import ScenarioError
from pinprof.scenario import DeviceMemory

from . import libc

ELEMENT_BYTES = 4
_PER_PAGE = 4096 // ELEMENT_BYTES

_BLOCK = 1 << 16
"""Elements compared at a time: 256 KiB stays in the cache, and so does the scratch memory."""


class Allocation:
    """Memory at an address, alive until `free()`."""

    def __init__(self, owner: Allocations, address: int, size_bytes: int, release: Callable[[], None]) -> None:
        self.address = address
        self.size_bytes = size_bytes
        self.kernel_address = address
        """Where the kernel finds it; differs from `address` for mapped memory of some systems."""
        self.pageable = False
        """Whether it is the CPU's alone: neither pinned, nor managed, nor the device's."""
        self._owner = owner
        self._release: Callable[[], None] | None = release
        owner.add(self)

    def part(self, start_bytes: int, size_bytes: int) -> Self:
        """A window, in whole elements; to be freed it has nothing."""
        window = type(self)(Allocations(), self.address + start_bytes, size_bytes, lambda: None)
        window.kernel_address = self.kernel_address + start_bytes
        window.pageable = self.pageable
        return window

    def free(self) -> None:
        """Give it back; does nothing the second time."""
        release, self._release = self._release, None
        self._owner.discard(self)
        if release is not None:
            release()


class Allocations:
    """The allocations alive in a backend."""

    def __init__(self) -> None:
        self._alive: list[Allocation] = []

    def add(self, allocation: Allocation) -> None:
        """Take note of a new one."""
        self._alive.append(allocation)

    def discard(self, allocation: Allocation) -> None:
        """Forget one that is freed."""
        if allocation in self._alive:
            self._alive.remove(allocation)

    def __len__(self) -> int:
        return len(self._alive)

    def release(self) -> None:
        """Free them all, newest first; an error is dropped, because another one made this necessary."""
        for allocation in reversed(tuple(self._alive)):
            with contextlib.suppress(ScenarioError, OSError):
                allocation.free()


class HostArray(Allocation):
    """Memory that the CPU sees as float32."""

    def __init__(self, owner: Allocations, address: int, size_bytes: int, release: Callable[[], None]) -> None:
        super().__init__(owner, address, size_bytes, release)
        self._array: NDArray[np.float32] | None = None

    @property
    def array(self) -> NDArray[np.float32]:
        """Its elements; made when first asked for, because windows are many and mostly copied only."""
        if self._array is None:
            self._array = view(self.address, self.size_bytes)
        return self._array

    def fill(self, value: float) -> None:
        """Write `value` to every element."""
        self.array.fill(value)

    def copy_from(self, source: DeviceMemory) -> None:
        """Copy with memcpy."""
        libc.memcpy(self.address, own(source).address, source.size_bytes)

    def read(self) -> None:
        """Read one element of every page."""
        self.array[::_PER_PAGE].sum()

    def mismatch(self, value: float) -> tuple[int, float] | None:
        """The first element that is not `value`, with its index."""
        return first_mismatch(self.array, value)

    def free(self) -> None:
        """Give it back; the array is empty from then on."""
        self._array = np.empty(0, np.float32)
        super().free()


def own(memory: DeviceMemory) -> Allocation:
    """The memory as one of these; ScenarioError when it comes from elsewhere."""
    if not isinstance(memory, Allocation):
        raise not_ours(memory)
    return memory


def not_ours(memory: DeviceMemory) -> ScenarioError:
    """The error for memory that a backend did not hand out."""
    problem = f"{type(memory).__name__} is not memory of this backend."
    return ScenarioError(problem, "Allocate it from ctx.backend.", "scenario")


def view(address: int, size_bytes: int) -> NDArray[np.float32]:
    """The memory at an address as float32; valid only as long as the memory is."""
    array: NDArray[np.float32] = np.ctypeslib.as_array(
        (ctypes.c_float * (size_bytes // ELEMENT_BYTES)).from_address(address)
    )
    return array


def touch(array: NDArray[np.float32], threads: int) -> None:
    """Write to every page of the array: each thread, this one included, its run of pages, all at the same time."""
    pages = -(-len(array) // _PER_PAGE)
    share = -(-pages // threads) * _PER_PAGE
    # numpy lets go of the interpreter's lock while it fills.
    first, *others = [array[start : start + share : _PER_PAGE].fill for start in range(0, len(array), share)]
    workers = [threading.Thread(target=fill, args=(0.0,), name="pinprof touch") for fill in others]
    for worker in workers:
        worker.start()
    first(0.0)
    for worker in workers:
        worker.join()


def first_mismatch(array: NDArray[np.float32], value: float) -> tuple[int, float] | None:
    """Index and content of the first element unequal to `value`, NaN included; None when there is none."""
    differs = np.empty(min(len(array), _BLOCK), np.bool_)
    wanted = np.float32(value)
    for start in range(0, len(array), _BLOCK):
        block = array[start : start + _BLOCK]
        np.not_equal(block, wanted, out=differs[: len(block)])
        if differs[: len(block)].any():
            index = int(differs[: len(block)].argmax())
            return start + index, float(block[index])
    return None
