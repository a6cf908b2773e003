"""CUDA calls from uprobes (calls.data): entered and left, paired by thread → `Activity` without GPU work.

A call's size is its argument; cuda_memory.py tells that of frees, and where both ends of copies lie. A call's site
is its innermost caller in the program's own code, else the innermost function that is not CUDA's own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pinprof.base.columns import ascending
from pinprof.base.errors import PinprofError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_counted
from pinprof.data.activity import NO_STREAM, Activity, Api, ApiCallTable, Caller, CopyKind, GivenUp, Location
from pinprof.data.gpu_functions import (
    CREATE_CONTEXT,
    FUNCTIONS,
    READ_PIECES,
    STATED,
    Function,
    of_vendor,
    plain_name,
)
from pinprof.data.model import NO_NODE, Bool, FrameTable, Int32, Int64, StackTable, UInt8, UInt64
from pinprof.data.own_code import library_part
from pinprof.read.by_thread import outermost
from pinprof.read.perf import cuda_memory
from pinprof.read.perf import data as perf_data
from pinprof.read.perf.call_losses import ENTER, LEAVE, CallLosses
from pinprof.read.perf.cuda_memory import Arguments
from pinprof.read.perf.stacks import build_stacks
from pinprof.read.symbols.resolver import Resolver

SOURCE = "uprobes on libcuda and libcudart"
TRACED = frozenset({"cuda calls", "memory"})
_FUNCTION, _ARGUMENTS, _RESULT = 1, 2, 3
"""Places in the payload: `struct uprobe_trace_entry_head` (kernel/trace/trace_uprobe.c), then what was fetched."""
_MOST_PIECE = np.uint64(1 << 48)
"""Bytes: a piece beyond this is damage."""
_DEEPEST = 64
"""Calls inside one another whose return the kernel tells (MAX_URETPROBE_DEPTH, include/linux/uprobes.h)."""


@dataclass(frozen=True)
class CudaCalls:
    """What calls.data holds, and what must be said about it."""

    activity: Activity
    notes: tuple[str, ...]
    stacks: StackTable | None = None
    """The callers'; the calls' `stack` points into it."""


def unreadable(error: PinprofError) -> CudaCalls:
    """What is known of a file that cannot be read."""
    return CudaCalls(Activity(SOURCE), (f"CUDA calls can't be read: {error.problem}",))


def calls_of(recording: perf_data.PerfRecording, resolver: Resolver, given_up: Sequence[GivenUp] = ()) -> CudaCalls:
    """The calls of a recording, of a damaged one what is whole. `given_up`: when kinds of calls were not traced."""
    raw = recording.raw
    names, kinds = ([source.name.partition("/")[part] for source in recording.header.sources] for part in (0, 2))
    losses = CallLosses(raw, recording.header.sources, given_up)
    if ENTER not in names or LEAVE not in names or not len(raw.payload):
        return CudaCalls(
            Activity(SOURCE, recorded=TRACED, lost_calls=raw.lost_samples, lost_memory=losses.lost_memory),
            (),
        )
    samples = raw.samples
    stacks = build_stacks(raw.chains, samples.chain, raw.spaces, resolver)
    entered, left, still = _pairs(
        samples.clock,
        samples.pid,
        samples.tid,
        np.isin(samples.source, np.flatnonzero([name == LEAVE for name in names])),
        raw.payload[:, _FUNCTION],
    )
    traced = ~_across(given_up, samples.clock[entered], samples.clock[left], samples.source[entered], kinds)
    traced &= ~losses.across(entered, left)
    entered, left = entered[traced], left[traced]
    named = entered[stacks.node[entered] != NO_NODE]
    left = left[stacks.node[entered] != NO_NODE]
    calls, arguments = _table(
        samples.clock, samples.pid, samples.tid, named, left, raw.payload, raw.batches, stacks.table, stacks.node
    )
    memory = cuda_memory.with_memory(
        calls, arguments, [area for _, area in raw.areas], raw.tasks, missing=losses.of_memory
    )
    notes = []
    end = np.full(len(still), np.iinfo(np.int64).max)
    open_calls = int((~_across(given_up, samples.clock[still], end, samples.source[still], kinds)).sum())
    if open_calls:
        what = format_counted(open_calls, "CUDA call", "CUDA calls")
        notes.append(f"{what} had not returned when the recording ended, and were left out.")
    if cut := int((arguments.pieces > READ_PIECES).sum()):
        what = format_counted(cut, "batched call has", "batched calls have")
        notes.append(f"{what} more than {READ_PIECES} pieces; only that many sizes count.")
    if raw.lost_samples:
        what = format_counted(raw.lost_samples, "record of CUDA calls was", "records of CUDA calls were")
        notes.append(f"{what} lost, so the counts of calls are too low.")
    activity = Activity(
        SOURCE, calls=memory.calls, memory=memory.usage, recorded=TRACED, lost_calls=raw.lost_samples,
        lost_memory=losses.lost_memory,
        given_up=tuple(given_up),
    )  # fmt: skip
    return CudaCalls(activity, tuple(notes), stacks.table)


def _across(given_up: Sequence[GivenUp], start: Int64, end: Int64, source: Int32, kinds: Sequence[str]) -> np.ndarray:
    """Per pair of an entry and a return, whether its kind was given up between them: they are not of one call, or what
    is known of it is not whole. `kinds`: of each source.
    """
    result = np.zeros(len(start), np.bool_)
    for kind in set(kinds):
        gaps = [part for part in given_up if part.kind == kind]
        mine = np.isin(source, np.flatnonzero([each == kind for each in kinds]))
        begins = np.array(sorted(part.start_ns for part in gaps), np.int64)
        result |= mine & (np.searchsorted(begins, start) < np.searchsorted(begins, end))
    return result


def _pairs(time: Int64, pid: Int32, tid: Int32, leaving: np.ndarray, function: UInt64) -> tuple[Int64, Int64, Int64]:
    """Rows where calls were entered and where the same were left, by start; those of calls that were never left.

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
    never = np.array([row for rows in inside.values() for row in rows], np.int64)
    by_start = np.argsort(time[starts], kind="stable") if len(starts) else starts
    return starts[by_start], np.array(left, np.int64)[by_start], never


