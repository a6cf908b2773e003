"""The functions of libcuda that a calibration calls, without a GPU: memory is the host's, work is done at once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from pinprof.workloads.backends import libc
from pinprof.workloads.backends.driver import _CALLS
from pinprof.workloads.backends.memory import view

_MAKES = {"cuMemAlloc_v2": "memory", "cuMemAllocHost_v2": "memory", "cuMemAllocManaged": "memory"}
_FREES = ("cuMemFree_v2", "cuMemFreeHost", "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuModuleUnload")


class FakeDriver:
    """Attributes are functions, called as ctypes calls those of the library; `failing` answers with an error."""

    def __init__(self, failing: str = "") -> None:
        self.alive: dict[int, str] = {}
        self._numbers = count(1 << 48)
        for name in {entry[0] for entry in _CALLS.values()}:
            setattr(self, name, _Function((lambda *_: 999) if name == failing else self._named(name)))

    def _named(self, name: str) -> Callable[..., int]:
        if name in _MAKES:
            return lambda out, size, *_: self._make(name, out, libc.malloc(size))
        if name in ("cuStreamCreate", "cuEventCreate", "cuModuleLoadData"):
            return lambda out, *_: self._make(name, out, next(self._numbers))
        if name in ("cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuModuleGetFunction"):
            return lambda out, *_: _put(out, 1)
        if name in _FREES:
            return self._free
        if name in ("cuMemcpy", "cuMemcpyAsync"):
            return lambda to, start, size, *_: libc.memcpy(to, start, size) or 0
        return self._launch if name == "cuLaunchKernel" else lambda *_: 0

    def _make(self, name: str, out: int, value: int) -> int:
        self.alive[value] = name
        return _put(out, value)

    def _free(self, value: int) -> int:
        if "Alloc" in self.alive.pop(value):
            libc.free(value)
        return 0

    def _launch(self, _function: int, *arguments: Any) -> int:
        places = (ctypes.c_void_p * 2).from_address(arguments[8])
        address, size = (ctypes.c_uint64.from_address(place or 0).value for place in places)
        array = view(address, 4 * size)
        np.add(array, np.float32(2), out=array)
        return 0


class _Function:
    """Callable, and takes argument types as ctypes functions do."""

    argtypes: Any = ()

    def __init__(self, function: Callable[..., int]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> int:
        return self._function(*arguments)


def _put(out: int, value: int) -> int:
    ctypes.c_uint64.from_address(out).value = value
    return 0
