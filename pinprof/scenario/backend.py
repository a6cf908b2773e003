"""What a scenario asks of the machine it runs on; implemented in workloads/backends/."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol, Self

MemoryKind = Literal["pageable", "pinned", "mapped", "managed", "device"]
Place = Literal["device", "host"] | int
"""Where managed memory shall live: on the GPU, on the host, or on the host's NUMA node of that number."""
Advice = Literal["read-mostly", "preferred-location", "accessed-by"]
HostFlag = Literal["default", "portable", "write-combined"]


class Comparable(Protocol):
    """Numbers that a scenario can verify."""

    def mismatch(self, value: float) -> tuple[int, float] | None:
        """The first element that is not exactly `value`, as (index, what is there); None when all are right."""


class DeviceMemory(Protocol):
    """Memory of the device, filled with float32; the CPU does not see it."""

    size_bytes: int

    def free(self) -> None:
        """Give it back; does nothing the second time."""

    def part(self, start_bytes: int, size_bytes: int) -> Self:
        """A window on it, in whole elements; it allocates nothing and ends with the memory."""


class HostMemory(DeviceMemory, Comparable, Protocol):
    """Memory that the CPU addresses, seen as float32."""

    def fill(self, value: float) -> None:
        """Write `value` to every element, in order."""

    def copy_from(self, source: HostMemory) -> None:
        """Let the CPU copy all of `source` to the beginning."""

    def read(self) -> None:
        """Let the CPU read at least one element of every 4 KiB page, in order."""


class StreamEvent(Protocol):
    """A point in the work of a stream."""

    def synchronize(self) -> None:
        """Wait until the stream has come there."""


class Stream(Protocol):
    """Work that the device does in order, beside the CPU and other streams; the host backend does it at once."""

    def copy_to_device(self, target: DeviceMemory, source: HostMemory) -> None:
        """Queue a copy of all of `source`, whose memory must be pinned to let the CPU go on."""

    def copy_to_host(self, target: HostMemory, source: DeviceMemory) -> None:
        """Queue a copy of all of `source`."""

    def add_two(self, memory: DeviceMemory) -> None:
        """Queue the kernel."""

    def prefetch(self, memory: DeviceMemory, place: Place) -> None:
        """Queue the migration of managed memory."""

    def record(self) -> StreamEvent:
        """An event behind everything that is queued so far."""

    def wait(self, event: StreamEvent) -> None:
        """Let the work queued from now on wait for an event of another stream."""

    def synchronize(self) -> None:
        """Wait for everything that is queued."""

    def free(self) -> None:
        """Destroy the stream and its events; does nothing the second time."""


class Backend(Protocol):
    """One machine: `cuda` with a GPU, or `host`, which reaches the same kernel mechanisms without one."""

    name: str
    device_name: str
    emulated: bool
    """True when no GPU takes part; shown wherever a result is shown."""

    def prepare(self, kinds: Iterable[MemoryKind], size_bytes: int) -> None:
        """Set up what these kinds of memory need, before anything is measured.

        Raises ScenarioError when the system forbids a mechanism or has too little free memory.
        """

    def pageable(self, size_bytes: int) -> HostMemory:
        """malloc: private memory without pages yet."""

    def pinned(self, size_bytes: int) -> HostMemory:
        """cudaMallocHost: page-locked memory for copies."""

    def mapped(self, size_bytes: int) -> HostMemory:
        """cudaHostAlloc(Mapped): page-locked memory that the device addresses directly."""

    def managed(self, size_bytes: int) -> HostMemory:
        """cudaMallocManaged: memory that migrates to whoever touches it."""

    def device(self, size_bytes: int) -> DeviceMemory:
        """cudaMalloc: memory of the device."""

    def pages(self, size_bytes: int, *, huge: bool) -> HostMemory:
        """mmap: private memory at a multiple of 2 MiB, in huge pages where the system has them, or in none."""

    def touch(self, memory: HostMemory, threads: int) -> None:
        """Create every page of the memory by writing to it, each thread its share."""

    def register(self, memory: HostMemory) -> None:
        """cudaHostRegister: pin pageable memory."""

    def unregister(self, memory: HostMemory) -> None:
        """cudaHostUnregister: end that, before the memory is freed."""

    def stream(self) -> Stream:
        """cudaStreamCreate: a stream, destroyed by its `free`."""

    def copy_to_device(self, target: DeviceMemory, source: HostMemory) -> None:
        """Copy all of `source`; returns when done."""

    def copy_to_host(self, target: HostMemory, source: DeviceMemory) -> None:
        """Copy all of `source`; returns when done."""

    def add_two(self, memory: DeviceMemory) -> None:
        """The kernel: x += 2 on every float32 of device, mapped or managed memory; returns when done."""

    def release(self) -> None:
        """Free every allocation still alive: what an iteration leaves behind when it fails."""

    def close(self) -> None:
        """Release everything, the mechanisms too."""


class Gpu(Backend, Protocol):
    """What only a GPU can do: `RunContext.gpu`."""

    def host_alloc(self, size_bytes: int, flag: HostFlag) -> HostMemory:
        """cudaHostAlloc: page-locked memory of a special kind."""

    def prefetch(self, memory: DeviceMemory, place: Place) -> None:
        """cudaMemPrefetchAsync: migrate managed memory; returns when done."""

    def advise(self, memory: DeviceMemory, advice: Advice, place: Place) -> None:
        """cudaMemAdvise: say how managed memory will be used."""

    def add_two_by_warp(self, memory: DeviceMemory) -> None:
        """The kernel x += 2 with one warp for each 64 KiB page; returns when done."""

    def add_two_into(self, target: DeviceMemory, source: DeviceMemory) -> None:
        """The kernel y = x + 2, which only reads x; returns when done."""

    def add_two_strided(self, memory: DeviceMemory, stride: int, offset: int) -> None:
        """The kernel x += 2, neighbouring threads `stride` elements apart, the first at `offset`; returns when done."""

    def free_bytes(self) -> int:
        """Free memory of the GPU."""

    def host_nodes(self) -> tuple[int, ...]:
        """The host's NUMA nodes with memory, the one nearest to the GPU first."""
