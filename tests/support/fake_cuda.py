# ruff: noqa: N802  (the calls have the names that CUDA gives them)
"""The part of cuda.bindings that the cuda backend calls, without a GPU: it shows who forgets to wait or to free.

Memory is the host's. Work that is queued on a stream is done as late as CUDA may do it: when somebody waits. Calls can
be made to fail. Nothing that is measured comes from here.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
from pinprof.workloads.backends import kernels, libc
from pinprof.workloads.backends.memory import view


class Error(IntEnum):
    """Shaped like cudaError_t."""

    success = 0
    cudaErrorInvalidValue = 1  # noqa: N815
    cudaErrorLaunchFailure = 719  # noqa: N815
    cudaErrorUnknown = 999  # noqa: N815


FREES = ("cudaFree", "cudaFreeHost", "cudaHostUnregister", "cudaStreamDestroy", "cudaEventDestroy", "cuModuleUnload")


class FakeCuda:
    """One GPU; `alive` holds whatever was made and not given back."""

    def __init__(
        self, version: int = 13, free_bytes: int = 1 << 40, fail_at: int | None = None, *, lost: bool = False
    ) -> None:
        self.alive: dict[tuple[str, int], int] = {}
        self.free_bytes = free_bytes
        self.fail_at = fail_at
        self.lost = lost
        """Whether the GPU is gone from `fail_at` on: then nothing can be given back either."""
        self.calls: list[str] = []
        self.sizes: dict[str, list[int]] = {}
        """Sizes that were asked for on the device, by call."""
        self.places: list[tuple[Any, int]] = []
        self._queues: dict[int, deque[Callable[[], None]]] = {0: deque()}
        self._done: set[int] = set()
        self._owner: dict[int, int] = {}
        self._names = count(1)
        suffix = "_v2" if version == 12 else ""
        kinds = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)
        advice = {"SetReadMostly": 1, "SetPreferredLocation": 3, "SetAccessedBy": 5}
        location = {"Device": 1, "Host": 2, "HostNuma": 3}
        calls = {name: self._checked(name) for name in dir(type(self)) if name.startswith(("cuda", "cu"))}
        for name in ("cudaMemPrefetchAsync", "cudaMemAdvise"):
            calls[name + suffix] = calls[name]
        self.module = SimpleNamespace(
            cudaMemcpyKind=kinds,
            cudaMemoryAdvise=SimpleNamespace(**{f"cudaMemAdvise{name}": value for name, value in advice.items()}),
            cudaMemLocationType=SimpleNamespace(**{f"cudaMemLocationType{k}": v for k, v in location.items()}),
            cudaMemLocation=SimpleNamespace,
            cudaGetErrorString=lambda error: (Error(0), error.name.encode()),
            cuGetErrorString=lambda error: (Error(0), error.name.encode()),
            **calls,
        )

    def _checked(self, name: str) -> Callable[..., tuple[Any, ...]]:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            if self.fail_at is not None and len(self.calls) > self.fail_at and (self.lost or name not in FREES):
                return (Error.cudaErrorUnknown if self.lost else Error.cudaErrorLaunchFailure, None)
            try:
                result = getattr(self, name)(*arguments)
            except (KeyError, ValueError):
                return (Error.cudaErrorInvalidValue, None)
            values = result if isinstance(result, tuple) else () if result is None else (result,)
            return (Error.success, *values)

        return call

    def _new(self, kind: str, size_bytes: int) -> int:
        address = libc.malloc(size_bytes)
        self.alive[kind, address] = size_bytes
        ctypes.memset(address, 0xA5, size_bytes)
        return address

    def _name(self, kind: str) -> int:
        name = next(self._names)
        self.alive[kind, name] = 0
        return name

    def _run(self, stream: int, until: int | None = None) -> None:
        queue = self._queues[stream]
        while queue and (until is None or until not in self._done):
            queue.popleft()()

    def cudaGetDeviceCount(self) -> int:
        return 1

    def cudaSetDevice(self, device: int) -> None: ...

    def cudaGetDeviceProperties(self, device: int) -> Any:
        return (SimpleNamespace(name=b"Fake GPU"),)

    def cudaMemGetInfo(self) -> tuple[int, int]:
        return self.free_bytes, self.free_bytes

    def cuModuleLoadData(self, image: bytes) -> int:
        return self._name("module")

    def cuModuleUnload(self, module: int) -> None:
        del self.alive["module", module]

    def cuModuleGetFunction(self, module: int, name: bytes) -> str:
        assert f".entry {name.decode()}(".encode() in kernels.PTX
        return name.decode()

    def cudaDeviceGetPCIBusId(self, length: int, device: int) -> bytes:
        return b"0000:00:00.0\0"

    def cudaMalloc(self, size_bytes: int) -> int:
        self.sizes.setdefault("cudaMalloc", []).append(size_bytes)
        return self._new("device", size_bytes)

    def cudaMallocManaged(self, size_bytes: int, flags: int) -> int:
        self.sizes.setdefault("cudaMallocManaged", []).append(size_bytes)
        return self._new("device", size_bytes)

    def cudaMallocHost(self, size_bytes: int) -> int:
        return self._new("host", size_bytes)

    def cudaHostAlloc(self, size_bytes: int, flags: int) -> int:
        return self._new("host", size_bytes)

    def cudaHostGetDevicePointer(self, address: int, flags: int) -> int:
        return address

    def cudaFree(self, address: int) -> None:
        if address:
            self.cudaDeviceSynchronize()
            del self.alive["device", address]
            libc.free(address)

    def cudaFreeHost(self, address: int) -> None:
        self.cudaDeviceSynchronize()
        del self.alive["host", address]
        libc.free(address)

    def cudaHostRegister(self, address: int, size_bytes: int, flags: int) -> None:
        self.alive["registered", address] = size_bytes

    def cudaHostUnregister(self, address: int) -> None:
        del self.alive["registered", address]

    def cudaMemcpy(self, target: int, source: int, size_bytes: int, kind: int) -> None:
        self._run(0)
        libc.memcpy(target, source, size_bytes)

    def cudaMemcpyAsync(self, target: int, source: int, size_bytes: int, kind: int, stream: int) -> None:
        self._queues[stream].append(lambda: libc.memcpy(target, source, size_bytes))

    def cudaMemPrefetchAsync(self, address: int, size_bytes: int, location: Any, flags: int, stream: int) -> None:
        self.places.append((location.type, location.id))
        self._queues[stream].append(lambda: None)

    def cudaMemAdvise(self, address: int, size_bytes: int, advice: int, location: Any) -> None:
        self.places.append((location.type, location.id))

    def cuLaunchKernel(self, function: str, *arguments: Any) -> None:
        blocks, columns, _, threads, _, _, _, stream, (values, _), _ = arguments
        self._queues[stream].append(lambda: _kernel(function, blocks * threads, columns, values))

    def cudaDeviceSynchronize(self) -> None:
        for stream in self._queues:
            self._run(stream)

    def cudaStreamCreateWithFlags(self, flags: int) -> int:
        stream = self._name("stream")
        self._queues[stream] = deque()
        return stream

    def cudaStreamSynchronize(self, stream: int) -> None:
        self._run(stream)

    def cudaStreamDestroy(self, stream: int) -> None:
        del self.alive["stream", stream]

    def cudaStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        self._queues[stream].append(lambda: self.cudaEventSynchronize(event))

    def cudaEventCreateWithFlags(self, flags: int) -> int:
        return self._name("event")

    def cudaEventRecord(self, event: int, stream: int) -> None:
        self._owner[event] = stream
        self._queues[stream].append(lambda: self._done.add(event))

    def cudaEventSynchronize(self, event: int) -> None:
        if event not in self._done:
            self._run(self._owner[event], event)

    def cudaEventDestroy(self, event: int) -> None:
        del self.alive["event", event]


def _kernel(function: str, threads: int, columns: int, values: tuple[int, ...]) -> None:
    """What the PTX of that name does, in numpy."""
    if function == "add_two_into":
        target, source, length = values
        np.add(view(source, length * 4), np.float32(2), out=view(target, length * 4))
        return
    address, length, *rest = values
    array = view(address, length * 4)
    if function == "add_two_strided":
        rows, stride, offset = rest
        assert threads >= rows
        assert columns == stride
        index = (np.arange(rows)[None, :] * stride + np.arange(stride)[:, None] + offset).ravel()
        index = np.where(index >= rows * stride, index - rows * stride, index)
        array[index[index < length]] += np.float32(2)
        return
    covered = threads // 32 * kernels.PAGE_ELEMENTS if function == "add_two_by_warp" else threads
    array[:covered] += np.float32(2)
