"""Run → Timeline: ranges, marks, waits and CUDA calls as lanes of their threads, causes as densities.

Every lane is thinned (`thinning`) and says how much it held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pinprof.analyze import Run
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.extent import is_timed, timed_span
from pinprof.analyze.groups import group
from pinprof.base.columns import ascending, put_together, slices, taken
from pinprof.data.gpu_functions import purpose_of
from pinprof.data.model import Capture, Int32
from pinprof.report.flame_tables import Numbered
from pinprof.report.moments import Moments
from pinprof.report.rows import pools, range_threads, thread_names, threads_in
from pinprof.report.sections.memory import Memory
from pinprof.report.sections.timeline.gpu_lanes import allocations, fault_lanes, gpu_lanes, window_lanes
from pinprof.report.sections.timeline.model import INTERVALS, Density, HeldUp, Lane, MemoryUse, Timeline
from pinprof.report.styles import MARK, PHASES, PURPOSES, RANGE, Style
from pinprof.report.thinning import MERGED, Spans, thin
from pinprof.report.threads import thread_numbers

THREADS = 12
"""Threads with lanes of their own: those with most to show."""
POOLS = 8
"""Pools with a row of their own."""
QUIET = 0.05
"""Threads without ranges or calls and with less of the samples than this share one lane."""
ARROWS = 8
"""The longest waits whose threads have lanes of their own."""
DRAWN_LEVELS = 24
"""Ranges inside each other that are drawn one below the other; the JSON has those inside these, too."""
STEPS = 1_200
"""For a density of events other than time."""
CELLS = 150_000
"""Steps of time and their causes, of all densities together."""

Threads = dict[tuple[int, int], str]
"""(pid, tid) → heading of the threads with lanes of their own."""


def timeline(analysis: Run) -> Timeline | None:
    """What happened when; None where nothing has a time."""
    capture = analysis.capture
    span = timed_span(capture)
    if span is None:
        return None
    (start, end), timed = span, is_timed(capture) and len(capture.samples) > 0
    names, styles = Numbered[str](), Numbered[Style]()
    chosen, pooled, left_out = _threads(analysis)
    numbers = thread_numbers(capture)
    main = analysis.main
    finest = max(min(_finest_ns(analysis, end - start), end - start), (end - start) >> 30, 1)
    bin_ns, densities = _densities(analysis, start, finest, chosen, pooled) if timed and main else (finest, ())
    lanes = [
        *_phase_lane(analysis, start, end, names, styles),
        *_range_lanes(analysis, start, names, styles, chosen),
        *_mark_lanes(capture, start, names, styles, chosen),
        *_wait_lanes(analysis, start, end, names, styles, chosen),
        *_call_lanes(analysis, start, names, styles, chosen),
    ]
    if capture.activity is not None:
        lanes += gpu_lanes(capture.activity.gpu_ops, start, names, styles)
        lanes += window_lanes(capture.activity.windows, start, names, styles)
        lanes += gpu_lanes(capture.activity.window_ops, start, names, styles)
        lanes += fault_lanes(capture.activity.faults, start, styles)
    memory = (*allocations(analysis.allocations, start, styles), *_held(analysis, start, styles))
    drawn, used = _with_names_in_use(_bounded([lane for lane in lanes if lane.total]), tuple(names.index))
    return Timeline(
        start_ns=start,
        span_ns=end - start,
        bin_ns=bin_ns,
        finest=bin_ns == finest,
        before_ns=_before_ns(analysis, start),
        event=main.event.name if timed and main else "",
        unit=main.event.unit if timed and main else "",
        samples_start_ns=int(capture.samples.time_ns[0]) - start if timed else 0,
        densities=densities,
        lanes=drawn,
        memory=memory,
        arrows=tuple(_arrows(analysis, start, chosen)),
        styles=tuple(styles.index),
        names=used,
        left_out=left_out,
        too_deep=int((capture.ranges.depth >= DRAWN_LEVELS).sum()),
        threads={
            **{heading: (numbers[pair],) for pair, heading in chosen.items() if pair in numbers},
            **{heading: _numbers(pairs, numbers) for heading, pairs in pooled.items()},
        },
    )


def _bounded(lanes: list[Lane]) -> list[Lane]:
    """The lanes with at most about `INTERVALS` together: those with most become the fewer."""
    limit = INTERVALS
    for number, size in enumerate(sorted(len(lane.spans) for lane in lanes)):
        if size >= (share := limit // (len(lanes) - number)):
            return [replace(lane, spans=thin(lane.spans, share).spans) for lane in lanes]
        limit -= size
    return lanes


def _before_ns(analysis: Run, start: int) -> int | None:
    """How long after the recording's start the timeline begins; None where a part of it does not say."""
    part = analysis.part
    if part is None:
        return 0
    if part.asked.after_ns is not None:
        return start - part.window.start_ns + part.asked.after_ns
    return start - part.window.end_ns + part.asked.until_ns if part.asked.until_ns is not None else None


