"""What a rule is: what it needs, and how it puts a verdict. A rule that lacks an input makes no claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np

from pinprof.analyze.activity.results import ActivityAnalysis, CopyTotals, Direction
from pinprof.analyze.allocations.results import PinnedMemory
from pinprof.analyze.evidence import LEAST_NS, LEAST_SHARE, MIN_SAMPLES, worth_telling
from pinprof.analyze.results import EventResult, Finding, RangeResult, Severity, judged_event
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_ns, format_share, format_weight
from pinprof.data.activity_kinds import MemoryKind
from pinprof.data.gpu_functions import Purpose
from pinprof.data.model import Capture

WHOLE_RECORDING = "the whole recording"


@dataclass(frozen=True)
class Stake:
    """What a finding is about at most, and what that is a part of: the floor of all rules is a share of it."""

    cost: float
    whole: float
    unit: str = "ns"

    @property
    def trifle(self) -> str:
        """One sentence where no advice is worth giving; empty where it is."""
        if worth_telling(self.cost, self.whole, self.unit):
            return ""
        least = f"{percent(LEAST_SHARE)} and {format_ns(LEAST_NS)}" if self.unit == "ns" else percent(LEAST_SHARE)
        cost, whole = (format_weight(amount, self.unit) for amount in (self.cost, self.whole))
        return f"It is about {cost} of {whole}; there is no advice below {least}."


@dataclass(frozen=True)
class Scope:
    """What a share is taken of: one range, or all."""

    part: EventResult
    range: RangeResult | None
    all: str = WHOLE_RECORDING
    """What all is."""

    @property
    def name(self) -> str:
        """As a sentence names it."""
        return str(self.range.path) if self.range else self.all

    def enough(self, weight: int) -> bool:
        """Whether shares of this part of it rest on enough samples."""
        drawn, total = self.part.drawn, self.part.total
        return drawn is None or drawn * weight >= MIN_SAMPLES * total

    def states(self, what: str, share: float) -> str:
        """`pin.faultin is 87 % of alloc (492 ms sampled)`."""
        total = format_weight(self.part.total, self.part.event.unit)
        return f"{what} is {format_share(share * self.part.total, self.part.total)} of {self.name} ({total} sampled)"


@dataclass(frozen=True)
class View:
    """What rules look at."""

    capture: Capture
    events: tuple[EventResult, ...]
    ranges: tuple[RangeResult, ...]
    sampled: EventResult | None
    """The main event; None without samples."""
    traced: ActivityAnalysis | None
    """None when nothing traced CUDA."""
    all: str = WHOLE_RECORDING
    """What the events are of, as a sentence names it."""
    pinned: PinnedMemory | None = None
    """None where allocations were not recorded, or nobody asked."""

    @classmethod
    def of(
        cls,
        capture: Capture,
        events: tuple[EventResult, ...],
        ranges: tuple[RangeResult, ...],
        activity: ActivityAnalysis | None = None,
        all_: str = WHOLE_RECORDING,
        pinned: PinnedMemory | None = None,
    ) -> View:
        """A capture and what was counted of it."""
        return cls(capture, events, ranges, judged_event(events), activity, all_, pinned)

    @property
    def main(self) -> EventResult:
        """The main event, for rules that need SAMPLES."""
        assert self.sampled, "the rule does not declare that it needs samples"
        return self.sampled

    @property
    def main_number(self) -> int:
        """The main event's index in the capture."""
        return self.capture.events.index(self.main.event)

    @property
    def activity(self) -> ActivityAnalysis:
        """CUDA calls and GPU work, for rules that need CUDA or CALLS."""
        assert self.traced, "the rule does not declare that it needs CUDA activity"
        return self.traced

    @property
    def host(self) -> Mapping[str, Any]:
        """Facts about the machine."""
        return self.capture.manifest.host

    @property
    def one_node(self) -> bool:
        """Whether the machine is known to have one NUMA node."""
        return bool(self.host.get("numa_nodes") == 1)

    def scopes(self) -> Iterator[Scope]:
        """Every range with enough samples, then all."""
        for entry in self.ranges:
            part = entry.event(self.main.event)
            if part.total and not part.too_few:
                yield Scope(part, entry)
        yield Scope(self.main, None, self.all)

    def innermost(self) -> list[Scope]:
        """Ranges that enclose no other, or all where there are no ranges."""
        outer = {entry.path.parent for entry in self.ranges}
        inner = [scope for scope in self.scopes() if scope.range and scope.range.path not in outer]
        return inner or [scope for scope in self.scopes() if not scope.range]

    def worst(self, *leaves: str) -> tuple[Scope, float]:
        """Where these leaves' share is largest: among outermost ranges, or of all without ranges.

        A range in which they cost a trifle follows all others.
        """
        outer = [scope for scope in self.scopes() if scope.range and not scope.range.depth]
        scopes = outer or [scope for scope in self.scopes() if not scope.range]
        shares = [(scope, scope.part.share(*leaves)) for scope in scopes]
        return max(shares, key=lambda item: (not self.sampled_stake(item[1] * item[0].part.total).trifle, item[1]))

    def sampled_stake(self, weight: float) -> Stake:
        """So much of what was sampled."""
        return Stake(weight, self.main.total, self.main.unit)

    def stake(self, cost_ns: float) -> Stake:
        """So much of the wall time of the activity."""
        return Stake(cost_ns, self.wall_ns)

    @property
    def wall_ns(self) -> int:
        """Time of the activity without the creation of contexts."""
        return self.activity.wall_ns

    @property
    def knows_cuda(self) -> bool:
        """Whether CUDA was traced, events or not."""
        return self.traced is not None and "cuda" in self.traced.recorded

    @property
    def knows_migrations(self) -> bool:
        """Whether the driver's events of managed memory were recorded, perhaps without anything else of the GPU."""
        return self.traced is not None and "migrations" in self.traced.recorded

    @property
    def knows_calls(self) -> bool:
        """Whether CUDA calls were recorded, perhaps without what the GPU did."""
        activity = self.capture.activity
        return activity is not None and bool({"cuda", "cuda calls"} & activity.recorded)

    @property
    def has_calls(self) -> bool:
        """Whether the program made any CUDA call."""
        return self.traced is not None and bool(self.traced.whole.calls or self.traced.context_init)

    @property
    def knows_memory_kinds(self) -> bool:
        """Whether the host's side of nearly all bytes that were copied is known."""
        crossing = [copy for copy in self.activity.whole.copies if copy.direction in ("H2D", "D2H")]
        unknown = sum(copy.size_bytes.total for copy in crossing if copy.memory == MemoryKind.UNKNOWN.words)
        return unknown <= LEAST_SHARE * sum(copy.size_bytes.total for copy in crossing)

    def may_lack(self, kind: str = "") -> bool:
        """Whether CUDA calls of a kind, or of any, may be missing: not traced at some time, or lost."""
        return self.capture.activity is not None and self.capture.activity.may_lack(kind)

    def calls_for(self, *purposes: Purpose) -> bool:
        """Whether such a call of the program succeeded."""
        return any(call.purpose in purposes and call.count > call.failures for call in self.activity.whole.calls)

    def large_pinned_copies(self) -> list[tuple[Direction, CopyTotals]]:
        """Between host and device, by direction, where there are any."""
        return [
            (entry.direction, entry.large_pinned)
            for entry in self.activity.transfers.directions
            if entry.large_pinned.busy_ns and entry.direction in ("H2D", "D2H")
        ]

    def lost_on_link_ns(self) -> float | None:
        """What these take beyond the practical rate of the link; None where either is not known."""
        link, copies = self.activity.transfers.link, self.large_pinned_copies()
        if link is None or not copies:
            return None
        return sum(max(one.busy_ns - one.size_bytes / (link.rate(way) or np.inf), 0.0) for way, one in copies)

    def gpu_facts(self, key: str) -> Iterable[Any]:
        """One fact of every GPU, None where it is not known; nothing when the host's facts name no GPU."""
        gpus = self.host.get("gpus")
        return [gpu.get(key) for gpu in gpus if isinstance(gpu, Mapping)] if isinstance(gpus, (list, tuple)) else []


