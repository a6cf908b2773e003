"""The functions of GPU APIs, a block for each vendor: what they do to memory, and which argument says how much.

Nothing else knows their names: a vendor's functions are rows, and what its names have in common are its patterns.

Prototypes of CUDA: cuda.h and cuda_runtime_api.h of CUDA 11.8 to 13.5; the versions of a function (`_v2`, `_ptsz`)
take the arguments named here in the same places.
"""

from __future__ import annotations

import functools
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, get_args

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity_kinds import CopyKind, MemoryKind

SUFFIX = re.compile(r"(_v\d+)?(_ptsz|_ptds)?(_v\d+)?$")
"""`cuMemAlloc_v2`, `cuMemcpyHtoDAsync_v2_ptsz`, `cudaMemcpyAsync_ptsz`: versions and stream modes of a function."""

Purpose = Literal[
    "alloc device", "alloc pinned", "alloc managed", "register", "free device", "free pinned", "unregister", "copy",
    "set", "prefetch", "advise", "launch", "sync", "other",
]  # fmt: skip
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


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
    registers: bool = False
    """Its memory is the program's own, which it page-locks, or no longer."""
    maps: bool | None = None
    """Whether memory lies at its pointer from then on, or no longer does; None for all others."""
    pooled: bool = False
    """The memory that it makes comes from a pool."""
    array: bool = False
    """It makes an array, or gives one back: no other function does that."""
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
    device: int | None = None
    """The number of the GPU that it is about: probes do not read it."""
    does: Purpose | None = None
    """What it is for, where its memory and its copies do not say it."""
    asks: bool = False
    """Whether programs and libraries take its error for an answer."""
    on_host: bool = False
    """What it queues is a function of the host's."""
    traced: bool = True
    """Whether probes record it: of a launch or an event, a probe would cost as much as the call. The agent (inside/)
    sees it."""

    @property
    def purpose(self) -> Purpose:
        """What it is for."""
        if self.does is not None:
            return self.does
        if self.copies is not None:
            return "copy"
        if self.registers:
            return "unregister" if self.size is None else "register"
        return _PURPOSE_OF_MEMORY.get((self.memory, self.grants), "other")

    @property
    def may_wait(self) -> bool:
        """Whether it may return only when the GPU is done."""
        return self.purpose in ("copy", "set", "launch", "sync")

    @property
    def arguments(self) -> tuple[int, ...]:
        """All of them that a recording reads, ascending."""
        places = (
            self.size, self.rows, self.pointer, self.target, self.source, self.stated, self.stream, self.sizes,
            self.pieces, self.properties, self.pool,
        )  # fmt: skip
        return tuple(sorted({place for place in places if place is not None}))


Allocated = Literal["pinned", "registered", "managed", "pool", "device"]
Freed = Literal["host", "registered", "device", "array"]
_ALLOCATED: Mapping[Purpose, Allocated] = MappingProxyType(
    {"alloc pinned": "pinned", "register": "registered", "alloc managed": "managed", "alloc device": "device"}
)
_FREED: Mapping[Purpose, Freed] = MappingProxyType(
    {"free pinned": "host", "unregister": "registered", "free device": "device"}
)

_PURPOSE_OF_MEMORY: Mapping[tuple[MemoryKind | None, bool], Purpose] = MappingProxyType(
    {
        (MemoryKind.DEVICE, True): "alloc device", (MemoryKind.PINNED, True): "alloc pinned",
        (MemoryKind.MANAGED, True): "alloc managed", (MemoryKind.DEVICE, False): "free device",
        (MemoryKind.PINNED, False): "free pinned",
    }
)  # fmt: skip
"""By the kind of memory, and whether it is made."""

NEVER = r"(?!)"
"""Matches nothing."""
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
_PITCHED = Function(does="alloc device")
_ARRAY, _ARRAY_FREED = replace(_PITCHED, array=True), Function(does="free device", array=True)
"""What is laid out by the driver: its size stands in a structure, or follows from the format."""
_UNSIZED_COPY = Function(copies=CopyKind.UNKNOWN)
_BATCH = Function(sizes=1, pieces=2, does="advise")
_SIZE_1, _SET = Function(size=1), Function(size=2, does="set")
_LAUNCH = Function(does="launch", traced=False)
_EVENT = Function(traced=False)

