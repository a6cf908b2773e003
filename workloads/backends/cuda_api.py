"""Checked calls of cuda.bindings: every code but success becomes a CudaError."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Protocol

from pinprof.base.errors import CudaError, ToolMissing

_OUT_OF_MEMORY, _NO_DEVICE, _INSUFFICIENT_DRIVER = 2, 100, 35
"""cudaErrorMemoryAllocation, cudaErrorNoDevice, cudaErrorInsufficientDriver: driver_types.h, CUDA 12 and 13."""
_REMEDIES = {
    _OUT_OF_MEMORY: "Give a smaller --size, or free memory that other programs hold.",
    _NO_DEVICE: "Unset CUDA_VISIBLE_DEVICES, or choose --backend host for the emulation.",
    _INSUFFICIENT_DRIVER: "Install the cuda-python of the driver's CUDA version, for example 'cuda-python<13'.",
}


def check(call: str, result: tuple[Any, ...], describe: Callable[[Any], str]) -> Any:
    """What a call of cuda.bindings returned after its error code: None, one value or a tuple; CudaError else."""
    error, *values = result
    code = int(error)
    if code:
        remedy = _REMEDIES.get(code, "Check the GPU with nvidia-smi and dmesg.")
        raise CudaError(call, code, f"{error.name}, {describe(error)}", remedy)
    return values[0] if len(values) == 1 else tuple(values) or None


class Calls(Protocol):
    """Checked calls by name."""

    module: Any
    """The names that go with them: enumerations, structures."""

    def __call__(self, call: str, *arguments: Any) -> Any:
        """What the call returned after its error code; CudaError when that says anything but success."""


class Api:
    """One module of cuda.bindings; `api("cudaMalloc", 64)` is the checked call."""

    def __init__(self, module: Any, describe: str) -> None:
        self.module = module
        self._describe = getattr(module, describe)

    def __call__(self, call: str, *arguments: Any) -> Any:
        """What the call returned after its error code; CudaError when that says anything but success."""
        return check(call, getattr(self.module, call)(*arguments), self._meaning)

    def _meaning(self, error: Any) -> str:
        _, text = self._describe(error)
        return str(text.decode("utf-8", "replace")) if text else "unknown error"


def bindings(module: str) -> Any:
    """A module of cuda.bindings; ToolMissing when it is not installed."""
    try:
        return import_module(f"cuda.bindings.{module}")
    except ImportError as error:
        raise ToolMissing(
            f"There is an NVIDIA GPU, but cuda.bindings cannot be imported ({error}).",
            "Install it with: pip install 'pinprof[cuda]'; or choose --backend host for the emulation.",
            "cuda-python",
        ) from error


@contextlib.contextmanager
def driver_library() -> Iterator[None]:
    """The first call loads libcuda.so.1; cuda.bindings raises RuntimeError when there is none."""
    try:
        yield
    except RuntimeError as error:
        raise ToolMissing(
            "There is an NVIDIA GPU, but its driver library libcuda.so.1 cannot be loaded.",
            "Install the driver's user-space libraries; in a container, start it with --gpus all.",
            "libcuda",
        ) from error
