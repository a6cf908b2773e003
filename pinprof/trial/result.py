"""What a trial returns: frozen, plain, and complete enough for every report.

A ratio is cured / as is: 0.5 halves what is measured, 1 changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pinprof.base.lazy_dataclass import dataclass

Unit = Literal["ns", "bytes", "number"]
State = Literal["measured", "too-few", "failed", "left-out"]


@dataclass(frozen=True)
class Ratio:
    """A ratio and the interval around it. `low <= median <= high`."""

    low: float
    median: float
    high: float

    @property
    def error(self) -> float:
        """Half the width of the interval, as a share of the ratio."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0

    def meets(self, other: Ratio) -> bool:
        """Whether the two intervals have a value in common."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class TrialSide:
    """What was measured of one kind of run: as is, or with one cure. Rounds alone, no warm-up."""

    median: float
    """In the measure's unit."""
    least: float
    most: float
    peak_bytes: int
    """Median of the largest resident memory of a process of the run."""
    values: tuple[float, ...] = ()
    """One per run, in their order."""


@dataclass(frozen=True)
class CureResult:
    """One cure, as it was found."""

    id: str
    title: str
    changes: str
    """What it does to the run, one sentence."""
    settings: tuple[str, ...]
    """`NAME=value` as added to the environment, and `agent` where that carries it out."""
    state: State
    """`measured`; `too-few`: fewer than three rounds fitted into the time; `failed`: the program did not do its work
    with it; `left-out`: it was not run."""
    problem: str
    """Why it failed or was left out, one sentence; empty otherwise."""
    rounds: int
    """Pairs of runs that the ratio rests on."""
    side: TrialSide | None
    """Its runs; None where there was none to measure."""
    ratio: Ratio | None
    """Measured, with the interval that all cures together miss with at most 5 %; None of too few rounds."""
    significant: bool
    """Whether 1 lies outside that interval."""
    predicted_ratio: Ratio | None
    """What the recorded run's opportunities promised of it; None where they promise nothing."""
    opportunities: tuple[str, ...]
    """Titles of the opportunities that it answers."""
    memory_bytes: int | None
    """By how much its peak memory exceeds that of the run as is; negative where it takes less."""
    costs: str
    """What it takes in memory, in words."""
    permanent: str
    """How to keep it: what to set, or what to write."""
    source: str
    """Who says that the setting does this."""

    @property
    def off(self) -> bool:
        """Whether the prediction and the measurement exclude each other."""
        if self.ratio is None or self.predicted_ratio is None:
            return False
        return not self.ratio.meets(self.predicted_ratio)

    @property
    def gain(self) -> float:
        """By which factor less is needed: 1 / ratio; 1 where nothing was measured."""
        return 1 / self.ratio.median if self.ratio and self.ratio.median > 0 else 1.0

    @property
    def no_larger_than(self) -> float | None:
        """Without significance: no difference above this share either way; None where one was found."""
        if self.ratio is None or self.significant:
            return None
        return max(1 - self.ratio.low, self.ratio.high - 1)


@dataclass(frozen=True)
class TrialResult:
    """A whole trial. Cures with a gain come first, the largest gain first; then the others; then those that failed."""

    command: tuple[str, ...]
    measure: str
    """As `--measure` has it: `wall`, `work`, `range:load`, `regex:…`, `memory`."""
    unit: Unit
    as_is: TrialSide
    rounds: int
    """Rounds in which the program ran as it is."""
    runs: int
    """All runs of the program: checks, warm-up, rounds and recordings."""
    duration_s: float
    wanted_error: float
    """Half the width of an interval that was wanted, as a share: 0.02."""
    seed: int
    """Seed for the order of runs."""
    cures: tuple[CureResult, ...]
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    """Whether the user ended the rounds."""

    @property
    def measured(self) -> list[CureResult]:
        """The cures with a figure."""
        return [cure for cure in self.cures if cure.ratio is not None]

    @property
    def saving(self) -> list[CureResult]:
        """The cures that save significantly."""
        return [cure for cure in self.cures if cure.significant and cure.gain > 1]

    @property
    def best(self) -> CureResult | None:
        """The cure that saves most and significantly; None where none does."""
        return next(iter(self.saving), None)


def ranked(cures: Sequence[CureResult]) -> tuple[CureResult, ...]:
    """Cures in the order of a result."""

    def place(cure: CureResult) -> tuple[int, float]:
        gains = cure.significant and cure.gain > 1
        order = ("measured", "too-few", "failed", "left-out").index(cure.state)
        return (-1 if gains else order), -cure.gain

    return tuple(sorted(cures, key=place))
