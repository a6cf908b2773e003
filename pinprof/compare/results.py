"""What a comparison returns: frozen and plain, complete enough for every output.

Figures are per unit of work (`Difference.work`) unless they say otherwise. `before` and `after` of a row hold one value
per run, in the order of the side's recordings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from statistics import fmean
from typing import Literal

from pinprof.base.columns import Bool, Float64, Int16, Int32, Int64, Table, Texts, UInt8
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.statistics import MeanDifference

Family = Literal["phase", "range", "call", "cause", "line", "event"]
FAMILIES: tuple[Family, ...] = ("phase", "range", "call", "cause", "line", "event")
"""In the order in which they are shown: what clocks measured first, then what samples estimate."""

FAMILY_WORDS: Mapping[Family, str] = {
    "phase": "phases", "range": "ranges", "call": "CUDA calls", "cause": "causes", "line": "lines", "event": "samples",
}  # fmt: skip

State = Literal["both", "gone", "new"]
Fate = Literal["gone", "new", "stayed"]


@dataclass(frozen=True)
class Side:
    """One side of the comparison."""

    name: str
    """The path's last component."""
    paths: tuple[str, ...]
    """Its recordings', one each."""
    command: tuple[str, ...]
    """What was recorded; empty where the recording does not say."""
    units: tuple[float, ...]
    """Units of work, one per run."""
    duration_ns: tuple[int, ...]
    """The recorded program's, one per run; 0 where that is not known."""

    @property
    def runs(self) -> int:
        """How often it was recorded."""
        return len(self.paths)


@dataclass(frozen=True)
class Surrounding:
    """Something around the program that differs between the sides, or between the runs of one side."""

    what: str
    """`kernel`, `huge pages`, `sampling`."""
    before: str
    after: str
    effect: str
    """One sentence: what it does to the comparison; empty where it is only good to know."""
    refuses: bool = False
    """Whether shares cannot be compared because of it."""


@dataclass(frozen=True)
class WorkUnit:
    """What figures are divided by."""

    name: str
    """`run`, `iteration`, `step`, `GiB copied`, or the name of a range."""
    how: str
    """One sentence: why this one, and how many each side has."""


@dataclass(frozen=True)
class MoreRuns:
    """How many runs detect a smaller change than those that were compared."""

    runs: int
    """On each side, about: if they vary as these do."""
    change: float
    """The change that these runs detect with 90 %, as a share of before: 0.05 for 5 %."""


@dataclass(frozen=True)
class Row:
    """One figure on both sides."""

    family: Family
    name: str
    """As it is called after, else before."""
    unit: str
    """`ns`, or that of its event: `faults`, `bytes`, `events`, `samples`."""
    before: tuple[float, ...]
    after: tuple[float, ...]
    exact: bool
    """Whether a clock or a counter measured it; else samples estimate it."""
    per: str
    """What it is divided by: the name of the unit of work, or `run` for what happens once in a run."""
    samples: tuple[int, int] = (0, 0)
    """How many each side's figures rest on, all runs together; 0 where it is exact."""
    was: str = ""
    """What it is called before, where that is another name."""
    estimate: MeanDifference | None = None
    """The logarithm of after / before; None where it cannot be tested."""
    chance: float | None = None
    """p, corrected for all comparisons of this one difference; None where it was not tested."""
    significant: bool = False
    """Whether `chance` is small enough, and the samples are enough."""
    detectable: float | None = None
    """The smallest change that would have been found with 90 %, as a share of before: 0.05 for 5 %; None where nothing
    is known of the variation between runs, and 0 where there is none."""
    more_runs: MoreRuns | None = None
    """None where these runs detect 5 %, where nothing is known of the variation between runs, and where too many runs
    would be needed."""
    untested: str = ""
    """Why it was not tested; empty where it was."""

    @property
    def mean_before(self) -> float:
        """The mean of the runs; 0 without any."""
        return fmean(self.before) if self.before else 0.0

    @property
    def mean_after(self) -> float:
        """The mean of the runs; 0 without any."""
        return fmean(self.after) if self.after else 0.0

    @property
    def change(self) -> float:
        """After less before: negative is less."""
        return self.mean_after - self.mean_before

    @property
    def ratio(self) -> float | None:
        """After / before; None where there was nothing before."""
        return self.mean_after / self.mean_before if self.mean_before else None

    @property
    def state(self) -> State:
        """Whether both sides have it."""
        return "both" if self.mean_before and self.mean_after else "gone" if self.mean_before else "new"