_CUDA_FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        # Contexts.
        **dict.fromkeys(("cuInit", "cuCtxCreate"), Function()),
        "cuDevicePrimaryCtxRetain": Function(device=1),
        **dict.fromkeys(("cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset"), Function(device=0, traced=False)),
        # Memory of the host.
        **dict.fromkeys(
            ("cuMemHostAlloc", "cuMemAllocHost", "cudaMallocHost", "cudaHostAlloc"), _makes(_PINNED)
        ),
        **dict.fromkeys(
            ("cuMemHostRegister", "cudaHostRegister"), Function(size=1, pointer=0, memory=_PINNED, registers=True)
        ),
        **dict.fromkeys(("cuMemFreeHost", "cudaFreeHost"), _takes(_PINNED)),
        **dict.fromkeys(("cuMemHostUnregister", "cudaHostUnregister"), replace(_takes(_PINNED), registers=True)),
        # Memory of the device, and managed memory.
        **dict.fromkeys(
            ("cuMemAlloc", "cudaMalloc"), _makes(_DEVICE)
        ),
        **dict.fromkeys(("cuMemAllocAsync", "cudaMallocAsync"), replace(_makes(_DEVICE), pooled=True)),
        **dict.fromkeys(
            ("cuMemAllocFromPoolAsync", "cudaMallocFromPoolAsync"), replace(_makes(_DEVICE, pool=2), pooled=True)
        ),
        **dict.fromkeys(("cuMemAllocManaged", "cudaMallocManaged"), _makes(_MANAGED)),
        **dict.fromkeys(
            ("cuMemAllocPitch", "cudaMallocPitch"), Function(size=2, rows=3, grants=True, memory=_DEVICE)
        ),
        **dict.fromkeys(("cuMemFree", "cudaFree", "cuMemFreeAsync", "cudaFreeAsync"), _takes(_DEVICE)),
        **dict.fromkeys(
            (
                "cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate", "cudaMallocArray", "cudaMalloc3DArray",
                "cudaMallocMipmappedArray",
            ),
            _ARRAY,
        ),
        "cudaMalloc3D": _PITCHED,
        **dict.fromkeys(
            ("cuArrayDestroy", "cuMipmappedArrayDestroy", "cudaFreeArray", "cudaFreeMipmappedArray"), _ARRAY_FREED
        ),
        # Physical memory, addresses for it, and pools. A handle stands for memory: its address is that of a mapping.
        "cuMemCreate": _makes(_DEVICE, properties=2),
        "cuMemRelease": _takes(_DEVICE),
        "cuMemAddressReserve": _SIZE_1,
        "cuMemMap": Function(size=1, pointer=0, maps=True),
        "cuMemUnmap": Function(size=1, pointer=0, maps=False),
        **dict.fromkeys(("cuMemAddressFree", "cuMemSetAccess"), _SIZE_1),
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
        **dict.fromkeys((*_with_async("cuMemsetD8"), *_with_async("cudaMemset")), _SET),
        **dict.fromkeys(_with_async("cuMemsetD16"), replace(_SET, unit=2)),
        **dict.fromkeys(_with_async("cuMemsetD32"), replace(_SET, unit=4)),
        **dict.fromkeys(
            _with_async("cuMemsetD2D8", "cuMemsetD2D16", "cuMemsetD2D32", "cudaMemset2D", "cudaMemset3D"),
            Function(does="set"),
        ),
        # Moving managed memory.
        **_both(Function(size=1, does="prefetch"), "MemPrefetchAsync"),
        **_both(Function(size=1, does="advise"), "MemAdvise"),
        **_both(_BATCH, "MemDiscardBatchAsync"),
        **_both(replace(_BATCH, does="prefetch"), "MemPrefetchBatchAsync", "MemDiscardAndPrefetchBatchAsync"),
        # Waiting.
        **dict.fromkeys(
            (
                "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cudaDeviceSynchronize",
                "cudaStreamSynchronize", "cudaEventSynchronize",
            ),
            Function(does="sync"),
        ),
        "cudaThreadSynchronize": Function(does="sync", traced=False),
        # Launching kernels, functions of the host's and graphs.
        **dict.fromkeys(
            (
                "cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync", "cudaLaunch", "cudaLaunchDevice",
                "cudaLaunchKernelExC", "cudaLaunchKernelEx", "cuLaunchKernelEx",
            ),
            _LAUNCH,
        ),
        **_both(_LAUNCH, "LaunchKernel", "LaunchCooperativeKernel", "LaunchCooperativeKernelMultiDevice"),
        **dict.fromkeys(("cuLaunchKernel", "cuLaunchCooperativeKernel"), replace(_LAUNCH, stream=8)),
        **_both(replace(_LAUNCH, stream=0, on_host=True), "LaunchHostFunc"),
        **_both(replace(_LAUNCH, stream=1), "GraphLaunch"),
        # Events.
        **_both(replace(_EVENT, stream=1), "EventRecord", "EventRecordWithFlags"),
        **_both(replace(_EVENT, stream=0), "StreamWaitEvent"),
        **_both(replace(_EVENT, asks=True), "EventQuery", "StreamQuery"),
        **_both(_EVENT, "EventCreate", "EventCreateWithFlags", "EventDestroy", "EventElapsedTime"),
        # What is made once, and its ends.
        **_both(replace(_EVENT, stream=0), "StreamBeginCapture", "StreamBeginCaptureToGraph", "StreamEndCapture"),
        **_both(replace(_EVENT, stream=1), "GraphUpload"),
        **_both(
            _EVENT, "GraphCreate", "GraphInstantiate", "GraphInstantiateWithFlags", "GraphInstantiateWithParams",
            "GraphExecUpdate", "GraphExecDestroy", "GraphDestroy",
        ),
        **dict.fromkeys(
            (
                "cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuLibraryLoadData", "cuLibraryLoadFromFile",
                "cuStreamCreate", "cuStreamCreateWithPriority", "cuStreamDestroy", "cuCtxDestroy",
                "cuMemHostGetFlags",
            ),
            Function(traced=False),
        ),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Vendor:
    """A vendor's API: a row a function. Patterns are of plain names, for what the names have in common."""

    name: str
    """What its calls are called."""
    names: str
    """A pattern of all its functions."""
    functions: Mapping[str, Function]
    """By plain name."""
    purposes: tuple[tuple[Purpose, str], ...] = ()
    """What functions without a row are for: those of a version that is newer than the table. The first pattern that a
    whole name matches decides."""
    libraries: tuple[str, ...] = ()
    """How the names of its libraries begin."""
    linked: str = NEVER
    """Functions of its runtime that a compiler links into a program, by their names there."""
    own: str = NEVER
    """Functions of its runtime's API in a program."""
    asks: str = NEVER
    """Functions whose error may be an answer; how their names begin."""
    copies: str = NEVER
    """Functions that copy or set memory."""
    contexts: tuple[str, ...] = ()
    """Driver functions that create a context."""
    devices: tuple[str, ...] = ()
    """Runtime functions that create one."""
    exports: str = NEVER
    """Names that its libraries export."""
    loads: str = NEVER
    """Functions that register a program's kernels before `main`."""
    starts: str = NEVER
    """Functions of the driver and the runtime that set up a context and load code."""
    ends: str = NEVER
    """Functions that end a context."""


