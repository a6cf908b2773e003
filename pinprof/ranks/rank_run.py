"""What one rank's recording gives to the launch: its thread's time as columns, its waits for others, its collectives.

A launch holds one of these for each rank, so none keeps its capture: a few numbers for each sample of one thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from pinprof.analyze.activity.sampled import COLLECTIVE, GpuSample
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.completeness import Gap
from pinprof.analyze.course.critical import AWAITS
from pinprof.analyze.course.results import Course, Interval, Steps
from pinprof.analyze.course.table import CourseTable
from pinprof.analyze.intervals import Intervals, union
from pinprof.analyze.lines import NOTHING
from pinprof.analyze.memory import MemoryResult
from pinprof.analyze.opportunities.results import Opportunity
from pinprof.analyze.run import Run
from pinprof.base.columns import Float64, Int32, Int64, Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity_kinds import OpKind
from pinprof.data.manifest import Manifest
from pinprof.data.model import Capture, clock_event
from pinprof.ranks.calls import NEVER, RankCalls, busy, outside, rank_calls, woken
from pinprof.ranks.spent import NO_PLACE, ProgramPlace, Spent
from pinprof.ranks.waits import RankWaits, waits_for_others

SPINS = re.compile(
    r"P?MPI_(Barrier|All\w+|Neighbor_\w+|Bcast|Reduce\w*|Gatherv?|Scatterv?|Scan|Exscan|Recv|Sendrecv\w*|Wait\w*|Probe)(_c)?"
    r"|ompi_coll_\w+|opal_progress|MPIDI_\w*[Pp]rogress\w*|MPID_Progress\w*"
    r"|gloo::(barrier|allreduce|allgather|alltoall|broadcast|gather|reduce|scatter)\b.*"
)
"""Functions in which a thread waits for other ranks though it stays on its processor: MPI looks repeatedly."""
_LONGEST_NAME = 512


@dataclass(frozen=True)
class RangeSpans(Table):
    """Instances of the ranges of the critical thread, ordered by start."""

    start_ns: Int64
    end_ns: Int64
    name: Int32
    """Index into `RankRun.range_names`."""
    depth: Int32


@dataclass(frozen=True)
class Savings(Table):
    """When a cure saves a thread's time."""

    start_ns: Int64
    end_ns: Int64
    ns: Float64
    """How much of [start, end)."""


@dataclass(frozen=True)
class RankRun:
    """One rank, as far as the launch needs it. Times are on the clock of its own recording."""

    number: int
    path: str
    manifest: Manifest
    utc_offset_ns: int | None
    start_ns: int
    end_ns: int
    phases: Mapping[str, tuple[Interval, ...]]
    places: tuple[ProgramPlace, ...]
    spent: Spent
    waits: RankWaits
    """For others than its own process."""
    collectives: RankWaits
    """Kernels in which its GPU meets others; `place` is the name's number in `collective_names`."""
    collective_names: tuple[str, ...]
    computing: Intervals
    """When its GPU worked at anything else."""
    uses_nccl: bool
    spans: RangeSpans
    range_names: tuple[str, ...]
    steps: Steps | None
    """What repeats through its work."""
    memory: MemoryResult | None
    machine: Mapping[str, tuple[int, int, int]]
    """Counter of the machine → (first, least, most)."""
    found: tuple[Opportunity, ...] = ()
    savings: tuple[Savings, ...] = ()
    """When each of these saves time."""
    answer: str = ""
    sampled: tuple[GpuSample, ...] = ()
    """What windows say of its GPUs, where their work was recorded only in these: no meeting is seen then."""
    sampled_waits: bool = True
    """Whether waits were recorded."""
    gaps: tuple[Gap, ...] = ()
    """What of the run is missing."""
    calls: RankCalls = field(default_factory=RankCalls.empty)
    """Those in which it meets others, where the agent has recorded them."""
    busy: Intervals = NEVER
    """When its thread does not wait."""
    blocking: Intervals = NEVER
    """When its thread is in a call in which ranks meet."""

    @property
    def work_start_ns(self) -> int:
        """When it begins to work."""
        work = self.phases.get("work", ())
        return work[0].start_ns if work else self.start_ns

    def phase_ns(self, name: str) -> int:
        """How long a phase took."""
        return sum(part.duration_ns for part in self.phases.get(name, ()))

    def phase_at(self, time_ns: int) -> str:
        """The phase at an instant; empty outside the run."""
        for name, parts in self.phases.items():
            if any(part.start_ns <= time_ns < part.end_ns for part in parts):
                return name
        return ""


