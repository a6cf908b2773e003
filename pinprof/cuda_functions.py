"""The CUDA functions that pinprof watches from outside: what they do to memory, and which argument says how much.

Prototypes: cuda.h and cuda_runtime_api.h of CUDA 12 and 13; the versions of a function (`_v2`, `_ptsz`) take the
arguments named here in the same places. Launches are left out: a probe would cost as much as the launch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

SUFFIX = re.compile(r"(_v\d+)?(_ptsz|_ptds)?(_v\d+)?$")
"""`cuMemAlloc_v2`, `cuMemcpyHtoDAsync_v2_ptsz`, `cudaMemcpyAsync_ptsz`: versions and stream modes of a function."""


@dataclass(frozen=True)
class Function:
    """Where a function's arguments are, counted from 0; None for one it does not have."""

    size: int | None = None
    """Bytes."""
    pointer: int | None = None
    """The memory it is about, where the caller passes it."""
    grants: bool = False
    """It makes memory: the address is known when it returns."""


_SIZE_2, _SIZE_3 = Function(size=1), Function(size=2)
_MAKES, _TAKES, _REGISTERS = Function(size=1, grants=True), Function(pointer=0), Function(size=1, pointer=0)

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        **dict.fromkeys(("cuInit", "cuCtxCreate", "cuDevicePrimaryCtxRetain"), Function()),
        **dict.fromkeys(
            ("cuMemHostAlloc", "cuMemAllocHost", "cudaMallocHost", "cudaHostAlloc", "cuMemAlloc", "cudaMalloc"), _MAKES
        ),
        **dict.fromkeys(
            ("cuMemAllocAsync", "cudaMallocAsync", "cuMemAllocManaged", "cudaMallocManaged"), _MAKES
        ),
        **dict.fromkeys(("cuMemHostRegister", "cudaHostRegister"), _REGISTERS),
        **dict.fromkeys(
            (
                "cuMemFreeHost", "cudaFreeHost", "cuMemHostUnregister", "cudaHostUnregister", "cuMemFree", "cudaFree",
                "cuMemFreeAsync", "cudaFreeAsync",
            ),
            _TAKES,
        ),
        **dict.fromkeys(
            (
                "cuMemcpy", "cuMemcpyAsync", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemcpyHtoDAsync",
                "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cudaMemcpy", "cudaMemcpyAsync", "cuMemsetD8",
                "cuMemsetD8Async", "cudaMemset", "cudaMemsetAsync",
            ),
            _SIZE_3,
        ),
        **dict.fromkeys(("cuMemcpy2D", "cuMemcpy2DAsync", "cudaMemcpy2D", "cudaMemcpy2DAsync"), Function()),
        **dict.fromkeys(("cuMemPrefetchAsync", "cudaMemPrefetchAsync", "cuMemAdvise", "cudaMemAdvise"), _SIZE_2),
        **dict.fromkeys(
            (
                "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cudaDeviceSynchronize",
                "cudaStreamSynchronize", "cudaEventSynchronize",
            ),
            Function(),
        ),
    }
)  # fmt: skip
"""By plain name."""


def plain_name(symbol: str) -> str:
    """A function's name without version and stream mode."""
    return SUFFIX.sub("", symbol) or symbol
