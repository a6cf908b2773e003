"""Which line of Python each CUDA call was made from, by looks at its thread and by where its native callers were seen.

A look inside a call says its line, as it does of a wait (matching.py). Most calls are too short for that. Calls with
the same native callers come from few lines, and these are known, best first, from

- looks inside such calls, at best well inside;
- samples with the same native callers that lie between looks that agree;
- looks right before and after such calls, where they all saw one line.

The first line of these for which nearly all speak is that of all such calls, but for long ones that looks saw in
another. Calls of one function with the same callers go first, where looks saw enough of them. Where looks saw such
calls in several lines, a call has the one of them that the nearest look saw, else that of the calls next to it with the
same callers. What this leaves open keeps its native caller as its site: lines that
run long would take it all.

A line counts as in `own_code`: the innermost one of the program's own code, else the innermost library line. A line of
C or C++ that is the program's own, and was called by Python, is the one; a line that called Python is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pinprof.base.columns import pack
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import ApiCallTable, Caller
from pinprof.data.model import NO_NODE, UNDECIDED_LINE, Bool, Capture, Int32, Int64, StackTable
from pinprof.data.own_code import library_part
from pinprof.read.by_thread import threads
from pinprof.read.python.native_callers import NO_LINE, Callers, Votes, callers_of, votes_of_samples
from pinprof.read.python.stacks import NO_STACK, PythonStacks

_EDGE_NS = 100_000
"""Before the end of a call: a look may have seen what came after it."""
_FARTHEST_PERIODS = 8
"""Between a call and the nearest look that may choose among its lines."""
_AGREED_NS = 1_000_000_000
"""Between two calls with the same callers and line, which those between them share."""
_NEVER = 1 << 62
_MANY_LOOKS = 3
"""Inside one call: they say its line, whatever the others'."""
_FEWEST = 3
"""Samples that decide: those at the edges of lines may have the neighbour's."""


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
    seen: Bool
    """Whether its thread was ever looked at: others run no Python, whoever their callers are."""


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
    groups: dict[Callers, int] = {}
    callers = [callers_of(native, node, loops) for node in distinct.tolist()]
    group = np.array([groups.setdefault(each, len(groups)) for each in callers], np.int64)[of_call.reshape(-1)]
    by_samples = votes_of_samples(list(groups), capture, lines[seen])
    same = np.unique(pack(group, calls.name), return_inverse=True)[1].reshape(-1).astype(np.int64)
    line = _decide(looked, group, len(groups), by_samples, same)
    line = _like_neighbours(line, calls, same, stacks)
    bare = native.parent[calls.stack] == NO_NODE
    line = np.where(bare, looked.inside, line)
    line[~looked.seen] = NO_LINE
    by_native = np.array([_calls_from_native_code(native, node, loops) for node in distinct.tolist()], np.bool_)
    line[by_native[of_call.reshape(-1)]] = NO_LINE
    sites = {site: number for number, site in enumerate(calls.sites)}
    number = np.zeros(len(stacks.frames) + 1, np.int32)
    for frame in np.unique(line[line != NO_LINE]).tolist():
        number[frame] = sites.setdefault(_caller(stacks, frame), len(sites))
    site = np.where(line != NO_LINE, number[line], calls.site).astype(np.int32)
    return replace(calls, site=site, sites=tuple(sites))


def _caller(stacks: PythonStacks, frame: int) -> Caller:
    function, path, line = stacks.frames[frame]
    return Caller(function, library_part(path) or path.rpartition("/")[2] or path, line, path)


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
    nearer_before, many, seen = np.zeros((3, count), np.bool_)
    farthest = _FARTHEST_PERIODS * max(2 * stacks.uncertainty_ns, 1)
    for rows in threads(calls.pid, calls.tid):
        times, stack, _ = stacks.looks(int(calls.pid[rows[0]]), int(calls.tid[rows[0]]))
        if not len(times):
            continue
        seen[rows] = True
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
    return _Looked(inside, within, before_line, after_line, nearer_before, many, seen)


def _decide(looked: _Looked, group: Int64, groups: int, by_samples: Votes, same: Int64) -> Int32:
    """The line of each call; `group` is the number of its native callers, `same` of these and the function called.

    Where looks saw a function often enough, they decide for its calls. The others count too where they did not: long
    calls are seen most, and may hide the line of short ones with the same callers.
    """
    by_looks, by_function = (_seen_by_looks(looked, number) for number in (group, same))
    functions = int(same.max()) + 1
    known = (by_function.total(functions) >= _FEWEST)[same]
    open_ = by_looks.total(groups) == 0
    certain = by_looks.certain(groups)
    enough = open_ & (by_samples.total(groups) >= _FEWEST)
    certain = np.where(enough, by_samples.only(enough).certain(groups), certain)
    agreed = np.where(looked.before == looked.after, looked.before, NO_LINE).astype(np.int32)
    all_agree = np.bincount(group[agreed != NO_LINE], minlength=groups) == np.bincount(group, minlength=groups)
    neither = open_ & (by_samples.total(groups) < _FEWEST) & all_agree
    certain = np.where(neither, Votes.of(group, agreed).only(neither).certain(groups), certain)
    near = np.where(looked.nearer_before, looked.before, looked.after)
    far = np.where(looked.nearer_before, looked.after, looked.before)
    near, far = (
        np.where(by_function.usual(same, side, functions) | ~known & by_looks.usual(group, side, groups), side, NO_LINE)
        for side in (near, far)
    )
    chosen = np.where(looked.many, looked.inside, NO_LINE)
    for answer in (np.where(known, by_function.certain(functions)[same], certain[group]), looked.inside, near, far):
        chosen = np.where(chosen == NO_LINE, answer, chosen)
    return chosen.astype(np.int32)


def _seen_by_looks(looked: _Looked, group: Int64) -> Votes:
    """Votes of looks well inside calls; of any inside for groups without."""
    groups = int(group.max()) + 1
    well = Votes.of(group, looked.inside)
    open_ = well.total(groups) == 0
    return Votes.of(group, np.where(open_[group], looked.within, NO_LINE).astype(np.int32), well)


def _like_neighbours(line: Int32, calls: ApiCallTable, same: Int64, stacks: PythonStacks) -> Int32:
    """Open calls with the line of those before and after them, of one function and callers, that agree or are near.

    Only calls that looks decided count, so lines of which no look saw such a call spread to none.
    """
    order = np.lexsort((calls.start_ns, same, calls.tid, calls.pid))
    known, place = line[order] != NO_LINE, np.arange(len(order))
    alike = np.stack([calls.pid[order].astype(np.int64), calls.tid[order], same[order]])
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
