"""Traces in the Trace Event Format (Chrome, Perfetto), as torch.profiler, Kineto and pinprof itself write them.

Operators, Python functions, annotations and any other slices become ranges, with their category as the domain. CUDA
calls become `ApiCallTable`, kernels, copies, memsets and synchronisations `GpuOpTable`; the memory kinds of a copy
stand in its name, `Memcpy HtoD (Pageable -> Device)`. Profiles of V8 that a trace holds become samples (`v8`), else
the samples that it lists itself. The file is read as a stream.

Nothing else of a file is kept: Kineto also writes file paths, device properties and distributed settings.

Source: "Trace Event Format" (Google, 2016); `kineto` has what names and categories mean.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import UNRECORDED, Activity, Api, ApiCallTable, GpuOpTable, OpKind
from pinprof.data.gpu_functions import plain_name
from pinprof.data.model import Capture, ClockSync, Int32, Int64, Losses, RangeTable
from pinprof.read.assembly import SampleColumns, StackBuilder, check_sum, foreign_capture
from pinprof.read.byte_source import ends_early
from pinprof.read.formats.json_source import ArrayStream, not_json
from pinprof.read.formats.kineto import CALLS, CAUSES, OPS, described
from pinprof.read.formats.trace_marks import TraceMarks
from pinprof.read.formats.v8 import EVENTS, Profiles, small, thread_of
from pinprof.read.reader import Progress, Reader, by_head, untold

_NOT_RANGES = {
    "gpu_user_annotation",
    "Trace",
    "overhead",
    "cause",
    "wait",
    "gpu_graph",
    "gpu_faults",
    "ac2g",
    "async_gpu",
    "collective_comm",
}
"""Slices that repeat others on the GPU's track, or the profiler's own, or pinprof's sampled causes."""

_NOT_SLICES = frozenset("MCiInsftTpNODPvVRc(),")
"""Phases of the format other than slices: metadata, counters, instants, flows, steps of spans, objects, dumps."""
_HOLDS_PROFILES = ("P", "I", "i", "n")
"""Phases of events with profiles of V8."""
_BEGINS, _ENDS = frozenset("BbS"), frozenset("EeF")
"""Phases of the marks at both ends of a thread's slice, and of an asynchronous span, which belongs to no thread."""

_NO_SAMPLES = "A trace has no samples, so only calls and GPU work show what happened inside a range."

_TELLING = frozenset({*CALLS, *OPS, "nvtx"})
"""Categories whose arguments say something."""

_MAX_NS = 1 << 62
_MAX_US = (1 << 61) // 1000


