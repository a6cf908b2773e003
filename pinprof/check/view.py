"""What measures look at: one run, the part of it that a budget names, and the lines that what is found comes from."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.allocations.results import Allocations
from pinprof.analyze.course.copies import WAYS, CopyTable
from pinprof.analyze.course.results import PHASE_NAMES, Course, Phase
from pinprof.analyze.course.table import CourseTable
from pinprof.analyze.intervals import union
from pinprof.analyze.lines import NOTHING
from pinprof.analyze.ranges.membership import Events, owners
from pinprof.analyze.run import Run
from pinprof.analyze.sites import Site, Sites
from pinprof.base.columns import Bool, Float64, Int32, Int64, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.check.budgets import Budget
from pinprof.check.verdicts import JudgedSite
from pinprof.data.activity import Activity
from pinprof.data.gpu_functions import COPIES, FUNCTIONS, MEMORY, is_traced, plain_name

MOST_SITES = 5
_MORE_CALLS = "Record again with a larger --probe-budget."
_NO_CALLS = "Record a run of the program that uses CUDA, with pinprof or Nsight Systems."


class Unassessable(Exception):
    """A run does not tell what a budget limits: one sentence why, one what to do."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy


@dataclass(frozen=True)
class Amount:
    """What one run shows of what a budget limits."""

    value: float
    """In the measure's unit."""
    error: float = 0.0
    """Standard error that sampling gives it; 0 where it was counted."""
    sites: tuple[JudgedSite, ...] = ()
    missing: str = ""
    """Why there may be more of it, as one sentence; empty where the value is all of it."""
    samples: int = 0
    """That a share rests on."""
    note: str = ""
    """How it is known, where that is not plain: `an estimate from 120 samples`."""
    remedy: str = ""
    """What to change, in one sentence; empty where nothing known helps."""


