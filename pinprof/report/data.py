"""ReportData: what the sections of a report share, and each section's own data (`sections`), as plain values.

Weights are integers in the unit of their event, times integer nanoseconds, and leaves stand in descending weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pinprof.analyze import LEVELS
from pinprof.analyze.activity.results import ActivityAnalysis
from pinprof.analyze.results import RangeWall
from pinprof.report.flame import FlameData, Thread
from pinprof.report.instances import InstanceData

LEVEL_TITLES: Mapping[str, str] = {level: title[:1].upper() + title[1:] for level, title in LEVELS}
"""Level of the taxonomy → its title."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One leaf of the taxonomy in the reader's words."""

    key: str
    level: str
    meaning: str
    remedy: str
    rule: str = ""
    """Which frames decide for this cause, in words."""

    @property
    def slug(self) -> str:
        """The key as a CSS class and custom property: `fault-anon`."""
        return self.key.replace(".", "-").replace("_", "-")


@dataclass(frozen=True, slots=True)
class LevelData:
    """A level's share of one event, with the leaves that make it up, heaviest first."""

    level: str
    weight: int
    leaves: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EventData:
    """One event over the whole recording. Events are never merged."""

    name: str
    unit: str
    total: int
    leaves: Mapping[str, int]
    """Weight by leaf, descending, without zeros; sums to `total`."""
    work: Mapping[str, Mapping[str, int]]
    """Per leaf, weight by what the CPU did, descending."""
    sampling: str = ""
    """How it was sampled: `999 Hz`, `every 64 faults`."""
    samples: int = 0
    heuristic: int = 0
    """Weight whose leaf comes from a heuristic instead of a frame."""
    spans: bool = False
    """Whether its samples are intervals off the processors: `samples` counts them, `total` is how long they lasted."""

    def levels(self, causes: Mapping[str, Cause]) -> list[LevelData]:
        """The leaves grouped by level, heaviest first."""
        grouped: dict[str, dict[str, int]] = {}
        for leaf, weight in self.leaves.items():
            grouped.setdefault(causes[leaf].level, {})[leaf] = weight
        levels = [LevelData(level, sum(leaves.values()), leaves) for level, leaves in grouped.items()]
        return sorted(levels, key=lambda level: -level.weight)


@dataclass(frozen=True, slots=True)
class RangeEvent:
    """One event inside the ranges of one name."""

    name: str
    total: int
    leaves: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RangeData:
    """All ranges of one name, domain and depth."""

    name: str
    domain: str
    depth: int
    count: int
    wall_ns: int
    """Sum of the ranges' own clock."""
    wall_min_ns: int
    wall_median_ns: int
    wall_max_ns: int
    own_thread_ns: int | None
    """Sampled on-CPU time of the threads that opened the ranges; None when they are unknown."""
    events: tuple[RangeEvent, ...]
    """In the order of `Shared.events`, without those that have no samples here."""
    call: str = ""
    """What the scenario calls in this phase, for example `cudaMallocHost`."""
    wall: RangeWall | None = None
    """Where the time of the threads that opened the ranges went; None when they or their waits are unknown."""

    @property
    def indent(self) -> int:
        """Levels by which its row stands to the right; deeper than this no table and no chart has room for its name."""
        return min(self.depth, 15)

    def event(self, name: str) -> RangeEvent | None:
        """This range's part of one event."""
        return next((event for event in self.events if event.name == name), None)


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """How the recording was made. Holds no environment, user or host names."""

    path: str
    """Last component of the recording's path."""
    tool_version: str
    command: tuple[str, ...]
    scenario: Mapping[str, Any]
    host: Mapping[str, Any]
    collectors: tuple[Mapping[str, Any], ...]
    outcome: Mapping[str, Any]
    clock: Mapping[str, Any]
    """`source, offset_ns, uncertainty_ns`."""

    @property
    def emulated(self) -> bool:
        """Whether a scenario ran on the host backend, without a GPU."""
        return self.scenario.get("backend") == "host"


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure and what it is."""

    label: str
    value: str
    warn: bool = False


@dataclass(frozen=True)
class Shared:
    """What several sections show of one recording, made once."""

    headline: str
    capture: CaptureFacts
    causes: tuple[Cause, ...]
    """The whole taxonomy, in its order."""
    events: tuple[EventData, ...]
    ranges: tuple[RangeData, ...]
    flame: FlameData | None = None
    """All stacks and samples; None without samples."""
    threads: tuple[Thread, ...] = ()
    """Those with samples first, as in `flame`, then those with calls or ranges only."""
    activity: ActivityAnalysis | None = None
    """CUDA calls, copies and managed memory; None when nothing traced them."""
    start_ns: int | None = None
    """Where the timeline begins, on the capture's clock; None where nothing has a time."""
    instances: InstanceData | None = None
    """Single ranges, calls and copies, which the page sums again; None without a timeline."""

    def cause(self, leaf: str) -> Cause:
        """The taxonomy's row of a leaf."""
        return self.by_key()[leaf]

    def by_key(self) -> dict[str, Cause]:
        """The taxonomy by leaf."""
        return {cause.key: cause for cause in self.causes}


@dataclass(frozen=True)
class ReportData(Shared):
    """One recording, explained."""

    sections: Mapping[str, Any] = field(default_factory=dict)
    """Key of a section that applies → its own data (`section.Section`), in the order of the page."""
