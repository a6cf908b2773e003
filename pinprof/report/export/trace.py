"""Traces in the Trace Event Format that Perfetto (ui.perfetto.dev) and chrome://tracing open.

Ranges are slices of their threads. Sampled time stands on a track of its own under each thread: a slice is a run of
samples with one cause, and a sample stands for the time since the one before, at most its period. Events that count
something else than time (page faults) are counters by cause. Times are microseconds from `baseTimeNanoseconds`.

Source: "Trace Event Format" (Google, 2016); Perfetto documentation, "Chrome JSON format".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from pinprof import __version__
from pinprof.analyze import CATEGORIES, Run
from pinprof.analyze.extent import is_timed, start_ns
from pinprof.base.columns import ascending, in_order
from pinprof.base.errors import UsageError
from pinprof.data.activity import Access, Activity, Api, ApiCallTable, CopyKind, OpKind, PageFaultTable
from pinprof.data.model import NO_NODE, Capture, Int16, Int64
from pinprof.read.formats.kineto import CAUSES, DIRECTIONS, KINDS, SYNCS
from pinprof.report import rows
from pinprof.report.joined_frames import as_shown

_CAUSE_TIDS = 1 << 30
"""Track numbers from here on are cause tracks: above every tid that Linux gives (2^22)."""
_WAIT_TIDS = _CAUSE_TIDS + (1 << 23)

_BINS = 1000
_GAP = 1.5
"""Samples further apart than this many periods are not one run: the thread did not run meanwhile."""

_GPU_PIDS = 1 << 30
_MIGRATION_TID = 1 << 30
"""Track of a GPU's migrations, which belong to no stream."""

_FAULT_TID = _MIGRATION_TID + 1
_WINDOW_TID = _MIGRATION_TID + 2
_ACCESS_NAMES: dict[int, str] = {int(access): access.name.lower() for access in Access}

_OP_CATEGORIES: dict[int, str] = {
    OpKind.KERNEL: "kernel",
    OpKind.COPY: "gpu_memcpy",
    OpKind.MEMSET: "gpu_memset",
    OpKind.SYNC: "cuda_sync",
    OpKind.MIGRATION: "uvm_migration",
    OpKind.GRAPH: "gpu_graph",
}
_DIRECTION_NAMES: dict[int, str] = {int(kind): name for name, kind in DIRECTIONS.items()} | {
    CopyKind.UVM_HOST_TO_DEVICE: "HtoD",
    CopyKind.UVM_DEVICE_TO_HOST: "DtoH",
    CopyKind.UVM_DEVICE_TO_DEVICE: "DtoD",
}
_KIND_NAMES: dict[int, str] = {int(kind): name for name, kind in KINDS.items()}
_SYNC_NAMES: dict[int, str] = {int(kind): name for name, kind in SYNCS.items()}

Json = dict[str, Any]


def write(analysis: Run, stream: IO[str], *, all_frames: bool = False) -> None:
    """Write a trace; UsageError for recordings without times."""
    capture = as_shown(analysis.capture, all_frames=all_frames)
    if not is_timed(capture) and not len(capture.ranges) and capture.activity is None:
        raise UsageError(
            "A trace needs times, and this recording has none.",
            "Export it as speedscope or pprof, or use a perf.data recording.",
            "no-times",
        )
    begin = _begin_ns(capture)
    other = {"writer": f"pinprof {__version__}", "clock": capture.clock.source}
    head = {"displayTimeUnit": "ns", "baseTimeNanoseconds": begin, "otherData": other}
    stream.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
    separator = ""
    for event in _events(capture, analysis.attribution.leaf, begin):
        stream.write(separator + json.dumps(event, separators=(",", ":")))
        separator = ",\n"
    stream.write("\n]}\n")


def _begin_ns(capture: Capture) -> int:
    """Zero of the trace: before the first range, and before the time that the first samples stand for."""
    if not is_timed(capture):
        return start_ns(capture)
    weight = [capture.samples.weight[capture.samples.event == number] for number in _timed_events(capture)]
    return start_ns(capture) - max((int(column.max()) for column in weight if len(column)), default=0)


def _timed_events(capture: Capture) -> list[int]:
    return [number for number, event in enumerate(capture.events) if event.clocks]


