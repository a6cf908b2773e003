"""Which line of Python each CUDA call was made from, by looks at its thread.

A look says the line of a call if it read the thread within the call. It reads it twice (stacks.py): where both readings
found it in one place, it was there at the moment between them too, unless it may have gone round and come back, for
which there must be time from one call of it to the next.

Few calls are met by a look. The others have the line in which looks saw calls like them: of one CUDA function with the
same native callers, of the same size, and, since long calls are seen most and would hide short ones, not much longer.
Where looks saw these in several lines, one after another, a call has the line of those before and after it in its
thread; where the lines take turns, or too few such calls were seen, its line stays open. A line that merely runs before
and after a call says nothing: it may be one that waits or computes for long.

A line counts as in `own_code`: the innermost one of the program's own code, else the innermost library line. A line of
C or C++ that is the program's own, and was called by Python, is the one; a line that called Python is not. What stays
open keeps its native caller as its site, and says that the line is undecided where that one has no name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pinprof.base.columns import ascending, numbered, numbered_pairs, pack, pairs_of
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_counted, format_share
from pinprof.data.activity import ApiCallTable, Caller
from pinprof.data.gpu_functions import of_vendor
from pinprof.data.model import NO_NODE, UNDECIDED_LINE, Bool, Int32, Int64, SampleTable, StackTable, UInt8
from pinprof.data.own_code import library_part
from pinprof.read.by_thread import threads
from pinprof.read.python.matching import CERTAIN, NONE, UNDECIDED
from pinprof.read.python.stacks import NO_STACK, PythonFrame, PythonStacks, Windows

_MOST = 12
"""Native callers next to CUDA that tell calls apart."""

Callers = tuple[tuple[str, str], ...]
"""Native functions with their libraries, innermost first."""


def callers_of(native: StackTable, node: int, loops: Sequence[bool]) -> Callers:
    """The native functions that led to a CUDA call, up to the interpreter, or as far as the stack is known."""
    frames = native.frames
    callers: list[tuple[str, str]] = []
    for above in native.chain(node):
        frame = int(native.frame[above])
        name, library = frames.function[frame], frames.dsos[int(frames.dso[frame])].name
        if loops[frame] or name.startswith("py::") or library == "[unknown]":
            break
        if of_vendor(name, library):
            callers.clear()
            continue
        callers.append((name, library))
        if len(callers) == _MOST:
            break
    return tuple(callers)


_NO_LINE = -1
_NEVER = 1 << 62
_FEWEST = 5
"""Calls that were seen: that many in one line show that of calls like them."""
_FOR_EACH_CHANGE = 16
"""Calls that were seen, for each time that the next one was in another line: fewer, and the lines take turns."""
_OFTEN = 16
"""Calls of one size that are judged by themselves; rarer sizes are judged together."""
_LONGER = 1
"""How many times twice as long a call may be that tells the line of another."""


@dataclass(frozen=True)
class CallLines:
    """What looks show about calls."""

    calls: ApiCallTable
    """With lines of Python as sites."""
    stack: Int32
    """Per call the Python stack that it was made from; NO_STACK where that is open, or no Python made the call."""
    open: Bool
    """Whether Python made it, and nothing tells in which line."""
    line_of: Int32
    """Per Python stack, one more for NO_STACK: the frame that counts."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said about them."""
        if not (count := int(self.open.sum())):
            return ()
        what = f"{format_counted(count, 'CUDA call', 'CUDA calls')} ({format_share(count, len(self.open))})"
        return (f"The Python line of {what} is undecided: too few calls like them were seen in Python.",)