def _table(
    time: Int64,
    pid: Int32,
    tid: Int32,
    entered: Int64,
    left: Int64,
    payload: UInt64,
    batches: tuple[Int64, UInt64],
    stacks: StackTable,
    node: Int32,
) -> tuple[ApiCallTable, Arguments]:
    """The outermost calls, and what else their arguments say."""
    order = np.lexsort((-time[left], time[entered]))
    entered, left = entered[order], left[order]
    outer = outermost(time[entered], time[left], pid[entered], tid[entered])
    kept = np.flatnonzero(outer == np.arange(len(outer)))
    folded = (np.bincount(outer, minlength=len(outer)) - 1)[kept]
    row = entered[kept]
    places: dict[str, int] = {}
    of_node: dict[int, tuple[int, int]] = {}
    sites: dict[Caller, int] = {}
    for number in ascending(node[row]).tolist():
        name, site = _called(stacks, number)
        of_node[number] = (
            places.setdefault(name, len(places)),
            sites.setdefault(site, len(sites)) if site else -1,
        )
    called, caller = np.array([of_node[number] for number in node[row].tolist()], np.int32).reshape(-1, 2).T
    names = tuple(places)
    asked = _Asked([FUNCTIONS.get(name, Function()) for name in names], called, payload[row, _ARGUMENTS:])
    pieces = asked.argument("pieces")
    size = _product(asked.argument("size"), asked.each(lambda role: role.unit, np.uint64)).view(np.uint64)
    size = np.where(asked.has("rows"), _product(size, asked.argument("rows")), size.astype(np.int64))
    size = np.where(asked.has("size"), size, _batched(row, pieces, *batches))
    runtime = np.array([*(name.startswith("cuda") for name in names), False], np.bool_)[called]
    table = ApiCallTable(
        start_ns=time[row],
        end_ns=time[left[kept]],
        name=called.copy(),
        pid=pid[row],
        tid=tid[row],
        correlation_id=np.arange(1, len(row) + 1),
        status=payload[left[kept], _RESULT].astype(np.uint32).view(np.int32),
        api=np.where(runtime, np.uint8(Api.RUNTIME), np.uint8(Api.DRIVER)),
        folded=folded.astype(np.int32),
        names=names,
        size_bytes=np.maximum(size, -1),
        site=caller.copy(),
        sites=tuple(sites),
        stack=node[row],
        context_ns=_context_inside(time[left] - time[entered], stacks, node[entered], outer, kept),
        stream=_streams(payload[entered, _ARGUMENTS:], stacks, node[entered], outer, kept),
    )
    stated = asked.stated()
    _state_by_inner(stated, stacks, node[entered], outer, kept)
    pointer, target, source, properties = map(asked.argument, ("pointer", "target", "source", "properties"))
    location = properties & np.uint64(0xFFFFFFFF)
    location[location > max(Location)] = Location.UNKNOWN
    return table, Arguments(pointer, target, source, stated, pieces, location.astype(np.uint8))


def _batched(row: Int64, pieces: UInt64, rows: Int64, sizes: UInt64) -> Int64:
    """Per call what its first READ_PIECES pieces are together, -1 for a single call; `rows` have `sizes`."""
    order = np.argsort(rows, kind="stable")
    place = np.searchsorted(rows[order], row)
    found = np.flatnonzero((np.append(rows[order], -1)[place] == row) & (pieces > 0))
    mine = sizes[order[place[found]]]
    mine = np.where(np.arange(sizes.shape[1]) < pieces[found, None], mine, np.uint64(0))
    total = np.full(len(row), -1, np.int64)
    total[found] = np.where((mine < _MOST_PIECE).all(1), mine.sum(1), np.uint64(2**64 - 1)).astype(np.int64)
    return total


