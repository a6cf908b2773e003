"""The host backend: the kernel mechanisms behind each kind of memory for real, and the CPU in place of the GPU.

    pageable   malloc; copies are staged through a small ring of registered buffers, as drivers do
    pinned     memfd, pinned untouched by io_uring: pages are created while they are pinned, as in cudaMallocHost
    mapped     the same memory, worked on directly
    managed    userfaultfd: missing pages are served in blocks from the "device", which takes them back for the kernel
    device     private memory that exists from the start and is only handed out, like a GPU's

Not reproduced: DMA mapping, the driver's firmware calls, GPU page tables, the link.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Iterable

import numpy as np

from pinprof.base.errors import ScenarioError
from pinprof.scenario import DeviceMemory, HostMemory, MemoryKind, Place, Stream, StreamEvent

from . import libc, limits
from .io_uring import Ring
from .memory import ELEMENT_BYTES, Allocation, Allocations, HostArray, first_mismatch, own, touch, view
from .pages import private_pages
from .userfaultfd import Pager

_STAGING_BYTES = 2 << 20
_STAGING_SLOTS = 2
"""4 MiB in all, below the usual limit of locked memory (8 MiB)."""

_BLOCK_BYTES = 2 << 20
"""Migration granularity, that of a UVM VA block."""

_NOWHERE, _ON_HOST, _ON_DEVICE = range(3)
_NAN_WORD = 0x7FC0_0BAD
"""A bit pattern that no scenario writes: searching for it reads everything."""


class HostBackend:
    """No GPU: everything runs on the CPU, results carry the label `host emulation`."""

    name = "host"
    device_name = "no GPU"
    emulated = True

    def __init__(self) -> None:
        self._allocations = Allocations()
        self._cleanup = contextlib.ExitStack()
        self._device_free: list[tuple[int, int]] = []
        self._staging: int | None = None
        self._pager: Pager | None = None
        self._registered: dict[int, Ring] = {}
        """Address of pageable memory → the ring that holds it pinned."""
        self._zeros = 0
        """Address of one block of zeros, for managed memory."""
        libc.use_fresh_pages()

    def prepare(self, kinds: Iterable[MemoryKind], size_bytes: int) -> None:
        """Check the memory, prove that the mechanisms are permitted, and create the "device" memory."""
        kinds = tuple(kinds)
        with_device = "device" in kinds or "managed" in kinds
        copies = len([kind for kind in kinds if kind != "device"]) + with_device
        limits.require("host memory (host emulation)", copies * size_bytes, limits.free_host_bytes())
        if "pageable" in kinds:
            self._staging = self._pinned_mapping(_STAGING_SLOTS * _STAGING_BYTES, self._cleanup)
        if "pinned" in kinds or "mapped" in kinds:
            Ring().close()
        if "managed" in kinds:
            self._pager = Pager()
            self._cleanup.callback(self._pager.close)
            self._zeros = self._new_device_memory(_BLOCK_BYTES)
        if with_device:
            self._device_free.append((self._new_device_memory(_pages(size_bytes)), _pages(size_bytes)))

    def pageable(self, size_bytes: int) -> HostMemory:
        """Private memory of malloc, without pages yet."""
        address = libc.malloc(size_bytes)
        memory = HostArray(self._allocations, address, size_bytes, lambda: libc.free(address))
        memory.pageable = True
        return memory

    def pinned(self, size_bytes: int) -> HostMemory:
        """A memfd whose pages are created by pinning them."""
        with contextlib.ExitStack() as undo:
            address = self._pinned_mapping(size_bytes, undo)
            return HostArray(self._allocations, address, size_bytes, undo.pop_all().close)

    def mapped(self, size_bytes: int) -> HostMemory:
        """The same: without a device there is nothing to map it to."""
        return self.pinned(size_bytes)

    def managed(self, size_bytes: int) -> HostMemory:
        """Memory whose missing pages come from the device."""
        if self._pager is None:
            raise _not_prepared("managed")
        return ManagedMemory(self._allocations, self._pager, self._zeros, self._take_device_memory, size_bytes)

    def device(self, size_bytes: int) -> DeviceMemory:
        """Memory that was there before the program, as a GPU's is."""
        address, give_back = self._take_device_memory(size_bytes)
        return HostArray(self._allocations, address, size_bytes, give_back)

    def pages(self, size_bytes: int, *, huge: bool) -> HostMemory:
        """Private memory in pages of a chosen size."""
        return private_pages(self._allocations, size_bytes, huge=huge)

    def touch(self, memory: HostMemory, threads: int) -> None:
        """Create every page by writing to it."""
        touch(_array(memory).array, threads)

    def register(self, memory: HostMemory) -> None:
        """Pin private memory with io_uring."""
        array = _array(memory)
        ring = Ring()
        try:
            ring.pin(array.address, array.size_bytes)
        except ScenarioError:
            ring.close()
            raise
        self._registered[array.address] = ring
        array.pageable = False

    def unregister(self, memory: HostMemory) -> None:
        """Release the pins; unpinning first, because closing the ring alone releases them later."""
        array = _array(memory)
        ring = self._registered.pop(array.address)
        array.pageable = True
        ring.unpin()
        ring.close()

    def stream(self) -> Stream:
        """Work done at once."""
        return _AtOnce(self)

    def copy_to_device(self, target: DeviceMemory, source: HostMemory) -> None:
        """Copy; pageable memory goes through the staging ring."""
        self._copy(target, source)

    def copy_to_host(self, target: HostMemory, source: DeviceMemory) -> None:
        """Copy; pageable memory goes through the staging ring."""
        self._copy(target, source)

    def add_two(self, memory: DeviceMemory) -> None:
        """Add with numpy, in place."""
        array = memory.on_device() if isinstance(memory, ManagedMemory) else _array(memory).array
        np.add(array, np.float32(2), out=array)

    def release(self) -> None:
        """Free what an iteration left."""
        for ring in self._registered.values():
            ring.close()
        self._registered.clear()
        self._allocations.release()

    def close(self) -> None:
        """Free everything, stop the handler, close the rings."""
        self.release()
        self._cleanup.close()

    def _copy(self, target: DeviceMemory, source: DeviceMemory) -> None:
        to, start = _array(target).address, _array(source).address
        staged = _array(target).pageable or _array(source).pageable
        if self._staging is None or not staged:
            libc.memcpy(to, start, source.size_bytes)
            return
        for index, offset in enumerate(range(0, source.size_bytes, _STAGING_BYTES)):
            slot = self._staging + index % _STAGING_SLOTS * _STAGING_BYTES
            length = min(_STAGING_BYTES, source.size_bytes - offset)
            libc.memcpy(slot, start + offset, length)
            libc.memcpy(to + offset, slot, length)

    def _pinned_mapping(self, size_bytes: int, undo: contextlib.ExitStack) -> int:
        """Address of pinned shared memory; `undo` gets what gives it back, in the order that frees it at once."""
        length = _pages(size_bytes)
        with contextlib.ExitStack() as steps:
            file = os.memfd_create("pinprof", os.MFD_CLOEXEC)
            steps.callback(os.close, file)
            os.ftruncate(file, length)
            address = libc.mmap(length, libc.MAP_SHARED, file)
            steps.callback(libc.munmap, address, length)
            ring = steps.enter_context(Ring())
            ring.pin(address, length)
            steps.callback(ring.unpin)
            undo.push(steps.pop_all())
        return address

    def _take_device_memory(self, size_bytes: int) -> tuple[int, Callable[[], None]]:
        length = _pages(size_bytes)
        for block in self._device_free:
            if block[1] == length:
                self._device_free.remove(block)
                break
        else:
            block = (self._new_device_memory(length), length)
        return block[0], lambda: self._device_free.append(block)

    def _new_device_memory(self, length: int) -> int:
        address = libc.mmap(length, libc.MAP_PRIVATE | libc.MAP_ANONYMOUS | libc.MAP_POPULATE)
        self._cleanup.callback(libc.munmap, address, length)
        return address


