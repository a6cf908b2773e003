"""Weights by cause of events and ranges, and the verdicts of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pinprof.analyze.evidence import MIN_SAMPLES
from pinprof.analyze.ranges.paths import RangePath
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_count
from pinprof.data.model import Event

_SUMMED = 1000
"""From here on, what all counts are multiples of is a sampling period."""

GPU_WAITS = ("sync.poll", "wait.gpu")
"""Leaves that are waiting for the GPU: in a spin loop on the processor, and asleep off it."""

FAILED_CALLS = "failed-calls"
"""The rule whose finding comes before every other answer."""
Severity = Literal["critical", "warning", "info", "ok", "not-assessable"]


@dataclass(frozen=True)
class EventResult:
    """One event's weight by cause, over a whole capture or inside a range. Leaves sum to `total` exactly."""

    event: Event
    samples: int
    total: int
    """In the event's unit."""
    by_leaf: Mapping[str, int]
    """Heaviest first; leaves without weight are absent."""
    by_work: Mapping[str, Mapping[str, int]]
    """Leaf → work attribute → weight, each heaviest first."""
    by_level: Mapping[str, int]
    """Heaviest first; of equal ones first that of the heaviest leaf."""
    inclusive: Mapping[str, int]
    """Weight of samples with such a frame anywhere on the stack (`attribution.GROUPS`)."""
    heuristic: int
    """Weight whose leaf comes from the hot-loop rule."""
    step: int = 0
    """What all weights of merged stacks are multiples of; 0 where that is not of interest."""

    @property
    def name(self) -> str:
        """The event's name."""
        return self.event.name

    @property
    def unit(self) -> str:
        """The event's unit."""
        return self.event.unit

    @property
    def drawn(self) -> int | None:
        """How many samples the shares rest on; None where every occurrence is counted, or only weights are known.

        Merged stacks of other tools stand for several samples: the weights of those that count samples, or have a
        period, tell how many.
        """
        if self.event.spans or (self.event.period == 1 and self.unit != "samples"):
            return None
        if not self.event.merged:
            return self.samples
        if self.event.period or self.unit == "samples":
            # Counts that are all multiples of thousands are sums of periods, as stackcollapse-perf.pl makes them.
            one = self.event.period or (self.step if self.samples > 1 and self.step >= _SUMMED else 1)
            return max(self.samples, round(self.total / one)) if self.total else 0
        # Of samples that are alike there are as many as the total has of what all weights are multiples of.
        return max(self.samples, self.total // self.step) if self.step else None

    @property
    def too_few(self) -> bool:
        """Whether chance decides the shares."""
        return self.drawn is not None and self.drawn < MIN_SAMPLES

    @property
    def too_few_words(self) -> str:
        """`too few samples: 4, and shares take 97`; empty where there are enough, or none at all."""
        if not self.too_few or not self.total:
            return ""
        return f"too few samples: {format_count(self.drawn or 0)}; shares need {MIN_SAMPLES}"

    def share(self, *leaves: str) -> float:
        """The share of these leaves, or levels (a name ending in `.*`), from 0 to 1; 0 of nothing."""
        weight = 0
        for leaf in leaves:
            weight += self.by_level.get(leaf[:-2], 0) if leaf.endswith(".*") else self.by_leaf.get(leaf, 0)
        return weight / self.total if self.total else 0.0


@dataclass(frozen=True)
class RangeWall:
    """Where the wall time of all instances of one range went, in the threads that opened them.

    `on_cpu`, `off_cpu` and `remainder_ns` sum to `wall_ns` exactly.
    """

    wall_ns: int
    """Sum of the instances' own clock."""
    on_cpu: Mapping[str, int]
    """Leaf → sampled time on processors, heaviest first."""
    off_cpu: Mapping[str, int]
    """Leaf → time off them, measured from switch to switch, heaviest first."""
    remainder_ns: int
    """What neither explains; negative where they say more than the clock."""
    error_ns: int
    """Standard error of the sampled part: the remainder may be as large by chance."""

    @property
    def on_cpu_ns(self) -> int:
        """All sampled time."""
        return sum(self.on_cpu.values())

    @property
    def off_cpu_ns(self) -> int:
        """All time off the CPU."""
        return sum(self.off_cpu.values())

    @property
    def gpu_ns(self) -> int:
        """Time spent waiting for the GPU, on the processor and off it; part of the other two."""
        return sum(part.get(leaf, 0) for part in (self.on_cpu, self.off_cpu) for leaf in GPU_WAITS)


@dataclass(frozen=True)
class RangeResult:
    """All instances of one range: same domain, same name, same chain of enclosing ranges."""

    path: RangePath
    count: int
    wall_ns: int
    """Sum of the instances' own clock."""
    wall_min_ns: int
    wall_median_ns: int
    wall_max_ns: int
    events: tuple[EventResult, ...]
    """In the capture's order of events, one each, also those without samples here."""
    own_thread_ns: int | None
    """Sampled on-CPU time of the threads that opened the range; None when they are unknown or nothing sampled time."""
    wall: RangeWall | None = None
    """Where the wall time of those threads went; None when they are unknown or their waits were not recorded."""

    @property
    def name(self) -> str:
        """Its own name."""
        return self.path.name

    @property
    def domain(self) -> str:
        """Its NVTX domain."""
        return self.path.domain

    @property
    def depth(self) -> int:
        """Ranges around it."""
        return self.path.depth

    def event(self, event: Event) -> EventResult:
        """This range's part of one event."""
        return next(result for result in self.events if result.event is event)


@dataclass(frozen=True)
class Finding:
    """One verdict of one rule (`rules.RULES`)."""

    rule: str
    severity: Severity
    """`ok`: judged and clear. `not-assessable`: the input is missing, no claim is made."""
    title: str
    """One sentence."""
    evidence: tuple[str, ...]
    """The inputs of the verdict, with the threshold."""
    advice: str
    missing: str
    """What the capture lacks for a verdict, or a better one; empty when nothing."""
    slug: str
    """Entry of docs/diagnoses.md."""

    @property
    def status(self) -> Literal["fired", "clear", "not-assessable"]:
        """The verdict without its weight."""
        if self.severity == "not-assessable":
            return "not-assessable"
        return "clear" if self.severity == "ok" else "fired"


def judged_event(events: tuple[EventResult, ...]) -> EventResult | None:
    """The event whose shares are judged: time on the processors where it was sampled, be it without any sample.

    What a recording without samples of its time holds beside them (page faults, waits) does not say where the time
    went. None when nothing has weight.
    """
    clock = next((result for result in events if result.event.clocks), None)
    main = main_event(events)
    return clock if main and clock and not clock.total and clock.too_few else main


def main_event(events: tuple[EventResult, ...]) -> EventResult | None:
    """The first event with weight: of time on processors, else in ns, else of any.

    Those come last of which it is not known where they were counted, and time off the CPU.
    """

    def order(result: EventResult) -> tuple[bool, bool, bool, bool, bool]:
        event = result.event
        return event.spans, event.counted, not event.clocks, not event.shows_time, event.unit != "ns"

    return min((result for result in events if result.total), key=order, default=None)
