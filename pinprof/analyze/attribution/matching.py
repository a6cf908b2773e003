"""From a frame's name to what the taxonomy's rows say about it: each distinct name is matched once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.attribution import categories as rows
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF, Frames
from pinprof.analyze.attribution.work import HELPERS, WORK, WORK_ATTRIBUTES
from pinprof.model import KERNEL, LONGEST_NAME, Bool, Dso, FrameTable, Int16

Int8 = NDArray[np.int8]

NONE = -1

_SUFFIX = re.compile(
    r"(\+0x[0-9a-f]+(/0x[0-9a-f]+)?|\.(isra|constprop|part|llvm)\.\d+|\.(cold|localalias)(\.\d+)?|_noprof)$"
)
_PREFIX = re.compile(r"^__p(fx|i)_")
_SYSCALL = re.compile(r"^__(x64|arm64|se|do|ia32|ia32_compat|x32_compat)_(compat_)?sys_")

CONTEXT_CODE = {name: code for code, name in enumerate(("", *rows.CONTEXTS, "gup borrow", "gup populate"))}
"""Context → state; `gup borrow` and `gup populate` are `gup` entered under a borrowing or a populating frame."""

_KINDS = ("fault.core", "fault.file", "fault.anon", "fault.cow", "fault.swap", "pin.migrate")
"""What a frame inside a context tells, from the least to the most telling: kind = position + 1, 0 = nothing yet."""

_REMAINDERS = (
    "sys.entry", "other.kernel", "other.driver", "sys.sched", "sys.proc", "mm.vma", "sys.reclaim", "sys.idle",
    "sync.block", "copy.kernel", "sync.ipc", "rm.other", "rm.opaque", "rm.free", "rm.mmap", "rm.isr",
)  # fmt: skip
"""Tier D from the weakest to the strongest claim. A copy that runs outranks the pipe it runs for: see `_COPYING`."""

REMAINDER_LEAF: Int16 = np.array([*(LEAF[name] for name in _REMAINDERS), LEAF["copy.kernel"]], np.int16)
"""Remainder rank → leaf."""

WAITS = (
    "wait.other", "wait.kernel", "wait.stopped", "wait.exit", "wait.child", "wait.sleep", "wait.poll", "wait.ipc",
    "wait.lock", "wait.runnable", "wait.mmap_lock", "wait.disk", "wait.reclaim", "wait.uffd", "wait.driver", "wait.uvm",
)  # fmt: skip
"""Tier W from the weakest to the strongest claim on a stack; the first is that of a stack without any."""

WAIT_LEAF: Int16 = np.array([LEAF[name] for name in WAITS], np.int16)
"""Wait rank → leaf."""

WAIT_RANK = {name: rank for rank, name in enumerate(WAITS)}

_COPYING = len(_REMAINDERS)
REMAINDER_RANK = {name: rank for rank, name in enumerate(_REMAINDERS)}

_COPY_LOOPS = re.compile(
    r"_copy_(to|from)_\w+|rep_movs_alternative|copy_user_\w+|copy_page_(to|from)_iter\w*|raw_copy_\w+"
)


def _context_leaves() -> Int16:
    """Leaf by (context, kind): the whole of tier G's outcome as a table."""
    table = np.full((len(CONTEXT_CODE), len(_KINDS) + 1), NONE, np.int16)
    table[CONTEXT_CODE["exception"]] = LEAF["fault.entry"]
    for kind, leaf in enumerate(_KINDS[:5], start=1):
        table[CONTEXT_CODE["exception"], kind] = LEAF[leaf]
    # Creating pages is what costs, whoever borrows them.
    table[CONTEXT_CODE["gup"]] = table[CONTEXT_CODE["gup borrow"]] = LEAF["pin.faultin"]
    table[CONTEXT_CODE["gup"], 0] = LEAF["pin.walk"]
    table[CONTEXT_CODE["gup borrow"], 0] = LEAF["pin.transient"]
    for context in ("gup", "gup borrow"):
        table[CONTEXT_CODE[context], len(_KINDS)] = LEAF["pin.migrate"]
    table[CONTEXT_CODE["gup populate"]] = table[CONTEXT_CODE["populate"]] = LEAF["populate"]
    for context, leaf in (
        ("pinner", "pin.account"),
        ("shmem free", "free.shmem"),
        ("unmap", "free.unmap"),
        ("uffd fault", "fault.uffd"),
        ("uffd service", "uffd.service"),
    ):
        table[CONTEXT_CODE[context]] = LEAF[leaf]
    return table