def _with_names_in_use(lanes: list[Lane], names: tuple[str, ...]) -> tuple[tuple[Lane, ...], tuple[str, ...]]:
    """The lanes with the names that their intervals have left: one that stands for several has none."""
    used = ascending(np.concatenate([np.zeros(0, np.int32), *(lane.spans.name for lane in lanes)]))
    used = used[used >= 0]
    place = np.full(len(names) + 1, MERGED, np.int32)
    place[used] = np.arange(len(used))
    renamed = (replace(lane, spans=replace(lane.spans, name=place[lane.spans.name])) for lane in lanes)
    return tuple(renamed), tuple(names[number] for number in used.tolist())


def _finest_ns(analysis: Run, span: int) -> int:
    """A step that holds two samples of one processor; of an event other than time, a fixed part of the span."""
    main = analysis.main
    if main is None or not main.event.clocks:
        return span // STEPS
    return 2 * main.total // max(main.samples, 1)


def _threads(analysis: Run) -> tuple[Threads, dict[str, list[tuple[int, int]]], int]:
    """(pid, tid) → heading of the threads that get lanes, in order; heading → threads of pools that share a row; how
    many threads have neither.

    Threads with ranges or calls come first: they are what the program's author wants to see. Others need `QUIET` of
    the samples, alone or together with the threads whose names are equal up to digits.
    """
    capture = analysis.capture
    work = capture.sampled_threads
    threshold = QUIET * sum(work.values())
    active = set(threads_in(*range_threads(capture)))
    # Whom others wait for is to be seen, however little it does besides.
    held = analysis.blame.arrows[:ARROWS] if analysis.blame else ()
    active |= {thread for arrow in held for thread in (arrow.waiter, arrow.holder)} & work.keys()
    if capture.activity is not None:
        active |= set(_amounts(capture.activity.calls.pid, capture.activity.calls.tid))
    titles = thread_names(capture)
    alike = pools({pair: name for pair, name in titles.items() if pair in work and pair not in active})
    shared = {pair for pairs in alike.values() for pair in pairs}
    wanted = [pair for pair in {*work, *active} - shared if pair in active or work[pair] >= threshold]
    busiest = sorted(wanted, key=lambda pair: (pair not in active, -work.get(pair, 0), pair))[:THREADS]
    amount = {title: sum(work[pair] for pair in pairs) for title, pairs in alike.items()}
    heaviest = sorted((title for title in alike if amount[title] >= threshold), key=lambda title: -amount[title])
    pooled = {title: alike[title] for title in heaviest[:POOLS]}
    left_out = len({*work, *active}) - len(busiest) - sum(map(len, pooled.values()))
    return {pair: _heading(titles.get(pair, ""), pair[1]) for pair in busiest}, pooled, left_out


def _numbers(pairs: list[tuple[int, int]], numbers: dict[tuple[int, int], int]) -> tuple[int, ...]:
    """The threads that a reader can choose, each once."""
    return tuple(dict.fromkeys(numbers[pair] for pair in pairs if pair in numbers))


def _heading(name: str, tid: int) -> str:
    if tid <= 0:
        return "all threads"
    return name if name == f"thread {tid}" else f"{name or 'thread'} · {tid}"