@dataclass(frozen=True)
class OpportunityChange:
    """Something to change, on both sides. Times are of a whole run, the mean of the runs that show it."""

    fate: Fate
    title: str
    """As it is called after where it is new, else before."""
    place: str
    cure: str
    """The cure's id."""
    phase: str
    before_cost_ns: float
    after_cost_ns: float
    """Wall time that it costs; 0 where it is not found."""
    before_saving_ns: float
    after_saving_ns: float
    """What was promised; 0 where it is not found."""
    before_runs: int
    after_runs: int
    """How many runs of the side show it."""


@dataclass(frozen=True, eq=False, repr=False)
class ComparedFrames(Table):
    """The functions of both sides, each once; a frame is (key, library's key, mode), as `frames.frame_key` makes it."""

    key: Texts
    """What was compared."""
    before: Texts
    """Its name before; empty where only the other side has it."""
    after: Texts
    mode: UInt8
    """`model.USER` or `model.KERNEL`."""
    kind: Texts
    """The library's kind, as `model.Dso.kind`."""
    library: Texts
    """The library's name without its version."""
    renamed: Bool
    """Whether both sides have it, by names that differ: the key left something out."""


@dataclass(frozen=True, eq=False, repr=False)
class ComparedWeights(Table):
    """What single runs weigh, one row per node, run and cause; of whole runs, in the event's unit."""

    node: Int32
    """Row of the stacks: the innermost one of the samples counted here."""
    run: Int32
    """The runs before, then those after."""
    cause: Int16
    """Index into `CATEGORIES`."""
    likely: UInt8
    """1 where a heuristic gave the cause, not a function's name."""
    weight: Int64
    samples: Int64


@dataclass(frozen=True, eq=False, repr=False)
class ComparedStacks(Table):
    """One event's stacks of both sides as one prefix tree; parents precede their children. One row per node.

    Weights are of the node itself, without what it calls, per unit of work, means of the runs. They add up to the whole
    weight of the event on each side.
    """

    parent: Int32
    """-1 for a root."""
    frame: Int32
    """Row of `frames`."""
    before: Float64
    after: Float64
    before_samples: Int64
    after_samples: Int64
    """All runs together."""
    event: str = ""
    """The event's name, without its rate."""
    unit: str = ""
    frames: ComparedFrames = field(default_factory=ComparedFrames.empty)
    weights: ComparedWeights = field(default_factory=ComparedWeights.empty)
    """What `before` and `after` are made of."""


@dataclass(frozen=True)
class Difference:
    """Two sides, compared."""

    before: Side
    after: Side
    headline: str
    """The answer in one sentence: what went away or came, and how much time the clocks say that saved or cost."""
    surroundings: tuple[Surrounding, ...]
    """What differs around the program; empty where nothing known does."""
    work: WorkUnit
    tested: str
    """One sentence: how many runs were compared and how, or why nothing can be tested; the smallest change of the whole
    that could have been found."""
    rows: tuple[Row, ...]
    """By family in the order of `FAMILIES`, within it the largest change first."""
    opportunities: tuple[OpportunityChange, ...]
    """Gone, new and stayed, in this order; within it the largest first."""
    stacks: tuple[ComparedStacks, ...]
    """One per event that both sides have."""
    notes: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    """What of the runs is missing, one sentence each: shown above the answer."""
    """What could not be compared, one sentence each."""

    @property
    def shares(self) -> bool:
        """Whether shares of the whole can be compared: both sides saw the same part of it."""
        return not any(one.refuses for one in self.surroundings)

    def family(self, name: Family) -> tuple[Row, ...]:
        """The rows of one family."""
        return tuple(row for row in self.rows if row.family == name)
