"""What a timeline is made of: lanes of intervals, densities of causes, memory in use.

Times are nanoseconds since its start.
"""

from __future__ import annotations

from collections.abc import Mapping

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int32, Int64
from pinprof.report.styles import Style
from pinprof.report.thinning import Spans

INTERVALS = 60_000
"""Intervals of all lanes together, about."""


@dataclass(frozen=True)
class Lane:
    """Intervals of one kind and place, under the heading of a thread or a GPU; phases stand under none."""

    heading: str
    title: str
    kind: str
    """`phase`, `range`, `wait`, `call`, `kernel`, `copy`, `memset`, `migration`, `fault`, `window`."""
    spans: Spans
    """`style` indexes `Timeline.styles`, `name` `Timeline.names`."""
    total: int
    """Intervals before thinning."""


@dataclass(frozen=True)
class Density:
    """What a thread was doing on processors, by cause and step of time; columns of one length."""

    heading: str
    title: str
    bin: Int32
    cause: Int32
    """Index into the taxonomy."""
    weight: Int64
    """In the unit of the sampled event, of one step."""
    threads: int = 1
    """More than one for a pool, which may fill more than one processor."""


@dataclass(frozen=True)
class MemoryUse:
    """Allocated bytes of one kind of memory: `level_bytes[i]` from `time_ns[i]` on."""

    title: str
    style: int
    time_ns: Int64
    level_bytes: Int64


@dataclass(frozen=True)
class HeldUp:
    """A wait, and the thread that held it up, both with lanes of their own."""

    waiter: str
    """The thread's heading; likewise of `holder`."""
    start_ns: int
    end_ns: int
    holder: str


@dataclass(frozen=True)
class Timeline:
    """One recording over time."""

    start_ns: int
    """On the capture's clock."""
    span_ns: int
    bin_ns: int
    """Length of a density's step, the finest for which a page is small enough."""
    finest: bool
    """Whether shorter steps would say no more: each would hold less than two samples."""
    before_ns: int | None
    """How long after the recording's start this one begins; None where that is not known."""
    event: str
    """The sampled event of the densities; empty without samples."""
    unit: str
    samples_start_ns: int
    """The first sample, since the timeline's start."""
    densities: tuple[Density, ...]
    lanes: tuple[Lane, ...]
    memory: tuple[MemoryUse, ...]
    arrows: tuple[HeldUp, ...]
    """The longest ones, longest first."""
    styles: tuple[Style, ...]
    names: tuple[str, ...]
    left_out: int
    """Threads without lanes of their own; `other threads` has their samples."""
    too_deep: int
    """Ranges that lie deeper than those that are drawn."""
    threads: Mapping[str, tuple[int, ...]]
    """Heading → indices into `Shared.threads`, for headings that are a thread or a pool of them."""
