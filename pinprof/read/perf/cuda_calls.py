"""CUDA calls from uprobes (calls.data): entered and left, paired by thread → `Activity` without GPU work.

A call's size is its argument, a free's that of the allocation at its address. Where an allocation lies is not among the
arguments it was entered with; page-locked memory is mapped inside its call, so that the mapping tells. Where that does
not help, a free belongs to the only live allocation of its kind whose address is unknown, or its size stays unknown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pinprof.activity import Activity, Api, ApiCallTable, MemoryKind, MemoryOperation, MemoryUsageTable
from pinprof.cuda_functions import FUNCTIONS, Function, plain_name
from pinprof.errors import PinprofError
from pinprof.model import NO_NODE, Int32, Int64, StackTable, UInt64
from pinprof.read.by_thread import outermost
from pinprof.read.perf import data as perf_data
from pinprof.read.perf.mappings import AddressSpaces
from pinprof.read.symbols.resolver import Resolver
from pinprof.units import format_counted

SOURCE = "uprobes on libcuda and libcudart"
TRACED = frozenset({"cuda calls", "memory"})
_ENTER, _LEAVE = "call-enter", "call-leave"
_FUNCTION, _ARGUMENTS, _RESULT = 1, 2, 3
"""Places in the payload: `struct uprobe_trace_entry_head` (kernel/trace/trace_uprobe.c), then what was fetched."""
_DEEPEST = 64
"""Calls inside one another whose return the kernel tells (MAX_URETPROBE_DEPTH, include/linux/uprobes.h)."""
_CUDA_LIBRARIES = ("libcuda.", "libcudart.")
_KINDS = (
    (("Managed",), MemoryKind.MANAGED),
    (("Host",), MemoryKind.PINNED),
    (("Malloc", "MemAlloc", "Free"), MemoryKind.DEVICE),
)


@dataclass(frozen=True)
class CudaCalls:
    """What calls.data holds, and what must be said about it."""

    activity: Activity
    notes: tuple[str, ...]


def load(path: Path, resolver: Resolver) -> CudaCalls:
    """The calls of a capture; of a damaged file what is whole."""
    try:
        recording = perf_data.load(path)
    except PinprofError as error:
        return CudaCalls(Activity(SOURCE), (f"CUDA calls cannot be read: {error.problem}",))
    raw = recording.raw
    names = [source.name for source in recording.header.sources]
    if _ENTER not in names or _LEAVE not in names or not len(raw.payload):
        return CudaCalls(Activity(SOURCE, recorded=TRACED), ())
    samples = raw.samples
    spaces = AddressSpaces(perf_data.times_by_pid(samples))
    for time, record in sorted(raw.tasks, key=lambda task: task[0]):
        spaces.apply(time, record, recording.header.features.build_ids)
    stacks = perf_data.stacks_of(samples, raw, spaces, resolver)
    entered, left, open_calls = _pairs(
        samples.clock,
        samples.pid,
        samples.tid,
        np.isin(samples.source, np.flatnonzero([name == _LEAVE for name in names])),
        raw.payload[:, _FUNCTION],
    )
    named = entered[stacks.node[entered] != NO_NODE]
    left = left[stacks.node[entered] != NO_NODE]
    calls, row = _table(samples.clock, samples.pid, samples.tid, named, left, raw.payload, stacks.table, stacks.node)
    pointer = raw.payload[row, _ARGUMENTS] if len(row) else np.zeros(0, np.uint64)
    calls, memory = _memory(calls, pointer, raw.areas)
    notes = []
    if open_calls:
        what = format_counted(open_calls, "CUDA call", "CUDA calls")
        notes.append(f"{what} had not returned when the recording ended; left out.")
    if raw.lost_samples:
        what = format_counted(raw.lost_samples, "record of CUDA calls was", "records of CUDA calls were")
        notes.append(f"{what} lost: the calls' counts are too low.")
    return CudaCalls(Activity(SOURCE, calls=calls, memory=memory, recorded=TRACED), tuple(notes))


def _pairs(time: Int64, pid: Int32, tid: Int32, leaving: np.ndarray, function: UInt64) -> tuple[Int64, Int64, int]:
    """Rows where calls were entered and where the same were left, by start; how many were never left.

    A function returns before its caller does. One whose return was lost is given up when its caller returns.
    """
    inside: dict[tuple[int, int], list[int]] = defaultdict(list)
    entered, left = [], []
    order = np.argsort(time, kind="stable")
    columns = (order, pid[order], tid[order], leaving[order], function[order])
    for row, process, thread, leaves, address in zip(*(column.tolist() for column in columns), strict=True):
        stack = inside[process, thread]
        if not leaves:
            stack.append(row)
            continue
        for depth in range(len(stack) - 1, max(len(stack) - 1 - _DEEPEST, -1), -1):
            if int(function[stack[depth]]) == address:
                entered.append(stack[depth])
                left.append(row)
                del stack[depth:]
                break
    starts = np.array(entered, np.int64)
    by_start = np.argsort(time[starts], kind="stable") if len(starts) else starts
    return starts[by_start], np.array(left, np.int64)[by_start], sum(map(len, inside.values()))


def _table(
    time: Int64,
    pid: Int32,
    tid: Int32,
    entered: Int64,
    left: Int64,
    payload: UInt64,
    stacks: StackTable,
    node: Int32,
) -> tuple[ApiCallTable, Int64]:
    """The outermost calls, and each one's row among the samples."""
    order = np.lexsort((-time[left], time[entered]))
    entered, left = entered[order], left[order]
    outer = outermost(time[entered], time[left], pid[entered], tid[entered])
    kept = np.flatnonzero(outer == np.arange(len(outer)))
    folded = (np.bincount(outer, minlength=len(outer)) - 1)[kept]
    row = entered[kept]
    places: dict[str, int] = {}
    of_node: dict[int, tuple[int, int]] = {}
    sites: dict[str, int] = {}
    for number in np.unique(node[row]).tolist():
        name, site = _called(stacks, number)
        of_node[number] = (
            places.setdefault(name, len(places)),
            sites.setdefault(site, len(sites)) if site else -1,
        )
    called, caller = np.array([of_node[number] for number in node[row].tolist()], np.int32).reshape(-1, 2).T
    names = tuple(places)
    roles = [FUNCTIONS.get(name, Function()) for name in names]
    arguments = payload[row, _ARGUMENTS:]
    place = np.array([-1 if role.size is None else role.size for role in roles] or [-1], np.int64)
    column = place[called]
    size = arguments[np.arange(len(row)), np.maximum(column, 0)].astype(np.int64)
    table = ApiCallTable(
        start_ns=time[row],
        end_ns=time[left[kept]],
        name=called.copy(),
        pid=pid[row],
        tid=tid[row],
        correlation_id=np.arange(1, len(row) + 1),
        status=payload[left[kept], _RESULT].astype(np.uint32).view(np.int32),
        api=np.array([Api.RUNTIME if name.startswith("cuda") else Api.DRIVER for name in names], np.uint8)[called]
        if names
        else np.zeros(0, np.uint8),
        folded=folded.astype(np.int32),
        names=names,
        size_bytes=np.where((column >= 0) & (size >= 0), size, -1),
        site=caller.copy(),
        sites=tuple(sites),
    )
    return table, row


