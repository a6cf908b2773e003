"""A CUDA stream and its events."""

from __future__ import annotations

from typing import Protocol

from pinprof.base.errors import ScenarioError
from pinprof.scenario import DeviceMemory, HostMemory, Place, StreamEvent

from .cuda_api import Calls
from .memory import own

_NON_BLOCKING = 0x01
"""cudaStreamNonBlocking: does not wait for the default stream."""
_DISABLE_TIMING = 0x02
"""cudaEventDisableTiming: such events are the cheapest."""


class _Backend(Protocol):
    """What a stream needs of its backend."""

    def queue_add_two(self, memory: DeviceMemory, stream: int) -> None: ...

    def queue_prefetch(self, memory: DeviceMemory, place: Place, stream: int) -> None: ...

    def forget(self, stream: CudaStream) -> None: ...


class CudaEvent:
    """A point in a stream."""

    def __init__(self, runtime: Calls) -> None:
        self._runtime = runtime
        self.handle = int(runtime("cudaEventCreateWithFlags", _DISABLE_TIMING))

    def synchronize(self) -> None:
        """Wait until the stream has come there."""
        self._runtime("cudaEventSynchronize", self.handle)

    def free(self) -> None:
        """Destroy it."""
        self._runtime("cudaEventDestroy", self.handle)


class CudaStream:
    """Work in order, queued by one thread."""

    def __init__(self, backend: _Backend, runtime: Calls) -> None:
        self._backend = backend
        self._runtime = runtime
        self._events: list[CudaEvent] = []
        kinds = runtime.module.cudaMemcpyKind
        self._to_device, self._to_host = kinds.cudaMemcpyHostToDevice, kinds.cudaMemcpyDeviceToHost
        self._handle = int(runtime("cudaStreamCreateWithFlags", _NON_BLOCKING))

    def copy_to_device(self, target: DeviceMemory, source: HostMemory) -> None:
        """Queue cudaMemcpyAsync."""
        to, start = own(target).address, own(source).address
        self._runtime("cudaMemcpyAsync", to, start, source.size_bytes, self._to_device, self._handle)

    def copy_to_host(self, target: HostMemory, source: DeviceMemory) -> None:
        """Queue cudaMemcpyAsync."""
        to, start = own(target).address, own(source).address
        self._runtime("cudaMemcpyAsync", to, start, source.size_bytes, self._to_host, self._handle)

    def add_two(self, memory: DeviceMemory) -> None:
        """Queue the kernel."""
        self._backend.queue_add_two(memory, self._handle)

    def prefetch(self, memory: DeviceMemory, place: Place) -> None:
        """Queue cudaMemPrefetchAsync."""
        self._backend.queue_prefetch(memory, place, self._handle)

    def record(self) -> StreamEvent:
        """An event behind what is queued; it lives as long as the stream."""
        event = CudaEvent(self._runtime)
        self._events.append(event)
        self._runtime("cudaEventRecord", event.handle, self._handle)
        return event

    def wait(self, event: StreamEvent) -> None:
        """Let what is queued from now on wait for an event."""
        if not isinstance(event, CudaEvent):
            raise ScenarioError("This is not a CUDA event.", "Take it from a stream's record().", "scenario")
        self._runtime("cudaStreamWaitEvent", self._handle, event.handle, 0)

    def synchronize(self) -> None:
        """Wait for everything that is queued."""
        self._runtime("cudaStreamSynchronize", self._handle)

    def free(self) -> None:
        """Destroy the stream and its events; does nothing the second time."""
        self._backend.forget(self)
        events, self._events = self._events, []
        for event in events:
            event.free()
        handle, self._handle = self._handle, 0
        if handle:
            self._runtime("cudaStreamDestroy", handle)