@dataclass(frozen=True)
class Verdict:
    """What a rule says; the runner adds which rule it is."""

    severity: Severity
    title: str
    """One sentence; empty when not assessable: the rule's subject then makes it."""
    evidence: tuple[str, ...] = ()
    advice: str = ""
    missing: str = ""


TRIFLE = "It costs too little to be worth a change."


def fired(
    title: str,
    *evidence: str,
    advice: str,
    stake: Stake | None,
    missing: str = "",
    severity: Severity = "warning",
) -> Verdict:
    """There is something to do, if enough is at stake; None where it is about no time."""
    if stake and (trifle := stake.trifle):
        return clear(TRIFLE, *evidence, trifle, missing=missing)
    return Verdict(severity, title, evidence, advice, missing)


def clear(title: str, *evidence: str, missing: str = "") -> Verdict:
    """There is nothing to do."""
    return Verdict("ok", title, evidence, "", missing)


def lacks(missing: str, *evidence: str, title: str = "") -> Verdict:
    """No claim, and what a claim would need."""
    return Verdict("not-assessable", title, evidence, "", missing)


def percent(threshold: float) -> str:
    """A threshold as messages write it: `20 %`."""
    return f"{threshold:.0%}".replace("%", " %")


@dataclass(frozen=True)
class Need:
    """Evidence without which a claim is not made: a rule's verdict, a headline, an opportunity."""

    name: str
    """As the page of evidence calls it; alternatives of one kind share it."""
    met: Callable[[View], bool]
    missing: str
    """What to record."""
    title: str = ""
    """Instead of the sentence about the rule's subject."""
    because: str = ""
    """Why a recording without it cannot show host-memory costs, as a clause; `{event}` is what was sampled."""
    remedy: str = "record with `pinprof record`"
    """What to do about it, as a clause."""