def _called(stacks: StackTable, node: int) -> tuple[str, str]:
    """The function that a stack ends in, and who called it: a Python function, or whatever is not CUDA's own."""
    frames = stacks.frames
    chain = [int(stacks.frame[above]) for above in stacks.chain(node)]
    name = plain_name(frames.function(chain[0]))
    callers = [(frame, frames.dsos[int(frames.dso[frame])].name) for frame in chain[1:]]
    own = [
        (frame, library)
        for frame, library in callers
        if not library.startswith(_CUDA_LIBRARIES) and plain_name(frames.function(frame)) not in FUNCTIONS
    ]
    python = [caller for caller in own if frames.symbol[caller[0]].startswith("py::")]
    for frame, library in (python or own)[:1]:
        symbol = frames.symbol[frame]
        return name, symbol if frames.source_of(frame) else f"{symbol} ({library})"
    return name, ""


def _memory(
    calls: ApiCallTable, pointer: UInt64, areas: list[tuple[int, int, int, int, int]]
) -> tuple[ApiCallTable, MemoryUsageTable]:
    """The calls with the sizes of frees, and what was allocated and freed."""
    assert calls.size_bytes is not None
    size = calls.size_bytes.copy()
    roles = [FUNCTIONS.get(name, Function()) for name in calls.names]
    kinds = [_kind(name) for name in calls.names]
    mapped: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for clock, pid, tid, start, end in sorted(areas):
        mapped[pid, tid].append((clock, start, end))
    live: dict[tuple[int, MemoryKind, int], int] = {}
    adrift: dict[tuple[int, MemoryKind], list[int]] = defaultdict(list)
    rows: list[tuple[int, int, int, MemoryKind, MemoryOperation]] = []
    for row in np.flatnonzero(calls.status == 0).tolist():
        role, kind = roles[calls.name[row]], kinds[calls.name[row]]
        pid = int(calls.pid[row])
        if kind is None:
            continue
        if role.grants or role.size is not None:
            if role.pointer is not None:
                address = int(pointer[row])
            else:
                # Device memory lies in no mapping of the host.
                address = 0 if kind == MemoryKind.DEVICE else _address(calls, row, mapped)
            rows.append((row, int(size[row]), address, kind, MemoryOperation.ALLOCATE))
            if address:
                live[pid, kind, address] = int(size[row])
            else:
                adrift[pid, kind].append(int(size[row]))
        elif role.pointer is not None and pointer[row]:
            address = int(pointer[row])
            held = [each for each in (kind, MemoryKind.MANAGED) if (pid, each, address) in live]
            unknown = adrift[pid, kind] or adrift[pid, MemoryKind.MANAGED]
            if held:
                kind = held[0]
                size[row] = live.pop((pid, kind, address))
            elif len(unknown) == 1:
                size[row] = unknown.pop()
            else:
                continue
            rows.append((row, int(size[row]), address, kind, MemoryOperation.FREE))
    number = np.array([entry[0] for entry in rows], np.int64)
    usage = MemoryUsageTable.of(
        len(rows),
        time_ns=calls.end_ns[number],
        size_bytes=[max(entry[1], 0) for entry in rows],
        address=[entry[2] for entry in rows],
        memory_kind=[entry[3] for entry in rows],
        operation=[entry[4] for entry in rows],
        device=-1,
        pid=calls.pid[number],
        correlation_id=calls.correlation_id[number],
    )
    return replace(calls, size_bytes=size), usage.take(np.argsort(usage.time_ns, kind="stable"))


def _kind(name: str) -> MemoryKind | None:
    """The memory that a function makes or gives back; None for every other function."""
    role = FUNCTIONS.get(name)
    if role is None or not (role.grants or role.pointer is not None):
        return None
    return next((kind for words, kind in _KINDS if any(word in name for word in words)), None)


def _address(calls: ApiCallTable, row: int, mapped: dict[tuple[int, int], list[tuple[int, int, int]]]) -> int:
    """Where an allocation lies: the smallest mapping made inside the call that can hold it; 0 when there is none."""
    assert calls.size_bytes is not None
    wanted = int(calls.size_bytes[row])
    areas = mapped.get((int(calls.pid[row]), int(calls.tid[row])), [])
    first = bisect_left(areas, int(calls.start_ns[row]), key=lambda area: area[0])
    last = bisect_right(areas, int(calls.end_ns[row]), key=lambda area: area[0])
    made = [(end - start, start) for _, start, end in areas[first:last] if end - start >= wanted]
    return min(made)[1] if made else 0