def with_lines(
    calls: ApiCallTable,
    native: StackTable,
    loops: Sequence[bool],
    stacks: PythonStacks,
    kept: SampleTable | None = None,
) -> CallLines:
    """The calls with their lines of Python; `native` are their stacks, of whose frames `loops` are the interpreter's
    evaluation loop. `kept`: times, as weights, in which others kept threads from running.
    """
    nothing, line_of = np.full(len(calls), NO_STACK, np.int32), _lines(stacks)
    if calls.stack is None or calls.site is None or not len(calls):
        return CallLines(calls, nothing, np.zeros(len(calls), np.bool_), line_of)
    seen, by_python = _looked(calls, stacks, line_of)
    distinct, of_call = np.unique(calls.stack, return_inverse=True)
    numbers: dict[Callers, int] = {}
    callers = [numbers.setdefault(callers_of(native, node, loops), len(numbers)) for node in distinct.tolist()]
    by_native = np.array([_calls_from_native_code(native, node, loops) for node in distinct.tolist()], np.bool_)
    by_python &= ~by_native[of_call.reshape(-1)]
    seen[~by_python] = NO_STACK
    has_callers = by_python & (native.parent[calls.stack] != NO_NODE)
    alike = _alike(calls, np.array(callers, np.int64)[of_call.reshape(-1)])
    duration = calls.end_ns - calls.start_ns - (0 if kept is None else _kept_inside(calls, kept))
    # Looks keep the program from running, too, so the calls that they see are longer by that.
    short = max(stacks.uncertainty_ns, 1)
    length = np.log2(np.maximum(duration, short) / short).astype(np.int64)
    stack = _decided(calls, seen, line_of, np.where(has_callers, alike, -1), length)
    open_ = by_python & (stack == NO_STACK)
    return CallLines(_with_sites(calls, stack, open_, line_of, stacks), stack, open_, line_of)


def settle_samples(found: CallLines, samples: SampleTable, stacks: PythonStacks, seen: Int32, how: UInt8) -> None:
    """Let samples inside calls be in the calls' lines, or in none where these are open.

    `seen` is the Python stack of each sample, `how` how that is known: by looks before and after it, which know nothing
    of a call between them.
    """
    call = _calls_of(samples, found.calls)
    row = np.flatnonzero((call >= 0) & (how != NONE) & (how != UNDECIDED))
    stack = found.stack[call[row]]
    other = row[(stack != NO_STACK) & (found.line_of[stack] != found.line_of[seen[row]])]
    seen[other], how[other] = found.stack[call[other]], CERTAIN
    open_ = row[found.open[call[row]] & (seen[row] != NO_STACK)]
    for each in ascending(seen[open_]).tolist():
        mine = open_[seen[open_] == each]
        seen[mine], how[mine] = stacks.either(each, each), UNDECIDED


def settle_by_sites(
    calls: ApiCallTable, native: StackTable, samples: SampleTable, stacks: PythonStacks, seen: Int32, how: UInt8
) -> None:
    """Let samples inside calls be in the lines that the calls' own stacks say, of calls that were seen from inside."""
    assert calls.stack is not None
    call = _calls_of(samples, calls)
    row = np.flatnonzero(call >= 0)
    node = calls.stack[call[row]]
    pairs, which = numbered_pairs(node, seen[row])
    made = np.full(len(pairs), NO_STACK, np.int32)
    for place, (at, looked) in enumerate(pairs_of(pairs)):
        if python := _python_of(native, at):
            made[place] = stacks.inside(looked, python)
    made = made[which.reshape(-1)]
    told = made != NO_STACK
    seen[row[told]], how[row[told]] = made[told], CERTAIN


def _python_of(native: StackTable, node: int) -> list[PythonFrame]:
    """Python's functions of a call's stack, innermost first."""
    frames = native.frames
    numbers = [int(native.frame[above]) for above in native.chain(node)]
    return [
        (frames.function[number], frames.source_of(number), frames.lines[number])
        for number in numbers
        if frames.dsos[int(frames.dso[number])].kind == "python"
    ]