def _events(capture: Capture, leaf: Int16, begin: int) -> Iterator[Json]:
    yield from _names(capture)
    yield from _ranges(capture, begin)
    if capture.activity is not None:
        yield from _calls(capture.activity.calls, begin)
        yield from _gpu_work(capture.activity, begin)
        yield from _gpu_faults(capture.activity.faults, begin)
    if not is_timed(capture):
        return
    for number, event in enumerate(capture.events):
        if event.spans:
            yield from _waits(capture, leaf, number, begin)
        elif event.unit == "ns":
            yield from _causes(capture, leaf, number, begin)
        else:
            yield from _counters(capture, leaf, number, begin)


def _names(capture: Capture) -> Iterator[Json]:
    threads = rows.thread_names(capture)
    for pid in sorted({pid for pid, _ in threads}):
        name = capture.threads.get((pid, pid)) or f"process {pid}"
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    spans = capture.spans[capture.samples.event]
    sampled, waiting = (
        {*zip(capture.samples.pid[rows].tolist(), capture.samples.tid[rows].tolist(), strict=True)}
        for rows in (~spans, spans)
    )
    for place, ((pid, tid), name) in enumerate(threads.items()):
        tracks = [(tid, name, 3 * place)]
        if (pid, tid) in sampled:
            tracks.append((_CAUSE_TIDS + tid, f"{name}: causes", 3 * place + 1))
        if (pid, tid) in waiting:
            tracks.append((_WAIT_TIDS + tid, f"{name}: waits", 3 * place + 2))
        for track, shown, order in tracks:
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": track, "args": {"name": shown}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": track, "args": {"sort_index": order}}


def _ranges(capture: Capture, begin: int) -> Iterator[Json]:
    """Slices where a thread's ranges nest, asynchronous ones where they overlap, as start/end ranges may."""
    ranges = capture.ranges
    open_until: dict[tuple[int, int], list[int]] = {}
    threads = [column.tolist() for column in rows.range_threads(capture)]
    for row in np.lexsort((-ranges.end_ns, ranges.start_ns)).tolist():
        pid, tid = (column[row] for column in threads)
        start, end = int(ranges.start_ns[row]), int(ranges.end_ns[row])
        common: Json = {"name": ranges.name[row], "cat": "nvtx", "pid": pid, "tid": tid}
        common["args"] = {"domain": ranges.domain[row]}
        enclosing = open_until.setdefault((pid, tid), [])
        while enclosing and enclosing[-1] <= start:
            enclosing.pop()
        if not enclosing or end <= enclosing[-1]:
            enclosing.append(end)
            yield {"ph": "X", "ts": _us(start - begin), "dur": _us(end - start), **common}
        else:
            yield {"ph": "b", "id": row, "ts": _us(start - begin), **common}
            yield {"ph": "e", "id": row, "ts": _us(end - begin), **common}


def _calls(calls: ApiCallTable, begin: int) -> Iterator[Json]:
    columns = (calls.start_ns, calls.end_ns, calls.name, calls.pid, calls.tid, calls.correlation_id, calls.api)
    rows_of_calls = zip(*(column.tolist() for column in columns), strict=True)
    for start, end, name, pid, tid, correlation, api in rows_of_calls:
        category = "cuda_driver" if api == Api.DRIVER else "cuda_runtime"
        shown = calls.names[name] if name >= 0 else "CUDA call"
        yield _slice(shown, category, (pid, tid), (start - begin, end - start), correlation=correlation)


