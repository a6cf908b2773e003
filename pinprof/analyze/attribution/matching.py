"""From a frame's name to what the taxonomy's rows say about it: each distinct name is matched once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.attribution.categories import HELPERS, INTERRUPT, RETURN_TO_USER
from pinprof.analyze.attribution.row import Scope
from pinprof.analyze.attribution.tables import NONE, TABLES, Claim, RuleTables, matcher
from pinprof.analyze.attribution.work import WORK, WORK_ATTRIBUTES
from pinprof.base.columns import Bool, Int8, Int16, Int32, Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import COPYING, may_wait
from pinprof.data.model import KERNEL, LONGEST_NAME, Dso, FrameTable

_SUFFIX = re.compile(
    r"(\+0x[0-9a-f]+(/0x[0-9a-f]+)?|\.(isra|constprop|part|llvm)\.\d+|\.(cold|localalias)(\.\d+)?|_noprof)$"
)
_PREFIX = re.compile(r"^__p(fx|i)_")
_SYSCALL = re.compile(r"^__(x64|arm64|se|do|ia32|ia32_compat|x32_compat)_(compat_)?sys_")


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


def scope_of(module: str) -> Scope:
    """`uv`, `nv` or `k`: which rows may match functions of a module."""
    if module == "nvidia_uvm":
        return "uv"
    return "nv" if module == "nvidia" or module.startswith("nvidia_") else "k"


@dataclass(frozen=True)
class KernelFrame:
    """What the rows say about one kernel function."""

    specific: int = NONE
    """Leaf of tier S."""
    owner: int = NONE
    """Leaf of tier O; the unnamed owner's for a UVM function that no row names."""
    context: int = 0
    kinds: tuple[int, ...] = ()
    """By context: 1 + rank of the kind that the function tells inside it, 0 for none."""
    remainder: int = 0
    """Rank of tier D."""
    wait: int = 0
    """Rank of tier W."""
    beneath: int = 0
    """Bits of `RuleTables.beneath`."""
    shows: int = 0
    """Bits of `RuleTables.shown_by`."""
    work: int = NONE
    helper: bool = False
    interrupt: bool = False
    return_to_user: bool = False
    reclaim: bool = False


def _first(claims: Iterable[Claim], name: str, default: int) -> int:
    return next((claim.leaf for claim in claims if claim.matches(name)), default)


def _strongest(claims: Iterable[Claim], name: str) -> int:
    return max((claim.rank for claim in claims if claim.matches(name)), default=NONE)


def prepare(tables: RuleTables = TABLES) -> None:
    """Compile the rows' patterns, which the first name of each kind does otherwise."""
    for claims in tables.claims.values():
        for claim in claims:
            claim.matches("")
    for scope in {scope for contest, scope in tables.claims if contest == "D"}:
        _asked(tables, scope)("")


_RECLAIM = dict(WORK)["reclaim"]


@cache
def _asked(tables: RuleTables, scope: Scope) -> Callable[[str], list[bool]]:
    """Whether a name is one of HELPERS, INTERRUPT, RETURN_TO_USER and _RECLAIM, of each of WORK, and of each set of
    frames in `tables.beneath` and `tables.shown_by`.
    """
    work = (frames for _, frames in WORK)
    asked = (HELPERS, INTERRUPT, RETURN_TO_USER, _RECLAIM, *work, *tables.beneath, *tables.shown_by)
    matchers = [matcher(frames, scope) or (lambda _: None) for frames in asked]
    return lambda name: [matches(name) is not None for matches in matchers]


@lru_cache(maxsize=65536)
def kernel_frame(symbol: str, module: str, tables: RuleTables = TABLES) -> KernelFrame:
    """Match one kernel function against every row of its scope."""
    name, scope = normalise(symbol)[:LONGEST_NAME], scope_of(module)

    def claims(contest: str) -> Sequence[Claim]:
        return tables.claims.get((contest, scope), ())

    helper, interrupt, return_to_user, reclaim, *others = _asked(tables, scope)(name)
    at_work, others = others[: len(WORK)], others[len(WORK) :]
    beneath, shows = others[: len(tables.beneath)], others[len(tables.beneath) :]
    attributes = (attribute for (attribute, _), there in zip(WORK, at_work, strict=True) if there and not helper)
    work = next(map(WORK_ATTRIBUTES.index, attributes), NONE)
    remainder = _strongest(claims("D"), name)
    if module:
        # A module's function is at least its module's.
        remainder = max(remainder, tables.rank["nvidia" if scope == "nv" else "module"])
    elif remainder == NONE:
        remainder = tables.rank["kernel"]
    opened = _first(claims("opens"), name, NONE)
    return KernelFrame(
        specific=_first(claims("S"), name, NONE),
        owner=_first(claims("O"), name, tables.role["uvm"]) if scope == "uv" else NONE,
        context=0 if opened == NONE else tables.context[tables.rows[opened].context],
        kinds=(0, *(1 + _strongest(claims(f"kind {context}"), name) for context in tables.context)),
        remainder=remainder,
        wait=max(0, _strongest(claims("W"), name)),
        beneath=sum(compress(tables.beneath.values(), beneath)),
        shows=sum(compress(tables.shown_by.values(), shows)),
        work=work,
        helper=helper,
        interrupt=interrupt,
        return_to_user=return_to_user,
        reclaim=reclaim,
    )