class RunView:
    """One analysed run."""

    def __init__(self, analysis: Run) -> None:
        self.analysis = analysis
        self.capture = analysis.capture

    @property
    def sites(self) -> Sites:
        """Places of stacks."""
        return self.analysis.sites

    @property
    def doing(self) -> CourseTable:
        """The critical thread's time; Unassessable without."""
        if self.analysis.doing is None:
            raise Unassessable("The recording has no time samples.", "Record the program with pinprof.")
        return self.analysis.doing

    @property
    def course(self) -> Course:
        """Phases and the critical thread's time; Unassessable without."""
        return self.doing.course

    @property
    def traced(self) -> Activity:
        """What was traced; Unassessable without CUDA calls: a program that makes none looks like a blind recording."""
        activity = self.capture.activity
        if activity is None or not {"cuda", "cuda calls"} & activity.recorded:
            raise Unassessable(
                "No CUDA calls were traced.", "Record without --no-cuda-calls, and run `pinprof doctor`."
            )
        if not len(activity.calls) and not activity.part:
            raise Unassessable("The recording has no CUDA calls.", _NO_CALLS)
        return activity

    @property
    def calls(self) -> Calls:
        """CUDA calls; Unassessable without any."""
        _, made = self.traced, self.analysis.calls
        assert made is not None
        return made

    def calls_of(self, call: str) -> Bool:
        """Which calls are of a function; Unassessable for one that the recording would not show."""
        made, wanted = self.calls, plain_name(call)
        named = np.array([wanted in (name, name.partition(" (")[0]) for name in made.names], np.bool_)
        if not named.any() and not is_traced(wanted):
            known = sorted({*filter(is_traced, FUNCTIONS), *made.names[:-1]})
            raise Unassessable(f"The recording can't show calls of {call!r}.", nearest(wanted, known, "calls"))
        return np.asarray(named[made.name])

    def missing(self, *kinds: str) -> str:
        """Why calls of these kinds, all without any, may have been more than were recorded. Samples that were lost hide
        no call: calls have records and losses of their own.
        """
        if gap := next((gap.text for gap in self.analysis.gaps if gap.hides and gap.kind != "lost"), ""):
            return gap
        activity = self.capture.activity
        assert activity is not None
        if activity.lost_calls:
            return "Records of calls were lost, so there may have been more."
        untraced = any(activity.untraced(kind) for kind in kinds or ("",))
        return f"Some calls were not traced, to limit the cost. {_MORE_CALLS}" if untraced else ""

    @cached_property
    def copies(self) -> CopyTable:
        """Copies between host and device; Unassessable where none is known."""
        calls, table = self.calls, self.analysis.copies
        if table is None and not len(calls.table):
            table = CopyTable.empty()
        if table is None:
            raise Unassessable(
                "The recording does not say what was copied.", "Record with pinprof, or nsys --trace=cuda."
            )
        return table.take(np.isin(table.direction, [direction for direction, _, _ in WAYS]))

    @property
    def allocations(self) -> Allocations | None:
        """What was allocated, and how long it lived; None of nothing, Unassessable where nothing recorded it."""
        if "memory" not in self.traced.recorded:
            raise Unassessable(
                "The recording has no allocations.", "Record with pinprof, or nsys --cuda-memory-usage=true."
            )
        return self.analysis.allocations

    def chosen(self, budget: Budget) -> Bool:
        """Which ranges a budget names: all of its name or path; Unassessable where there are none."""
        members = self.analysis.members
        named = [path.is_called(budget.range) for path in members.paths]
        if not any(named):
            names = list(dict.fromkeys(path.name for path in members.paths))
            raise Unassessable(f"The run has no range {budget.range!r}.", nearest(budget.range, names, "ranges"))
        return np.array(named, np.bool_)[members.path]

    def outermost(self, budget: Budget) -> list[int]:
        """The paths of the ranges that a budget names, without those inside another of them."""
        self.chosen(budget)
        named = {path for path in self.analysis.members.paths if path.is_called(budget.range)}
        found = []
        for number, path in enumerate(self.analysis.members.paths):
            outer = path.parent
            while outer is not None and outer not in named:
                outer = outer.parent
            if path in named and outer is None:
                found.append(number)
        return found

    def inside(self, budget: Budget, time_ns: Int64, pid: Int32, kernel_thread: Bool | None = None) -> Bool:
        """Which events belong to the range or phase that a budget names; all without one."""
        if budget.range:
            chosen, ranges = self.chosen(budget), self.capture.ranges
            owner, events = owners(ranges, pid), Events(time_ns, pid, kernel_thread)
            result = np.zeros(len(time_ns), np.bool_)
            for process in ascending(owner[chosen]).tolist():
                mine = chosen & (owner == process)
                within = union(ranges.start_ns[mine], ranges.end_ns[mine]).contains(time_ns)
                result |= within & events.counted(process)
            return result
        if budget.phase:
            result = np.zeros(len(time_ns), np.bool_)
            for part in self.phase(budget.phase).intervals:
                result |= (time_ns >= part.start_ns) & (time_ns < part.end_ns)
            return result
        return np.ones(len(time_ns), np.bool_)

    def phase(self, name: str) -> Phase:
        """One phase of the run; Unassessable where it has none of that name."""
        found = next((phase for phase in self.course.phases if phase.name == name), None)
        if found is None:
            a_range = any(name == path.name for path in self.analysis.members.paths)
            remedy = (
                f"{name!r} is a range. Write range = {name!r}." if a_range else nearest(name, PHASE_NAMES, "phases")
            )
            raise Unassessable(f"The run has no phase {name!r}.", remedy)
        return found

    def edge_error(self, budget: Budget, row: Int64, period: float) -> float:
        """Standard error of what samples count in a range or phase: each thread's counter takes one in a period.

        What is left at both ends of every instance is not known: two uniform errors of a period each.
        """
        if period <= 1:
            return 0.0
        threads = len(ascending(self.capture.samples.tid[row])) or 1
        instances = int(self.chosen(budget).sum()) if budget.range else 1
        return period * math.sqrt(threads * instances / 6)

    def site(self, spot: Site, amount: float) -> JudgedSite:
        """A place of the analysis as one of a verdict."""
        return JudgedSite(spot.file, spot.line, spot.function, amount, self.sites.path(spot.file))

    def sites_of_calls(self, call: Int64, amount: Float64) -> tuple[JudgedSite, ...]:
        """Where calls, by their rows, were made from, by the amount that each stands for; rows of -1 are unknown."""
        table = self.calls.table
        if table.site is None:
            return ()
        known = call >= 0
        site, amount = table.site[call[known]], amount[known]
        sums: Float64 = np.bincount(site[site >= 0], amount[site >= 0], len(table.sites)).astype(np.float64)
        return self._largest(sums, lambda number: self.sites.of_caller(table.sites[number], ""))

    def sites_of_samples(self, row: Int64, weight: Int64) -> tuple[JudgedSite, ...]:
        """The program's own lines that samples, by their rows, belong to, by these weights."""
        return self.sites_of_frames(self.sites.frames(self.capture.samples.stack[row]), weight)

    def sites_of_frames(self, frame: Int32, weight: Int64) -> tuple[JudgedSite, ...]:
        """The same, of the frames that are the samples' places."""
        known = frame != NOTHING
        count = len(self.capture.stacks.frames)
        sums: Float64 = np.bincount(frame[known], weight[known], count).astype(np.float64)
        return self._largest(sums, lambda number: self.sites.site(number, ""))

    def _largest(self, sums: Float64, spot: Callable[[int], Site]) -> tuple[JudgedSite, ...]:
        order = np.argsort(-sums, kind="stable")[:MOST_SITES].tolist()
        return tuple(self.site(spot(number), float(sums[number])) for number in order if sums[number] > 0)


def nearest(word: str, known: Iterable[str], what: str) -> str:
    """A sentence that names the nearest of the known words, or all of them where they are few."""
    words: Sequence[str] = list(known)
    near = [one for one in words if len(word) > 2 and word in one] or difflib.get_close_matches(word, words, 1)
    if near:
        return f"Did you mean {' or '.join(map(repr, near[:3]))}?"
    few = ", ".join(words[:8]) + (", …" if len(words) > 8 else "")
    return f"Its {what}: {few}." if words else f"It has no {what}."


ALLOCATIONS, COPYING = (MEMORY,), (COPIES,)
"""Kinds of calls that are given up together, as `RunView.missing` takes them."""
