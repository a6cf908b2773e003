"""What the sections of a report share, as plain values.

Events and ranges are the analysis's own results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from pinprof.analyze import LEVELS, Run
from pinprof.analyze.activity.results import ActivityAnalysis
from pinprof.analyze.completeness import Gap
from pinprof.analyze.results import EventResult, RangeResult
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_share
from pinprof.report.flame import FlameData, Thread
from pinprof.report.instances import InstanceData
from pinprof.report.joined_frames import JoinedFrames
from pinprof.report.shown import ShownRanges, shown_ranges

LEVEL_TITLES: Mapping[str, str] = {level: title[:1].upper() + title[1:] for level, title in LEVELS}
"""Level of the taxonomy → its title."""


def share_of(part: EventResult, weight: int) -> str:
    """A weight as a share of its event in a recording or a range; `–` where chance decides it."""
    return "–" if part.too_few else format_share(weight, part.total)


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    events: tuple[EventResult, ...]
    """Over the whole recording. Events are never merged."""
    ranges: tuple[RangeResult, ...]
    """Each with all of `events`, in their order."""
    in_own_time: tuple[EventResult, ...] | None = None
    """`events` of the time in which the program runs its own code; None where these are the same."""
    stacks: JoinedFrames | None = None
    """The stacks as people see them; None where no section shows any."""
    flame: FlameData | None = None
    """All stacks and samples; None without samples, and in forms that show no tree of them."""
    threads: tuple[Thread, ...] = ()
    """Those with samples first, as in `flame`, then those with calls or ranges only."""
    activity: ActivityAnalysis | None = None
    """CUDA calls, copies and managed memory; None when nothing traced them."""
    start_ns: int | None = None
    """Where the timeline begins, on the capture's clock; None where nothing has a time."""
    instances: InstanceData | None = None
    """Single ranges, calls and copies, which the page sums again; None without a timeline or a page."""
    phase_calls: Mapping[str, str] = field(default_factory=dict)
    """Phase of a scenario → what it calls there, for example `cudaMallocHost`."""
    gaps: tuple[Gap, ...] = ()
    """What of the run is missing: shown above the headline."""
    drawn: bool = True
    """Whether there will be a page. Otherwise nothing is made that only a page draws, such as the timeline."""

    @property
    def own(self) -> tuple[EventResult, ...]:
        """The events of the program's own time, in the order of `events`."""
        return self.events if self.in_own_time is None else self.in_own_time

    @property
    def shown(self) -> ShownRanges:
        """Which of `ranges` people are shown."""
        return shown_ranges(self.ranges)

    def cause(self, leaf: str) -> Cause:
        """The taxonomy's row of a leaf."""
        return self.by_key()[leaf]

    def by_key(self) -> dict[str, Cause]:
        """The taxonomy by leaf."""
        return {cause.key: cause for cause in self.causes}


@dataclass(frozen=True)
class Explained:
    """What the sections of a report are made of."""

    run: Run
    shared: Shared