_COPY_CALL = re.compile(rf"(?:{COPYING})(@.*)?")
_TAKES_LOCK = re.compile(r"_*(pthread_(mutex|rwlock)_(timed|clock)?(rd|wr)?lock|lll_lock_wait)\w*(@.*)?")
_YIELDS = re.compile(r"_*sched_yield(@.*)?")


@dataclass(frozen=True)
class UserFrame:
    """What is known of one function outside the kernel."""

    leaf: int
    libcuda: bool = False
    """The driver library itself, which ships without symbols."""
    blind_libc: bool = False
    """The C library without a symbol: its memcpy is such a function where the library is stripped."""
    copy_call: bool = False
    """A CUDA copy function: what runs under it serves a copy."""
    waits_for_gpu: bool = False
    """A CUDA function that may return only when the GPU is done."""
    takes_lock: bool = False
    """A function of the C library that waits for a lock, and for nothing else."""
    yields: bool = False
    """The C library's offer of the processor to others, which loops that poll make."""


@lru_cache(maxsize=65536)
def user_frame(symbol: str, dso: Dso, tables: RuleTables = TABLES) -> UserFrame:
    """The leaf of a function without kernel frames below it, by its file and name."""
    name = dso.name
    leaf = _first(tables.claims["U", "fn"], symbol, NONE)
    if leaf == NONE and dso.kind in ("vdso", "python"):
        leaf = tables.role["vdso" if dso.kind == "vdso" else "python"]
    elif leaf == NONE and (
        dso.kind == "anon" or name.strip("[]") in ("unknown", "anon", "heap", "stack", "") or name.startswith("//")
    ):
        leaf = tables.role["anonymous"]
    elif leaf == NONE:
        file = _first(tables.claims["U", "so"], name, tables.role["program"])
        leaf = _first(tables.claims.get((f"U {tables.rows[file].name}", "fn"), ()), symbol, file)
    blind_libc = leaf == tables.leaf["user.libc"] and symbol.startswith("[")
    return UserFrame(
        leaf,
        libcuda=name.startswith("libcuda.so"),
        blind_libc=blind_libc,
        copy_call=_COPY_CALL.fullmatch(symbol) is not None,
        waits_for_gpu=may_wait(symbol),
        takes_lock=_TAKES_LOCK.fullmatch(symbol) is not None,
        yields=_YIELDS.fullmatch(symbol) is not None,
    )


@dataclass(frozen=True, eq=False, repr=False)
class FrameRules(Table):
    """What the rows say about every frame of a capture, as columns indexed like `FrameTable`."""

    kernel: Bool
    specific: Int16
    owner: Int16
    context: Int8
    remainder: Int8
    wait: Int8
    beneath: Int32
    shows: Int8
    work: Int8
    helper: Bool
    interrupt: Bool
    return_to_user: Bool
    reclaim: Bool
    user_leaf: Int16
    libcuda: Bool
    libc: Bool
    blind_libc: Bool
    copy_call: Bool
    waits_for_gpu: Bool
    takes_lock: Bool
    yields: Bool
    kinds: NDArray[np.int8]
    """By frame and context."""


def frame_rules(frames: FrameTable, tables: RuleTables = TABLES) -> FrameRules:
    """Match every distinct frame once; tens of milliseconds for thousands of kernel functions."""
    modules = [module_of(dso) for dso in frames.dsos]
    blank, no_user = KernelFrame(remainder=NONE, kinds=(0,) * (len(tables.context) + 1)), UserFrame(NONE)
    kernel, user = [], []
    for symbol, dso, mode in zip(frames.function, frames.dso.tolist(), frames.mode.tolist(), strict=True):
        inside = mode == KERNEL
        kernel.append(kernel_frame(symbol, modules[dso], tables) if inside else blank)
        user.append(no_user if inside else user_frame(symbol, frames.dsos[dso], tables))
    columns: dict[str, Any] = {}
    for rows, kind in ((kernel, KernelFrame), (user, UserFrame)):
        columns |= {entry.name: [getattr(row, entry.name) for row in rows] for entry in fields(kind)}
    kinds = np.array(columns.pop("kinds"), np.int8).reshape(len(kernel), len(tables.context) + 1)
    leaf, in_kernel = np.array(columns.pop("leaf"), np.int16), frames.mode == KERNEL
    of_user = np.where(leaf == tables.leaf["copy.user"], WORK_ATTRIBUTES.index("copy"), WORK_ATTRIBUTES.index("other"))
    columns["work"] = np.where(in_kernel, columns["work"], of_user)
    libc = leaf == tables.leaf["user.libc"]
    return FrameRules.of(len(frames), kernel=in_kernel, user_leaf=leaf, libc=libc, kinds=kinds, **columns)