def _gpu_work(activity: Activity, begin: int) -> Iterator[Json]:
    """GPU work on tracks of its own, a process per device and a thread per stream, joined to the calls by arrows."""
    ops, calls = activity.window_ops if len(activity.windows) else activity.gpu_ops, activity.calls
    ops = ops.take(in_order(ops.start_ns))
    for start, end in zip(activity.windows.start_ns.tolist(), activity.windows.end_ns.tolist(), strict=True):
        yield _slice("GPU work recorded", "gpu_window", (_GPU_PIDS, _WINDOW_TID), (start - begin, end - start))
    for device in ascending(ops.device).tolist():
        name = {"name": f"GPU {device}" if device >= 0 else "GPU"}
        yield {"ph": "M", "name": "process_name", "pid": _GPU_PIDS + device, "tid": 0, "args": name}
        for tid, shown in ((_MIGRATION_TID, "unified memory migrations"), (_FAULT_TID, "GPU page faults")):
            track = {"pid": _GPU_PIDS + device, "tid": tid}
            yield {"ph": "M", "name": "thread_name", **track, "args": {"name": shown}}
    callers = {
        number: (pid, tid, start)
        for number, pid, tid, start in zip(
            calls.correlation_id.tolist(), calls.pid.tolist(), calls.tid.tolist(), calls.start_ns.tolist(), strict=True
        )
        if number > 0
    }
    columns = (ops.start_ns, ops.end_ns, ops.kind, ops.name, ops.device, ops.stream, ops.correlation_id, ops.size_bytes)
    enums = (ops.copy_kind, ops.src_kind, ops.dst_kind, ops.sync)
    causes = {number: name for name, number in CAUSES.items()}
    kinds = zip(*(column.tolist() for column in enums), strict=True)
    rows_of_ops = zip(*(column.tolist() for column in columns), ops.cause.tolist(), kinds, strict=True)
    for start, end, kind, name, device, stream, correlation, size, cause, described in rows_of_ops:
        where = (_GPU_PIDS + device, _MIGRATION_TID if kind == OpKind.MIGRATION else max(stream, 0))
        arguments: Json = {"device": device, "stream": stream, "correlation": correlation}
        arguments |= {"bytes": size} if size else {}
        arguments |= {"cause": causes[cause]} if cause in causes else {}
        shown = ops.names[name] if kind == OpKind.KERNEL and name >= 0 else _op_name(kind, *described)
        times = (start - begin, end - start)
        yield _slice(shown, _OP_CATEGORIES.get(kind, "gpu"), where, times, **arguments)
        if correlation in callers:
            pid, tid, called = callers[correlation]
            flow = {"name": "ac2g", "cat": "ac2g", "id": correlation}
            yield {"ph": "s", **flow, "pid": pid, "tid": tid, "ts": _us(called - begin)}
            yield {"ph": "f", "bp": "e", **flow, "pid": where[0], "tid": where[1], "ts": _us(start - begin)}


def _gpu_faults(faults: PageFaultTable, begin: int) -> Iterator[Json]:
    """Fault groups of the GPUs; faults of the CPU have no duration."""
    columns = (faults.time_ns, faults.duration_ns, faults.device, faults.count, faults.access)
    for time, duration, device, count, access in zip(*(column.tolist() for column in columns), strict=True):
        if device >= 0:
            name = f"{_ACCESS_NAMES.get(access, 'unknown')} faults"
            track = (_GPU_PIDS + device, _FAULT_TID)
            yield _slice(name, "gpu_faults", track, (time - begin, duration), faults=count)


def _op_name(kind: int, copy: int, source: int, target: int, sync: int) -> str:
    """What Kineto would call it, so that its readers (and ours) know the memory kinds."""
    if kind in (OpKind.COPY, OpKind.MIGRATION):
        direction = _DIRECTION_NAMES.get(copy, "copy")
        verb = "Memcpy" if kind == OpKind.COPY else "Migration"
        return f"{verb} {direction} ({_KIND_NAMES.get(source, 'Unknown')} -> {_KIND_NAMES.get(target, 'Unknown')})"
    if kind == OpKind.MEMSET:
        return f"Memset ({_KIND_NAMES.get(target, 'Unknown')})"
    return _SYNC_NAMES.get(sync, "Sync") if kind == OpKind.SYNC else "CUDA graph"