CONTEXT_LEAF = _context_leaves()


@lru_cache(maxsize=65536)
def normalise(symbol: str) -> str:
    """A kernel function's name without compiler suffixes, offsets and prefixes; system calls become `sys_NAME`."""
    if len(symbol) > LONGEST_NAME:
        return symbol
    while (stripped := _SUFFIX.sub("", symbol)) != symbol:
        symbol = stripped
    return _SYSCALL.sub("sys_", _PREFIX.sub("", symbol))


def module_of(dso: Dso) -> str:
    """The kernel module a DSO stands for (`nvidia_uvm`), empty for the kernel itself."""
    if dso.kind == "kernel":
        return ""
    name = dso.name.strip("[]").partition(".ko")[0].replace("-", "_")
    return "" if name.startswith(("kernel", "guest.kernel", "vmlinux", "unknown")) or not name else name


def scope_of(module: str) -> str:
    """`uv`, `nv` or `k`: which rows may match functions of a module."""
    if module == "nvidia_uvm":
        return "uv"
    return "nv" if module == "nvidia" or module.startswith("nvidia_") else "k"


Matcher = Callable[[str], bool]


def _matcher(frames: Iterable[Frames], scope: str) -> Matcher | None:
    patterns = [frame.pattern for frame in frames if frame.scope == scope]
    if not patterns:
        return None
    compiled = re.compile("|".join(patterns))
    return lambda name: compiled.fullmatch(name) is not None


class _Scope:
    """All rows that can match one scope, compiled."""

    def __init__(self, scope: str) -> None:
        def tier(letter: str) -> list[tuple[int, Matcher]]:
            found = ((index, _matcher(row.frames, scope)) for index, row in enumerate(CATEGORIES) if row.tier == letter)
            return [(index, matcher) for index, matcher in found if matcher]

        def table(source: Mapping[str, tuple[Frames, ...]]) -> list[tuple[str, Matcher]]:
            found = ((name, _matcher(frames, scope)) for name, frames in source.items())
            return [(name, matcher) for name, matcher in found if matcher]

        self.specific = tier("S")
        self.owner = tier("O")
        kinds = {row.name: row.frames for row in CATEGORIES if row.name in _KINDS}
        self.kinds = [(_KINDS.index(name) + 1, matcher) for name, matcher in table(kinds)]
        self.remainders = [(REMAINDER_RANK[CATEGORIES[index].name], matcher) for index, matcher in tier("D")]
        self.waits = [(WAIT_RANK[CATEGORIES[index].name], matcher) for index, matcher in tier("W")]
        self.contexts = table(rows.CONTEXTS)
        self.work = table(dict(WORK))
        self.flags = dict(
            table(
                {
                    "borrow": rows.BORROW,
                    "keeps_pages": rows.KEEPS_PAGES,
                    "interrupt": rows.INTERRUPT,
                    "return_to_user": rows.RETURN_TO_USER,
                    "entry": rows.ENTRY,
                    "helper": HELPERS,
                }
            )
        )
        self.reclaim = dict(self.work).get("reclaim")


@dataclass(frozen=True, slots=True)
class KernelFrame:
    """What the rows say about one kernel function."""

    specific: int = NONE
    """Leaf of tier S."""
    owner: int = NONE
    """Leaf of tier O; `uvm.other` for an unnamed UVM function."""
    context: int = 0
    kind: int = 0
    remainder: int = 0
    """Rank of tier D."""
    wait: int = 0
    """Rank of tier W."""
    work: int = NONE
    helper: bool = False
    borrow: bool = False
    keeps_pages: bool = False
    interrupt: bool = False
    return_to_user: bool = False
    reclaim: bool = False


@cache
def _scope(scope: str) -> _Scope:
    return _Scope(scope)