CUDA = Vendor(
    name="CUDA",
    names=r"cu\w+|__cuda\w+",
    functions=_CUDA_FUNCTIONS,
    purposes=(
        ("alloc pinned", r"cudaMallocHost|cudaHostAlloc|cuMemAllocHost|cuMemHostAlloc"),
        ("alloc managed", r"cudaMallocManaged|cuMemAllocManaged"),
        ("alloc device", r"cudaMalloc\w*|cuMemAlloc\w*|cuMemCreate|cu(Mipmapped)?Array(3D)?Create"),
        ("free pinned", r"cudaFreeHost|cuMemFreeHost"),
        ("free device", r"cudaFree\w*|cuMemFree\w*|cuMemRelease|cu(Mipmapped)?ArrayDestroy"),
        ("register", r"cudaHostRegister|cuMemHostRegister"),
        ("unregister", r"cudaHostUnregister|cuMemHostUnregister"),
        ("copy", r"cudaMemcpy\w*|cuMemcpy\w*"),
        ("set", r"cudaMemset\w*|cuMemset\w*"),
        ("prefetch", r"(cuda|cu)Mem(DiscardAnd)?Prefetch\w*"),
        ("advise", r"(cuda|cu)Mem(Advise|DiscardBatchAsync)"),
    ),
    libraries=("libcuda.", "libcudart.", "libpinprof_inside."),  # the last stands before the first
    linked=r"(?:__)?libcudart_static_\w+|cudart::.*",
    own=r"(?:__)?cuda[A-Z]\w+",
    asks=r"(cuda|cu)(Init$|\w*(Get|Query|Peek|CanAccess|Is)(?![a-z]))",
    copies=r"(cuda|cu)(Memcpy|Memset)\w*",
    contexts=("cuInit", "cuCtxCreate", "cuDevicePrimaryCtxRetain"),
    devices=("cudaSetDevice", "cudaInitDevice"),
    exports=r"cu(?:da)?[A-Z]\w{0,60}",
    loads=r"__cudaRegister(FatBinary\w*|Function|Var)",
    starts=(
        r"cuInit|cu(DevicePrimaryCtxRetain|DevicePrimaryCtxSetFlags|CtxCreate)(_v\d+)?|cudaInitDevice"
        r"|cuModuleLoad\w*|cuLibraryLoad\w*|cuLibraryGet(Kernel|Module)\w*|cuModuleGetFunction|cuKernelGetFunction"
        r"|cuLink(Create|AddData|AddFile|Complete)(_v\d+)?|cudaLibraryLoad\w*"
    ),
    ends=r"cuDevicePrimaryCtx(Release|Reset)(_v\d+)?|cuCtxDestroy(_v\d+)?|cuda(Device|Thread)(Reset|Exit)",
)
HIP = Vendor(
    name="HIP",
    names=r"hip\w+|__hip\w+",
    functions={},
    purposes=(
        ("alloc pinned", r"hipHostMalloc|hipMallocHost|hipMemAllocHost|hipHostAlloc"),
        ("alloc managed", r"hipMallocManaged"),
        ("alloc device", r"hip(Ext)?Malloc\w*|hipMemAlloc\w*|hipMemCreate|hip(Mipmapped)?Array(3D)?Create"),
        ("free pinned", r"hipHostFree|hipFreeHost"),
        ("free device", r"hipFree\w*|hipMemRelease|hip(Mipmapped)?ArrayDestroy"),
        ("register", r"hipHostRegister"),
        ("unregister", r"hipHostUnregister"),
        ("copy", r"hip(Drv)?Memcpy\w*"),
        ("set", r"hipMemset\w*"),
        ("prefetch", r"hipMemPrefetch\w*"),
        ("advise", r"hipMemAdvise\w*"),
        ("launch", r"hip\w*Launch\w+"),
        ("sync", r"hip(Device|Stream|Event|Ctx)Synchronize\w*"),
    ),
    asks=r"hip(\w*(Get|Query|Peek|CanAccess|Is)(?![a-z]))",
    copies=r"hip(Drv)?(Memcpy|Memset)\w*",
    starts=r"hip(Init|CtxCreate)",
)
VENDORS: tuple[Vendor, ...] = (CUDA, HIP)

