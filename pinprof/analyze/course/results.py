"""How a run went: its critical thread, its phases, its steps, and where the thread's wall time went.

All times are integer nanoseconds of the capture's clock.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Literal

import numpy as np

from pinprof.analyze.intervals import Intervals, union
from pinprof.base.columns import Int32, Int64, Table
from pinprof.base.lazy_dataclass import dataclass

PhaseName = Literal["start-up", "imports", "context", "build", "compile", "warm-up", "work", "exit"]
PHASE_NAMES: tuple[PhaseName, ...] = (
    "start-up", "imports", "context", "build", "compile", "warm-up", "work", "exit",
)  # fmt: skip
OWN: tuple[PhaseName, ...] = ("build", "warm-up", "work")
"""Those in which the program runs its own code: what its memory costs there, it can change."""


@dataclass(frozen=True)
class Interval:
    """[start, end) on the capture's clock."""

    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Its length."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Phase:
    """What the critical thread was about. The phases' intervals cover the critical process's life, without overlap."""

    name: PhaseName
    intervals: tuple[Interval, ...]
    """In time order; a program may import or create contexts several times."""

    @property
    def wall_ns(self) -> int:
        """The length of all intervals."""
        return sum(interval.duration_ns for interval in self.intervals)


@dataclass(frozen=True)
class Steps:
    """What repeats through the work: a range, a call, or large memory that a line makes."""

    by: Literal["range", "call", "memory"]
    what: str
    """The range around each step, without its number: `ProfilerStep`; else the call that begins it, with its place:
    `cudaMemcpyAsync in step (train.py:20)`.
    """
    count: int
    median_ns: int
    slowest_ns: int
    slowest_start_ns: int
    starts_ns: tuple[int, ...] = field(default=(), compare=False)
    """When each begins, …"""
    ends_ns: tuple[int, ...] = field(default=(), compare=False)
    """… and ends."""

    def moved(self, offset_ns: int) -> Steps:
        """The same on a clock that shows this much more."""
        return replace(
            self,
            slowest_start_ns=self.slowest_start_ns + offset_ns,
            starts_ns=tuple(start + offset_ns for start in self.starts_ns),
            ends_ns=tuple(end + offset_ns for end in self.ends_ns),
        )


@dataclass(frozen=True, eq=False, repr=False)
class WallTable(Table):
    """Wall time of the critical thread, one row per sample that it is charged to, ordered by time.

    The rows of one phase add up to the phase's length as far as samples reach. A wait for another thread is charged to
    what that thread did meanwhile: `sample` is then a row of the other thread.
    """

    time_ns: Int64
    ns: Int64
    sample: Int32
    """Row of `Capture.samples` whose stack and cause the time is charged to."""
    waiting: Int32
    """Row of the critical thread's wait in which this time passed; -1 for time of the thread's own."""
    phase: Int32
    """Index into `PHASE_NAMES`."""


@dataclass(frozen=True)
class Course:
    """How the run went: whose time counts, its phases, and where the time went."""

    pid: int
    tid: int
    """The critical thread: it drives the GPU, or is the main thread of the process that does the work."""
    start_ns: int
    end_ns: int
    """The critical process's life as far as it was recorded."""
    phases: tuple[Phase, ...]
    """In the order of `PHASE_NAMES`, those without time left out."""
    steps: Steps | None
    wall: WallTable

    @property
    def own(self) -> Intervals:
        """When the program runs its own code."""
        mine = [part for phase in self.phases if phase.name in OWN for part in phase.intervals]
        start, end = (np.array([getattr(part, name) for part in mine], np.int64) for name in ("start_ns", "end_ns"))
        return union(start, end)

    def phase(self, name: PhaseName) -> Phase | None:
        """One phase; None where the run had none."""
        return next((phase for phase in self.phases if phase.name == name), None)
