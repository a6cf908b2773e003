"""Which line of Python each CUDA call was made from: looks at its thread decide, and what its native callers were seen in.

A look inside a call says its line, as it does of a wait (matching.py). Most calls are too short for that. Calls of one
native stack come from few lines, and these are known, best first, from

- looks well inside calls of that stack;
- samples with the same native callers, whose Python stacks are known, and looks that fell into the short calls;
- looks right before and after a call, where both saw one line, and all calls of the stack agree on it.

Where they come from several lines, a call has the one of them that the nearest look saw. What this leaves open keeps its
native caller as its site.

A line counts as in `own_code`: the innermost one of the program's own code, else the innermost library line. A line of
C or C++ that is the program's own, and was called by Python, is the one; a line that called Python is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pinprof.activity import ApiCallTable
from pinprof.columns import pack, unpack
from pinprof.cuda_functions import FUNCTIONS, plain_name
from pinprof.model import NO_NODE, UNDECIDED_LINE, Bool, Capture, FrameTable, Int32, Int64, StackTable, UInt64
from pinprof.own_code import library_part
from pinprof.read.by_thread import threads
from pinprof.read.python.stacks import NO_STACK, PythonStacks

NO_LINE = -1
_EDGE_NS = 100_000
"""Before the end of a call: a look may have seen what came after it."""
_FARTHEST_PERIODS = 8
"""Between a call and the nearest look that may choose among its lines."""
_CALLERS = (12, 6, 3, 1)
"""Native callers next to CUDA that samples have in common with a call: as many as any samples share."""
_CERTAIN, _USUAL = 0.9, 0.05
"""The part of what is known of a stack that decides for a line, and that a line needs to be one of several."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_CUDA = ("libcuda.", "libcudart.")
_LINKED_CUDA = "libcudart_static_"


@dataclass(frozen=True)
class _Looked:
    """What looks say of calls, columns of the calls' table."""

    inside: Int32
    """The line that a look saw well inside the call; NO_LINE without one."""
    within: Int32
    """The same of any look inside."""
    before: Int32
    after: Int32
    """The lines of the neighbouring looks; NO_LINE where there is none near."""
    nearer_before: Bool


def with_lines(
    calls: ApiCallTable, native: StackTable, loops: Sequence[bool], capture: Capture, stacks: PythonStacks, seen: Int32
) -> ApiCallTable:
    """The calls with their lines of Python as sites.

    `native` are the calls' stacks, `loops` says which of its frames are the interpreter's evaluation loop; `seen` is the
    Python stack of each of the capture's samples.
    """
    if calls.stack is None or calls.site is None or not len(calls):
        return calls
    lines = _lines(stacks)
    looked = _look(calls, stacks, lines)
    distinct, of_call = np.unique(calls.stack, return_inverse=True)
    of_call = of_call.reshape(-1)
    by_samples = _votes_of_samples(native, distinct, loops, capture, lines[seen])
    line = _decide(looked, of_call, len(distinct), by_samples)
    decided_by_native = np.array([_calls_from_python_code(native, int(node), loops) for node in distinct], np.bool_)
    line[decided_by_native[of_call]] = NO_LINE
    sites = {site: number for number, site in enumerate(calls.sites)}
    numbers = np.append(np.zeros(len(stacks.frames), np.int32), np.int32(-1))
    for frame in np.unique(line[line != NO_LINE]).tolist():
        numbers[frame] = sites.setdefault(_text(stacks, frame), len(sites))
    site = np.where(line != NO_LINE, numbers[line], calls.site).astype(np.int32)
    return replace(calls, site=site, sites=tuple(sites))


def _text(stacks: PythonStacks, frame: int) -> str:
    function, file, line = stacks.frames[frame]
    place = library_part(file) or file.rpartition("/")[2] or file
    return f"{function} ({place}:{line})" if line else f"{function} ({place})"


def _lines(stacks: PythonStacks) -> Int32:
    """Per Python stack, one more for NO_STACK: the frame that its calls count for, NO_LINE where that is undecided."""
    own = [not library_part(file) for _, file, _ in stacks.frames]
    undecided = [function == UNDECIDED_LINE for function, _, _ in stacks.frames]
    lines = np.full(len(stacks.stacks) + 1, NO_LINE, np.int32)
    is_own = [False] * (len(stacks.stacks) + 1)
    for number, (caller, frame) in enumerate(stacks.stacks):
        if own[frame]:
            is_own[number] = True
            lines[number] = NO_LINE if undecided[frame] else frame
        elif caller != NO_STACK and is_own[caller]:
            is_own[number], lines[number] = True, lines[caller]
        else:
            lines[number] = NO_LINE if undecided[frame] else frame
    return lines