@lru_cache(maxsize=65536)
def kernel_frame(symbol: str, module: str) -> KernelFrame:
    """Match one kernel function against every row of its scope."""
    name, scope = normalise(symbol)[:LONGEST_NAME], scope_of(module)
    rules = _scope(scope)

    def flag(key: str) -> bool:
        matcher = rules.flags.get(key)
        return matcher is not None and matcher(name)

    work, helper = NONE, flag("helper")
    if not helper:
        work = next((WORK_ATTRIBUTES.index(attribute) for attribute, matcher in rules.work if matcher(name)), NONE)
    remainder = max((rank for rank, matcher in rules.remainders if matcher(name)), default=NONE)
    if scope == "k" and _COPY_LOOPS.fullmatch(name):
        remainder = _COPYING
    if remainder == NONE:
        if scope == "nv":
            remainder = REMAINDER_RANK["rm.other"]
        elif module:
            remainder = REMAINDER_RANK["other.driver"]
        else:
            remainder = REMAINDER_RANK["sys.entry" if helper or flag("entry") else "other.kernel"]
    owner = NONE
    if scope == "uv":
        owner = next((leaf for leaf, matcher in rules.owner if matcher(name)), LEAF["uvm.other"])
    return KernelFrame(
        specific=next((leaf for leaf, matcher in rules.specific if matcher(name)), NONE),
        owner=owner,
        context=next((CONTEXT_CODE[context] for context, matcher in rules.contexts if matcher(name)), 0),
        kind=max((kind for kind, matcher in rules.kinds if matcher(name)), default=0),
        remainder=remainder,
        wait=max((rank for rank, matcher in rules.waits if matcher(name)), default=0),
        work=work,
        helper=helper,
        borrow=flag("borrow"),
        keeps_pages=flag("keeps_pages"),
        interrupt=flag("interrupt"),
        return_to_user=flag("return_to_user"),
        reclaim=rules.reclaim is not None and rules.reclaim(name),
    )


_MEMORY_FUNCTION = re.compile(r"_*(w?mem(p?cpy|move|set)|bcopy|bzero)(@.*|_\w+|)(@plt)?")
_CLOCK_FUNCTION = re.compile(r"(__vdso_|__kernel_|__)?(clock_gettime|gettimeofday|time|clock_getres)(64)?(@.*)?")
_COPY_CALL = re.compile(r"(cuda|cu)(Memcpy|Memset)\w*(@.*)?")
_ALLOCATOR_FUNCTION = re.compile(
    r"_*(libc_)?(malloc|free|calloc|realloc|memalign|posix_memalign|aligned_alloc|cfree|int_malloc|int_free\w*"
    r"|int_realloc|malloc_consolidate|sysmalloc|systrim\S*|unlink_chunk\S*|tcache_\w+|arena_get\w*)"
    r"|operator (new|delete).*|mi_\w+|je_\w+|tc_\w+"
)
_CUDA_FUNCTION = re.compile(r"(__)?libcudart_static_\w+|cudart::.*|cuda[A-Z]\w+")

_DSO_LEAVES: tuple[tuple[str, str], ...] = (
    (r"libcuda|libcudart|libnvidia|libnvrtc|libcublas|libcudnn|libnccl|libcupti|libnvJitLink|libnvtx", "user.libcuda"),
    (r"libjemalloc|libtcmalloc|libmimalloc|libhoard", "user.malloc"),
    (r"ld-linux|ld-musl|ld-\d|ld\.so|ld64", "user.loader"),
    (r"libpython|python\d?(\.\d+)?t?$", "user.python"),
    (
        r"libc[.-]|libm[.-]|libpthread|librt[.-]|libdl[.-]|libstdc\+\+|libgcc_s|libc\+\+|libmvec|libm$|libc$",
        "user.libc",
    ),
)
_DSO_RULES = [(re.compile(pattern), leaf) for pattern, leaf in _DSO_LEAVES]


@dataclass(frozen=True, slots=True)
class UserFrame:
    """What is known of one function outside the kernel."""

    leaf: int
    memory: bool = False
    """A function of the mem(cpy, move, set) family."""
    clock: bool = False
    libcuda: bool = False
    """The driver library itself, which ships without symbols."""
    blind_libc: bool = False
    """The C library without a symbol: its memcpy is such a function where the library is stripped."""
    copy_call: bool = False
    """A CUDA copy function: what runs under it serves a copy."""