def _causes(capture: Capture, leaf: Int16, event: int, begin: int) -> Iterator[Json]:
    """Runs of samples with one cause, per thread, in the order of time."""
    samples = capture.samples
    chosen = np.flatnonzero(samples.event == event)
    order = chosen[np.lexsort((samples.time_ns[chosen], samples.tid[chosen], samples.pid[chosen]))]
    if not len(order):
        return
    time, weight, cause = samples.time_ns[order], samples.weight[order], leaf[order]
    thread = np.stack([samples.pid[order], samples.tid[order]], axis=1)
    changed = (np.diff(thread, axis=0) != 0).any(axis=1)
    start = time - weight
    # A sample cannot stand for time that an earlier one of its thread stands for already.
    start[1:] = np.where(changed, start[1:], np.maximum(start[1:], time[:-1]))
    apart = start[1:] - time[:-1] > (_GAP - 1) * np.maximum(weight[1:], 1)
    first = np.flatnonzero(np.append(True, changed | (cause[1:] != cause[:-1]) | apart))
    last = np.append(first[1:], len(order)) - 1
    total = np.add.reduceat(weight, first)
    for low, high, amount in zip(first.tolist(), last.tolist(), total.tolist(), strict=True):
        row = int(order[low])
        yield _slice(
            CATEGORIES[int(cause[low])].name,
            "cause",
            (int(samples.pid[row]), _CAUSE_TIDS + int(samples.tid[row])),
            (int(start[low]) - begin, int(time[high] - start[low])),
            event=capture.events[event].name,
            samples=high - low + 1,
            weight_ns=amount,
            function=_function(capture, int(samples.stack[row])),
        )


def _waits(capture: Capture, leaf: Int16, event: int, begin: int) -> Iterator[Json]:
    """Each interval off the CPU, with what the thread waited for."""
    samples = capture.samples
    rows = np.flatnonzero((samples.event == event) & (samples.weight > 0))
    columns = (rows, samples.time_ns[rows], samples.weight[rows], samples.pid[rows], samples.tid[rows])
    for row, time, weight, pid, tid in zip(*(column.tolist() for column in columns), strict=True):
        cause = CATEGORIES[int(leaf[row])].name
        function = _function(capture, int(samples.stack[row]))
        where, times = (pid, _WAIT_TIDS + tid), (time - begin, weight)
        yield _slice(cause, "wait", where, times, event=capture.events[event].name, function=function)


def _function(capture: Capture, node: int) -> str:
    stacks = capture.stacks
    return "" if node == NO_NODE else stacks.frames.symbol[int(stacks.frame[node])]


def _counters(capture: Capture, leaf: Int16, event: int, begin: int) -> Iterator[Json]:
    """The weight of each level in equal intervals of time, per process."""
    samples = capture.samples
    level_of = [category.level for category in CATEGORIES]
    levels = sorted(set(level_of))
    level = np.array([levels.index(name) for name in level_of])[leaf]
    name = f"{capture.events[event].name} ({capture.events[event].unit})"
    for pid in ascending(samples.pid[samples.event == event]).tolist():
        chosen = np.flatnonzero((samples.event == event) & (samples.pid == pid))
        counted, width, zero = _histogram(samples.time_ns[chosen], level[chosen], samples.weight[chosen], len(levels))
        shown = np.flatnonzero(counted.any(axis=0)).tolist()
        idle = True
        for number, row in enumerate(counted.tolist()):
            # Of consecutive empty intervals the first alone tells the same.
            if any(row) or not idle:
                args = {levels[column]: row[column] for column in shown}
                at = _us(zero + number * width - begin)
                yield {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": at, "args": args}
            idle = not any(row)


def _histogram(time: Int64, level: Int64, weight: Int64, levels: int) -> tuple[Int64, int, int]:
    """Weight by interval and level, an empty interval at the end; the width of an interval; where the first begins."""
    zero = int(time.min())
    width = (int(time.max()) - zero) // _BINS + 1
    counted = np.zeros((int((time.max() - zero) // width) + 2, levels), np.int64)
    np.add.at(counted, ((time - zero) // width, level), weight)
    return counted, width, zero


def _slice(name: str, category: str, track: tuple[int, int], times: tuple[int, int], **arguments: Any) -> Json:
    """A slice on the track (pid, tid), of (start, length) in nanoseconds since the trace's zero."""
    (pid, tid), (start, length) = track, times
    where: Json = {"pid": pid, "tid": tid, "ts": _us(start), "dur": _us(length)}
    return {"ph": "X", "name": name, "cat": category, **where, "args": arguments}


def _us(ns: int) -> float:
    """Microseconds with three decimals: no nanosecond is lost below 10^15 ns."""
    return ns / 1000
