"""What a comparison takes from one run: its figures by name, how much work it did, what was found, its stacks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.completeness import Gap
from pinprof.analyze.course.results import OWN, Course
from pinprof.analyze.course.table import CourseTable
from pinprof.analyze.course.wall import disturbed_ns, tracing_ns
from pinprof.analyze.lines import NOTHING
from pinprof.analyze.opportunities.results import Opportunity
from pinprof.analyze.ranges.paths import RangePath
from pinprof.analyze.recorder import RECORDER_EVENT
from pinprof.analyze.run import Run
from pinprof.base.columns import Bool, Int64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.compare.frames import function_key
from pinprof.compare.results import Family
from pinprof.compare.stacks import EventStacks, event_stacks
from pinprof.compare.surroundings import named_parts, surroundings_of
from pinprof.compare.units import work_of
from pinprof.data.manifest import Manifest
from pinprof.data.model import Capture, clock_event
from pinprof.data.rates import Rates

ALL = "whole run"
"""The whole run, as a row among the phases."""
UNDISTURBED = "work without preemption"
"""The work less the time in which its thread could have run."""
_RATE = re.compile(r"/(?:freq|period)=\d+/")


@dataclass(frozen=True)
class Figure:
    """One figure of one run."""

    amount: float
    """The whole run's, in `unit`."""
    name: str
    unit: str = "ns"
    exact: bool = True
    """Whether a clock or a counter measured it."""
    samples: int = 0
    noise: float = 0.0
    """Standard error that sampling gives the amount, in `unit`."""
    once: bool = False
    """Whether it belongs to the run, however much work it does: start-up, exit."""
    line: tuple[str, str, int] | None = None
    """File, function and line, where it is the figure of one."""


Figures = Mapping[tuple[Family, str], Figure]
"""(family, what is compared) → figure."""


@dataclass(frozen=True)
class ComparedRun:
    """One recording, as far as a comparison needs it."""

    path: str
    manifest: Manifest
    figures: Figures
    measured: frozenset[Family]
    """Of which families it can have figures: what was not recorded is not nothing."""
    work: Mapping[str, float]
    """Unit of work → how many of it the run did (`units.work_of`)."""
    around: Mapping[str, str]
    """What → how it is around the program (`surroundings.surroundings_of`)."""
    named: Mapping[str, tuple[float, float]]
    """Library → the part of all samples whose innermost function is in it and has a name, and is in it at all."""
    found: tuple[Opportunity, ...]
    stacks: Mapping[str, EventStacks]
    """Event's name without its rate → its stacks."""
    period_ns: float
    """What a sample of the clock stands for; 0 without such samples."""
    rates: Rates | None
    """What memory operations cost on the machine, where that was measured beside this run."""
    tracing_ns: float
    """What tracing CUDA calls took of the work, as far as it was recorded."""
    identity: str
    """The same for two copies of one recording, different for two runs."""
    gaps: tuple[Gap, ...] = ()
    """What of the run is missing."""


def run_of(analysis: Run) -> ComparedRun:
    """One analysed recording."""
    capture, course = analysis.capture, analysis.course
    clock = clock_event(capture.events)
    weights = capture.samples.weight[capture.samples.event == clock] if clock is not None else np.zeros(0)
    figures: dict[tuple[Family, str], Figure] = {}
    for family, key, figure in _figures(analysis):
        figures[family, key] = _added(figures.get((family, key)), figure)
    return ComparedRun(
        path=capture.path,
        manifest=capture.manifest,
        figures=figures,
        measured=_measured(analysis),
        work=work_of(analysis),
        around=surroundings_of(analysis),
        named=named_parts(capture),
        found=analysis.opportunities.found if analysis.opportunities else (),
        stacks=event_stacks(capture, analysis.attribution, event_name),
        period_ns=float(np.median(weights)) if len(weights) else 0.0,
        rates=capture.rates,
        tracing_ns=tracing_ns(capture, course) if course else 0.0,
        identity=identity_of(capture),
        gaps=analysis.gaps,
    )


def _measured(analysis: Run) -> frozenset[Family]:
    families: list[Family] = ["phase", "cause", "line"] if analysis.course else ["cause"] if analysis.main else []
    families += ["range"] if analysis.ranges else []
    families += ["call"] if analysis.activity is not None else []
    families += ["event"] if analysis.main else []
    return frozenset(families)


def event_name(name: str) -> str:
    """An event's name without its rate: `cpu-clock` at 999 Hz is the same event at 100 Hz."""
    return _RATE.sub("", name).rstrip("/")


def _figures(analysis: Run) -> Iterator[tuple[Family, str, Figure]]:
    if analysis.doing is not None:
        yield from _phases(analysis, analysis.doing.course)
        yield from _causes_and_lines(analysis.doing)
    else:
        yield from _sampled_causes(analysis)
    # A parent comes before its children, so each path is one step from a known key, however deep it lies.
    keys: dict[RangePath | None, str] = {None: ""}
    for entry in analysis.ranges:
        place = "\0".join((keys[entry.path.parent], entry.domain, entry.name))
        keys[entry.path] = hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()
        yield "range", keys[entry.path], Figure(entry.wall_ns, str(entry.path))
    if analysis.activity is not None:
        overhead = analysis.capture.activity.call_overhead if analysis.capture.activity else None
        inside = overhead.inside_ns if overhead else 0
        for call in analysis.activity.whole.calls:
            yield "call", call.name, Figure(max(call.time_ns.total - call.count * inside, 0), call.name)
    for event in analysis.events:
        if event.total and not event.event.spans and event.name != RECORDER_EVENT:
            name = event_name(event.name)
            noise = _noise(analysis.capture.samples.weight[analysis.capture.samples.event == _number(analysis, event)])
            counted = event.event.period == 1 and event.unit != "samples"
            title = f"{name}, all threads" if event.unit == "ns" else name
            yield "event", name, Figure(event.total, title, event.unit, counted, event.samples, 0 if counted else noise)


