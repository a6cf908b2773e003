"""ReportData: everything a report shows, as plain values; writers below it compute nothing but widths and wording.

`to_json()` is the public JSON of `pinprof report --format json`, documented in docs/json.md. Weights are integers in
the unit of their event, times integer nanoseconds, and leaves stand in descending weight.

Schema history: 1 — first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pinprof.analyze.costs.results import Counterfactual, PinningCurve
from pinprof.model import Losses
from pinprof.report.activity_data import ActivityData
from pinprof.report.activity_json import activity_json
from pinprof.report.cost_rows import counterfactual_json, pinning_json
from pinprof.report.flame import FlameData, Thread
from pinprof.report.hot_tree import HotTree
from pinprof.report.instances import InstanceData
from pinprof.report.memory_rows import MemoryData, memory_json
from pinprof.report.python_data import PythonTable
from pinprof.report.timeline import Timeline
from pinprof.report.walls import WallData, wall_json

SCHEMA = 1


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
        found = [LevelData(level, sum(leaves.values()), leaves) for level, leaves in grouped.items()]
        return sorted(found, key=lambda level: -level.weight)


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
    """In the order of `ReportData.events`, without those that have no samples here."""
    call: str = ""
    """What the scenario calls in this phase, for example `cudaMallocHost`."""
    wall: WallData | None = None
    """Where the time of the threads that opened the ranges went; None when they or their waits are unknown."""

    @property
    def indent(self) -> int:
        """Levels by which its row stands to the right; deeper than this no table and no chart has room for its name."""
        return min(self.depth, 15)

    def event(self, name: str) -> RangeEvent | None:
        """This range's part of one event."""
        return next((event for event in self.events if event.name == name), None)


@dataclass(frozen=True, slots=True)
class FindingData:
    """One verdict of a rule. A rule that lacks its input says so in `missing` and makes no claim."""

    rule: str
    severity: str
    """`critical`, `warning`, `info`, `ok`, or `not-assessable`."""
    title: str
    evidence: tuple[str, ...]
    advice: str
    missing: str
    slug: str

    @property
    def assessable(self) -> bool:
        """Whether the rule had what it needs."""
        return self.severity != "not-assessable"

    @property
    def fired(self) -> bool:
        """Whether the rule has something to say."""
        return self.severity not in ("ok", "not-assessable")


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


@dataclass(frozen=True)
class ReportData:
    """One recording, explained."""

    headline: str
    capture: CaptureFacts
    causes: tuple[Cause, ...]
    """The whole taxonomy, in its order."""
    events: tuple[EventData, ...]
    ranges: tuple[RangeData, ...]
    findings: tuple[FindingData, ...]
    losses: Losses
    flame: FlameData | None = None
    """All stacks and samples; None without samples."""
    trees: tuple[HotTree, ...] = ()
    """The heavy part of each event's call tree."""
    names: tuple[str, ...] = ()
    """Function names of the stacks and trees."""
    dsos: tuple[str, ...] = ()
    """DSO names of the stacks."""
    level_titles: Mapping[str, str] = field(default_factory=dict)
    activity: ActivityData | None = None
    """CUDA calls, copies and managed memory; None when nothing traced them."""
    counterfactual: Counterfactual | None = None
    """The run in other kinds of memory; None for programs that do not say what their phases are."""
    pinning: PinningCurve | None = None
    """The time to pinned memory by threads; None unless that was measured."""
    memory: MemoryData | None = None
    """Memory over time; None when nothing recorded it."""
    timeline: Timeline | None = None
    """None where nothing has a time."""
    threads: tuple[Thread, ...] = ()
    """Those with samples first, as in `flame`, then those with calls or ranges only."""
    instances: InstanceData | None = None
    """Single ranges, calls and copies; None without a timeline."""

    python: tuple[PythonTable, ...] = ()
    """Events by line of Python; empty without Python functions."""

    def cause(self, leaf: str) -> Cause:
        """The taxonomy's row of a leaf."""
        return self.by_key()[leaf]

    def by_key(self) -> dict[str, Cause]:
        """The taxonomy by leaf."""
        return {cause.key: cause for cause in self.causes}

    def to_json(self) -> dict[str, Any]:
        """The documented JSON; stacks stay out of it (folded stacks carry them), and so do single intervals."""
        return {
            "schema": SCHEMA,
            "headline": self.headline,
            "capture": asdict(self.capture),
            "events": [_event_json(event) for event in self.events],
            "ranges": [_range_json(entry) for entry in self.ranges],
            "losses": asdict(self.losses),
            "findings": [asdict(finding) for finding in self.findings],
            "activity": activity_json(self.activity) if self.activity else None,
            "memory": memory_json(self.memory),
            "counterfactual": counterfactual_json(self.counterfactual) if self.counterfactual else None,
            "pinning": pinning_json(self.pinning) if self.pinning else None,
            "python": [table.to_json() for table in self.python],
        }


def _event_json(event: EventData) -> dict[str, Any]:
    return {
        "name": event.name,
        "unit": event.unit,
        "sampling": event.sampling,
        "spans": event.spans,
        "samples": event.samples,
        "total": event.total,
        "heuristic": event.heuristic,
        "leaves": dict(event.leaves),
        "work": {leaf: dict(work) for leaf, work in event.work.items()},
    }


def _range_json(entry: RangeData) -> dict[str, Any]:
    return {
        "name": entry.name,
        "domain": entry.domain,
        "depth": entry.depth,
        "call": entry.call,
        "count": entry.count,
        "wall_ns": entry.wall_ns,
        "wall_min_ns": entry.wall_min_ns,
        "wall_median_ns": entry.wall_median_ns,
        "wall_max_ns": entry.wall_max_ns,
        "own_thread_ns": entry.own_thread_ns,
        "wall": wall_json(entry.wall),
        "events": [{"name": part.name, "total": part.total, "leaves": dict(part.leaves)} for part in entry.events],
    }