def _look(calls: ApiCallTable, stacks: PythonStacks, lines: Int32) -> _Looked:
    count = len(calls)
    looked = _Looked(*(np.full(count, NO_LINE, np.int32) for _ in range(4)), np.zeros(count, np.bool_))
    farthest = _FARTHEST_PERIODS * max(2 * stacks.uncertainty_ns, 1)
    for rows in threads(calls.pid, calls.tid):
        times, stack = stacks.looks(int(calls.pid[rows[0]]), int(calls.tid[rows[0]]))
        if not len(times):
            continue
        saw = np.append(lines[stack], np.int32(NO_LINE))
        start, end = calls.start_ns[rows], calls.end_ns[rows]
        first, last = np.searchsorted(times, start), np.searchsorted(times, end)
        certain = np.maximum(np.searchsorted(times, end - _EDGE_NS), first)
        middle = np.where(certain > first, (first + certain - 1) // 2, len(times))
        looked.inside[rows] = saw[middle]
        looked.within[rows] = saw[np.where(last > first, (first + last - 1) // 2, len(times))]
        before, after = np.maximum(first - 1, 0), np.minimum(last, len(times) - 1)
        apart_before, apart_after = start - times[before], times[after] - end
        looked.before[rows] = np.where((apart_before >= 0) & (apart_before <= farthest), saw[before], NO_LINE)
        looked.after[rows] = np.where((apart_after >= 0) & (apart_after <= farthest), saw[after], NO_LINE)
        looked.nearer_before[rows] = apart_before <= apart_after
    return looked


@dataclass(frozen=True)
class _Votes:
    """What speaks for each line of each stack: distinct (stack, line), packed, ascending, and how often."""

    keys: Int64
    count: Int64

    @classmethod
    def of(cls, stack: Int64, line: Int32, *others: _Votes) -> _Votes:
        """One vote each, and those of others."""
        known = line != NO_LINE
        keys = np.concatenate([pack(stack[known], line[known]), *(other.keys for other in others)])
        weight = np.concatenate([np.ones(int(known.sum()), np.int64), *(other.count for other in others)])
        distinct, which = np.unique(keys, return_inverse=True)
        count = np.zeros(len(distinct), np.int64)
        np.add.at(count, which.reshape(-1), weight)
        return cls(distinct, count)

    def only(self, allowed: Bool) -> _Votes:
        """Those for some stacks."""
        kept = allowed[unpack(self.keys)[0]]
        return _Votes(self.keys[kept], self.count[kept])

    def total(self, stacks: int) -> Int64:
        """Votes by stack."""
        return np.bincount(unpack(self.keys)[0], self.count, minlength=stacks).astype(np.int64)

    def certain(self, stacks: int) -> Int32:
        """Per stack the line that nearly all votes are for, NO_LINE where there is none."""
        stack, line = unpack(self.keys)
        chosen = np.full(stacks, NO_LINE, np.int32)
        won = self.count >= _CERTAIN * self.total(stacks)[stack]
        chosen[stack[won]] = line[won]
        return chosen

    def usual(self, stack: Int64, line: Int32, stacks: int) -> Bool:
        """Whether lines are among those that a stack is usual in."""
        if not len(self.keys):
            return np.zeros(len(stack), np.bool_)
        wanted = pack(stack, line)
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        often = self.count[place] >= _USUAL * self.total(stacks)[stack]
        return (self.keys[place] == wanted) & often & (line != NO_LINE)


def _decide(looked: _Looked, of_call: Int64, stacks: int, by_samples: _Votes) -> Int32:
    """The line of each call; `of_call` is the number of its stack."""
    best = _Votes.of(of_call, looked.inside)
    open_ = best.total(stacks) == 0
    best = _Votes.of(of_call, np.where(open_[of_call], looked.within, NO_LINE), best, by_samples.only(open_))
    open_ = best.total(stacks) == 0
    agreed = np.where((looked.before == looked.after) & open_[of_call], looked.before, NO_LINE).astype(np.int32)
    all_agree = np.bincount(of_call[agreed != NO_LINE], minlength=stacks) == np.bincount(of_call, minlength=stacks)
    last = _Votes.of(of_call, agreed).only(all_agree).certain(stacks)
    certain = best.certain(stacks)
    certain = np.where(certain != NO_LINE, certain, last)
    near = np.where(looked.nearer_before, looked.before, looked.after)
    far = np.where(looked.nearer_before, looked.after, looked.before)
    near, far = (np.where(best.usual(of_call, side, stacks), side, NO_LINE) for side in (near, far))
    chosen = looked.inside.copy()
    for answer in (certain[of_call], near, far):
        chosen = np.where(chosen == NO_LINE, answer, chosen).astype(np.int32)
    return chosen


def _calls_from_python_code(native: StackTable, node: int, loops: Sequence[bool]) -> bool:
    """Whether the program's own C or C++, called by Python or without Python, made the call."""
    frames = native.frames
    for above in native.chain(node):
        frame = int(native.frame[above])
        if loops[frame]:
            return False
        source = frames.source_of(frame)
        if source and not library_part(source):
            return True
    return False


def _votes_of_samples(
    native: StackTable, distinct: Int32, loops: Sequence[bool], capture: Capture, lines: Int32
) -> _Votes:
    """Votes of samples with a line for the calls' `distinct` stacks whose native callers they have."""
    known = np.flatnonzero(lines != NO_LINE)
    table, samples = capture.stacks, capture.samples
    numbers: dict[tuple[str, str], int] = {}
    callers = [_callers(native, int(node), loops, numbers) for node in distinct]
    frame = _numbered(table.frames, numbers)
    found = _Votes(np.zeros(0, np.int64), np.zeros(0, np.int64))
    for length in _CALLERS:
        open_ = found.total(len(distinct)) == 0
        windows: dict[int, list[int]] = {}
        for stack in np.flatnonzero(open_).tolist():
            if len(callers[stack]) >= length:
                windows.setdefault(_hash(callers[stack][:length]), []).append(stack)
        if not windows:
            continue
        below = _below(table, frame, length, np.array(sorted(windows), np.uint64))
        mine = below[samples.stack[known]]
        rows, mine = known[mine >= 0], mine[mine >= 0]
        stacks_of = [windows[window] for window in sorted(windows)]
        pairs, count = np.unique(pack(mine, lines[rows]), return_counts=True)
        keys, weights = [], []
        for window, line, many in zip(*(column.tolist() for column in (*unpack(pairs), count)), strict=True):
            for stack in stacks_of[window]:
                keys.append(stack << 32 | line + (1 << 31))
                weights.append(many)
        more = _Votes(np.array(keys, np.int64), np.array(weights, np.int64))
        found = _Votes.of(np.zeros(0, np.int64), np.zeros(0, np.int32), found, more)
    return found


def _callers(
    native: StackTable, node: int, loops: Sequence[bool], numbers: dict[tuple[str, str], int]
) -> list[int]:
    """The native functions that led to a CUDA call, innermost first, up to the interpreter, as numbers."""
    frames, callers = native.frames, []
    for above in native.chain(node):
        frame = int(native.frame[above])
        name, library = frames.function(frame), frames.dsos[int(frames.dso[frame])].name
        if loops[frame] or name.startswith("py::") or library == "[unknown]":
            break
        if library.startswith(_CUDA) or name.startswith(_LINKED_CUDA) or plain_name(name) in FUNCTIONS:
            callers.clear()
            continue
        callers.append(numbers.setdefault((name, library), len(numbers) + 1))
        if len(callers) == _CALLERS[0]:
            break
    return callers


def _numbered(frames: FrameTable, numbers: Mapping[tuple[str, str], int]) -> UInt64:
    """Per frame of the samples its number, 0 for a function that calls nothing of CUDA."""
    return np.array(
        [
            numbers.get((frames.function(index), frames.dsos[dso].name), 0)
            for index, dso in enumerate(frames.dso.tolist())
        ],
        np.uint64,
    )


def _hash(callers: Sequence[int]) -> int:
    value = 0
    for number in callers:
        value = (value + number) * int(_FACTOR) % 2**64
    return value


def _below(table: StackTable, frame: UInt64, length: int, windows: UInt64) -> Int64:
    """Per node, one more for NO_NODE: which of the ascending `windows` of callers is the innermost above it, or -1."""
    number = np.append(frame[table.frame], np.uint64(0))
    parent = np.append(table.parent, np.int32(NO_NODE))
    above, value = np.arange(len(number)), np.zeros(len(number), np.uint64)
    for _ in range(length):
        value = (value + number[above]) * _FACTOR
        above = parent[above]
    place = np.minimum(np.searchsorted(windows, value), len(windows) - 1)
    matched = np.where(windows[place] == value, place, -1)
    below = np.full(len(number), -1, np.int64)
    for nodes in table.levels():
        below[nodes] = np.where(matched[nodes] >= 0, matched[nodes], below[table.parent[nodes]])
    below[-1] = -1
    return below