def sniff(head: bytes) -> bool:
    """Whether JSON names `traceEvents`, or begins as an array of events."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"{":
        return b'"traceEvents"' in head or (b'"schemaVersion"' in head and b'"deviceProperties"' in head)
    return start[:1] == b"[" and b'"ph"' in head


def read(path: Path, progress: Progress = untold) -> Capture:
    """Ranges and activity, no samples; FormatError when there is no event in the file."""
    stream = ArrayStream(path, "traceEvents", "Trace Event Format", progress)
    trace = _Trace()
    for event in stream.elements():
        trace.add(event)
    if not trace.profiles:
        trace.profiles = Profiles.of_samples(stream.others.get("samples"), stream.others.get("stackFrames"))
    if not trace.events:
        raise not_json(path, "Trace Event Format", 0, "no event" if not stream.damage else stream.damage)
    base = stream.others.get("baseTimeNanoseconds")
    torch = "deviceProperties" in stream.others or "schemaVersion" in stream.others
    source = "torch.profiler" if torch else "Chrome trace"
    return trace.capture(str(path), source, base if _is_integer(base) and abs(base) < _MAX_NS else 0, stream.damage)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass
class _Columns:
    """Slices being collected: times, thread, and the position of the name in `names`."""

    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    pid: array[int] = field(default_factory=lambda: array("i"))
    tid: array[int] = field(default_factory=lambda: array("i"))
    name: array[int] = field(default_factory=lambda: array("i"))
    kind: array[int] = field(default_factory=lambda: array("i"))
    """The domain of a range (in `names`), the `Api` of a call, the `OpKind` of GPU work."""
    correlation: array[int] = field(default_factory=lambda: array("q"))
    device: array[int] = field(default_factory=lambda: array("i"))
    stream: array[int] = field(default_factory=lambda: array("i"))
    size: array[int] = field(default_factory=lambda: array("q"))
    cause: array[int] = field(default_factory=lambda: array("B"))
    names: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start)

    def intern(self, text: str) -> int:
        """The number of a text."""
        return self.names.setdefault(text, len(self.names))

    def times(self) -> tuple[Int64, Int64]:
        """Starts and ends."""
        return np.array(self.start, np.int64), np.array(self.end, np.int64)


class _Trace:
    """Sorts the events of a trace into tables."""

    def __init__(self) -> None:
        self.ranges, self.calls, self.ops = _Columns(), _Columns(), _Columns()
        self.threads: dict[tuple[int, int], str] = {}
        self.marks = TraceMarks()
        self.profiles = Profiles()
        self.events = 0
        self.broken = 0
        self.unknown = 0

    def add(self, event: Any) -> None:
        """Take in one element of the array."""
        self.events += 1
        phase = event.get("ph") if isinstance(event, dict) else None
        if phase == "X":
            self._slice(event, event.get("ts"), event.get("dur", 0))
        elif not isinstance(phase, str):
            self.events -= 1
            self.broken += 1
        elif phase in _BEGINS or phase in _ENDS:
            self._mark(event, phase)
        elif phase == "M":
            self._metadata(event)
        elif phase not in _NOT_SLICES:
            self.unknown += 1
        if phase in _HOLDS_PROFILES and event.get("name") in EVENTS:
            self.profiles.take(event, *thread_of(event))

    def _mark(self, event: dict[str, Any], phase: str) -> None:
        """The begin or end of a slice; both name its thread, or the id of its span."""
        time_ns = _ns(event.get("ts"))
        if time_ns is None:
            self.broken += 1
            return
        pid, tid = thread_of(event)
        track: tuple[object, ...] = (pid, tid)
        kept = {name: event[name] for name in ("name", "cat") if isinstance(event.get(name), str)}
        if phase not in "BE":
            given, tid = event.get("id2"), -1
            ids: dict[str, Any] = given if isinstance(given, dict) else {"": event.get("id")}
            # Spans of old traces do not nest: those of one id have different names.
            name = kept.get("name") if phase in "SF" else None
            whose = "all" if "global" in ids else pid
            track = (kept.get("cat"), str(event.get("scope")), whose, *map(str, ids.values()), name)
        if phase in _ENDS:
            self.marks.end(track, time_ns)
            return
        category, arguments = str(kept.get("cat")), event.get("args")
        told = {"args": arguments} if isinstance(arguments, dict) and (category in _TELLING) else {}
        self.marks.begin(track, time_ns, {**kept, "pid": pid, "tid": tid, **told})

    def _metadata(self, event: dict[str, Any]) -> None:
        arguments = event.get("args")
        if event.get("name") == "thread_name" and isinstance(arguments, dict):
            name = arguments.get("name")
            if isinstance(name, str):
                self.threads[thread_of(event)] = name

    def _slice(self, event: dict[str, Any], ts: Any, dur: Any) -> None:
        """One slice; times in microseconds, whole or with a fraction."""
        start, length = _ns(ts), _ns(dur)
        if start is None or length is None or length < 0:
            self.broken += 1
        else:
            self._put(event, start, length)

    def _put(self, event: Mapping[str, Any], start: int, length: int) -> None:
        """A slice into its table."""
        given = event.get("args")
        arguments: dict[str, Any] = given if isinstance(given, dict) else {}
        category = str(event.get("cat", ""))
        name = str(event.get("name", ""))
        if category in CALLS:
            columns, kind = self.calls, int(CALLS[category])
            name = plain_name(name)
        elif category in OPS:
            columns, kind = self.ops, int(OPS[category])
            columns.device.append(small(arguments.get("device", event.get("pid"))))
            columns.stream.append(small(arguments.get("stream")))
            columns.size.append(_count(arguments.get("bytes")))
            columns.cause.append(CAUSES.get(str(arguments.get("cause")), UNRECORDED))
        elif category in _NOT_RANGES:
            return
        else:
            domain = arguments.get("domain") if category == "nvtx" else None
            columns, kind = self.ranges, self.ranges.intern(domain if isinstance(domain, str) else category)
        pid, tid = thread_of(event)
        columns.start.append(start)
        columns.end.append(start + length)
        columns.pid.append(pid)
        columns.tid.append(tid)
        columns.name.append(columns.intern(name))
        columns.kind.append(kind)
        correlation = arguments.get("correlation")
        columns.correlation.append(correlation if _is_integer(correlation) and 0 <= correlation < _MAX_NS else -1)

    def capture(self, path: str, source: str, base_ns: int, damage: str) -> Capture:
        """The tables, with times from `base_ns` on."""
        for each in self.marks.slices():
            self._put(*each)
        unclosed = self.marks.unclosed
        self.broken += self.marks.unbegun
        columns, builder = SampleColumns(), StackBuilder()
        notes = [*self.profiles.fill(columns, builder, base_ns)] if self.profiles else [_NO_SAMPLES]
        check_sum(path, sum(columns.weight), "json")
        if unclosed:
            notes.append(f"{unclosed} slices never ended; left out.")
        if self.broken:
            notes.append(f"{self.broken} events are damaged, or end without having begun; left out.")
        calls, outer = self._calls(base_ns)
        activity = Activity(
            source,
            calls=calls,
            gpu_ops=self._gpu_ops(base_ns, outer),
            recorded=frozenset({"cuda"} if len(self.calls) or len(self.ops) else ()),
        )
        ranges = self._ranges(base_ns)
        present = {
            *zip(self.ranges.pid, self.ranges.tid, strict=True),
            *zip(self.calls.pid, self.calls.tid, strict=True),
            *self.profiles.threads(),
        }
        capture = foreign_capture(
            path,
            source,
            (self.profiles.event,) if self.profiles else (),
            columns.table(),
            builder.table(),
            threads={thread: name for thread, name in self.threads.items() if thread in present},
            clock=ClockSync("trace", 0, 0),
            ranges=ranges,
            losses=Losses(
                unknown_records=self.unknown + self.broken + unclosed,
                truncated_chains=builder.cut_chains,
                notes=tuple(notes),
            ),
        ).with_damage(ends_early(damage))
        return replace(capture, activity=activity)

    def _ranges(self, base_ns: int) -> RangeTable:
        columns = self.ranges
        start, end = columns.times()
        order = np.lexsort((-end, start))
        names = list(columns.names)
        table = RangeTable.of(
            len(columns),
            name=tuple(map(names.__getitem__, columns.name)),
            domain=tuple(map(names.__getitem__, columns.kind)),
            start_ns=start,
            end_ns=end,
            pid=columns.pid,
            tid=columns.tid,
            depth=_nesting(columns, order)[0],
        )
        return table.take(order).moved(base_ns)

    def _calls(self, base_ns: int) -> tuple[ApiCallTable, dict[int, int]]:
        """Calls that lie in no other call of their thread, and the correlation ids of the others → of the outer one."""
        columns = self.calls
        start, end = columns.times()
        correlation = np.array(columns.correlation, np.int64)
        driver = np.array(columns.kind, np.int32) == Api.DRIVER
        order = np.lexsort((driver, -end, start))
        depth, outermost = _nesting(columns, order, calls=True)
        inner = depth > 0
        # A runtime call's own id may be missing from the GPU work that its driver call caused, and the other way round.
        outer = dict(zip(correlation[inner].tolist(), correlation[outermost[inner]].tolist(), strict=True))
        outer.pop(-1, None)
        table = ApiCallTable.of(
            len(columns),
            start_ns=start,
            end_ns=end,
            name=columns.name,
            pid=columns.pid,
            tid=columns.tid,
            correlation_id=correlation,
            api=columns.kind,
            folded=np.bincount(outermost[inner], minlength=len(columns)),
            names=tuple(columns.names),
        )
        return table.take(order[~inner[order]]).moved(base_ns), outer

    def _gpu_ops(self, base_ns: int, outer: dict[int, int]) -> GpuOpTable:
        columns = self.ops
        start, end = columns.times()
        names = list(columns.names)
        details_of = np.array([described(name) for name in names], np.uint8).reshape(-1, 4)
        name, kind = np.array(columns.name, np.int32), np.array(columns.kind, np.uint8)
        details = details_of[name]
        copy = (kind == OpKind.COPY) | (kind == OpKind.MIGRATION)
        memset, sync = kind == OpKind.MEMSET, kind == OpKind.SYNC
        correlation = np.array([outer.get(number, number) for number in columns.correlation], np.int64)
        table = GpuOpTable.of(
            len(columns),
            start_ns=start,
            end_ns=end,
            kind=kind,
            name=np.where(kind == OpKind.KERNEL, name, -1),
            pid=self._callers(correlation),
            device=columns.device,
            stream=columns.stream,
            correlation_id=correlation,
            size_bytes=columns.size,
            copy_kind=np.where(copy, details[:, 0], UNRECORDED),
            src_kind=np.where(copy, details[:, 1], UNRECORDED),
            dst_kind=np.where(copy | memset, details[:, 2], UNRECORDED),
            cause=columns.cause,
            sync=np.where(sync, details[:, 3], UNRECORDED),
            names=tuple(names),
        )
        return table.take(np.lexsort((end, start))).moved(base_ns)

    def _callers(self, correlation: Int64) -> Int32:
        """The process of each op: its call's, else the only one there is, else unknown. Tracks of GPUs name devices."""
        processes = dict(zip(self.calls.correlation, self.calls.pid, strict=True))
        processes.pop(-1, None)
        only = next(iter(processes.values()), -1) if len(set(processes.values())) == 1 else -1
        return np.array([processes.get(number, only) for number in correlation.tolist()], np.int32)