def _amounts(pid: Int32, tid: Int32) -> dict[tuple[int, int], int]:
    """Rows by thread."""
    cells = group(pid, tid)
    return dict(zip(zip(*(key.tolist() for key in cells.keys), strict=True), cells.count.tolist(), strict=True))


def _densities(
    analysis: Run, start: int, finest: int, chosen: Threads, pooled: dict[str, list[tuple[int, int]]]
) -> tuple[int, tuple[Density, ...]]:
    """The length of a step, the finest or that doubled until there are few enough; and one density per chosen thread,
    one per pool, and one for all other threads together.
    """
    capture, main = analysis.capture, analysis.main
    samples = capture.samples
    assert main is not None
    event = next(number for number, result in enumerate(analysis.events) if result is main)
    mask = samples.event == event
    row = slice(None) if mask.all() else mask
    titles = [*((heading, [pair]) for pair, heading in chosen.items()), *pooled.items()]
    shown = {pair: number for number, (_, pairs) in enumerate(titles) for pair in pairs}
    place = np.array([shown.get(pair, len(titles)) for pair in capture.sampled_threads], np.int32)
    leaves = len(CATEGORIES)
    columns = (capture.thread, analysis.attribution.leaf, samples.time_ns, samples.weight)
    thread, leaf, time, weight = (taken(column, row) for column in columns)
    kinds = (place[thread[part]] * leaves + leaf[part] for part in slices(len(time), thread, leaf))
    times = (time[part] - start for part in slices(len(time), time))
    kind, time = put_together(kinds, len(time), np.int32), put_together(times, len(time), np.int64)
    moments, bin_ns = Moments.of(kind, time, (len(titles) + 1) * leaves), finest
    assert moments is not None
    last = int(time[-1]) if len(time) else 0
    while not moments.are_at_most(CELLS, bin_ns) and bin_ns <= last:
        bin_ns *= 2
    sums = moments.added_up(bin_ns, weight)
    place, cause = np.divmod(sums.kind, leaves)
    titles.append(("other threads" if titles else "all threads", []))
    made = []
    for number, (heading, pairs) in enumerate(titles):
        mine = np.flatnonzero(place == number)
        if len(mine):
            steps, causes = sums.moment[mine].astype(np.int32), cause[mine].astype(np.int32)
            made.append(Density(heading, "CPU time", steps, causes, sums.weight[mine], max(len(pairs), 1)))
    return bin_ns, tuple(made)


def _phase_lane(analysis: Run, start: int, end: int, names: Numbered[str], styles: Numbered[Style]) -> Iterator[Lane]:
    """The run's phases, above all threads. The first sample stands for time before the timeline, which is cut off."""
    parts = [
        (phase.name, one) for phase in (analysis.course.phases if analysis.course else ()) for one in phase.intervals
    ]
    spans = Spans.single(
        np.array([min(max(one.start_ns, start), end) - start for _, one in parts], np.int64),
        np.array([min(max(one.end_ns, start), end) - start for _, one in parts], np.int64),
        np.array([styles.add(PHASES[name]) for name, _ in parts], np.int32),
        np.array([names.add(name) for name, _ in parts], np.int32),
    )
    yield Lane("", "phases", "phase", thin(spans, INTERVALS).spans, len(parts))


def _range_lanes(
    analysis: Run, start: int, names: Numbered[str], styles: Numbered[Style], chosen: Threads
) -> Iterator[Lane]:
    ranges = analysis.capture.ranges
    if not len(ranges):
        return
    of_pid, of_tid = range_threads(analysis.capture)
    name = np.array([names.add(text) for text in ranges.name], np.int32)
    style = np.full(len(ranges), styles.add(RANGE), np.int32)
    for (pid, tid), heading in chosen.items():
        row = np.flatnonzero((of_pid == pid) & (of_tid == tid) & (ranges.depth < DRAWN_LEVELS))
        spans = Spans.single(
            ranges.start_ns[row] - start, ranges.end_ns[row] - start, style[row], name[row], ranges.depth[row]
        )
        yield Lane(heading, "ranges", "range", thin(spans, INTERVALS).spans, len(row))


