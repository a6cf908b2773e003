"""What the search for opportunities returns: phases of a run, its critical thread's time, and what to change.

All times are integer nanoseconds of the capture's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from pinprof.base.columns import Bool, Int32, Int64, Table, UInt64
from pinprof.base.lazy_dataclass import dataclass

PhaseName = Literal["start-up", "context", "work", "exit"]
PHASE_NAMES: tuple[PhaseName, ...] = ("start-up", "context", "work", "exit")


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
    """A pattern of calls that repeats."""

    what: str
    """The call that begins each step, with its place: `cudaMemcpyAsync in step (train.py:20)`."""
    count: int
    median_ns: int
    slowest_ns: int
    slowest_start_ns: int
    starts_ns: tuple[int, ...] = field(default=(), compare=False)
    """When each begins."""


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

    def phase(self, name: PhaseName) -> Phase | None:
        """One phase; None where the run had none."""
        return next((phase for phase in self.phases if phase.name == name), None)


@dataclass(frozen=True, eq=False, repr=False)
class CopyTable(Table):
    """Copies between host and device, and on the host, by CUDA; one row each, ordered by start."""

    start_ns: Int64
    end_ns: Int64
    """The call's time, on the thread that made it."""
    pid: Int32
    tid: Int32
    call: Int64
    """Row of the calls' table; -1 where only the GPU's copy was recorded."""
    size_bytes: Int64
    direction: Int32
    """`CopyKind`."""
    source: Int32
    """`MemoryKind`, of the source; UNKNOWN where the recording does not say."""
    target: Int32
    """`MemoryKind`, of the target."""
    address: UInt64
    """The host's side; 0 where not recorded."""
    from_file: Bool
    """Whether the source lies in a mapped file."""
    asynchronous: Bool
    """Whether the call promises to return before the copy is done."""
    busy_ns: Int64
    """How long the GPU copied; -1 where its work was not recorded."""


@dataclass(frozen=True)
class Site:
    """Where to change something."""

    function: str
    file: str
    line: int
    """0 where only the function is known."""
    thread: str
    """Name of the thread, empty where it has none."""
    range: str = ""
    """Path of the innermost NVTX range around most of the cost; empty without one."""

    @property
    def place(self) -> str:
        """`train.py:88`, `train.py`, the function where no file is known, else the range."""
        named = "" if self.function.startswith("[") else self.function
        around = f"range {self.range}" if self.range else ""
        return (f"{self.file}:{self.line}" if self.line else self.file) or named or around


@dataclass(frozen=True)
class Cure:
    """What to change."""

    id: str
    """Its entry in the catalogue and in docs/opportunities.md."""
    text: str
    """One or two sentences."""
    code: str = ""
    """Lines to write instead, for the framework in use; may hold several lines."""
    environment: str = ""
    """`NAME=value` that does it, or a part of it, without a change of code; empty where there is none."""


@dataclass(frozen=True)
class Saving:
    """Wall time of the phase that the cure saves. `low <= likely <= high`."""

    low_ns: int
    likely_ns: int
    high_ns: int


@dataclass(frozen=True)
class Evidence:
    """What proves an opportunity, and how to see it."""

    text: str
    """One sentence with figures."""
    command: str = ""
    """Arguments of `pinprof` that show the samples behind it, without the capture's path."""


@dataclass(frozen=True)
class Opportunity:
    """One thing to change, what it costs now and what changing it saves."""

    rank: int
    """1 for the largest saving."""
    title: str
    """One sentence without the saving: `a.cu:11 pins and frees 1,859 buffers of 1 MiB repeatedly`."""
    site: Site
    causes: Mapping[str, int]
    """Leaf of the taxonomy → wall time, heaviest first."""
    phase: PhaseName
    count: int
    """Calls, faults or copies that it is about; 0 where they were not counted."""
    bytes: int
    """Memory that it is about; 0 where that is not known."""
    cost_ns: int
    """Wall time of the critical thread in that phase."""
    cure: Cure
    saving: Saving
    basis: tuple[str, ...]
    """What the prediction rests on: rates and where they come from, what was left out."""
    evidence: tuple[Evidence, ...] = ()
    samples: frozenset[int] = field(default_factory=frozenset)
    """Stack nodes of the samples behind it, for the page's filters."""


@dataclass(frozen=True)
class Refused:
    """A cure that looks obvious and would not pay, with the figures."""

    title: str
    site: Site
    reason: str


@dataclass(frozen=True)
class ToMeasure:
    """A cost that a cure reduces by an unknown part: a measurement decides."""

    title: str
    site: Site
    cost_ns: int
    """Wall time of the critical thread."""
    cure: Cure
    reason: str
    """Why the saving is unknown, and how to measure it."""


@dataclass(frozen=True)
class Opportunities:
    """The answer: what to change, best first."""

    found: tuple[Opportunity, ...]
    to_measure: tuple[ToMeasure, ...]
    refused: tuple[Refused, ...]
    unseen: tuple[str, ...]
    """What the recording could not show, one sentence each."""
    headline: str
    """The first opportunity in one sentence with line and gain; else that there is nothing to gain, with the figure;
    empty where the recording shows too little to say either."""