def unmet(needs: Iterable[Need], view: View) -> Need | None:
    """The first need that a recording does not meet."""
    return next((need for need in needs if not need.met(view)), None)


Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Statement(Generic[Subject]):
    """A sentence that an answer may begin with."""

    name: str
    """As the page of evidence calls it."""
    say: Callable[[Subject], str]
    """Empty where it does not apply; reads nothing that the needs do not promise."""
    needs: tuple[Need, ...]
    """In the order in which a missing one is named."""


def first_said(claims: Iterable[Statement[Subject]], view: View, subject: Subject) -> str:
    """The first sentence that applies and whose needs are met; empty without any."""
    said = (claim.say(subject) for claim in claims if unmet(claim.needs, view) is None)
    return next(filter(None, said), "")


@dataclass(frozen=True)
class Rule:
    """One diagnosis."""

    name: str
    """Its slug in docs/diagnoses.md."""
    judge: Callable[[View], Verdict]
    needs: tuple[Need, ...]
    """In the order in which a missing one is named; `judge` reads nothing that they do not promise."""
    subject: str = "This"
    """Begins the sentence `… can't be judged.`"""
    to_clear: tuple[Need, ...] = ()
    """Without these the rule may fire, but does not say that there is nothing."""
    whole: bool = False
    """Whether it judges the whole recording, and not what the program itself does in it."""
    otherwise: Rule | None = None
    """Judges where a need is not met: the same question by poorer data."""

    def verdict(self, view: View) -> Finding:
        """Judge, or say what is missing."""
        need = unmet(self.needs, view)
        if need and self.otherwise:
            return self.otherwise.verdict(view)
        said = lacks(need.missing, title=need.title) if need else self.judge(view)
        if said.severity == "ok" and (need := unmet(self.to_clear, view)):
            said = lacks(need.missing, *said.evidence, title=need.title)
        title = said.title or f"{self.subject} can't be judged."
        return Finding(self.name, said.severity, title, said.evidence, said.advice, said.missing, self.name)
