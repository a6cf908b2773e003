"""The phases of a run: what its critical thread was about, from its stacks, its CUDA calls and the ranges.

Each sample of the thread owns the time up to it (on a processor) or its own length (a wait). The owned pieces of one
label, merged across short gaps, are the intervals of a phase. Start-up is the run of them that begins with the process,
imports are those that come later; context creation is known from calls too; exit is the end of the thread from where
its stacks are mostly of that kind. What is left is the program's own: work, but for what its outline (outline.py) shows
to be done once before: what it builds, and how it warms up.
"""

from __future__ import annotations

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.course.critical import Critical
from pinprof.analyze.course.labels import COMPILE, CONTEXT, EXIT, START_UP, UNKNOWN, WORK
from pinprof.analyze.course.outline import WORK_CALLS, outline_of
from pinprof.analyze.course.pieces import LifePieces, pieces_of
from pinprof.analyze.course.results import PHASE_NAMES, Interval, Phase, PhaseName
from pinprof.analyze.intervals import Intervals, difference, union, union_where
from pinprof.base.columns import Bool, Int64, is_uniform, slices, taken
from pinprof.data.model import Capture, clock_event

GAP_NS = 5_000_000
"""Shorter gaps between pieces of one kind belong to it."""
CONTEXT_GAP_NS = 25_000_000
"""Between cuInit and cuDevicePrimaryCtxRetain frameworks ask for devices and their properties."""
LEAST_NS = 5_000_000
LATE_IMPORT_NS = 10_000_000
PERIODS = 3
"""Sampling periods that an interval has at least: fewer samples may be odd ones."""
MOSTLY = 0.5
"""The least part of an interval that pieces of its kind fill."""
START_GAP_SHARE, START_GAP_NS = 0.1, 100_000_000
"""Between two imports a program may do this much of its own, of the start-up so far and at most."""
COPIES_SHARE = 0.001
"""The most of an import that calls that move memory take: a module that does more is the program's work."""
WHOLE_SHARE = 0.9
"""A range of this part of the run encloses it: it says nothing."""

_CONTEXT_CALLS = (
    "cuInit",
    "cuDevicePrimaryCtxRetain",
    "cuCtxCreate",
    "cudaInitDevice",
    "cuModuleLoad",
    "cuLibraryLoad",
)


def phases_of(capture: Capture, calls: Calls | None, critical: Critical, life: Interval) -> tuple[Phase, ...]:
    """The phases in the order of `PHASE_NAMES`, those without time left out; their intervals cover the life."""
    pieces = pieces_of(capture, critical)
    least = max(LEAST_NS, PERIODS * _period_ns(capture))
    whole = union(np.array([life.start_ns]), np.array([life.end_ns]))
    ending = _exit_from(capture, critical, pieces, life)
    before = Interval(life.start_ns, ending)
    context = _context(calls, critical, pieces, least)
    # What nobody sampled at the start was told to be left out: a program's warm-up, for example.
    sampled = Interval(int(pieces.start[0]) if len(pieces.start) else life.end_ns, life.end_ns)
    busy = difference(_inside(_work_times(capture, calls, critical, life), sampled), context)
    context = _inside(_bridged(context, busy), before)
    compiles = pieces.label == COMPILE
    compiling = _merged(pieces.start[compiles], pieces.end[compiles], least)
    start_up, imports = _start_up(pieces, busy, life, ending, max(least, LATE_IMPORT_NS))
    start_up = difference(_inside(start_up, before), context)
    imports = difference(difference(_inside(imports, before), context), start_up)
    loading = _both(start_up, imports)
    # A moment between loading libraries and the context is part of both, not of the work.
    between = difference(_inside(whole, before), _both(loading, context))
    worked = pieces.label == WORK
    own = union_where(worked, pieces.start, pieces.end).covered(between.start, between.end)
    short = (own < GAP_NS) & (between.end - between.start < START_GAP_NS) & np.isin(between.end, context.start)
    short &= (between.end - between.start < GAP_NS) | (busy.covered(between.start, between.end) == 0)
    context = _both(context, Intervals(between.start[short], between.end[short]))
    exits = _inside(whole, Interval(ending, life.end_ns))
    compiling = difference(_inside(compiling, before), _both(loading, context))
    work = difference(_inside(whole, before), _both(_both(loading, context), compiling))
    begun = outline_of(capture, calls, critical, pieces, work)
    build, warm_up = (
        part if part.total >= LEAST_NS else Intervals(part.start[:0], part.end[:0])
        for part in (
            _inside(work, Interval(life.start_ns, max(begun.warms_up_ns, life.start_ns))),
            _inside(work, Interval(begun.warms_up_ns, begun.works_ns)),
        )
    )
    parts: dict[PhaseName, Intervals] = {
        "start-up": start_up, "imports": imports, "context": context, "build": build, "compile": compiling,
        "warm-up": warm_up, "work": difference(work, _both(build, warm_up)), "exit": exits,
    }  # fmt: skip
    return tuple(
        Phase(name, tuple(Interval(*pair) for pair in zip(part.start.tolist(), part.end.tolist(), strict=True)))
        for name in PHASE_NAMES
        if len(part := parts[name])
    )


