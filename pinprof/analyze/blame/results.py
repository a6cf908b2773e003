"""Who waits for whom: frozen, and bounded in size."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pinprof.analyze.blame.waits import HolderCertainty
from pinprof.analyze.sites import Site
from pinprof.base.lazy_dataclass import dataclass

CERTAINTIES: Mapping[HolderCertainty, str] = {
    HolderCertainty.WAKER: "waker recorded",
    HolderCertainty.CHAIN: "wakers recorded in a row",
    HolderCertainty.JOIN: "joined thread ends",
    HolderCertainty.LOCK: "runs under the same lock",
    HolderCertainty.BUSY: "busy meanwhile",
    HolderCertainty.SHARED: "busy for a part",
    HolderCertainty.KIND: "by the kind of wait",
}
"""What reports call them."""


class HolderKind(StrEnum):
    """Whom a thread waits for."""

    THREAD = "thread"
    """A thread of the program."""
    PROCESS = "process"
    """Another process, which a recording of the whole machine has seen."""
    OUTSIDE = "outside"
    """Whoever is outside the program: another process, the kernel or a device."""
    KERNEL = "kernel"
    """The kernel: a timer, a device's interrupt or a thread of its own."""
    GPU = "gpu"
    DISK = "disk"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class WaitingThread:
    """A thread that waits."""

    pid: int
    tid: int
    thread: str
    """Its name."""
    site: Site


@dataclass(frozen=True)
class Holder:
    """Whom it waits for."""

    kind: HolderKind
    pid: int
    """0 where no process is known; for `tid` likewise."""
    tid: int
    name: str
    """The thread's, or the other process's command's."""
    site: Site
    """What it did meanwhile."""
    causes: Mapping[str, int]
    """Its causes meanwhile, in nanoseconds of the wait, heaviest first."""
    node: int
    """The heaviest stack, in `Capture.stacks`; NO_NODE where none is known."""


@dataclass(frozen=True)
class BlameRow:
    """Waits of one thread at one place for one holder at one place."""

    waiter: WaitingThread
    wait: str
    """The cause of the wait, `wait.mmap_lock`."""
    holder: Holder
    certainty: Mapping[HolderCertainty, int]
    """How it is known, in nanoseconds of the wait, heaviest first."""
    ns: int
    count: int
    """Waits."""
    longest_ns: int
    """The part of one wait that is charged to this holder, at most."""
    longest_at_ns: int
    """When that wait began."""

    @property
    def certain(self) -> str:
        """How most of it is known, in words."""
        return CERTAINTIES[next(iter(self.certainty), HolderCertainty.SHARED)]


@dataclass(frozen=True)
class Arrow:
    """From a wait to whoever held it up, for the timeline."""

    waiter: tuple[int, int]
    """(pid, tid)"""
    start_ns: int
    end_ns: int
    holder: tuple[int, int]
    row: int
    """Index into the rows."""


@dataclass(frozen=True)
class BlameResult:
    """All waits of a recording that are for somebody, by waiter and holder."""

    rows: tuple[BlameRow, ...]
    """Longest first."""
    waited_ns: int
    """All of these waits, rows that are left out included."""
    rest: int
    """How many rows are left out."""
    rest_ns: int
    late_ns: int
    """Of `waited_ns`: from the wake-up until a processor was free."""
    recorded: bool
    """Whether wake-ups were recorded."""
    recorded_share: float
    """The part of the time for which they were."""
    arrows: tuple[Arrow, ...]
    threads_left_out: int
    """Threads that wait, beyond those that are looked at."""