FUNCTIONS: ChainMap[str, Function] = ChainMap(*(dict(vendor.functions) for vendor in VENDORS))
"""The functions of all vendors, by plain name."""
LINKED_RUNTIME, RUNTIME_API, COPYING, EXPORTED, LOADING, STARTING, ENDING = (
    "|".join(f"(?:{getattr(vendor, part)})" for vendor in VENDORS)
    for part in ("linked", "own", "copies", "exports", "loads", "starts", "ends")
)
"""The vendors' patterns as one regular expression each."""
CREATE_CONTEXT = tuple(name for vendor in VENDORS for name in vendor.contexts)
CREATE_ANY_CONTEXT = (*CREATE_CONTEXT, *(name for vendor in VENDORS for name in vendor.devices))
_LINKED, _COPY = re.compile(LINKED_RUNTIME), re.compile(COPYING)


@functools.lru_cache(1 << 14)
def plain_name(symbol: str) -> str:
    """A function's name without version and stream mode."""
    return SUFFIX.sub("", symbol) or symbol


def purpose_of(name: str) -> Purpose:
    """What a call is for, by its plain name; ` (host)` follows where memory of a pool or handle lies there."""
    plain, _, place = name.partition(" (")
    if place.startswith("host"):
        return "alloc pinned"
    if plain in FUNCTIONS:
        return FUNCTIONS[plain].purpose
    patterns = (row for vendor in VENDORS for row in vendor.purposes)
    return next((purpose for purpose, pattern in patterns if re.fullmatch(pattern, name, re.DOTALL)), "other")