def _period_ns(capture: Capture) -> int:
    """A typical time between two samples of a thread that runs."""
    weight = taken(capture.samples.weight, capture.samples.event == clock_event(capture.events))
    if is_uniform(weight):
        return int(weight[0]) if len(weight) else 0
    return int(np.median(np.array(weight), overwrite_input=True))


def _context(calls: Calls | None, critical: Critical, pieces: LifePieces, least: int) -> Intervals:
    """Where contexts came to be: calls that did nothing else, and stacks."""
    mine = pieces.label == CONTEXT
    seen = _merged(pieces.start[mine], pieces.end[mine], least)
    if calls is None:
        return seen
    table = calls.table
    creates = np.array([name.startswith(_CONTEXT_CALLS) for name in calls.names], np.bool_)[calls.name]
    own = (table.pid == critical.pid) & (table.tid == critical.tid)
    long = own & creates & (calls.duration_ns >= least)
    begin, end = table.start_ns[long], table.end_ns[long]
    for row in np.flatnonzero(own & calls.initial & ~long).tolist():
        first, last = int(table.start_ns[row]), int(table.end_ns[row]) - calls.typical_ns.get(row, 0)
        # Stacks tell the context from what the call did besides. Without any, all but a usual call's time counts.
        if not int(seen.covered(np.array([first]), np.array([last]))[0]):
            begin, end = np.append(begin, first), np.append(end, last)
    return union(np.append(seen.start, begin), np.append(seen.end, end))


def _exit_from(capture: Capture, critical: Critical, pieces: LifePieces, life: Interval) -> int:
    """The instant from which on most of what the thread did was ending; the end of its life where nothing was."""
    gain = _gain(pieces)
    if gain is not None:
        return int(pieces.start[gain])
    ranges = capture.ranges
    marked = (ranges.pid == critical.pid) & (ranges.tid == critical.tid) & ranges.closed & (ranges.end_ns < life.end_ns)
    last = int(ranges.end_ns[marked].max()) if marked.any() else life.end_ns
    # A program that was told to be recorded within its ranges waits for the recorder after them.
    if len(pieces) and pieces.waits[-1] and pieces.start[-1] >= last:
        return int(pieces.start[-1])
    return life.end_ns


def _gain(pieces: LifePieces) -> int | None:
    """The piece from which on most is ending, of equally good ones the last; None where there is none."""
    best, place, after = 0, None, 0
    for part in reversed([*slices(len(pieces))]):
        length, label = (pieces.end[part] - pieces.start[part])[::-1], pieces.label[part][::-1]
        sums = after + np.cumsum(np.where(label == EXIT, length, np.where(label == UNKNOWN, 0, -length)))
        if sums.max() > best:
            best, place = int(sums.max()), part.stop - 1 - int(sums.argmax())
        after = int(sums[-1])
        pieces.unload()
    return place


