"""The recording over time: ranges, CUDA calls, copies, kernels, migrations and faults as lanes; causes as densities.

Times are nanoseconds since the timeline's own start. Every lane is thinned (`thinning`) and says how much it held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pinprof.activity import GpuOpTable, MemoryKind, MemoryOperation, MemoryUsageTable, OpKind
from pinprof.analyze import Analysis
from pinprof.analyze.activity.calls import purpose_of
from pinprof.analyze.activity.transfers import DIRECTION, DIRECTIONS, memory_name
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.groups import group
from pinprof.model import CONTINUED, Capture, Int32, Int64
from pinprof.report.flame_tables import Strings
from pinprof.report.memory_rows import MemoryData
from pinprof.report.migration_field import FIELD_STYLES, cause_styles
from pinprof.report.rows import is_timed, range_threads, start_ns, thread_names, thread_numbers
from pinprof.report.styles import DIRECTIONS as DIRECTION_WORDS
from pinprof.report.styles import FAULT_GROUP, KERNEL, MARK, MEMSET, PURPOSES, RANGE, Style, memory_style
from pinprof.report.thinning import Spans, thin

LANE_LIMIT = 3_000
"""At most about so many intervals in one lane."""
THREADS, STREAMS = 12, 8
"""Threads and streams with lanes of their own: those with most to show."""
QUIET = 0.05
"""Threads without ranges or calls and with less of the samples than this share one lane."""
BINS = 1_200
"""Steps of time in a density."""
MEMORY_STEPS = 1_000

_MEMORY_LEVELS = (("pinned", MemoryKind.PINNED), ("managed", MemoryKind.MANAGED), ("device", MemoryKind.DEVICE))


@dataclass(frozen=True)
class Lane:
    """Intervals of one kind and place, under the heading of a thread or a GPU."""

    heading: str
    title: str
    kind: str
    """`range`, `wait`, `call`, `kernel`, `copy`, `memset`, `migration`, `fault`."""
    spans: Spans
    """`style` indexes `Timeline.styles`, `name` `Timeline.names`."""
    total: int
    """Intervals before thinning."""


@dataclass(frozen=True)
class Density:
    """What a thread was doing on processors, by cause and step of time; columns of one length."""

    heading: str
    title: str
    bin: Int32
    cause: Int32
    """Index into the taxonomy."""
    weight: Int64
    """In the unit of the sampled event, of one step."""


@dataclass(frozen=True)
class MemoryUse:
    """Allocated bytes of one kind of memory: `level_bytes[i]` from `time_ns[i]` on."""

    title: str
    style: int
    time_ns: Int64
    level_bytes: Int64


@dataclass(frozen=True)
class Timeline:
    """One recording over time."""

    start_ns: int
    """Of the capture's clock."""
    span_ns: int
    bin_ns: int
    """Length of a density's step."""
    event: str
    """The sampled event of the densities; empty without samples."""
    unit: str
    samples_start_ns: int
    """The first sample, since the timeline's start."""
    densities: tuple[Density, ...]
    lanes: tuple[Lane, ...]
    memory: tuple[MemoryUse, ...]
    styles: tuple[Style, ...]
    names: tuple[str, ...]
    left_out: int
    """Threads without lanes of their own; `other threads` has their samples."""
    threads: Mapping[str, int]
    """Heading → index into `ReportData.threads`, for headings that are one thread."""


class _Styles:
    """Styles by index, each kept once."""

    def __init__(self) -> None:
        self.index: dict[Style, int] = {}

    def add(self, style: Style) -> int:
        return self.index.setdefault(style, len(self.index))


