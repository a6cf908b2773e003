"""Which line of Python each CUDA call was made from, by looks at its thread and by where its native callers were seen.

A look inside a call says its line, as it does of a wait (matching.py). Most calls are too short for that. Calls with
the same native callers come from few lines, and these are known, best first, from

- looks inside such calls, at best well inside;
- samples with the same native callers that lie between looks that agree;
- looks right before and after such calls, where they all saw one line.

The first line of these for which nearly all speak is that of all such calls, but for long ones that looks saw in
another. Where looks saw such calls in several lines, a call has the one of them that the nearest look saw, else that
of the calls next to it with the same callers. What this leaves open keeps its native caller as its site: lines that
run long would take it all.

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
_AGREED_NS = 1_000_000_000
"""Between two calls with the same callers and line, which those between them share."""
_NEVER = 1 << 62
_MANY_LOOKS = 3
"""Inside one call: they say its line, whatever the others'."""
_CALLERS = (12, 6, 3)
"""Native callers next to CUDA that samples have in common with a call: as many as any samples share."""
_CERTAIN, _USUAL = 0.9, 0.05
"""The part of what is known of callers that decides for a line, and that a line needs to be one of several."""
_FEWEST = 3
"""Samples that decide: those at the edges of lines may have the neighbour's."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_CUDA = ("libcuda.", "libcudart.")
_LINKED_CUDA = "libcudart_static_"

_Callers = tuple[tuple[str, str], ...]
"""Native functions with their libraries, innermost first."""


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
    many: Bool
    """Whether many looks saw the call."""


def with_lines(
    calls: ApiCallTable, native: StackTable, loops: Sequence[bool], capture: Capture, stacks: PythonStacks, seen: Int32
) -> ApiCallTable:
    """The calls with their lines of Python as sites.

    `native` are the calls' stacks, `loops` says which of its frames are the interpreter's evaluation loop; `seen` is
    the Python stack of each of the capture's samples, NO_STACK where that is not certain.
    """
    if calls.stack is None or calls.site is None or not len(calls):
        return calls
    lines = _lines(stacks)
    looked = _look(calls, stacks, lines)
    distinct, of_call = np.unique(calls.stack, return_inverse=True)
    groups: dict[_Callers, int] = {}
    callers = [_callers(native, node, loops) for node in distinct.tolist()]
    group = np.array([groups.setdefault(each, len(groups)) for each in callers], np.int64)[of_call.reshape(-1)]
    by_samples = _votes_of_samples(list(groups), capture, lines[seen])
    line = _like_neighbours(_decide(looked, group, len(groups), by_samples), calls, group, stacks)
    by_native = np.array([_calls_from_native_code(native, node, loops) for node in distinct.tolist()], np.bool_)
    line[by_native[of_call.reshape(-1)]] = NO_LINE
    sites = {site: number for number, site in enumerate(calls.sites)}
    number = np.zeros(len(stacks.frames) + 1, np.int32)
    for frame in np.unique(line[line != NO_LINE]).tolist():
        number[frame] = sites.setdefault(_text(stacks, frame), len(sites))
    site = np.where(line != NO_LINE, number[line], calls.site).astype(np.int32)
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
    inside, within, before_line, after_line = np.full((4, count), NO_LINE, np.int32)
    nearer_before, many = np.zeros((2, count), np.bool_)
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
        inside[rows] = saw[middle]
        within[rows] = saw[np.where(last > first, (first + last - 1) // 2, len(times))]
        before, after = np.maximum(first - 1, 0), np.minimum(last, len(times) - 1)
        apart_before, apart_after = start - times[before], times[after] - end
        before_line[rows] = np.where((apart_before >= 0) & (apart_before <= farthest), saw[before], NO_LINE)
        after_line[rows] = np.where((apart_after >= 0) & (apart_after <= farthest), saw[after], NO_LINE)
        nearer_before[rows] = apart_before <= apart_after
        many[rows] = certain - first >= _MANY_LOOKS
    return _Looked(inside, within, before_line, after_line, nearer_before, many)


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
        return np.asarray((self.keys[place] == wanted) & often & (line != NO_LINE))


def _decide(looked: _Looked, group: Int64, groups: int, by_samples: _Votes) -> Int32:
    """The line of each call; `group` is the number of its native callers."""
    well = _Votes.of(group, looked.inside)
    open_ = well.total(groups) == 0
    by_looks = _Votes.of(group, np.where(open_[group], looked.within, NO_LINE).astype(np.int32), well)
    open_ = by_looks.total(groups) == 0
    certain = by_looks.certain(groups)
    enough = open_ & (by_samples.total(groups) >= _FEWEST)
    certain = np.where(enough, by_samples.only(enough).certain(groups), certain)
    agreed = np.where(looked.before == looked.after, looked.before, NO_LINE).astype(np.int32)
    all_agree = np.bincount(group[agreed != NO_LINE], minlength=groups) == np.bincount(group, minlength=groups)
    neither = open_ & (by_samples.total(groups) < _FEWEST) & all_agree
    certain = np.where(neither, _Votes.of(group, agreed).only(neither).certain(groups), certain)
    near = np.where(looked.nearer_before, looked.before, looked.after)
    far = np.where(looked.nearer_before, looked.after, looked.before)
    near, far = (np.where(by_looks.usual(group, side, groups), side, NO_LINE) for side in (near, far))
    chosen = np.where(looked.many, looked.inside, NO_LINE)
    for answer in (certain[group], looked.inside, near, far):
        chosen = np.where(chosen == NO_LINE, answer, chosen)
    return chosen.astype(np.int32)


def _like_neighbours(line: Int32, calls: ApiCallTable, group: Int64, stacks: PythonStacks) -> Int32:
    """Open calls with the line of the calls with the same callers before and after them, where these agree or are near.

    Only calls that looks decided count, so lines of which no look saw such a call spread to none.
    """
    order = np.lexsort((calls.start_ns, group, calls.tid, calls.pid))
    known, place = line[order] != NO_LINE, np.arange(len(order))
    alike = np.stack([calls.pid[order].astype(np.int64), calls.tid[order], group[order]])
    before = np.maximum.accumulate(np.where(known, place, -1))
    after = np.minimum.accumulate(np.where(known, place, len(order))[::-1])[::-1]
    first, last = np.maximum(before, 0), np.minimum(after, len(order) - 1)
    has_first = (before >= 0) & (alike[:, first] == alike).all(axis=0)
    has_last = (after < len(order)) & (alike[:, last] == alike).all(axis=0)
    start, end, lines = calls.start_ns[order], calls.end_ns[order], line[order]
    since = np.where(has_first, start - end[first], _NEVER)
    until = np.where(has_last, start[last] - end, _NEVER)
    agree = has_first & has_last & (lines[first] == lines[last]) & (since + until < _AGREED_NS)
    nearest = np.where(since <= until, lines[first], lines[last])
    near = np.minimum(since, until) <= _FARTHEST_PERIODS * max(2 * stacks.uncertainty_ns, 1)
    filled = line.copy()
    filled[order] = np.where(known | ~(agree | near), lines, nearest)
    return filled


def _calls_from_native_code(native: StackTable, node: int, loops: Sequence[bool]) -> bool:
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


def _votes_of_samples(groups: Sequence[_Callers], capture: Capture, lines: Int32) -> _Votes:
    """Votes of the samples with a line for the `groups` of callers that they share.

    It takes a function with a name to tell: `[libcublas.so]` may be any.
    """
    table, samples = capture.stacks, capture.samples
    numbers: dict[tuple[str, str], int] = {}
    for callers in groups:
        for caller in callers:
            numbers.setdefault(caller, len(numbers) + 1)
    frame = _numbered(table.frames, numbers)
    known = np.flatnonzero(lines != NO_LINE)
    found = _Votes(np.zeros(0, np.int64), np.zeros(0, np.int64))
    for length in _CALLERS:
        open_ = found.total(len(groups)) == 0
        windows: dict[int, list[int]] = {}
        for number in np.flatnonzero(open_).tolist():
            window = groups[number][:length]
            if len(window) == length and not all(name.startswith("[") for name, _ in window):
                windows.setdefault(_hash([numbers[caller] for caller in window]), []).append(number)
        if not windows:
            continue
        ordered = sorted(windows)
        below = _below(table, frame, length, np.array(ordered, np.uint64))
        which = below[samples.stack[known]]
        rows, which = known[which >= 0], which[which >= 0]
        pairs, count = np.unique(pack(which, lines[rows]), return_counts=True)
        place, line = unpack(pairs)
        # Groups may share a window: each has all of its votes.
        members = [windows[each] for each in ordered]
        many = np.array([len(each) for each in members], np.int64)[place]
        group = np.array([number for each in place.tolist() for number in members[each]], np.int64)
        more = _Votes(pack(group, np.repeat(line, many)), np.repeat(count, many))
        found = _Votes.of(np.zeros(0, np.int64), np.zeros(0, np.int32), found, more)
    return found


def _callers(native: StackTable, node: int, loops: Sequence[bool]) -> _Callers:
    """The native functions that led to a CUDA call, up to the interpreter, or as far as the stack is known."""
    frames = native.frames
    callers: list[tuple[str, str]] = []
    for above in native.chain(node):
        frame = int(native.frame[above])
        name, library = frames.function(frame), frames.dsos[int(frames.dso[frame])].name
        if loops[frame] or name.startswith("py::") or library == "[unknown]":
            break
        if library.startswith(_CUDA) or name.startswith(_LINKED_CUDA) or plain_name(name) in FUNCTIONS:
            callers.clear()
            continue
        callers.append((name, library))
        if len(callers) == _CALLERS[0]:
            break
    return tuple(callers)


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
    above, value = np.arange(len(number), dtype=np.int32), np.zeros(len(number), np.uint64)
    for _ in range(length):
        value = (value + number[above]) * _FACTOR
        above = parent[above]
    place = np.minimum(np.searchsorted(windows, value), len(windows) - 1)
    matched = np.where(windows[place] == value, place, -1)
    matched[-1] = -1
    # Each node points to itself where it matches, else to its caller; pointing on doubles the distance.
    nearest = np.where(matched >= 0, np.arange(len(number)), parent % len(number))
    while (further := nearest[nearest]).tobytes() != nearest.tobytes():
        nearest = further
    return np.asarray(matched[nearest])