def _of_functions(stacks: StackTable, node: Int32, value: Callable[[str], object], dtype: DTypeLike) -> NDArray[Any]:
    """Per call, by its node, what is known of the function of that name."""
    nodes, which = np.unique(node, return_inverse=True)
    return np.array([value(_name(stacks, number)) for number in nodes.tolist()], dtype)[which.reshape(-1)]


def _context_inside(duration: Int64, stacks: StackTable, node: Int32, outer: Int64, kept: Int64) -> Int64:
    """Per outermost call the time in calls inside it that create a context; the other columns are of all calls."""
    inner = np.flatnonzero(outer != np.arange(len(outer)))
    inner = inner[_of_functions(stacks, node[inner], lambda name: name in CREATE_CONTEXT, np.bool_)]
    total = np.zeros(len(outer), np.int64)
    np.add.at(total, outer[inner], duration[inner])
    return total[kept]


def _streams(arguments: UInt64, stacks: StackTable, node: Int32, outer: Int64, kept: Int64) -> UInt64:
    """Per outermost call the stream of the copy that it makes, itself or by a call inside it; the rest of all calls."""
    streamed = {name: role.stream for name, role in FUNCTIONS.items() if role.stream is not None}
    place = _of_functions(stacks, node, lambda name: streamed.get(name, -1), np.int64)
    found = np.flatnonzero(place >= 0)
    streams = np.full(len(outer), NO_STREAM, np.uint64)
    streams[outer[found]] = arguments[found, place[found]]
    return streams[kept]


@dataclass(frozen=True)
class _Asked:
    """What calls asked for."""

    roles: Sequence[Function]
    called: Int32
    """Per call its function's place in `roles`."""
    arguments: UInt64

    def each(self, value: Callable[[Function], object], dtype: DTypeLike) -> NDArray[Any]:
        """Per call what is known of its function."""
        return np.array([*map(value, self.roles), value(Function())], dtype)[self.called]

    def has(self, part: str) -> Bool:
        """Per call whether its function has such an argument."""
        return self.each(lambda role: getattr(role, part) is not None, np.bool_)

    def argument(self, part: str) -> UInt64:
        """Per call that argument, 0 where its function has none."""
        place = self.each(lambda role: getattr(role, part) or 0, np.int64)
        return np.where(self.has(part), self.arguments[np.arange(len(self.called)), place], np.uint64(0))

    def stated(self) -> UInt8:
        """`CopyKind` as names and arguments state it."""
        by_name = self.each(lambda role: role.copies or CopyKind.UNKNOWN, np.uint8)
        given = self.argument("stated").astype(np.uint32)
        return np.where(self.has("stated"), np.array(STATED, np.uint8)[np.minimum(given, len(STATED) - 1)], by_name)


def _product(one: UInt64, other: UInt64) -> Int64:
    """Rows of bytes as bytes; -1 for more than any memory has."""
    return np.where(one.astype(float) * other.astype(float) < 2.0**63, one * other, np.uint64(2**64 - 1)).astype(
        np.int64
    )


def _state_by_inner(stated: UInt8, stacks: StackTable, node: Int32, outer: Int64, kept: Int64) -> None:
    """Let copies without a stated direction have that of a call inside them; `node` and `outer` of all calls."""
    inner = np.flatnonzero(outer != np.arange(len(outer)))
    directions = {name: role.copies for name, role in FUNCTIONS.items() if role.copies}
    recorded = _of_functions(stacks, node[inner], lambda name: directions.get(name, CopyKind.UNKNOWN), np.uint8)
    place = np.searchsorted(kept, outer[inner])
    use = (recorded != CopyKind.UNKNOWN) & (stated[place] == CopyKind.UNKNOWN)
    stated[place[use]] = recorded[use]


def _name(stacks: StackTable, node: int) -> str:
    return plain_name(stacks.frames.function[int(stacks.frame[node])])


def _called(stacks: StackTable, node: int) -> tuple[str, Caller | None]:
    """The function that a stack ends in, and its caller, as the top of this module says."""
    frames = stacks.frames
    own = [
        frame
        for frame in (int(stacks.frame[above]) for above in list(stacks.chain(node))[1:])
        if not of_vendor(frames.function[frame], frames.dsos[int(frames.dso[frame])].name)
    ]
    chosen = [
        *(frame for frame in own if is_own(frames, frame)),
        *(frame for frame in own if frames.function[frame].startswith("py::")),
        *own,
    ]
    for frame in chosen[:1]:
        path = frames.source_of(frame)
        file = path.rpartition("/")[2] or frames.dsos[int(frames.dso[frame])].name
        return _name(stacks, node), Caller(frames.function[frame], file, frames.lines[frame], path)
    return _name(stacks, node), None


def is_own(frames: FrameTable, frame: int) -> bool:
    """Whether a frame's line is known and is the program's own code."""
    source = frames.source_of(frame)
    return bool(source) and not library_part(source)
