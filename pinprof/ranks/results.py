"""What a launch of ranks returns: frozen and plain, complete enough for every output. Times are integer nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pinprof.base.columns import Float64, Int16, Int32, Int64, Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.ranks.spent import ProgramPlace

Verdict = Literal["held", "turns", "even", "unknown"]
"""One or several ranks hold the others up; each in its turn does; nobody does; nothing shows where ranks meet."""
How = Literal["always", "often", "every", "some", "once"]
"""At nearly every meeting; at many of them; at every nth; at some; once."""


@dataclass(frozen=True)
class RankFacts:
    """One rank of the launch."""

    number: int
    name: str
    """The capture's name."""
    machine: int
    """Number of its machine, from 0."""
    start_ns: int
    end_ns: int
    """Its life on the common clock."""
    phases: Mapping[str, int]
    """Phase → its length."""
    own_ns: int
    """The share of the work, less its waits for other ranks."""
    waits_ns: int
    """How long it waited for other ranks at meetings, start-up included."""
    last: int
    """Meetings at which it came last and others waited for it."""
    answer: str
    """What its own report says first."""
    causes: Mapping[str, int]
    """Cause → own time in the work, heaviest first."""
    page: str = ""
    """Path of its own page beside the launch's; empty without one."""


@dataclass(frozen=True)
class Excess:
    """What the awaited ranks spend more time on than the others, before the meetings at which these wait for them."""

    place: ProgramPlace | None
    """None where no line is known."""
    ns: int
    """Of one awaited rank (their mean), all those meetings together."""
    others_ns: int
    """Of one other rank (their mean)."""
    causes: Mapping[str, int]
    """Cause → the awaited ranks' time there, heaviest first."""
    range: str
    """The innermost range around most of it; empty without one."""

    @property
    def more_ns(self) -> int:
        """How much more."""
        return self.ns - self.others_ns


@dataclass(frozen=True)
class CauseExcess:
    """The same by cause."""

    cause: str
    ns: int
    others_ns: int


@dataclass(frozen=True)
class Hold:
    """Ranks that the others wait for."""

    ranks: tuple[int, ...]
    how: How
    every: int
    """At every nth of `unit`; 0 where it is not regular."""
    held: int
    """How many of `unit` lose others notable time by them."""
    meetings: int
    """How many of `unit` there are."""
    first: tuple[int, ...]
    """Numbers of the first such meetings or steps, from 0."""
    unit: str
    """What is counted: the name of the range that repeats, else `step` where calls repeat, else `meeting`."""
    cost_ns: int
    """By how much earlier the meetings were if these ranks came with the next."""
    low_ns: int
    high_ns: int
    """The interval of the cost that the scatter over meetings gives, with 95 %."""
    share: float
    """The cost, of the job's work."""
    chance: float | None
    """p of as many such meetings by one choice of ranks where all are alike, corrected for the choice; None for one."""
    tested: str
    """One sentence."""
    phase: str
    place: ProgramPlace | None
    """Where the others wait."""
    shown: float
    """The part of these meetings at which the awaited ranks' own recordings show that they take part."""
    lines: tuple[Excess, ...]
    causes: tuple[CauseExcess, ...]
    gpu_more_ns: int
    """How much longer their GPUs compute than the others' before these meetings."""
    crowded: bool
    """Whether they come late for want of a processor alone; the answer says so, and does not blame them."""
    cure: str
    """What their own reports say to change there; empty where they say nothing."""
    saves_ns: int
    """What the job gains by that."""
    losses: Float64
    """Per meeting of theirs what the job loses, in ns."""
    release_ns: Int64
    """When each of these meetings was."""


@dataclass(frozen=True)
class JobOpportunity:
    """One thing to change in some ranks, and what the job gains by it."""

    ranks: tuple[int, ...]
    """Those that have it at this line."""
    title: str
    place: str
    file: str
    line: int
    saves_ns: int
    """By how much the job is shorter if all of them have the cure: nothing where others come later anyway."""
    rank_saves_ns: int
    """What it saves such a rank by itself, their mean."""
    cure: str


@dataclass(frozen=True)
class Start:
    """How far apart the ranks begin to work."""

    rank: int
    """The last."""
    late_ns: int
    """After the middle one."""
    waited_ns: int
    """What the others waited for it."""


@dataclass(frozen=True)
class Group:
    """Groups of ranks."""

    ranks: tuple[int, ...]
    own_ns: int
    """The mean of the work, less waits for other ranks."""
    waits_ns: int
    causes: Mapping[str, float]
    """Cause → part of the job's work, the mean, heaviest first."""
    differs: str
    """What sets it apart from the largest group; empty for that one."""
    awaited: bool


@dataclass(frozen=True)
class Node:
    """The memory of one machine."""

    machine: int
    ranks: tuple[int, ...]
    memory_bytes: int
    """0 where it is not known."""
    numa_nodes: int
    together: Mapping[str, int]
    """`rss, pinned, locked, shmem, huge, swap` → the most at one time that the launch's processes held together."""
    free_bytes: int | None
    """The least that the machine had free."""
    page_cache_bytes: int | None
    """The most that files took of its memory."""
    huge_bytes: int | None
    """The most anonymous huge pages of the whole machine."""
    numa_misses: int | None
    """Pages that came from another NUMA node than was asked for; the whole machine's."""


@dataclass(frozen=True)
class RankLane(Table):
    """What one rank did over time, in order, without gaps worth drawing."""

    start_ns: Int64
    end_ns: Int64
    cause: Int16
    """Index into CATEGORIES; WAITS for waits for other ranks."""


WAITS, UNSEEN = -1, -2
"""In a lane: waits for other ranks; nothing recorded."""


@dataclass(frozen=True)
class Meet(Table):
    """Meetings, by time."""

    release_ns: Int64
    last: Int32
    """The rank that came last."""
    lost_ns: Float64
    """How much earlier it had been if that rank had come with the next."""


@dataclass(frozen=True)
class Launch:
    """The answer for a launch of ranks."""

    name: str
    size: int
    """How many ranks it had, as far as that is known; at least those with captures."""
    missing: tuple[int, ...]
    """Ranks without a capture that could be read."""
    verdict: Verdict
    headline: str
    """The answer: who holds the others up, at which line, and what that costs; the first sentence has all three."""
    work_ns: int
    """The job's work: what shares are of."""
    holds: tuple[Hold, ...]
    """The most expensive first; what a later one costs comes on top of those before it."""
    uneven_ns: int
    """What the job would save if all ranks came to every meeting with the middle one."""
    start: Start | None
    ranks: tuple[RankFacts, ...]
    groups: tuple[Group, ...]
    nodes: tuple[Node, ...]
    clock: str
    """One sentence: how the ranks' clocks relate."""
    uncertainty_ns: int
    meetings: Meet
    opportunities: tuple[JobOpportunity, ...]
    """By what they save the job; empty where it is not seen where the ranks meet."""
    lanes: Mapping[int, RankLane]
    """Rank → what it did, start to end; of many ranks some of each group."""
    closeup: Mapping[int, RankLane]
    """The same around a typical meeting at which others are held up; empty where none is."""
    notes: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    """What of the ranks' runs is missing, one sentence each: shown above the answer."""
    damaged: bool = False
    """Whether the recording of a rank is damaged."""