def _mark_lanes(
    capture: Capture, start: int, names: Numbered[str], styles: Numbered[Style], chosen: Threads
) -> Iterator[Lane]:
    """Instants that the program marked."""
    marks = capture.marks if len(capture.marks) or capture.activity is None else capture.activity.marks
    if not len(marks):
        return
    text = np.array([*(names.add(name) for name in marks.names), names.add("(mark without a text)")], np.int32)
    for (pid, tid), heading in chosen.items():
        rows = np.flatnonzero((marks.pid == pid) & (marks.tid == tid))
        begin, look = marks.time_ns[rows] - start, np.full(len(rows), styles.add(MARK), np.int32)
        spans = Spans.single(begin, begin, look, text[marks.name[rows]])
        yield Lane(heading, "marks", "mark", thin(spans, INTERVALS).spans, len(rows))


def _wait_lanes(
    analysis: Run,
    start: int,
    end: int,
    names: Numbered[str],
    styles: Numbered[Style],
    chosen: Threads,
) -> Iterator[Lane]:
    """What each thread waited for while it was off the CPU."""
    samples = analysis.capture.samples
    spans = analysis.capture.spans
    if not spans.any():
        return
    waiting, begun = spans[samples.event] & (samples.weight > 0), samples.begun
    leaves = ascending(analysis.attribution.leaf[waiting]).tolist()
    look, text = np.zeros(len(CATEGORIES), np.int32), np.zeros(len(CATEGORIES), np.int32)
    for leaf in leaves:
        row = CATEGORIES[leaf]
        look[leaf], text[leaf] = styles.add(Style(row.name, row.level)), names.add(row.name)
    for (pid, tid), heading in chosen.items():
        mine = np.flatnonzero(waiting & (samples.pid == pid) & (samples.tid == tid))
        leaf, begin = analysis.attribution.leaf[mine], samples.time_ns[mine]
        until = np.minimum(begin + samples.weight[mine], end)
        drawn = Spans.single(begin - start, until - start, look[leaf], text[leaf])
        yield Lane(heading, "waits", "wait", thin(drawn, INTERVALS).spans, int(begun[mine].sum()) or len(mine))


def _arrows(analysis: Run, start: int, chosen: Threads) -> Iterator[HeldUp]:
    """Waits for other threads that have lanes as well."""
    for arrow in analysis.blame.arrows if analysis.blame else ():
        if arrow.waiter in chosen and arrow.holder in chosen and arrow.waiter != arrow.holder:
            begin, end = arrow.start_ns - start, arrow.end_ns - start
            yield HeldUp(chosen[arrow.waiter], max(begin, 0), max(end, 0), chosen[arrow.holder])


def _call_lanes(
    analysis: Run, start: int, names: Numbered[str], styles: Numbered[Style], chosen: Threads
) -> Iterator[Lane]:
    activity = analysis.capture.activity
    if activity is None or not len(activity.calls):
        return
    calls = activity.calls
    # One entry more for calls without a name.
    text = np.array([*(names.add(name) for name in calls.names), names.add("(call without a name)")], np.int32)
    look = np.array([styles.add(PURPOSES[purpose_of(name)]) for name in [*calls.names, ""]], np.int32)
    for (pid, tid), heading in chosen.items():
        row = np.flatnonzero((calls.pid == pid) & (calls.tid == tid))
        spans = Spans.single(
            calls.start_ns[row] - start, calls.end_ns[row] - start, look[calls.name[row]], text[calls.name[row]]
        )
        yield Lane(heading, "CUDA calls", "call", thin(spans, INTERVALS).spans, len(row))


def _held(analysis: Run, start: int, styles: Numbered[Style]) -> Iterator[MemoryUse]:
    """What the program's processes held by the kernel's account, where it was recorded."""
    if analysis.memory is not None:
        for _, style, time, level in Memory(analysis.memory, start).curves():
            yield MemoryUse(style.label, styles.add(style), np.maximum(time, 0), level)