def timeline(analysis: Analysis) -> Timeline | None:
    """What happened when; None where nothing has a time."""
    capture = analysis.capture
    timed = is_timed(capture) and len(capture.samples) > 0
    if not timed and not len(capture.ranges) and capture.activity is None:
        return None
    start, end = start_ns(capture), _end_ns(analysis)
    if end <= start:
        return None
    names, styles = Strings(), _Styles()
    chosen, left_out = _threads(analysis)
    numbers = thread_numbers(capture)
    main = analysis.main
    bin_ns = max(-(-(end - start) // BINS), 2 * _typical_ns(analysis), 1)
    densities = tuple(_densities(analysis, start, bin_ns, chosen)) if timed and main else ()
    lanes = [
        *_range_lanes(analysis, start, names, styles, chosen),
        *_mark_lanes(capture, start, names, styles, chosen),
        *_wait_lanes(analysis, start, end, names, styles, chosen),
        *_call_lanes(analysis, start, names, styles, chosen),
    ]
    memory: tuple[MemoryUse, ...] = ()
    if capture.activity is not None:
        lanes += _gpu_lanes(capture.activity.gpu_ops, start, names, styles)
        lanes += _fault_lanes(analysis, start, styles)
        memory = tuple(_memory(capture.activity.memory, start, styles))
    memory += tuple(_held(analysis, start, styles))
    return Timeline(
        start_ns=start,
        span_ns=end - start,
        bin_ns=bin_ns,
        event=main.event.name if timed and main else "",
        unit=main.event.unit if timed and main else "",
        samples_start_ns=int(capture.samples.time_ns.min()) - start if timed else 0,
        densities=densities,
        lanes=tuple(lane for lane in lanes if lane.total),
        memory=memory,
        styles=tuple(styles.index),
        names=names.all(),
        left_out=left_out,
        threads={heading: numbers[pair] for pair, heading in chosen.items() if pair in numbers},
    )


def _typical_ns(analysis: Analysis) -> int:
    """The time that one sample stands for, so that a step of a density holds more than one; 0 for other events."""
    main = analysis.main
    if main is None or main.event.unit != "ns":
        return 0
    return main.total // max(main.samples, 1)


def _end_ns(analysis: Analysis) -> int:
    capture = analysis.capture
    columns = [capture.ranges.end_ns]
    if is_timed(capture):
        columns.append(capture.samples.time_ns + 1)
    if capture.activity is not None:
        columns += [capture.activity.calls.end_ns, capture.activity.gpu_ops.end_ns]
    return max((int(column.max()) for column in columns if len(column)), default=0)


def _threads(analysis: Analysis) -> tuple[dict[tuple[int, int], str], int]:
    """(pid, tid) → heading of the threads that get lanes, in order, and how many do not.

    Threads with ranges or calls come first: they are what the program's author wants to see. Others need `QUIET` of
    the samples.
    """
    capture = analysis.capture
    work = _amounts(capture.samples.pid, capture.samples.tid)
    threshold = QUIET * sum(work.values())
    told = set(range_threads(capture))
    if capture.activity is not None:
        told |= set(_amounts(capture.activity.calls.pid, capture.activity.calls.tid))
    wanted = [pair for pair in {*work, *told} if pair in told or work[pair] >= threshold]
    titles = thread_names(capture)
    busiest = sorted(wanted, key=lambda pair: (pair not in told, -work.get(pair, 0), pair))[:THREADS]
    return {pair: _heading(titles.get(pair, ""), pair[1]) for pair in busiest}, len({*work, *told}) - len(busiest)


def _heading(name: str, tid: int) -> str:
    if tid <= 0:
        return "all threads"
    return name if name == f"thread {tid}" else f"{name or 'thread'} · {tid}"


def _amounts(pid: Int32, tid: Int32) -> dict[tuple[int, int], int]:
    """Rows by thread."""
    cells = group(pid, tid)
    return dict(zip(zip(*(key.tolist() for key in cells.keys), strict=True), cells.count.tolist(), strict=True))


def _densities(analysis: Analysis, start: int, bin_ns: int, chosen: dict[tuple[int, int], str]) -> Iterator[Density]:
    """One per chosen thread, and one for all other threads together."""
    samples, main = analysis.capture.samples, analysis.main
    assert main is not None
    event = next(number for number, result in enumerate(analysis.events) if result is main)
    rest = samples.event == event
    for (pid, tid), heading in chosen.items():
        mine = rest & (samples.pid == pid) & (samples.tid == tid)
        rest &= ~mine
        yield from _density(analysis, np.flatnonzero(mine), start, bin_ns, heading)
    yield from _density(analysis, np.flatnonzero(rest), start, bin_ns, "other threads" if chosen else "all threads")


def _density(analysis: Analysis, row: Int64, start: int, bin_ns: int, heading: str) -> Iterator[Density]:
    if not len(row):
        return
    samples = analysis.capture.samples
    cells = group((samples.time_ns[row] - start) // bin_ns, analysis.attribution.leaf[row].astype(np.int64))
    yield Density(
        heading,
        "on CPU, by cause",
        cells.keys[0].astype(np.int32),
        cells.keys[1].astype(np.int32),
        cells.sum(samples.weight[row]),
    )


def _range_lanes(
    analysis: Analysis, start: int, names: Strings, styles: _Styles, chosen: dict[tuple[int, int], str]
) -> Iterator[Lane]:
    ranges = analysis.capture.ranges
    if not len(ranges):
        return
    pairs = np.array(range_threads(analysis.capture), np.int64)
    name = np.array([names.add(text) for text in ranges.name], np.int32)
    style = np.full(len(ranges), styles.add(RANGE), np.int32)
    for (pid, tid), heading in chosen.items():
        row = np.flatnonzero((pairs[:, 0] == pid) & (pairs[:, 1] == tid))
        spans = Spans.single(
            ranges.start_ns[row] - start, ranges.end_ns[row] - start, style[row], name[row], ranges.depth[row]
        )
        yield Lane(heading, "ranges", "range", thin(spans, LANE_LIMIT)[0], len(row))


def _mark_lanes(
    capture: Capture, start: int, names: Strings, styles: _Styles, chosen: dict[tuple[int, int], str]
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
        yield Lane(heading, "marks", "mark", thin(spans, LANE_LIMIT)[0], len(rows))


def _wait_lanes(
    analysis: Analysis, start: int, end: int, names: Strings, styles: _Styles, chosen: dict[tuple[int, int], str]
) -> Iterator[Lane]:
    """What each thread waited for while it was off the processors."""
    samples = analysis.capture.samples
    spans = np.array([event.spans for event in analysis.capture.events], np.bool_)
    if samples.wait is None or not spans.any():
        return
    waiting = spans[samples.event] & (samples.weight > 0)
    leaves = np.unique(analysis.attribution.leaf[waiting]).tolist()
    look, text = np.zeros(len(CATEGORIES), np.int32), np.zeros(len(CATEGORIES), np.int32)
    for leaf in leaves:
        row = CATEGORIES[leaf]
        look[leaf], text[leaf] = styles.add(Style(row.name, row.level)), names.add(row.name)
    for (pid, tid), heading in chosen.items():
        mine = np.flatnonzero(waiting & (samples.pid == pid) & (samples.tid == tid))
        leaf, begin = analysis.attribution.leaf[mine], samples.time_ns[mine]
        until = np.minimum(begin + samples.weight[mine], end)
        drawn = Spans.single(begin - start, until - start, look[leaf], text[leaf])
        total = int((samples.wait[mine] & CONTINUED == 0).sum())
        yield Lane(heading, "off CPU, by wait", "wait", thin(drawn, LANE_LIMIT)[0], total or len(mine))


def _call_lanes(
    analysis: Analysis, start: int, names: Strings, styles: _Styles, chosen: dict[tuple[int, int], str]
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
        yield Lane(heading, "CUDA calls", "call", thin(spans, LANE_LIMIT)[0], len(row))


def _gpu_lanes(operations: GpuOpTable, start: int, names: Strings, styles: _Styles) -> Iterator[Lane]:
    """Rows are numbers into `operations` throughout: there may be millions, of many columns."""
    kernel_names = np.array([*(names.add(name) for name in operations.names), names.add("kernel")], np.int32)
    working = operations.kind != OpKind.SYNC
    for device in np.unique(operations.device[working]).tolist():
        mine = np.flatnonzero(working & (operations.device == device))
        kind = operations.kind[mine]
        heading = f"GPU {device}" if device >= 0 else "GPU"
        compute = mine[(kind == OpKind.KERNEL) | (kind == OpKind.GRAPH)]
        stream = operations.stream[compute]
        streams, count = np.unique(stream, return_counts=True)
        own = streams[np.argsort(-count, kind="stable")][:STREAMS].tolist() if len(streams) > 1 else []
        lanes = [(f"kernels, stream {number}", compute[stream == number]) for number in sorted(own)]
        others = compute[~np.isin(stream, own)]
        lanes.append(("kernels" if not own else "kernels, other streams", others))
        for title, rows in lanes:
            look = np.full(len(rows), styles.add(KERNEL), np.int32)
            yield _lane(heading, title, "kernel", operations, rows, start, look, kernel_names[operations.name[rows]])
        yield from _copy_lanes(operations, mine[kind == OpKind.COPY], heading, start, names, styles)
        blank = mine[kind == OpKind.MEMSET]
        look, text = (np.full(len(blank), number, np.int32) for number in (styles.add(MEMSET), names.add("memset")))
        yield _lane(heading, "memset", "memset", operations, blank, start, look, text)
        yield from _migration_lanes(operations, mine[kind == OpKind.MIGRATION], heading, start, names, styles)


def _copy_lanes(
    operations: GpuOpTable, copies: Int64, heading: str, start: int, names: Strings, styles: _Styles
) -> Iterator[Lane]:
    direction = DIRECTION[operations.copy_kind[copies]]
    for number, key in enumerate(DIRECTIONS):
        rows = copies[direction == number]
        if len(rows):
            memory = (operations.dst_kind if key == "D2H" else operations.src_kind)[rows]
            kinds, of = np.unique(memory, return_inverse=True)
            words = [memory_name(kind) for kind in kinds.tolist()]
            look = np.array([styles.add(memory_style(word)) for word in words], np.int32)[of.reshape(-1)]
            text = np.array([names.add(f"{word} memory, {DIRECTION_WORDS[key]}") for word in words], np.int32)
            yield _lane(heading, f"copies {key}", "copy", operations, rows, start, look, text[of.reshape(-1)])


def _migration_lanes(
    operations: GpuOpTable, moved: Int64, heading: str, start: int, names: Strings, styles: _Styles
) -> Iterator[Lane]:
    direction = DIRECTION[operations.copy_kind[moved]]
    for number, key in enumerate(DIRECTIONS):
        rows = moved[direction == number]
        if len(rows):
            used, of = np.unique(cause_styles(operations.cause[rows]), return_inverse=True)
            look = np.array([styles.add(FIELD_STYLES[one]) for one in used.tolist()], np.int32)[of.reshape(-1)]
            text = np.array([names.add(FIELD_STYLES[one].label) for one in used.tolist()], np.int32)
            title = f"migrations {key}"
            yield _lane(heading, title, "migration", operations, rows, start, look, text[of.reshape(-1)])


def _lane(
    heading: str, title: str, kind: str, operations: GpuOpTable, rows: Int64, start: int, style: Int32, name: Int32
) -> Lane:
    begin, end = operations.start_ns[rows] - start, operations.end_ns[rows] - start
    spans = Spans.single(begin, end, style, name, size_bytes=operations.size_bytes[rows])
    return Lane(heading, title, kind, thin(spans, LANE_LIMIT)[0], len(rows))


def _fault_lanes(analysis: Analysis, start: int, styles: _Styles) -> Iterator[Lane]:
    assert analysis.capture.activity is not None
    faults = analysis.capture.activity.faults
    for device in np.unique(faults.device).tolist():
        if device < 0:
            continue
        part = faults.take(faults.device == device)
        nothing = np.full(len(part), -1, np.int32)
        look = np.full(len(part), styles.add(FAULT_GROUP), np.int32)
        spans = Spans.single(
            part.time_ns - start, part.time_ns - start + part.duration_ns, look, nothing, size_bytes=part.count
        )
        yield Lane(f"GPU {device}", "fault groups", "fault", thin(spans, LANE_LIMIT)[0], len(part))


def _held(analysis: Analysis, start: int, styles: _Styles) -> Iterator[MemoryUse]:
    """What the program's processes held by the kernel's account, where it was recorded."""
    if analysis.memory is not None:
        for _, style, time, level in MemoryData(analysis.memory, start).curves():
            yield MemoryUse(style.label, styles.add(style), np.maximum(time, 0), level)


def _memory(usage: MemoryUsageTable, start: int, styles: _Styles) -> Iterator[MemoryUse]:
    for title, kind in _MEMORY_LEVELS:
        mine = usage.take(usage.memory_kind == kind)
        if not len(mine):
            continue
        change = np.where(mine.operation == MemoryOperation.ALLOCATE, mine.size_bytes, -mine.size_bytes)
        level = np.maximum(np.cumsum(change), 0)
        # Beyond the limit each step keeps its peak.
        step = -(-len(level) // MEMORY_STEPS)
        edges = np.arange(0, len(level), step)
        yield MemoryUse(
            title, styles.add(memory_style(title)), mine.time_ns[edges] - start, np.maximum.reduceat(level, edges)
        )
