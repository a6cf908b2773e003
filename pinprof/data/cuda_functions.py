"""The CUDA functions that pinprof watches from outside: what they do to memory, and which argument says how much.

Prototypes: cuda.h and cuda_runtime_api.h of CUDA 11.8 to 13.5; the versions of a function (`_v2`, `_ptsz`) take the
arguments named here in the same places. Launches are left out: a probe would cost as much as the launch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity_kinds import CopyKind, MemoryKind

SUFFIX = re.compile(r"(_v\d+)?(_ptsz|_ptds)?(_v\d+)?$")
"""`cuMemAlloc_v2`, `cuMemcpyHtoDAsync_v2_ptsz`, `cudaMemcpyAsync_ptsz`: versions and stream modes of a function."""


@dataclass(frozen=True)
class Function:
    """Where a function's arguments are, counted from 0; None for one it does not have, or beyond the fourth."""

    size: int | None = None
    """Bytes."""
    unit: int = 1
    """Bytes of what `size` counts."""
    rows: int | None = None
    """How many times as much."""
    pointer: int | None = None
    """The memory it is about, where the caller passes it."""
    grants: bool = False
    """It makes memory: the address is known when it returns."""
    memory: MemoryKind | None = None
    """The kind that it makes, registers or gives back; None for all others."""
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
    sizes: int | None = None
    """An array of sizes, one for each piece of a batched call."""
    pieces: int | None = None
    """How many pieces that are."""
    properties: int | None = None
    """A structure that says where memory lies: `Location`, and the number of device or node."""
    pool: int | None = None
    """The pool that memory comes from."""


READ_PIECES = 128
"""Sizes of a batched call that a recording reads at most."""

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


def _both(role: Function, *names: str) -> dict[str, Function]:
    """The same function of the driver and of the runtime; names without `cu` and `cuda`."""
    return {prefix + name: role for name in names for prefix in ("cu", "cuda")}


def _makes(kind: MemoryKind, **places: int) -> Function:
    """An allocation whose second argument is its size."""
    return replace(Function(size=1, grants=True, memory=kind), **places)  # type: ignore[arg-type]


def _takes(kind: MemoryKind) -> Function:
    """What gives back the memory at its first argument."""
    return Function(pointer=0, memory=kind)


