"""The cuda backend: the CUDA runtime and driver through `cuda.bindings`, 12.x or 13.x; no toolkit at run time.

Two calls have changed between CUDA 12 and 13: cudaMemPrefetchAsync and cudaMemAdvise take a cudaMemLocation in 13,
which 12 offers under the same names with `_v2`. That form is used in both.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pinprof.base.errors import CudaError, UsageError
from pinprof.scenario import Advice, DeviceMemory, HostFlag, HostMemory, MemoryKind, Place

from . import kernels, libc, limits
from .cuda_api import Api, Calls, bindings, driver_library
from .cuda_stream import CudaStream
from .memory import ELEMENT_BYTES, Allocation, Allocations, HostArray, not_ours, own, touch
from .numa import nodes_by_distance
from .pages import private_pages

THREADS = 256
_MAPPED_FLAG = 0x02
"""cudaHostAllocMapped."""
_HOST_FLAGS: dict[HostFlag, int] = {"default": 0x00, "portable": 0x01, "write-combined": 0x04}
"""cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocWriteCombined."""
_ATTACH_GLOBAL = 0x01
"""cudaMemAttachGlobal."""
_BUS_ID_BYTES = 32


class CudaBackend:
    """One GPU, through its primary context."""

    name = "cuda"
    emulated = False

    def __init__(self, device: int) -> None:
        self._device = device
        self._allocations = Allocations()
        self._streams: list[CudaStream] = []
        self._registered: set[int] = set()
        self._runtime: Calls = Api(bindings("runtime"), "cudaGetErrorString")
        self._driver: Calls = Api(bindings("driver"), "cuGetErrorString")
        with driver_library():
            count = self._runtime("cudaGetDeviceCount")
        if not 0 <= device < count:
            raise UsageError(
                f"There is no CUDA device {device}: this machine shows {count}.",
                f"Give --device 0 to {count - 1}." if count > 1 else "Give --device 0.",
                "device",
            )
        self._runtime("cudaSetDevice", device)
        # Creates the context, so that no measured call does.
        self._runtime("cudaFree", 0)
        name = self._runtime("cudaGetDeviceProperties", device).name
        self.device_name = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
        self._module = self._driver("cuModuleLoadData", kernels.PTX)
        self._functions = {
            kernel: self._driver("cuModuleGetFunction", self._module, kernel.encode()) for kernel in kernels.KERNELS
        }
        kind = self._runtime.module.cudaMemcpyKind
        self._to_device, self._to_host = kind.cudaMemcpyHostToDevice, kind.cudaMemcpyDeviceToHost
        self._version = "_v2" if hasattr(self._runtime.module, "cudaMemPrefetchAsync_v2") else ""
        libc.use_fresh_pages()

    def prepare(self, kinds: Iterable[MemoryKind], size_bytes: int) -> None:
        """Check both memories; managed memory larger than the GPU would thrash, so it is refused."""
        kinds = tuple(kinds)
        free, _ = self._runtime("cudaMemGetInfo")
        on_host = len([kind for kind in kinds if kind != "device"])
        on_device = len([kind for kind in kinds if kind in ("device", "managed")])
        limits.require("host memory", on_host * size_bytes, limits.free_host_bytes())
        limits.require(f"memory of {self.device_name}", on_device * size_bytes, free)

    def pageable(self, size_bytes: int) -> HostMemory:
        """Private memory of malloc."""
        address = libc.malloc(size_bytes)
        memory = HostArray(self._allocations, address, size_bytes, lambda: libc.free(address))
        memory.pageable = True
        return memory

    def pages(self, size_bytes: int, *, huge: bool) -> HostMemory:
        """Private memory in pages of a chosen size."""
        return private_pages(self._allocations, size_bytes, huge=huge)

    def touch(self, memory: HostMemory, threads: int) -> None:
        """Create every page by writing to it."""
        touch(_array(memory).array, threads)

    def register(self, memory: HostMemory) -> None:
        """Pin it with cudaHostRegister, flags 0."""
        array = _array(memory)
        self._runtime("cudaHostRegister", array.address, array.size_bytes, 0)
        self._registered.add(array.address)
        array.pageable = False

    def unregister(self, memory: HostMemory) -> None:
        """Release the pins with cudaHostUnregister."""
        array = _array(memory)
        self._registered.discard(array.address)
        self._runtime("cudaHostUnregister", array.address)
        array.pageable = True

    def pinned(self, size_bytes: int) -> HostMemory:
        """Page-locked cudaMallocHost memory."""
        address = int(self._runtime("cudaMallocHost", size_bytes))
        return HostArray(self._allocations, address, size_bytes, lambda: self._runtime("cudaFreeHost", address))

    def host_alloc(self, size_bytes: int, flag: HostFlag) -> HostMemory:
        """Page-locked memory of cudaHostAlloc with a flag."""
        address = int(self._runtime("cudaHostAlloc", size_bytes, _HOST_FLAGS[flag]))
        return HostArray(self._allocations, address, size_bytes, lambda: self._runtime("cudaFreeHost", address))

    def mapped(self, size_bytes: int) -> HostMemory:
        """Page-locked memory of cudaHostAlloc(Mapped), with its address on the device."""
        address = int(self._runtime("cudaHostAlloc", size_bytes, _MAPPED_FLAG))
        memory = HostArray(self._allocations, address, size_bytes, lambda: self._runtime("cudaFreeHost", address))
        memory.kernel_address = int(self._runtime("cudaHostGetDevicePointer", address, 0))
        return memory

    def managed(self, size_bytes: int) -> HostMemory:
        """Unified memory of cudaMallocManaged."""
        address = int(self._runtime("cudaMallocManaged", size_bytes, _ATTACH_GLOBAL))
        return HostArray(self._allocations, address, size_bytes, lambda: self._runtime("cudaFree", address))

    def device(self, size_bytes: int) -> DeviceMemory:
        """Memory of the GPU, from cudaMalloc."""
        address = int(self._runtime("cudaMalloc", size_bytes))
        return Allocation(self._allocations, address, size_bytes, lambda: self._runtime("cudaFree", address))

    def copy_to_device(self, target: DeviceMemory, source: HostMemory) -> None:
        """Copy with cudaMemcpy; from pageable memory it may return before the last piece is there, so wait then."""
        to, start = own(target).address, own(source)
        self._runtime("cudaMemcpy", to, start.address, source.size_bytes, self._to_device)
        if start.pageable:
            self._runtime("cudaDeviceSynchronize")

    def copy_to_host(self, target: HostMemory, source: DeviceMemory) -> None:
        """Copy with cudaMemcpy."""
        to, start = own(target).address, own(source).address
        self._runtime("cudaMemcpy", to, start, source.size_bytes, self._to_host)

    def stream(self) -> CudaStream:
        """A stream that does not wait for the default one."""
        stream = CudaStream(self, self._runtime)
        self._streams.append(stream)
        return stream

    def add_two(self, memory: DeviceMemory) -> None:
        """Launch the kernel and wait for it."""
        self.queue_add_two(memory, 0)
        self._runtime("cudaDeviceSynchronize")

    def queue_add_two(self, memory: DeviceMemory, stream: int) -> None:
        """Launch the kernel on a stream."""
        count = memory.size_bytes // ELEMENT_BYTES
        self._launch("add_two", _blocks(count), 1, (own(memory).kernel_address,), (count,), stream)

    def add_two_by_warp(self, memory: DeviceMemory) -> None:
        """Launch one warp for each 64 KiB page and wait."""
        count = memory.size_bytes // ELEMENT_BYTES
        pages = -(-count // kernels.PAGE_ELEMENTS)
        self._launch("add_two_by_warp", _blocks(pages * 32), 1, (own(memory).kernel_address,), (count,))
        self._runtime("cudaDeviceSynchronize")

    def add_two_into(self, target: DeviceMemory, source: DeviceMemory) -> None:
        """Launch y = x + 2 and wait."""
        count = source.size_bytes // ELEMENT_BYTES
        addresses = own(target).kernel_address, own(source).kernel_address
        self._launch("add_two_into", _blocks(count), 1, addresses, (count,))
        self._runtime("cudaDeviceSynchronize")

    def add_two_strided(self, memory: DeviceMemory, stride: int, offset: int) -> None:
        """Launch it with one row of blocks for each element of a stride, and wait."""
        count = memory.size_bytes // ELEMENT_BYTES
        rows = -(-count // stride)
        numbers = count, rows, stride, offset
        self._launch("add_two_strided", _blocks(rows), stride, (own(memory).kernel_address,), numbers)
        self._runtime("cudaDeviceSynchronize")

    def prefetch(self, memory: DeviceMemory, place: Place) -> None:
        """Migrate with cudaMemPrefetchAsync and wait."""
        self.queue_prefetch(memory, place, 0)
        self._runtime("cudaDeviceSynchronize")

    def queue_prefetch(self, memory: DeviceMemory, place: Place, stream: int) -> None:
        """Migrate on a stream."""
        call = f"cudaMemPrefetchAsync{self._version}"
        self._runtime(call, own(memory).address, memory.size_bytes, self._location(place), 0, stream)

    def advise(self, memory: DeviceMemory, advice: Advice, place: Place) -> None:
        """Say with cudaMemAdvise how it will be used."""
        names = self._runtime.module.cudaMemoryAdvise
        number = {
            "read-mostly": names.cudaMemAdviseSetReadMostly,
            "preferred-location": names.cudaMemAdviseSetPreferredLocation,
            "accessed-by": names.cudaMemAdviseSetAccessedBy,
        }[advice]
        call = f"cudaMemAdvise{self._version}"
        self._runtime(call, own(memory).address, memory.size_bytes, number, self._location(place))

    def free_bytes(self) -> int:
        """Free memory of the GPU."""
        free, _ = self._runtime("cudaMemGetInfo")
        return int(free)

    def host_nodes(self) -> tuple[int, ...]:
        """The host's NUMA nodes with memory, nearest to the GPU's PCI device first."""
        bus = self._runtime("cudaDeviceGetPCIBusId", _BUS_ID_BYTES, self._device)
        text = bus.split(b"\0")[0].decode("ascii", "replace") if isinstance(bus, bytes) else str(bus)
        return nodes_by_distance(text.lower(), Path("/sys"))

    def release(self) -> None:
        """Free what an iteration left, after the work that may still use it."""
        if not (self._allocations or self._streams or self._registered):
            return
        # Whatever fails here, another error came first and made this necessary.
        with contextlib.suppress(CudaError):
            self._runtime("cudaDeviceSynchronize")
        for stream in tuple(self._streams):
            with contextlib.suppress(CudaError):
                stream.free()
        for address in self._registered:
            with contextlib.suppress(CudaError):
                self._runtime("cudaHostUnregister", address)
        self._registered.clear()
        self._allocations.release()

    def forget(self, stream: CudaStream) -> None:
        """A stream is destroyed."""
        if stream in self._streams:
            self._streams.remove(stream)

    def _launch(
        self,
        kernel: str,
        blocks: int,
        columns: int,
        addresses: tuple[int, ...],
        numbers: tuple[int, ...],
        stream: int = 0,
    ) -> None:
        kinds = (*(ctypes.c_void_p for _ in addresses), *(ctypes.c_uint64 for _ in numbers))
        values = ((*addresses, *numbers), kinds)
        function = self._functions[kernel]
        self._driver("cuLaunchKernel", function, blocks, columns, 1, THREADS, 1, 1, 0, stream, values, 0)

    def _location(self, place: Place) -> Any:
        """A cudaMemLocation."""
        kinds = self._runtime.module.cudaMemLocationType
        location = self._runtime.module.cudaMemLocation()
        if place == "device":
            location.type, location.id = kinds.cudaMemLocationTypeDevice, self._device
        elif place == "host":
            location.type, location.id = kinds.cudaMemLocationTypeHost, 0
        else:
            location.type, location.id = kinds.cudaMemLocationTypeHostNuma, place
        return location

    def close(self) -> None:
        """Free everything and unload the kernel; the context ends with the process."""
        self.release()
        # After a failed kernel every call fails with that error, which has been raised already.
        with contextlib.suppress(CudaError):
            self._driver("cuModuleUnload", self._module)


def _blocks(threads: int) -> int:
    return -(-threads // THREADS)


def _array(memory: HostMemory) -> HostArray:
    if not isinstance(memory, HostArray):
        raise not_ours(memory)
    return memory