def _calls_of(samples: SampleTable, calls: ApiCallTable) -> Int64:
    """Per sample the row of the call that it was taken in, -1 without one."""
    call = np.full(len(samples), -1, np.int64)
    by_thread = {(int(calls.pid[rows[0]]), int(calls.tid[rows[0]])): rows for rows in threads(calls.pid, calls.tid)}
    for rows in threads(samples.pid, samples.tid):
        mine = by_thread.get((int(samples.pid[rows[0]]), int(samples.tid[rows[0]])))
        if mine is not None:
            time = samples.time_ns[rows]
            last = np.searchsorted(calls.start_ns[mine], time, side="right") - 1
            inside = (last >= 0) & (time < calls.end_ns[mine[last]])
            call[rows[inside]] = mine[last[inside]]
    return call


def _with_sites(calls: ApiCallTable, stack: Int32, open_: Bool, line_of: Int32, stacks: PythonStacks) -> ApiCallTable:
    assert calls.site is not None
    sites = {site: number for number, site in enumerate(calls.sites)}
    nameless = np.array([*(site.function.startswith("[") for site in calls.sites), True], np.bool_)
    site = calls.site.copy()
    if (unnamed := open_ & nameless[site]).any():
        site[unnamed] = sites.setdefault(Caller(UNDECIDED_LINE), len(sites))
    line = line_of[stack]
    number = np.zeros(len(stacks.frames) + 1, np.int32)
    for frame in ascending(line[line != _NO_LINE]).tolist():
        number[frame] = sites.setdefault(_caller(stacks, frame), len(sites))
    return replace(calls, site=np.where(line != _NO_LINE, number[line], site), sites=tuple(sites))


def _caller(stacks: PythonStacks, frame: int) -> Caller:
    function, path, line = stacks.frames[frame]
    return Caller(function, library_part(path) or path.rpartition("/")[2] or path, line, path)


def _lines(stacks: PythonStacks) -> Int32:
    """Per Python stack, one more for NO_STACK: the frame that its calls count for, _NO_LINE where that is undecided."""
    own = [not library_part(file) for _, file, _ in stacks.frames]
    undecided = [function == UNDECIDED_LINE for function, _, _ in stacks.frames]
    lines = np.full(len(stacks.stacks) + 1, _NO_LINE, np.int32)
    is_own = [False] * (len(stacks.stacks) + 1)
    for number, (caller, frame) in enumerate(stacks.stacks):
        if own[frame]:
            is_own[number] = True
            lines[number] = _NO_LINE if undecided[frame] else frame
        elif caller != NO_STACK and is_own[caller]:
            is_own[number], lines[number] = True, lines[caller]
        else:
            lines[number] = _NO_LINE if undecided[frame] else frame
    return lines


def _looked(calls: ApiCallTable, stacks: PythonStacks, line_of: Int32) -> tuple[Int32, Bool]:
    """Per call the stack that looks inside it saw, NO_STACK where none did or where they disagree; and whether its
    thread was ever looked at: others run no Python, whoever their callers are.
    """
    seen, looked = np.full(len(calls), NO_STACK, np.int32), np.zeros(len(calls), np.bool_)
    for rows in threads(calls.pid, calls.tid):
        windows = stacks.windows(int(calls.pid[rows[0]]), int(calls.tid[rows[0]]))
        if not len(windows.stack):
            continue
        looked[rows] = True
        rows = rows[np.argsort(calls.start_ns[rows], kind="stable")]
        within, call = _within(windows, calls.start_ns[rows], calls.end_ns[rows])
        if not len(call):
            continue
        stack = windows.stack[within]
        line = line_of[stack]
        changes = np.append(0, np.cumsum(line[1:] != line[:-1]))
        first = np.flatnonzero(np.append(True, call[1:] != call[:-1]))
        last = np.append(first[1:], len(call)) - 1
        certain = (changes[first] == changes[last]) & (line[first] != _NO_LINE)
        seen[rows[call[first[certain]]]] = stack[first[certain]]
    return seen, looked