def _number(analysis: Run, event: object) -> int:
    return next(number for number, one in enumerate(analysis.events) if one is event)


def _phases(analysis: Run, course: Course) -> Iterator[tuple[Family, str, Figure]]:
    yield "phase", ALL, Figure(course.end_ns - course.start_ns, ALL, once=True)
    own = [phase for phase in course.phases if phase.name in OWN]
    for phase in course.phases:
        if phase not in own:
            yield "phase", phase.name, Figure(phase.wall_ns, phase.name, once=True)
    if own:
        # What a cure makes once before the loop is a part of what it costs.
        whole = sum(phase.wall_ns for phase in own)
        yield "phase", "work", Figure(whole, "work")
        if any(event.spans for event in analysis.capture.events):
            disturbed = sum(disturbed_ns(course, analysis.attribution, phase.name) for phase in own)
            yield "phase", UNDISTURBED, Figure(max(whole - disturbed, 0), UNDISTURBED)


def _causes_and_lines(doing: CourseTable) -> Iterator[tuple[Family, str, Figure]]:
    """Wall time of the critical thread's work, by cause and by line of the program's own code."""
    wall, rows, sampled = doing.course.wall, np.flatnonzero(doing.in_own()), ~doing.waits()
    for number, part in _parts(doing.leaf[rows], rows):
        name = CATEGORIES[number].name
        yield "cause", name, _sum(wall.ns, part, sampled, name)
    for frame, part in _parts(doing.place[rows], rows):
        if frame == NOTHING:
            continue
        site = doing.sites.site(frame, "")
        line = (site.file, function_key(site.function), site.line) if site.file else None
        key = f"{site.file}\0{site.line}" if site.line else f"{site.file}\0{function_key(site.function)}"
        yield "line", key, _sum(wall.ns, part, sampled, site.place or site.function, line)


def _parts(column: NDArray[np.integer], rows: Int64) -> Iterator[tuple[int, Int64]]:
    """The rows by the value of a column."""
    order = np.argsort(column, kind="stable")
    values, starts = np.unique(column[order], return_index=True)
    yield from zip(values.tolist(), np.split(rows[order], starts[1:]), strict=True)


def _sum(ns: Int64, part: Int64, sampled: Bool, name: str, line: tuple[str, str, int] | None = None) -> Figure:
    noise = _noise(ns[part[sampled[part]]])
    return Figure(float(ns[part].sum()), name, exact=False, samples=len(part), noise=noise, line=line)


def _noise(weight: Int64) -> float:
    """The standard error of a sum of samples that come at random: the root of the sum of their squares."""
    return float(np.sqrt((weight.astype(np.float64) ** 2).sum()))


def _sampled_causes(analysis: Run) -> Iterator[tuple[Family, str, Figure]]:
    """By cause over all threads, where nothing tells one thread's wall time: profiles without times."""
    main = analysis.main
    if main is None:
        return
    of_main = np.flatnonzero(analysis.capture.samples.event == _number(analysis, main))
    weight = analysis.capture.samples.weight
    for number, part in _parts(analysis.attribution.leaf[of_main], of_main):
        name = CATEGORIES[number].name
        amount = float(weight[part].sum())
        samples = (
            len(part) if main.unit == "ns" else max(len(part), int(amount)) if main.unit == "samples" else len(part)
        )
        noise = _noise(weight[part]) if main.unit != "samples" else amount**0.5
        key = f"{event_name(main.name)}\0{name}"
        yield "cause", key, Figure(amount, name, main.unit, exact=False, samples=samples, noise=noise)


def _added(known: Figure | None, more: Figure) -> Figure:
    """Two figures of one name as one: lines of one place, functions whose names differ in what a key leaves out."""
    if known is None:
        return more
    return Figure(
        known.amount + more.amount,
        known.name,
        known.unit,
        known.exact,
        known.samples + more.samples,
        float(np.hypot(known.noise, more.noise)),
        known.once,
        known.line,
    )


def identity_of(capture: Capture) -> str:
    """A digest of when and where everything was recorded; of profiles without times, of their stacks and weights."""
    samples, stacks = capture.samples, capture.stacks
    digest = hashlib.blake2b(digest_size=16)
    columns = [samples.time_ns, samples.tid, samples.weight, samples.stack, capture.ranges.start_ns, stacks.parent]
    if capture.activity is not None:
        columns += [capture.activity.calls.start_ns, capture.activity.gpu_ops.start_ns]
    for column in columns:
        digest.update(np.ascontiguousarray(column).tobytes())
    digest.update("\0".join(stacks.frames.symbol).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
