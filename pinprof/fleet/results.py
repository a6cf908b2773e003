"""What a fleet's answer consists of: frozen and plain. Times are nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_ns, format_share

CAPTURE = "capture"
"""The dimension of an outlier that is one capture alone."""


@dataclass(frozen=True)
class Because:
    """A cause, or a cause at a line, that makes an outlier one."""

    what: str
    """`copy.pageable`, or `copy.pageable at train.py:31`."""
    value: float
    expected: float
    """Both in the outlier's terms: nanoseconds per unit of work, or of a group, shares of the expected work."""


@dataclass(frozen=True)
class Outlier:
    """A capture, or all captures that share something, whose time is not what its like takes."""

    dimension: str
    """`capture`, or what the captures share: `host`, `driver`, a label."""
    group: str
    """What they share of it; empty for one capture."""
    capture: str
    """Path of the capture; empty of a group."""
    measure: str
    """`work`, another phase, or a cause."""
    unit: str
    """`ns` per unit of work; of a group `ratio` to what is expected, and `share` of the expected work for a cause."""
    value: float
    expected: float
    work: float
    """The expected work in the same unit."""
    p: float
    """By how much chance, corrected for everything that was tested."""
    captures: int
    """How many captures it is about."""
    programs: tuple[str, ...]
    because: tuple[Because, ...] = ()
    """The causes behind it, the largest first."""
    alike: tuple[tuple[str, str], ...] = ()
    """(dimension, value) that are the same captures: nothing tells which of them it is."""

    @property
    def slower(self) -> bool:
        """Whether it takes more than expected."""
        return self.value > self.expected

    @property
    def ratio(self) -> float:
        """How long the work is for it, by what is expected of the work."""
        return 1 + (self.value - self.expected) / self.work

    def shown(self, value: float) -> str:
        """A value in its unit."""
        if self.unit == "ns":
            return format_ns(value)
        return f"{value:.2f} ×" if self.unit == "ratio" else format_share(value, 1)


@dataclass(frozen=True)
class FleetSaving:
    """One opportunity over the whole fleet."""

    program: str
    place: str
    cure: str
    advice: str
    title: str
    """The capture's in which it saves most."""
    captures: int
    cost_ns: int
    saving_ns: int
    saving_low_ns: int
    saving_high_ns: int
    whole_ns: int
    """Critical time of all captures of the program."""
    example: str
    """Path of the capture in which it saves most."""


@dataclass(frozen=True)
class CauseSpread:
    """How one cause is distributed over the captures: shares of their work."""

    cause: str
    total_ns: int
    captures: int
    """In how many it takes 1 % or more."""
    low: float
    quarter: float
    median: float
    three_quarters: float
    high: float
    """The 5th, 25th, 50th, 75th and 95th percentile."""
    most: float
    most_at: str
    """Path of the capture in which it is most."""


@dataclass(frozen=True)
class Change:
    """From one capture on, the work takes another time."""

    program: str
    """Empty: all programs together."""
    at: str
    """When the first capture after it began, ISO 8601."""
    before: int
    after: int
    """Captures on either side, up to the next change."""
    ratio: float
    """After / before."""
    p: float


@dataclass(frozen=True)
class Series:
    """The work of one program over time, as ratios to its median."""

    program: str
    started: tuple[str, ...]
    ratio: tuple[float, ...]
    paths: tuple[str, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Member:
    """One capture, as a row."""

    path: str
    program: str
    state: str
    reason: str
    started: str
    work_ns: int | None
    expected_ns: float | None
    """The share of the whole work, by the captures of its program; None where there are too few."""
    answer: str
    facts: Mapping[str, str]
    causes: tuple[tuple[str, float], ...]
    """The heaviest causes with their shares of the work."""
    page: str = ""
    """Where its own page lies, relative to the fleet's; empty without one."""


@dataclass(frozen=True)
class Answer:
    """What a fleet shows."""

    headline: str
    captures: int
    compared: int
    """Those that tests are about: whole runs whose time is known, of programs with enough captures."""
    unreadable: tuple[Member, ...]
    copies: int
    """Recordings that are in the fleet twice: each counts once."""
    programs: tuple[tuple[str, int, str], ...]
    """(program, captures, what its times are divided by)."""
    outliers: tuple[Outlier, ...]
    tests: int
    """How many comparisons the corrections are for."""
    untested: tuple[str, ...]
    """What was not tested, and why, one sentence each."""
    savings: tuple[FleetSaving, ...]
    spreads: tuple[CauseSpread, ...]
    series: tuple[Series, ...]
    members: tuple[Member, ...] = field(default_factory=tuple)
    brief: bool = False
    """Whether the terminal has only the lines that go with a page."""

    @property
    def changes(self) -> tuple[Change, ...]:
        """All change points, those of all programs together first."""
        return tuple(change for series in self.series for change in series.changes)
