"""A run, explained: every fact is computed when it is first asked for, once, so order follows from use."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import cached_property

import numpy as np

from pinprof.analyze.activity.activity import analyze_activity
from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.activity.results import ActivityAnalysis
from pinprof.analyze.allocations.blocks import LineBlocks, blocks_of
from pinprof.analyze.allocations.lifetimes import allocations_of
from pinprof.analyze.allocations.results import Allocations, PinnedMemory
from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.blame.results import BlameResult
from pinprof.analyze.blame.table import blame_of
from pinprof.analyze.completeness import Gap, gaps_of
from pinprof.analyze.costs.run_rates import run_rates
from pinprof.analyze.course.copies import CopyTable, copies_of
from pinprof.analyze.course.course import Around, course_of
from pinprof.analyze.course.results import OWN, Course
from pinprof.analyze.course.table import CourseTable
from pinprof.analyze.headline import headline, leading
from pinprof.analyze.ledger.engine import ledger_of
from pinprof.analyze.ledger.results import Ledger
from pinprof.analyze.lines import EventLines, lines_of_all, python_lines
from pinprof.analyze.memory import MemoryResult, summarise_memory
from pinprof.analyze.opportunities.results import Opportunities
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.opportunities.search import search
from pinprof.analyze.ranges.membership import Membership, membership
from pinprof.analyze.ranges.spans import cut, every
from pinprof.analyze.ranges.summary import summarise
from pinprof.analyze.restriction import Attributed, during
from pinprof.analyze.results import EventResult, Finding, RangeResult, main_event
from pinprof.analyze.rules.rule import View
from pinprof.analyze.rules.rules import failed_calls, findings
from pinprof.analyze.selection import Part
from pinprof.analyze.sites import Sites
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Capture, clock_event
from pinprof.data.rate_book import RateBook

OWN_TIME = f"the program's own time ({', '.join(OWN)})"


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A recording, or a part of it, and what is known of it."""

    attributed: Attributed
    """What was recorded, every frame of it, and the cause of each sample."""
    part: Part | None = None
    """Which part of the recording this is; None: all of it."""
    around: Around | None = None
    """What the part was taken from."""
    uncut: Attributed | None = None
    """The same with each wait in one piece, as it was recorded; None of a part."""
    searches: bool = True
    """Whether the run's course, its ledger and opportunities are of interest; they are None without."""

    @property
    def capture(self) -> Capture:
        """What was recorded."""
        return self.attributed.capture

    @property
    def attribution(self) -> Attribution:
        """The cause of each sample."""
        return self.attributed.attribution

    @property
    def calls(self) -> Calls | None:
        """CUDA calls, prepared for questions; None where nothing traced any activity."""
        return self.attributed.calls

    @cached_property
    def members(self) -> Membership:
        """What belongs to the ranges; its paths are those of `ranges`, in the same order."""
        return membership(self.capture)

    @cached_property
    def in_pieces(self) -> Run:
        """The same with every wait cut by all ranges that may count it: for what knows one range for each sample."""
        capture, attribution = cut(self.capture, self.attribution, every(self.capture))
        if capture is self.capture:
            return self
        return replace(self, attributed=self.attributed.with_samples(capture, attribution))

    @cached_property
    def sites(self) -> Sites:
        """The places of stacks in the program's own code."""
        return Sites(self.capture)

    @cached_property
    def _weights(self) -> tuple[tuple[EventResult, ...], tuple[RangeResult, ...]]:
        return summarise(self.capture, self.attribution, self.members)

    @cached_property
    def events(self) -> tuple[EventResult, ...]:
        """One per event of the capture, in its order."""
        return self._weights[0]

    @cached_property
    def ranges(self) -> tuple[RangeResult, ...]:
        """In the order of their first start."""
        return self._weights[1]

    @cached_property
    def activity(self) -> ActivityAnalysis | None:
        """CUDA calls, copies, kernels and managed memory; None when nothing traced them."""
        if self.calls is None:
            return None
        return analyze_activity(self.capture, self.calls, self.allocations, self.attribution, self.members)

    @cached_property
    def memory(self) -> MemoryResult | None:
        """Memory over time; None when nothing recorded it."""
        return summarise_memory(self.capture)

    @cached_property
    def python(self) -> tuple[EventLines, ...]:
        """Weight by line of Python, of each event that has some."""
        return python_lines(self.capture, self.attribution)

    @cached_property
    def lines(self) -> tuple[EventLines, ...]:
        """Weight by line of any language."""
        return lines_of_all(self.capture, self.attribution, self.python)

    @cached_property
    def view(self) -> View:
        """What was recorded, as every claim asks for it."""
        return View.of(self.capture, self.events, self.ranges, self.activity, pinned=self._pinned)

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """What of the run was not recorded: said above every answer."""
        return gaps_of(self.capture)

    @cached_property
    def own(self) -> View:
        """The same of the time in which the program runs its own code, of which opportunities are a part; of all where
        no phases are known, or nothing was sampled in these.
        """
        times = self.course.own if self.course is not None else None
        if times is None or self.part is not None:
            return self.view
        own = during(self.attributed, times)
        if len(own.capture.samples) in (0, len(self.capture.samples)):
            return self.view
        weights = summarise(own.capture, own.attribution, membership(own.capture))
        return View.of(own.capture, *weights, self.activity, OWN_TIME, self._pinned)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The verdict of every rule."""
        return findings(self.view, self.own)

    @cached_property
    def headline(self) -> str:
        """Where the time went, in one sentence; else why the recording does not show it."""
        return headline(self.view)

    @cached_property
    def leading(self) -> tuple[str, ...]:
        """Sentences that come before any answer: which part this is, a CUDA call failed, a link is full."""
        part = (self.part.sentence(),) if self.part else ()
        failed = failed_calls(self.view)
        titles = (failed.title,) if failed.severity == "critical" else ()
        full = leading(self.view)
        return (*part, *titles, *((full,) if full and full != self.headline else ()))

    @cached_property
    def course(self) -> Course | None:
        """Phases and the critical thread's time; None where nothing sampled time."""
        if not self.searches or clock_event(self.capture.events) is None or not len(self.capture.samples):
            return None
        return course_of(self.capture, self.attribution, self.calls, self.around)

    @cached_property
    def doing(self) -> CourseTable | None:
        """The critical thread's time by cause, place, phase, range and call; None without a course."""
        if self.course is None:
            return None
        return CourseTable(self.capture, self.attribution, self.course, self.members, self.sites)

    @cached_property
    def copies(self) -> CopyTable | None:
        """CUDA's copies; None where nothing recorded any."""
        return copies_of(self.capture, self.calls) if self.calls is not None else None

    @cached_property
    def allocations(self) -> Allocations | None:
        """What was allocated, and how long it lived; None where no allocation and no free was recorded."""
        return allocations_of(self.capture, self.calls) if self.calls is not None else None

    @cached_property
    def blocks(self) -> tuple[LineBlocks, ...]:
        """Large memory of the host by the line that makes it; empty where nothing recorded it."""
        return blocks_of(self.capture.host_memory)

    @cached_property
    def ledger(self) -> Ledger | None:
        """Which memory of CUDA lives when; None where no allocation was recorded, or of none how much it was."""
        if self.calls is None or self.allocations is None or not self.searches:
            return None
        if 0 < len(self.allocations.table) == self.allocations.unsized:
            return None
        steps = self.course.steps if self.course else None
        starts = np.array(steps.starts_ns if steps else (), np.int64)
        return ledger_of(self.capture, self.calls, self.allocations, self.copies, starts)

    @property
    def _pinned(self) -> PinnedMemory | None:
        return self.ledger.pinned if self.ledger else None

    @cached_property
    def blame(self) -> BlameResult | None:
        """Who waits for whom; None where no waits were recorded."""
        if self.course is None:
            return None
        waits = self.uncut or self.attributed
        return blame_of(waits.capture, waits.attribution, self.sites)

    @cached_property
    def rates(self) -> RateBook:
        """What memory operations cost on the machine, and in this run."""
        overhead = self.capture.activity.call_overhead if self.capture.activity else None
        return RateBook.of(self.capture, run_rates(self.capture, self.events, overhead.inside_ns if overhead else 0))

    @property
    def guessed(self) -> Set[str]:
        """The measures that the opportunities rest on and that nobody has taken on the machine."""
        return self.rates.guessed if self.opportunities else frozenset()

    def about(self, capture: Capture) -> Run:
        """The same of a capture whose rates and manifest alone differ."""
        return replace(self, attributed=replace(self.attributed, capture=capture))

    @cached_property
    def opportunities(self) -> Opportunities | None:
        """What to change; None without a course."""
        if self.doing is None:
            return None
        capture, attribution, members = self.capture, self.attribution, self.members
        return search(
            Scene(
                capture, attribution, self.doing.course, members, self.sites,
                self.calls, self.copies, self.allocations, self.ledger, self.rates, self.blocks, self.blame,
                self.view,
            )
        )  # fmt: skip

    @property
    def answer(self) -> str:
        """What to change where that was looked for, else where the time went, in a sentence; after what leads."""
        answer = (self.opportunities.headline if self.opportunities else "") or self.headline
        return " ".join([*self.leading, answer])

    @property
    def main(self) -> EventResult | None:
        """The event that tells where time went: the first in ns, else the first with samples, else None."""
        return main_event(self.events)
