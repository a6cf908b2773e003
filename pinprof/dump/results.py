"""What `pinprof dump` says: what every thread of a program does now."""

from __future__ import annotations

from pinprof.base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class FrameNow:
    """One function of a stack."""

    function: str
    file: str
    """The source file of a Python function or of a native one with a known line; else the library or kernel module."""
    line: int
    """0 where it is not known."""
    kind: str
    """`python`, `native` or `kernel`."""


@dataclass(frozen=True)
class ThreadNow:
    """One thread."""

    tid: int
    name: str
    state: str
    """`running`, `waiting`, `stopped`, `ended`, or `busy`: it waits and runs alternately."""
    doing: str
    """What it does, or what it waits for and on whom, in a few words."""
    cause: str
    """The cause as in a report; empty where nothing of its stack was seen."""
    cause_share: float | None
    """The part of its samples on processors that has a cause of this level; None where it was not sampled."""
    waits_on: tuple[int, ...]
    """Threads, or a child, that it waits for, as far as that is known."""
    system_call: str
    """The call of the kernel that it is in; empty for none, and where that is not known."""
    sleeps_in: str
    """The function of the kernel that it sleeps in; empty likewise."""
    cuda_call: str
    """The call of CUDA that it is in; empty for none."""
    cpu: float
    """Processors that it used while it was watched, at most 1."""
    queued: float
    """The part of that time in which it could have run and others did."""
    faults_per_s: float
    major_faults_per_s: float
    """Those that had to read a disk."""
    stack: tuple[FrameNow, ...]
    """Innermost first; empty where nothing of it was seen."""


@dataclass(frozen=True)
class MemoryNow:
    """The memory of a process in bytes; None where it is not known."""

    rss: int | None
    anonymous: int | None
    file: int | None
    shared: int | None
    swap: int | None
    locked: int | None
    pinned: int | None
    """What the kernel counts as pinned (VmPin)."""
    cuda_pinned: int | None
    """What calls of CUDA have page-locked; known where the program runs under pinprof."""
    managed: int | None
    """Addresses that are mapped for unified memory."""


@dataclass(frozen=True)
class ProcessNow:
    """One process."""

    pid: int
    parent: int
    command: tuple[str, ...]
    """Without likely secrets."""
    memory: MemoryNow
    threads: tuple[ThreadNow, ...]


@dataclass(frozen=True)
class Dump:
    """The answer."""

    processes: tuple[ProcessNow, ...]
    """The program first, then its children."""
    watched_ns: int
    """For how long threads were watched."""
    notes: tuple[str, ...]
    """What could not be seen, and what permits it."""