def _within(windows: Windows, start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """The looks that saw a thread in one of its calls, and in which."""
    since, begun, ended, _ = windows
    call = np.searchsorted(start, begun, side="right") - 1
    look = np.flatnonzero(call >= 0)
    call, since, begun, ended = call[look], since[look], begun[look], ended[look]
    apart = np.append(np.append(_NEVER, np.diff(start)), _NEVER)
    came_back = ended - since >= np.minimum(apart[call], apart[call + 1])
    twice = (since < begun) & (begun <= end[call])
    inside = (ended <= end[call]) | (twice & ((since >= start[call]) | ~came_back))
    return look[inside], call[inside]


def _alike(calls: ApiCallTable, callers: Int64) -> Int64:
    """Per call the number of its function, native callers and size, which rare sizes share."""
    same = numbered_pairs(callers, calls.name)[1]
    if calls.size_bytes is None:
        return same
    sizes, which = numbered_pairs(same, numbered(calls.size_bytes)[1])
    count = np.bincount(which)
    return np.where(count[which] >= _OFTEN, which, len(sizes) + same)


def _kept_inside(calls: ApiCallTable, kept: SampleTable) -> Int64:
    """For how long of each call others kept its thread from running."""
    found = np.zeros(len(calls), np.int64)
    by_thread = {(int(kept.pid[rows[0]]), int(kept.tid[rows[0]])): rows for rows in threads(kept.pid, kept.tid)}
    for rows in threads(calls.pid, calls.tid):
        mine = by_thread.get((int(calls.pid[rows[0]]), int(calls.tid[rows[0]])))
        if mine is not None:
            mine = mine[np.argsort(kept.time_ns[mine], kind="stable")]
            # A thread can't leave a call while it is kept from running: each such time lies in one call, or in none.
            passed = np.append(0, np.cumsum(kept.weight[mine]))
            before, until = (np.searchsorted(kept.time_ns[mine], time[rows]) for time in (calls.start_ns, calls.end_ns))
            found[rows] = passed[until] - passed[before]
    return np.asarray(np.minimum(found, calls.end_ns - calls.start_ns))


def _decided(calls: ApiCallTable, seen: Int32, line_of: Int32, alike: Int64, length: Int64) -> Int32:
    """The stack of each call; `alike` is -1 for those of which no others tell, `length` counts doublings."""
    stack = seen.copy()
    order = np.lexsort((calls.start_ns, alike))
    for rows in np.split(order, np.flatnonzero(np.diff(alike[order])) + 1):
        if alike[rows[0]] < 0:
            continue
        told, open_ = rows[seen[rows] != NO_STACK], rows[seen[rows] == NO_STACK]
        for each in ascending(length[open_]).tolist() if len(told) >= _FEWEST else ():
            telling, wanted = told[length[told] <= each + _LONGER * (each > 0)], open_[length[open_] == each]
            for some, others in _judged_together(calls, line_of[seen], telling, wanted):
                stack[others] = _like_neighbours(calls, seen, line_of, some, others)
    return stack


def _judged_together(calls: ApiCallTable, line: Int32, telling: Int64, wanted: Int64) -> Iterator[tuple[Int64, Int64]]:
    """Calls that were seen and the others: all of them where they were seen in one line, else thread by thread."""
    if len(telling) < _FEWEST:
        return
    if (line[telling] == line[telling[0]]).all():
        yield telling, wanted
        return
    thread = pack(calls.pid, calls.tid)
    for each in ascending(thread[telling]).tolist():
        mine = telling[thread[telling] == each]
        changes = int(np.count_nonzero(np.diff(line[mine])))
        if len(mine) >= max(_FEWEST, _FOR_EACH_CHANGE * changes):
            yield mine, wanted[thread[wanted] == each]


def _like_neighbours(calls: ApiCallTable, seen: Int32, line_of: Int32, telling: Int64, wanted: Int64) -> Int32:
    """The stack of calls between two that were seen in one line, or before or after them all; `telling` by time."""
    after = np.searchsorted(calls.start_ns[telling], calls.start_ns[wanted])
    before = np.maximum(after - 1, 0)
    after = np.minimum(after, len(telling) - 1)
    one, other = seen[telling[before]], seen[telling[after]]
    return np.where(line_of[one] == line_of[other], one, np.int32(NO_STACK))


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