def rank_run(analysis: Run, number: int) -> RankRun | None:
    """One analysed rank; None where nothing tells its thread's time."""
    doing = analysis.doing
    if doing is None:
        return None
    capture, course = doing.capture, doing.course
    places, spent, tid = _spent(doing)
    spans, range_names = _spans(capture, course)
    found = analysis.opportunities.found if analysis.opportunities else ()
    savings = tuple(_savings(doing, one) for one in found)
    met = capture.meetings and woken(capture.meetings, capture, course.pid, course.tid)
    calls, blocking, meeting, places = rank_calls(met, course.pid, course.tid, places)
    caller = np.isin(tid, met.tid[met.pid == course.pid] if met else ())
    spent = replace(spent, outside=outside(spent, caller, blocking, meeting))
    collectives, names, computing = _gpu(capture, course)
    memory = capture.memory
    return RankRun(
        number=number,
        path=capture.path,
        manifest=capture.manifest,
        utc_offset_ns=capture.utc_offset_ns,
        start_ns=course.start_ns,
        end_ns=course.end_ns,
        phases={phase.name: phase.intervals for phase in course.phases},
        places=places,
        spent=spent,
        waits=apart(waits_for_others(spent, _runnable(spent)), union(collectives.start_ns, collectives.end_ns)),
        collectives=collectives,
        collective_names=names,
        computing=computing,
        uses_nccl=any("libnccl" in dso.name for dso in capture.stacks.frames.dsos),
        spans=spans,
        range_names=range_names,
        steps=course.steps,
        memory=analysis.memory,
        machine={
            name: (int(values[0]), int(values.min()), int(values.max()))
            for name, values in (memory.machine if memory else {}).items()
            if len(values)
        },
        found=found,
        savings=savings,
        answer=analysis.answer,
        sampled=analysis.activity.sampled if analysis.activity else (),
        sampled_waits=any(event.spans for event in capture.events),
        gaps=analysis.gaps,
        calls=calls,
        busy=busy(spent),
        blocking=blocking,
    )


def _spent(doing: CourseTable) -> tuple[tuple[ProgramPlace, ...], Spent, Int32]:
    """(places, the critical thread's time, whose sample each row is)."""
    capture, wall = doing.capture, doing.course.wall
    samples = capture.samples
    place, places = _places(doing)
    clock = clock_event(capture.events)
    on_processor = (wall.waiting < 0) & (samples.event[wall.sample] == clock)
    start = np.where(on_processor, wall.time_ns - wall.ns, wall.time_ns)
    end = np.where(on_processor, wall.time_ns, wall.time_ns + wall.ns)
    own = (wall.waiting >= 0) & (wall.waiting == wall.sample)
    spent = Spent(
        start_ns=start,
        end_ns=end,
        ns=wall.ns,
        cause=doing.leaf.astype(np.int16),
        place=place,
        outside=(own & AWAITS[doing.leaf]) | (((wall.waiting < 0) | own) & doing.has(SPINS)),
    )
    order = np.argsort(start, kind="stable")
    return places, spent.take(order), samples.tid[wall.sample][order]


def _savings(doing: CourseTable, one: Opportunity) -> Savings:
    """When an opportunity saves time: in its samples as far as these are known, else evenly through its phase."""
    wall = doing.course.wall
    rows = np.flatnonzero(np.isin(doing.node, list(one.samples)) & (wall.ns > 0))
    if not len(rows):
        parts = next((phase.intervals for phase in doing.course.phases if phase.name == one.phase), ())
        start = np.array([part.start_ns for part in parts], np.int64)
        end = np.array([part.end_ns for part in parts], np.int64)
        length = end - start
    else:
        start, length = wall.time_ns[rows], wall.ns[rows]
        end = start + length
    share = one.saving.likely_ns / max(int(length.sum()), 1)
    return Savings(start, end, length.astype(np.float64) * share)