def _start_up(
    pieces: LifePieces, busy: Intervals, life: Interval, ending: int, least: int
) -> tuple[Intervals, Intervals]:
    """The start of the process, with what it does between imports; and later imports that are long."""
    mine = (pieces.label == START_UP) & (pieces.end <= ending)
    pieces.unload()
    blocks = _joined(pieces.start[mine], pieces.end[mine])
    worked = pieces.label == WORK
    own = union_where(worked, pieces.start, pieces.end)
    first = int(pieces.start[0]) if len(pieces.start) else life.end_ns
    reach = max(life.start_ns, min(first, ending))
    work = busy.start[busy.end > reach]
    stop = int(work[0]) if len(work) else life.end_ns
    later = 0
    for begin, end in zip(blocks.start.tolist(), blocks.end.tolist(), strict=True):
        gap = int(own.covered(np.array([reach]), np.array([begin]))[0])
        allowed = max(GAP_NS, min(START_GAP_NS, START_GAP_SHARE * (reach - life.start_ns)))
        if gap > allowed or begin >= stop:
            break
        reach, later = max(reach, min(end, stop)), later + 1
        if end > stop:
            break
    late = np.arange(len(blocks)) >= later
    length = blocks.end - blocks.start
    # A copy before or after an import lies within a gap; one whole program may lie in an import.
    late &= (length >= least) & (busy.covered(blocks.start, blocks.end) <= COPIES_SHARE * length)
    late &= _filled(blocks, pieces.start[mine], pieces.end[mine])
    # What a program does for a moment before its imports does not make them late ones.
    at_once = late & (blocks.start < stop)
    at_once &= own.covered(np.full(len(blocks), life.start_ns), blocks.start) <= START_GAP_NS
    late &= ~at_once
    start = union(np.append(blocks.start[at_once], life.start_ns), np.append(blocks.end[at_once], reach))
    return difference(start, busy), difference(Intervals(blocks.start[late], blocks.end[late]), busy)


def _work_times(capture: Capture, calls: Calls | None, critical: Critical, life: Interval) -> Intervals:
    """Where the program certainly works: its calls that move or pin memory, or start kernels; and its ranges."""
    ranges = capture.ranges
    mine = (ranges.pid == critical.pid) & (ranges.depth == 0) & ranges.closed & (ranges.end_ns < life.end_ns)
    mine &= ranges.end_ns - ranges.start_ns < WHOLE_SHARE * life.duration_ns
    begin, end = ranges.start_ns[mine], ranges.end_ns[mine]
    return union(begin, end) if calls is None else _with_calls(union(begin, end), calls, critical)


def _with_calls(times: Intervals, calls: Calls, critical: Critical) -> Intervals:
    own = (calls.table.pid == critical.pid) & (calls.table.tid == critical.tid) & ~calls.initial
    own &= calls.is_for(*WORK_CALLS)
    return union(np.append(times.start, calls.table.start_ns[own]), np.append(times.end, calls.table.end_ns[own]))


def _joined(start: Int64, end: Int64) -> Intervals:
    """Pieces in ascending order, merged across short gaps."""
    merged = union(start, end + GAP_NS)
    return Intervals(merged.start, merged.end - GAP_NS)


def _filled(blocks: Intervals, start: Int64, end: Int64) -> Bool:
    """Per block, whether its pieces fill most of it."""
    inside = union(start, end).covered(blocks.start, blocks.end)
    return np.asarray(inside >= MOSTLY * (blocks.end - blocks.start))


def _merged(start: Int64, end: Int64, least: int) -> Intervals:
    """Pieces merged across short gaps; what is short, or mostly gap, is left out."""
    blocks = _joined(start, end)
    kept = (blocks.end - blocks.start >= least) & _filled(blocks, start, end)
    return Intervals(blocks.start[kept], blocks.end[kept])


def _both(left: Intervals, right: Intervals) -> Intervals:
    return union(np.append(left.start, right.start), np.append(left.end, right.end))


def _bridged(context: Intervals, busy: Intervals) -> Intervals:
    """The intervals with the gaps between them in which the program did no work of its own."""
    gaps = context.gaps()
    short = (gaps.end - gaps.start <= CONTEXT_GAP_NS) & (busy.covered(gaps.start, gaps.end) == 0)
    return _both(context, Intervals(gaps.start[short], gaps.end[short]))


def _inside(times: Intervals, life: Interval) -> Intervals:
    return union(np.clip(times.start, life.start_ns, life.end_ns), np.clip(times.end, life.start_ns, life.end_ns))