def _nesting(columns: _Columns, order: Int64, *, calls: bool = False) -> tuple[Int32, Int64]:
    """Per slice how many slices of its thread enclose it, and the outermost of them; `order` has outer ones first.

    Of calls, which older Kineto times in whole microseconds, two of one API that begin or end together followed each
    other: only a driver call at the edge of a runtime call is inside it, and no runtime call is inside a driver call.
    """
    depth = np.zeros(len(columns), np.int32)
    outermost = np.arange(len(columns))
    starts, ends, pids, tids = columns.start, columns.end, columns.pid, columns.tid
    stacks: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in order.tolist():
        enclosing = stacks[pids[row], tids[row]]
        while enclosing and (ends[enclosing[-1]] < ends[row] or ends[enclosing[-1]] <= starts[row]):
            enclosing.pop()
        if enclosing and calls and _beside(columns, enclosing[-1], row):
            continue
        if enclosing:
            depth[row] = len(enclosing)
            outermost[row] = enclosing[0]
        enclosing.append(row)
    return depth, outermost


def _beside(columns: _Columns, outer: int, inner: int) -> bool:
    """Whether a call that lies within the time of another one was not made by it."""
    if columns.kind[outer] != columns.kind[inner]:
        return columns.kind[outer] == Api.DRIVER
    return not (columns.start[outer] < columns.start[inner] and columns.end[inner] < columns.end[outer])


def _count(value: Any) -> int:
    return value if _is_integer(value) and 0 <= value < _MAX_NS else 0


def _ns(microseconds: Any) -> int | None:
    """Integer nanoseconds of a time in microseconds, None for what is none; torch writes three decimals."""
    if isinstance(microseconds, str):
        try:
            microseconds = float(microseconds)
        except ValueError:
            return None
    if isinstance(microseconds, bool) or not isinstance(microseconds, (int, float)):
        return None
    # Compared before it is scaled: infinite, not a number and beyond 64 bits all fail here.
    return round(microseconds * 1000) if -_MAX_US <= microseconds <= _MAX_US else None


READER = Reader("Chrome trace", by_head(sniff), lambda path, options: read(path, options.progress), streams=True)
