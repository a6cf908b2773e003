"""The CUDA functions that pinprof watches from outside: what they do to memory, and which argument says how much.

Prototypes: cuda.h and cuda_runtime_api.h of CUDA 12 and 13; the versions of a function (`_v2`, `_ptsz`) take the
arguments named here in the same places. Launches are left out: a probe would cost as much as the launch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from pinprof.activity import CopyKind

SUFFIX = re.compile(r"(_v\d+)?(_ptsz|_ptds)?(_v\d+)?$")
"""`cuMemAlloc_v2`, `cuMemcpyHtoDAsync_v2_ptsz`, `cudaMemcpyAsync_ptsz`: versions and stream modes of a function."""


@dataclass(frozen=True)
class Function:
    """Where a function's arguments are, counted from 0; None for one it does not have, or beyond the fourth."""

    size: int | None = None
    """Bytes."""
    rows: int | None = None
    """How many times as much."""
    pointer: int | None = None
    """The memory it is about, where the caller passes it."""
    grants: bool = False
    """It makes memory: the address is known when it returns."""
    copies: CopyKind | None = None
    """The direction that its name tells, UNKNOWN where it does not; None for what copies nothing."""
    target: int | None = None
    """The address it copies to."""
    source: int | None = None
    """The address it copies from."""
    stated: int | None = None
    """The direction, as a cudaMemcpyKind."""
    stream: int | None = None
    """The stream that it is queued on."""


STATED = (
    CopyKind.HOST_TO_HOST, CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST, CopyKind.DEVICE_TO_DEVICE,
    CopyKind.UNKNOWN,
)  # fmt: skip
"""Directions by cudaMemcpyKind."""


def _copy(kind: CopyKind, stated: int | None = None) -> Function:
    """A copy whose first arguments are target, source and bytes."""
    return Function(copies=kind, size=2, target=0, source=1, stated=stated)


def _copies(name: str, kind: CopyKind) -> dict[str, Function]:
    """A copy of the driver, and the one that is queued on a stream."""
    return {name: _copy(kind), f"{name}Async": replace(_copy(kind), stream=3)}


def _with_async(*names: str) -> tuple[str, ...]:
    return tuple(name + suffix for name in names for suffix in ("", "Async"))


_SIZE_2, _SIZE_3 = Function(size=1), Function(size=2)
_MAKES, _TAKES, _REGISTERS = Function(size=1, grants=True), Function(pointer=0), Function(size=1, pointer=0)

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        **dict.fromkeys(("cuInit", "cuCtxCreate", "cuDevicePrimaryCtxRetain"), Function()),
        **dict.fromkeys(
            ("cuMemHostAlloc", "cuMemAllocHost", "cudaMallocHost", "cudaHostAlloc", "cuMemAlloc", "cudaMalloc"), _MAKES
        ),
        **dict.fromkeys(
            (
                "cuMemAllocAsync", "cudaMallocAsync", "cuMemAllocFromPoolAsync", "cudaMallocFromPoolAsync",
                "cuMemAllocManaged", "cudaMallocManaged",
            ),
            _MAKES,
        ),
        **dict.fromkeys(("cuMemAllocPitch", "cudaMallocPitch"), Function(size=2, rows=3, grants=True)),
        "cuMemCreate": _SIZE_2,  # a handle, mapped elsewhere
        **dict.fromkeys(("cuMemHostRegister", "cudaHostRegister"), _REGISTERS),
        **dict.fromkeys(
            (
                "cuMemFreeHost", "cudaFreeHost", "cuMemHostUnregister", "cudaHostUnregister", "cuMemFree", "cudaFree",
                "cuMemFreeAsync", "cudaFreeAsync",
            ),
            _TAKES,
        ),
        **_copies("cuMemcpy", CopyKind.UNKNOWN),
        **_copies("cuMemcpyHtoD", CopyKind.HOST_TO_DEVICE),
        **_copies("cuMemcpyDtoH", CopyKind.DEVICE_TO_HOST),
        **_copies("cuMemcpyDtoD", CopyKind.DEVICE_TO_DEVICE),
        **dict.fromkeys(_with_async("cudaMemcpy"), _copy(CopyKind.UNKNOWN, stated=3)),
        **dict.fromkeys(_with_async("cudaMemcpy2D"), Function(copies=CopyKind.UNKNOWN, target=0, source=2)),
        **dict.fromkeys(
            _with_async("cuMemcpyPeer", "cudaMemcpyPeer"),
            Function(copies=CopyKind.PEER_TO_PEER, target=0, source=2),
        ),
        **dict.fromkeys(
            (
                *_with_async("cuMemcpy2D", "cuMemcpy3D", "cuMemcpy3DPeer"),
                *_with_async("cudaMemcpy3D", "cudaMemcpy3DPeer"),
                "cuMemcpyBatchAsync", "cuMemcpy3DBatchAsync", "cudaMemcpyBatchAsync", "cudaMemcpy3DBatchAsync",
            ),
            Function(copies=CopyKind.UNKNOWN),
        ),
        **dict.fromkeys((*_with_async("cuMemsetD8"), *_with_async("cudaMemset")), _SIZE_3),
        **dict.fromkeys(("cuMemPrefetchAsync", "cudaMemPrefetchAsync", "cuMemAdvise", "cudaMemAdvise"), _SIZE_2),
        **dict.fromkeys(
            (
                "cuMemPrefetchBatchAsync", "cudaMemPrefetchBatchAsync", "cuMemDiscardBatchAsync",
                "cudaMemDiscardBatchAsync", "cuMemDiscardAndPrefetchBatchAsync",
                "cudaMemDiscardAndPrefetchBatchAsync", "cuCtxSynchronize", "cuStreamSynchronize",
                "cuEventSynchronize", "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
            ),
            Function(),
        ),
    }
)  # fmt: skip
"""By plain name."""


def plain_name(symbol: str) -> str:
    """A function's name without version and stream mode."""
    return SUFFIX.sub("", symbol) or symbol