def _places(doing: CourseTable) -> tuple[Int32, tuple[ProgramPlace, ...]]:
    """Per wall row its place, and the places, each once."""
    frames, which = np.unique(doing.place, return_inverse=True)
    numbers: dict[ProgramPlace, int] = {}
    of = np.full(len(frames), NO_PLACE, np.int32)
    for row, frame in enumerate(frames.tolist()):
        if frame == NOTHING:
            continue
        site = doing.sites.site(frame, "")
        if text := (site.place or site.function)[:_LONGEST_NAME]:
            of[row] = numbers.setdefault(
                ProgramPlace(text, site.file, site.function[:_LONGEST_NAME], site.line), len(numbers)
            )
    return of[which.reshape(-1)], tuple(numbers)


def _runnable(spent: Spent) -> Intervals:
    """When the thread could have run while the processor ran something else."""
    rows = spent.cause == _LEAF_RUNNABLE
    return union(spent.start_ns[rows], spent.end_ns[rows])


_LEAF_RUNNABLE = next(number for number, row in enumerate(CATEGORIES) if row.name == "wait.runnable")


def _spans(capture: Capture, course: Course) -> tuple[RangeSpans, tuple[str, ...]]:
    ranges = capture.ranges
    rows = np.flatnonzero((ranges.pid == course.pid) & (ranges.tid == course.tid) & ranges.closed)
    if not len(rows):
        rows = np.flatnonzero((ranges.pid == course.pid) & ranges.closed)
    numbers: dict[str, int] = {}
    name = np.array([numbers.setdefault(ranges.name[row][:_LONGEST_NAME], len(numbers)) for row in rows.tolist()])
    spans = RangeSpans(ranges.start_ns[rows], ranges.end_ns[rows], name.astype(np.int32), ranges.depth[rows])
    return spans.take(np.argsort(spans.start_ns, kind="stable")), tuple(numbers)


def _gpu(capture: Capture, course: Course) -> tuple[RankWaits, tuple[str, ...], Intervals]:
    """The collectives of the process's GPUs, and when these did anything else."""
    if capture.activity is None or not len(capture.activity.gpu_ops):
        return RankWaits.empty(), (), NEVER
    ops = capture.activity.gpu_ops
    meets = np.array([COLLECTIVE.search(name[:_LONGEST_NAME]) is not None for name in ops.names], np.bool_)
    mine = ops.pid == course.pid
    kernels = mine & (ops.kind == OpKind.KERNEL)
    collective = kernels & (ops.name >= 0) & np.append(meets, False)[ops.name]
    work = mine & ~collective & (ops.kind != OpKind.SYNC) & (ops.kind != OpKind.GRAPH)
    rows = np.flatnonzero(collective)
    rows = rows[np.argsort(ops.start_ns[rows], kind="stable")]
    found = RankWaits(ops.start_ns[rows], ops.end_ns[rows], ops.name[rows].astype(np.int32))
    return found, ops.names if len(rows) else (), union(ops.start_ns[work], ops.end_ns[work])


def apart(waits: RankWaits, meetings: Intervals) -> RankWaits:
    """Waits that are not for the most part in meetings that are known better."""
    inside = meetings.covered(waits.start_ns, waits.end_ns)
    return waits.take(2 * inside < waits.end_ns - waits.start_ns)


def moved(run: RankRun, offset_ns: int) -> RankRun:
    """The same on a clock that shows this much more."""
    if not offset_ns:
        return run
    return replace(
        run,
        start_ns=run.start_ns + offset_ns,
        end_ns=run.end_ns + offset_ns,
        phases={
            name: tuple(Interval(part.start_ns + offset_ns, part.end_ns + offset_ns) for part in parts)
            for name, parts in run.phases.items()
        },
        spent=run.spent.moved(offset_ns),
        waits=run.waits.moved(offset_ns),
        collectives=run.collectives.moved(offset_ns),
        computing=Intervals(run.computing.start + offset_ns, run.computing.end + offset_ns),
        spans=run.spans.moved(offset_ns),
        steps=run.steps and run.steps.moved(offset_ns),
        calls=run.calls.moved(offset_ns),
        savings=tuple(one.moved(offset_ns) for one in run.savings),
        busy=Intervals(run.busy.start + offset_ns, run.busy.end + offset_ns),
        blocking=Intervals(run.blocking.start + offset_ns, run.blocking.end + offset_ns),
    )