_DEVICE, _PINNED, _MANAGED = MemoryKind.DEVICE, MemoryKind.PINNED, MemoryKind.MANAGED
_ARRAYS = Function()
"""What is laid out by the driver: its size stands in a structure, or follows from the format."""
_UNSIZED_COPY = Function(copies=CopyKind.UNKNOWN)
_BATCH = Function(sizes=1, pieces=2)
_SIZE_1, _SIZE_2 = Function(size=1), Function(size=2)

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        # Contexts.
        **dict.fromkeys(("cuInit", "cuCtxCreate", "cuDevicePrimaryCtxRetain"), Function()),
        # Memory of the host.
        **dict.fromkeys(
            ("cuMemHostAlloc", "cuMemAllocHost", "cudaMallocHost", "cudaHostAlloc"), _makes(_PINNED)
        ),
        **dict.fromkeys(("cuMemHostRegister", "cudaHostRegister"), Function(size=1, pointer=0, memory=_PINNED)),
        **dict.fromkeys(
            ("cuMemFreeHost", "cudaFreeHost", "cuMemHostUnregister", "cudaHostUnregister"), _takes(_PINNED)
        ),
        # Memory of the device, and managed memory.
        **dict.fromkeys(
            ("cuMemAlloc", "cudaMalloc", "cuMemAllocAsync", "cudaMallocAsync"), _makes(_DEVICE)
        ),
        **dict.fromkeys(("cuMemAllocFromPoolAsync", "cudaMallocFromPoolAsync"), _makes(_DEVICE, pool=2)),
        **dict.fromkeys(("cuMemAllocManaged", "cudaMallocManaged"), _makes(_MANAGED)),
        **dict.fromkeys(
            ("cuMemAllocPitch", "cudaMallocPitch"), Function(size=2, rows=3, grants=True, memory=_DEVICE)
        ),
        **dict.fromkeys(("cuMemFree", "cudaFree", "cuMemFreeAsync", "cudaFreeAsync"), _takes(_DEVICE)),
        **dict.fromkeys(
            (
                "cuArrayCreate", "cuArray3DCreate", "cuArrayDestroy", "cuMipmappedArrayCreate",
                "cuMipmappedArrayDestroy", "cudaMalloc3D", "cudaMallocArray", "cudaMalloc3DArray", "cudaFreeArray",
                "cudaMallocMipmappedArray", "cudaFreeMipmappedArray",
            ),
            _ARRAYS,
        ),
        # Physical memory, addresses for it, and pools. A handle stands for memory: its address is that of a mapping.
        "cuMemCreate": _makes(_DEVICE, properties=2),
        "cuMemRelease": _takes(_DEVICE),
        "cuMemAddressReserve": _SIZE_1,
        **dict.fromkeys(("cuMemMap", "cuMemUnmap", "cuMemAddressFree", "cuMemSetAccess"), _SIZE_1),
        **_both(Function(properties=1), "MemPoolCreate"),
        **_both(Function(), "MemPoolDestroy", "MemPoolTrimTo", "MemPoolImportPointer"),
        # Copies.
        **_copies("cuMemcpy", CopyKind.UNKNOWN),
        **_copies("cuMemcpyHtoD", CopyKind.HOST_TO_DEVICE),
        **_copies("cuMemcpyDtoH", CopyKind.DEVICE_TO_HOST),
        **_copies("cuMemcpyDtoD", CopyKind.DEVICE_TO_DEVICE),
        **dict.fromkeys(_with_async("cuMemcpyHtoA"), Function(copies=CopyKind.HOST_TO_ARRAY, source=2, size=3)),
        **dict.fromkeys(_with_async("cuMemcpyAtoH"), Function(copies=CopyKind.ARRAY_TO_HOST, target=0, size=3)),
        "cuMemcpyAtoD": Function(copies=CopyKind.ARRAY_TO_DEVICE, target=0, size=3),
        "cuMemcpyDtoA": Function(copies=CopyKind.DEVICE_TO_ARRAY, source=2, size=3),
        "cuMemcpyAtoA": Function(copies=CopyKind.ARRAY_TO_ARRAY),
        **dict.fromkeys(_with_async("cudaMemcpy"), _copy(CopyKind.UNKNOWN, stated=3)),
        **_both(_copy(CopyKind.UNKNOWN), "MemcpyWithAttributesAsync"),
        **dict.fromkeys(_with_async("cudaMemcpy2D"), Function(copies=CopyKind.UNKNOWN, target=0, source=2)),
        **dict.fromkeys(_with_async("cudaMemcpyToSymbol"), Function(copies=CopyKind.UNKNOWN, source=1, size=2)),
        **dict.fromkeys(_with_async("cudaMemcpyFromSymbol"), Function(copies=CopyKind.UNKNOWN, target=0, size=2)),
        **dict.fromkeys(
            _with_async("cuMemcpyPeer", "cudaMemcpyPeer"),
            Function(copies=CopyKind.PEER_TO_PEER, target=0, source=2),
        ),
        **_both(_UNSIZED_COPY, *_with_async("Memcpy3D", "Memcpy3DPeer"), "Memcpy3DWithAttributesAsync"),
        **dict.fromkeys(
            (
                *_with_async("cuMemcpy2D"), "cuMemcpy2DUnaligned",
                *_with_async(
                    "cudaMemcpyToArray", "cudaMemcpyFromArray", "cudaMemcpy2DToArray", "cudaMemcpy2DFromArray"
                ),
                "cudaMemcpyArrayToArray", "cudaMemcpy2DArrayToArray",
            ),
            _UNSIZED_COPY,
        ),
        **_both(replace(_UNSIZED_COPY, sizes=2, pieces=3), "MemcpyBatchAsync"),
        **_both(_UNSIZED_COPY, "Memcpy3DBatchAsync"),
        # Setting.
        **dict.fromkeys((*_with_async("cuMemsetD8"), *_with_async("cudaMemset")), _SIZE_2),
        **dict.fromkeys(_with_async("cuMemsetD16"), replace(_SIZE_2, unit=2)),
        **dict.fromkeys(_with_async("cuMemsetD32"), replace(_SIZE_2, unit=4)),
        **dict.fromkeys(
            _with_async("cuMemsetD2D8", "cuMemsetD2D16", "cuMemsetD2D32", "cudaMemset2D", "cudaMemset3D"), Function()
        ),
        # Moving managed memory.
        **_both(_SIZE_1, "MemPrefetchAsync", "MemAdvise"),
        **_both(_BATCH, "MemPrefetchBatchAsync", "MemDiscardBatchAsync", "MemDiscardAndPrefetchBatchAsync"),
        # Waiting.
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


LINKED_RUNTIME = r"(?:__)?libcudart_static_\w+|cudart::.*"
"""Functions inside the CUDA runtime that nvcc links into a program, which are not the program's own: a regular
expression.
"""

COPIES, MEMORY, BATCHES, OTHER = KINDS = ("copies", "memory", "batches", "other")
"""What a program may do so often that tracing it costs too much: it is given up by kind (collect/native/budget.py)."""
_COPYING = re.compile(r"Mem(cpy|set)")
_GRANTING = re.compile(r"Alloc|Malloc|Free|Register|register|MemCreate|MemRelease|Mem(Un)?[Mm]ap|MemPool")


def kind_of(name: str) -> str:
    """Which of KINDS a watched function belongs to: batched, of which more is read than arguments; by its name copying
    and setting memory, or granting and freeing it; or the rest.
    """
    if name in FUNCTIONS and FUNCTIONS[name].sizes is not None:
        return BATCHES
    return COPIES if _COPYING.search(name) else MEMORY if _GRANTING.search(name) else OTHER