def is_traced(name: str) -> bool:
    """Whether recordings of calls have a function, by its plain name."""
    return name in FUNCTIONS and FUNCTIONS[name].traced


def may_wait(symbol: str) -> bool:
    """Whether a function may return only when the GPU is done, by its symbol, which may have a version behind an @."""
    name, _, _ = symbol.partition("@")
    role = FUNCTIONS.get(plain_name(name))
    return _COPY.fullmatch(name) is not None or (role is not None and role.may_wait)


def runs_on_host(name: str) -> bool:
    """Whether what a call launches is a function of the host's, by its plain name."""
    return name in FUNCTIONS and FUNCTIONS[name].on_host


def allocates(name: str) -> Allocated | None:
    """What a call allocates, by its name as for `purpose_of`; None for other calls."""
    made, plain = _ALLOCATED.get(purpose_of(name)), name.partition(" (")[0]
    return "pool" if made == "device" and plain in FUNCTIONS and FUNCTIONS[plain].pooled else made


def frees(name: str) -> Freed | None:
    """What a call gives back, by its plain name; None for other calls."""
    return "array" if is_array(name) and allocates(name) is None else _FREED.get(purpose_of(name))


def is_array(name: str) -> bool:
    """Whether a call is about an array, by its plain name."""
    return name in FUNCTIONS and FUNCTIONS[name].array


def allocates_by_place(name: str) -> bool:
    """Whether a function allocates memory of the host or of a device, as its arguments say."""
    role = FUNCTIONS.get(name)
    return role is not None and role.grants and (role.pool is not None or role.properties is not None)


def asks(name: str) -> bool:
    """Whether programs and libraries take a call's error for an answer."""
    return (name in FUNCTIONS and FUNCTIONS[name].asks) or any(re.match(vendor.asks, name) for vendor in VENDORS)


def api_of(functions: Iterable[str]) -> str:
    """What calls of these functions are called: those of the one vendor that they all have, else CUDA's."""
    names = list(functions)
    of = (vendor.name for vendor in VENDORS if names and all(re.fullmatch(vendor.names, name) for name in names))
    return next(of, CUDA.name)


def is_call(name: str) -> bool:
    """Whether a function has a name of those that a vendor's driver or runtime exports."""
    return any(re.fullmatch(vendor.exports, name) for vendor in VENDORS)


def of_vendor(function: str, library: str) -> bool:
    """Whether a function is the API's own: by its library, its name, or the runtime that a compiler links in."""
    return (
        any(library.startswith(vendor.libraries) for vendor in VENDORS if vendor.libraries)
        or plain_name(function) in FUNCTIONS
        or _LINKED.fullmatch(function) is not None
    )


COPIES, MEMORY, BATCHES, OTHER = KINDS = ("copies", "memory", "batches", "other")
"""What a program may do so often that tracing it costs too much: it is given up by kind (collect/native/probing.py)."""
_COPYING = re.compile(r"Mem(cpy|set)")
_GRANTING = re.compile(r"Alloc|Malloc|Free|Register|register|MemCreate|MemRelease|Mem(Un)?[Mm]ap|MemPool")


def kind_of(name: str) -> str:
    """Which of KINDS a watched function belongs to: batched, of which more is read than arguments; by its name copying
    and setting memory, or granting and freeing it; or the rest.
    """
    if name in FUNCTIONS and FUNCTIONS[name].sizes is not None:
        return BATCHES
    return COPIES if _COPYING.search(name) else MEMORY if _GRANTING.search(name) else OTHER
