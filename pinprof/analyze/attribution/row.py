"""What a row of the taxonomy can say: its tier, its frames, and what it does to the claims of other rows."""

from __future__ import annotations

from typing import Literal

from pinprof.base.lazy_dataclass import dataclass

Tier = Literal["S", "O", "G", "D", "U", "W"]
Scope = Literal["k", "nv", "uv", "fn", "so"]
"""Kernel outside NVIDIA's modules, `[nvidia]`, `[nvidia_uvm]`; functions and files of user code."""

Role = Literal[
    "", "uvm", "nvidia", "module", "kernel", "address space", "interrupt", "driver interrupt", "idle", "no stack",
    "no place", "gpu fault", "wait", "gpu wait", "cuda thread", "idle thread", "runnable", "lock", "mmap lock",
    "kernel lock", "program", "python", "vdso", "anonymous", "polling",
]  # fmt: skip
"""What the machine recognises by more than a frame's name. Each role has exactly one row."""


@dataclass(frozen=True)
class Frames:
    """Names in one scope: a regular expression that must match the whole normalised name (of a file: its beginning)."""

    scope: Scope
    pattern: str
    seen: bool = True
    """False when the names come from sources only."""
    strength: int | None = None
    """Instead of the row's own."""
    inside: str = ""
    """Scope `fn`: only in files of this other row."""


@dataclass(frozen=True)
class Category:
    """One leaf of the taxonomy."""

    name: str
    tier: Tier
    meaning: str
    """What the CPU time was spent on, for a reader."""
    remedy: str
    frames: tuple[Frames, ...] = ()
    """Frames that decide (S, O, D, U, W), or that tell the kind of what happens inside `context` (G)."""
    strength: int | None = None
    """D, W: a stack's strongest claim counts. G: how telling `frames` are inside `context`; the most telling counts."""
    context: str = ""
    """Tier G: the name of the nearest context."""
    opens: tuple[Frames, ...] = ()
    """Tier G: the frames that open `context`; this row has what no other row of the context claims."""
    takes: str = ""
    """Tier G: where this other context opens beneath frames of `beneath` (else of `opens`), `context` opens instead."""
    beneath: tuple[Frames, ...] = ()
    not_beneath: tuple[Frames, ...] = ()
    """Tier G: beneath these frames `context` does not open. Taking a context looks no further out than a page fault."""
    also_in: str = ""
    """Tier G: another context where this row decides as in `context`."""
    kinds_of: str = ""
    """Tier G: this row has whatever would tell a kind of this other context."""
    takes_from: str = ""
    """Tier G: this row has the faults of that other row during which mostly frames of `shown_by` run, wherever in the
    fault a sample lies."""
    shown_by: tuple[Frames, ...] = ()
    """Tier G: frames that show during a fault that it is of this row, and not of one that takes from it."""
    near_libcuda: str = ""
    """Tier U: near libcuda this row has what elsewhere is that other row's."""
    by_system_call: bool = False
    """Tier W: a thread sleeps so by its own system call; where libcuda makes the call, it may wait for the GPU."""
    role: Role = ""
    """What else leads here."""
    shown_under: str = ""
    """The level, where the name does not begin with it."""

    @property
    def level(self) -> str:
        """The row of the headline bar this leaf belongs to (`LEVELS`)."""
        return self.shown_under or self.name.partition(".")[0]


def _frames(scope: Scope, seen: str, unseen: str, strength: int | None = None) -> tuple[Frames, ...]:
    return tuple(Frames(scope, pattern, flag, strength) for pattern, flag in ((seen, True), (unseen, False)) if pattern)


def k(seen: str = "", unseen: str = "", strength: int | None = None) -> tuple[Frames, ...]:
    """Kernel functions."""
    return _frames("k", seen, unseen, strength)


def nv(seen: str = "", unseen: str = "") -> tuple[Frames, ...]:
    """Functions of the `[nvidia]` module."""
    return _frames("nv", seen, unseen)


def uv(seen: str = "", unseen: str = "") -> tuple[Frames, ...]:
    """Functions of the `[nvidia_uvm]` module."""
    return _frames("uv", seen, unseen)


def fn(pattern: str, inside: str = "") -> tuple[Frames, ...]:
    """Functions of user code, everywhere or in the files of one row."""
    return (Frames("fn", pattern, inside=inside),)


def so(pattern: str) -> tuple[Frames, ...]:
    """Files of user code, by the beginning of their name."""
    return (Frames("so", pattern),)