class _AtOnce:
    """A stream without a device: everything is done when the call returns, and so is every event."""

    def __init__(self, backend: HostBackend) -> None:
        self._backend = backend

    def copy_to_device(self, target: DeviceMemory, source: HostMemory) -> None:
        self._backend.copy_to_device(target, source)

    def copy_to_host(self, target: HostMemory, source: DeviceMemory) -> None:
        self._backend.copy_to_host(target, source)

    def add_two(self, memory: DeviceMemory) -> None:
        self._backend.add_two(memory)

    def prefetch(self, memory: DeviceMemory, place: Place) -> None:
        raise ScenarioError("The host backend does not support prefetching.", "Use --backend cuda.", "no-gpu")

    def record(self) -> StreamEvent:
        return self

    def wait(self, event: StreamEvent) -> None:
        """Has happened."""

    def synchronize(self) -> None:
        """Is done."""

    def free(self) -> None:
        """Holds nothing."""


class ManagedMemory(Allocation):
    """Blocks that are nowhere, on the host or on the device; the CPU's missing pages are served by userfaultfd.

    Every access is a ctypes call (see userfaultfd.py). A block that nobody wrote yet is created from zeros.
    """

    def __init__(
        self,
        owner: Allocations,
        pager: Pager,
        zeros: int,
        take_device_memory: Callable[[int], tuple[int, Callable[[], None]]],
        size_bytes: int,
    ) -> None:
        self._length = _pages(size_bytes)
        self._pager = pager
        self._zeros = zeros
        with contextlib.ExitStack() as undo:
            self._device, give_back = take_device_memory(size_bytes)
            undo.callback(give_back)
            address = libc.mmap(self._length, libc.MAP_PRIVATE | libc.MAP_ANONYMOUS)
            undo.callback(libc.munmap, address, self._length)
            pager.register(address, self._length, self._serve)
            undo.callback(pager.unregister, address, self._length)
            self._where = bytearray(-(-self._length // _BLOCK_BYTES))
            super().__init__(owner, address, size_bytes, undo.pop_all().close)

    def fill(self, value: float) -> None:
        """Write `value` to every element."""
        (word,) = struct.unpack("=i", struct.pack("=f", value))
        libc.wmemset(self.address, word, self.size_bytes // ELEMENT_BYTES)
        self._pager.check()

    def copy_from(self, source: DeviceMemory) -> None:
        """Copy with memcpy."""
        libc.memcpy(self.address, own(source).address, source.size_bytes)
        self._pager.check()

    def read(self) -> None:
        """Read every element."""
        libc.wmemchr(self.address, _NAN_WORD, self.size_bytes // ELEMENT_BYTES)
        self._pager.check()

    def mismatch(self, value: float) -> tuple[int, float] | None:
        """The first element that is not `value`, with its index; copies block by block."""
        scratch = np.empty(_BLOCK_BYTES // ELEMENT_BYTES, np.float32)
        for offset in range(0, self.size_bytes, _BLOCK_BYTES):
            length = min(_BLOCK_BYTES, self.size_bytes - offset)
            libc.memcpy(scratch.ctypes.data, self.address + offset, length)
            wrong = first_mismatch(scratch[: length // ELEMENT_BYTES], value)
            if wrong is not None:
                return offset // ELEMENT_BYTES + wrong[0], wrong[1]
        self._pager.check()
        return None

    def on_device(self) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """The device's copy, after every block of the host has migrated there."""
        for block, place in enumerate(self._where):
            if place == _ON_HOST:
                offset = block * _BLOCK_BYTES
                length = min(_BLOCK_BYTES, self._length - offset)
                libc.memcpy(self._device + offset, self.address + offset, length)
                libc.madvise(self.address + offset, length, libc.MADV_DONTNEED)
                self._where[block] = _ON_DEVICE
        return view(self._device, self.size_bytes)

    def _serve(self, address: int) -> None:
        """Create the block around a missing page on the host; runs in the pager's thread."""
        block = (address - self.address) // _BLOCK_BYTES
        offset = block * _BLOCK_BYTES
        length = min(_BLOCK_BYTES, self._length - offset)
        source = self._device + offset if self._where[block] == _ON_DEVICE else self._zeros
        # First, because the copy wakes the other thread, which may go on to ask where the block is.
        self._where[block] = _ON_HOST
        self._pager.copy(self.address + offset, source, length)


def _array(memory: DeviceMemory) -> HostArray:
    if not isinstance(memory, HostArray):
        raise ScenarioError(
            f"The host backend cannot use {type(memory).__name__} here.",
            "Managed memory moves when it is touched; it needs no copy.",
            "scenario",
        )
    return memory


def _not_prepared(kind: str) -> ScenarioError:
    return ScenarioError(
        f"The scenario uses {kind} memory that its SPEC does not name.", "Add it to SPEC.memory.", "scenario"
    )


def _pages(size_bytes: int) -> int:
    """Rounded up to whole pages."""
    page = os.sysconf("SC_PAGESIZE")
    return -(-size_bytes // page) * page