@lru_cache(maxsize=65536)
def user_frame(symbol: str, dso: Dso) -> UserFrame:
    """The leaf of a function without kernel frames below it, by its file and name."""
    name = dso.name
    libcuda = name.startswith("libcuda.so")
    memory = _MEMORY_FUNCTION.fullmatch(symbol) is not None
    clock = dso.kind == "vdso" or _CLOCK_FUNCTION.fullmatch(symbol) is not None
    leaf = "user.app"
    if memory:
        leaf = "copy.user"
    elif clock:
        leaf = "user.clock"
    elif dso.kind == "python" or symbol.startswith("py::"):
        # Python 3.12's perf trampolines name the functions they stand for.
        leaf = "user.python"
    elif dso.kind == "anon" or name.strip("[]") in ("unknown", "anon", "heap", "stack", "") or name.startswith("//"):
        leaf = "user.unknown"
    else:
        leaf = next((found for rule, found in _DSO_RULES if rule.match(name)), leaf)
        if leaf == "user.libc" and _ALLOCATOR_FUNCTION.fullmatch(symbol):
            leaf = "user.malloc"
        elif leaf == "user.app" and _CUDA_FUNCTION.fullmatch(symbol):
            leaf = "user.libcuda"
    blind_libc = leaf == "user.libc" and symbol.startswith("[")
    return UserFrame(LEAF[leaf], memory, clock, libcuda, blind_libc, _COPY_CALL.fullmatch(symbol) is not None)


@dataclass(frozen=True)
class FrameRules:
    """What the rows say about every frame of a capture, as columns indexed like `FrameTable`."""

    kernel: Bool
    specific: Int16
    owner: Int16
    context: Int8
    kind: Int8
    remainder: Int8
    wait: Int8
    work: Int8
    helper: Bool
    borrow: Bool
    keeps_pages: Bool
    interrupt: Bool
    return_to_user: Bool
    reclaim: Bool
    user_leaf: Int16
    memory: Bool
    clock: Bool
    libcuda: Bool
    libc: Bool
    blind_libc: Bool
    copy_call: Bool


def frame_rules(frames: FrameTable) -> FrameRules:
    """Match every distinct frame once; tens of milliseconds for thousands of kernel functions."""
    modules = [module_of(dso) for dso in frames.dsos]
    blank, no_user = KernelFrame(remainder=NONE), UserFrame(NONE)
    kernel = [
        kernel_frame(symbol, modules[dso]) if mode == KERNEL else blank
        for symbol, dso, mode in zip(frames.symbol, frames.dso.tolist(), frames.mode.tolist(), strict=True)
    ]
    user = [
        no_user if mode == KERNEL else user_frame(symbol, frames.dsos[dso])
        for symbol, dso, mode in zip(frames.symbol, frames.dso.tolist(), frames.mode.tolist(), strict=True)
    ]
    other, copying = WORK_ATTRIBUTES.index("other"), WORK_ATTRIBUTES.index("copy")
    return FrameRules(
        kernel=frames.mode == KERNEL,
        specific=np.array([frame.specific for frame in kernel], np.int16),
        owner=np.array([frame.owner for frame in kernel], np.int16),
        context=np.array([frame.context for frame in kernel], np.int8),
        kind=np.array([frame.kind for frame in kernel], np.int8),
        remainder=np.array([frame.remainder for frame in kernel], np.int8),
        wait=np.array([frame.wait for frame in kernel], np.int8),
        work=np.array(
            [k.work if u is no_user else copying if u.memory else other for k, u in zip(kernel, user, strict=True)],
            np.int8,
        ),
        helper=np.array([frame.helper for frame in kernel], np.bool_),
        borrow=np.array([frame.borrow for frame in kernel], np.bool_),
        keeps_pages=np.array([frame.keeps_pages for frame in kernel], np.bool_),
        interrupt=np.array([frame.interrupt for frame in kernel], np.bool_),
        return_to_user=np.array([frame.return_to_user for frame in kernel], np.bool_),
        reclaim=np.array([frame.reclaim for frame in kernel], np.bool_),
        user_leaf=np.array([frame.leaf for frame in user], np.int16),
        memory=np.array([frame.memory for frame in user], np.bool_),
        clock=np.array([frame.clock for frame in user], np.bool_),
        libcuda=np.array([frame.libcuda for frame in user], np.bool_),
        libc=np.array([frame.leaf == LEAF["user.libc"] for frame in user], np.bool_),
        blind_libc=np.array([frame.blind_libc for frame in user], np.bool_),
        copy_call=np.array([frame.copy_call for frame in user], np.bool_),
    )
