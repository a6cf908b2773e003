"""The cuda backend without cuda-python: the same operations through the functions of libcuda.so.1, by ctypes.

For a calibration, which must work beside any program that uses CUDA. What the calls of the runtime are to the driver,
`_CALLS` says; special kinds of pinned memory and of advice it does not have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_int, c_size_t, c_uint, c_void_p
from types import SimpleNamespace
from typing import Any

from pinprof.base.errors import CudaError, ToolMissing
from pinprof.scenario import DeviceMemory, Place

from . import kernels, libc
from .cuda import THREADS, CudaBackend
from .memory import Allocations, own

_CPU = -1
"""CU_DEVICE_CPU."""
_CALLS: Mapping[str, tuple[str, int | None, tuple[Any, ...]]] = {
    "cudaMalloc": ("cuMemAlloc_v2", 0, (c_size_t,)),
    "cudaMallocHost": ("cuMemAllocHost_v2", 0, (c_size_t,)),
    "cudaMallocManaged": ("cuMemAllocManaged", 0, (c_size_t, c_uint)),
    "cudaFree": ("cuMemFree_v2", None, (c_void_p,)),
    "cudaFreeHost": ("cuMemFreeHost", None, (c_void_p,)),
    "cudaHostRegister": ("cuMemHostRegister_v2", None, (c_void_p, c_size_t, c_uint)),
    "cudaHostUnregister": ("cuMemHostUnregister", None, (c_void_p,)),
    "cudaMemcpy": ("cuMemcpy", None, (c_void_p, c_void_p, c_size_t)),
    "cudaMemcpyAsync": ("cuMemcpyAsync", None, (c_void_p, c_void_p, c_size_t, c_void_p)),
    "cudaMemPrefetchAsync": ("cuMemPrefetchAsync", None, (c_void_p, c_size_t, c_int, c_void_p)),
    "cudaDeviceSynchronize": ("cuCtxSynchronize", None, ()),
    "cudaStreamCreateWithFlags": ("cuStreamCreate", 0, (c_uint,)),
    "cudaStreamSynchronize": ("cuStreamSynchronize", None, (c_void_p,)),
    "cudaStreamDestroy": ("cuStreamDestroy_v2", None, (c_void_p,)),
    "cudaEventCreateWithFlags": ("cuEventCreate", 0, (c_uint,)),
    "cudaEventRecord": ("cuEventRecord", None, (c_void_p, c_void_p)),
    "cudaEventSynchronize": ("cuEventSynchronize", None, (c_void_p,)),
    "cudaEventDestroy": ("cuEventDestroy_v2", None, (c_void_p,)),
    "cuInit": ("cuInit", None, (c_uint,)),
    "cuDeviceGet": ("cuDeviceGet", 0, (c_int,)),
    "cuDevicePrimaryCtxRetain": ("cuDevicePrimaryCtxRetain", 0, (c_int,)),
    "cuCtxSetCurrent": ("cuCtxSetCurrent", None, (c_void_p,)),
    "cuModuleLoadData": ("cuModuleLoadData", 0, (ctypes.c_char_p,)),
    "cuModuleUnload": ("cuModuleUnload", None, (c_void_p,)),
    "cuModuleGetFunction": ("cuModuleGetFunction", 0, (c_void_p, ctypes.c_char_p)),
    "cuLaunchKernel": ("cuLaunchKernel", None, (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p)),
}
"""Call of the backend → function of the driver, where it puts what it makes (0: before the arguments), and the types
of its arguments (cuda.h, CUDA 11 to 13: the exported names keep these). An address tells its memory, so that a copy
needs no kind."""
_COPIES = {"cudaMemcpy": 3, "cudaMemcpyAsync": 3}
"""Where a copy's kind stands in the runtime's arguments."""


class DriverApi:
    """`api("cudaMalloc", 64)` is the checked call of the driver's function."""

    module: Any = SimpleNamespace(cudaMemcpyKind=SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2))

    def __init__(self, library: Any) -> None:
        self._functions = {}
        for call, (name, makes, types) in _CALLS.items():
            function = getattr(library, name)
            function.argtypes = types if makes is None else (c_void_p, *types)
            self._functions[call] = (name, function, makes is not None)

    def __call__(self, call: str, *arguments: Any) -> int:
        """What the call made, 0 when it makes nothing; CudaError when it fails."""
        name, function, makes = self._functions[call]
        if call in _COPIES:
            arguments = arguments[: _COPIES[call]] + arguments[_COPIES[call] + 1 :]
        result = c_void_p()
        code = function(ctypes.addressof(result), *arguments) if makes else function(*arguments)
        if code:
            raise CudaError(name, code, f"error {code} of cuda.h", "Check the GPU with nvidia-smi and dmesg.")
        return result.value or 0


class DriverBackend(CudaBackend):
    """One GPU through its primary context, as the cuda backend has it."""

    device_name = "GPU"

    def __init__(self, device: int, library: Any = None) -> None:
        """`library`: libcuda as ctypes loads it. ToolMissing when there is none, CudaError when there is no GPU."""
        self._allocations = Allocations()
        self._streams = []
        self._registered = set()
        self._runtime = self._driver = api = DriverApi(library or _libcuda())
        api("cuInit", 0)
        self._device = api("cuDeviceGet", device)
        api("cuCtxSetCurrent", api("cuDevicePrimaryCtxRetain", self._device))
        self._module = api("cuModuleLoadData", kernels.PTX)
        self._functions = {name: api("cuModuleGetFunction", self._module, name.encode()) for name in kernels.KERNELS}
        kinds = api.module.cudaMemcpyKind
        self._to_device, self._to_host = kinds.cudaMemcpyHostToDevice, kinds.cudaMemcpyDeviceToHost
        libc.use_fresh_pages()

    def queue_prefetch(self, memory: DeviceMemory, place: Place, stream: int) -> None:
        """Migrate on a stream, to the GPU or to the host."""
        target = self._device if place == "device" else _CPU
        self._runtime("cudaMemPrefetchAsync", own(memory).address, memory.size_bytes, target, stream)

    def _launch(
        self,
        kernel: str,
        blocks: int,
        columns: int,
        addresses: tuple[int, ...],
        numbers: tuple[int, ...],
        stream: int = 0,
    ) -> None:
        values = [ctypes.c_uint64(value) for value in (*addresses, *numbers)]
        places = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        grid = blocks, columns, 1, THREADS, 1, 1, 0
        self._driver("cuLaunchKernel", self._functions[kernel], *grid, stream, ctypes.addressof(places), 0)


def _libcuda() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        problem = "The driver library libcuda.so.1 cannot be loaded."
        raise ToolMissing(problem, "Install the driver's user-space libraries.", "libcuda") from error
