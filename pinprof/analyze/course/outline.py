"""The outline of a run: the statements of the program that its critical thread goes through, one after the other.

A statement is a line of the program's own code nearest to its start (`for k in range(60): step(k)`); lines that
alternate are one loop. The statement with nearly all calls of CUDA is the work; without such calls the longest one
in which memory is steady that was made before. An earlier one that calls the same function warms up, and what comes
before is built once. A statement that is nearly all is looked into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from pinprof.analyze.activity.calls import Calls
from pinprof.analyze.course.critical import Critical
from pinprof.analyze.course.labels import CONTEXT, EXIT, START_UP
from pinprof.analyze.course.pieces import LifePieces
from pinprof.analyze.groups import add_at
from pinprof.analyze.intervals import Intervals
from pinprof.analyze.lines import NOTHING, Place, places_of_all
from pinprof.base.columns import Bool, Float64, Int32, Int64, changes, extent, looked_up, repeated, rows_of, taken
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import Purpose
from pinprof.data.model import UNDECIDED_LINE, Capture, StackTable

WORK_CALLS: tuple[Purpose, ...] = ("copy", "launch", "set", "prefetch", "alloc pinned", "alloc managed", "register")
LEAST_CALLS = 10
"""A statement that makes fewer calls repeats nothing."""
MAIN_SHARE = 0.25
"""The least part of the time of the statement that is the work."""
PARTS, SPREAD = 20, 0.5
"""Its time has that many parts, and it makes calls in this share of them; what is built makes them at its end."""
WARM_CALLS, WARM_SHARE = 0.5, 0.2
"""An earlier statement that makes at most this part of the work's calls, and spends this part of its time in the
function that the work calls, warms up."""
LOOPED = 3
"""A line that is come back to as often is in a loop; the line of a `with` is come back to once."""
GLIMPSE_NS = 20_000_000
"""A shorter time at another line is none, …"""
GLIMPSES = 10
"""… unless that line is seen as often: then it is one of a loop."""
WHOLE = 0.9
"""A statement that takes this part of a level's time is nearly all."""
BEFORE_SHARE = 0.5
"""Without a loop, what a program does until its context is there is built, unless it takes this part of the time."""
MOST_LEVELS = 16
_PART = re.compile(r"<(listcomp|setcomp|dictcomp|genexpr|lambda)>$")
"""What is a part of its line, and no function that the line calls."""
LONGEST_SHARE = 0.2
"""Without calls of CUDA, the work takes at least this part of a level's time."""
LEAST_GROWTH = 1 << 20
STEADY = 0.25
"""What is built is kept: the memory grows before the work by `LEAST_GROWTH` bytes, and in it at most by this part of
that."""
LOOKS = 16
"""How often memory is read in each half of a statement."""


@dataclass(frozen=True)
class Begun:
    """When the program begins to warm up, and to work, in ns of the capture's clock; both are the start of its own time
    where that is not known.
    """

    warms_up_ns: int
    works_ns: int


@dataclass(frozen=True)
class _Statements:
    """The statements of one level in order of time, one row each."""

    start: Int64
    end: Int64
    own_ns: Int64
    """How much of each is the program's own time."""
    line: Int64
    """Its line, where it is not a loop over several; else NOTHING."""
    of: Int32
    """Per piece of the level the statement that it belongs to."""


def outline_of(capture: Capture, calls: Calls | None, critical: Critical, pieces: LifePieces, own: Intervals) -> Begun:
    """When the program begins to warm up, and to work, within its own time (`own`)."""
    none = Begun(int(own.start[0]), int(own.start[0])) if len(own) else Begun(0, 0)
    if not len(own):
        return none
    made = _made(calls, critical)
    growing = None if len(made) else _memory_of(capture, critical, none.works_ns)
    context = pieces.start[pieces.label == CONTEXT]
    found, before = none, none
    for level in _levels(capture, pieces, own, made, growing):
        if level.main:
            found = level.begun(made, found)
            if found.works_ns < level.statements.start[level.main]:
                break
        elif found == none == before and len(context):
            before = _after_context(level.statements, int(context[0]), none)
    return found if found != none else before


@dataclass(frozen=True)
class _Level:
    statements: _Statements
    main: int | None
    """The statement that is the work; None where there is none."""
    callee: Int32
    """Per piece the function that its statement calls, NOTHING where that is not known."""
    own_ns: Int64
    """Per piece how much of it is the program's own time."""

    def begun(self, made: Int64, around: Begun) -> Begun:
        """What this level's statement of work says, within what the levels around it say."""
        main = self.main or 0
        all_ = self.statements
        amount = _calls_in(all_, made) if len(made) else all_.end - all_.start
        called = self._called(main)
        alike = [
            number for number in range(main)
            if called is not None and self._share(number, called) >= WARM_SHARE
        ]  # fmt: skip
        works = int(all_.start[main])
        as_much = [number for number in alike if amount[number] > WARM_CALLS * amount[main]]
        if as_much:
            works = int(all_.start[as_much[0]])
        warms = [int(all_.start[number]) for number in alike]
        warms += [around.warms_up_ns] if around.warms_up_ns < around.works_ns else []
        return Begun(min([*warms, works]), works)

    def _called(self, number: int) -> int | None:
        rows = (self.statements.of == number) & (self.callee != NOTHING)
        if not rows.any():
            return None
        called = taken(self.callee, rows)
        return int(_sums(called, taken(self.own_ns, rows), extent(called)[1] + 1).argmax())

    def _share(self, number: int, called: int) -> float:
        rows = self.statements.of == number
        return float(self.own_ns[rows & (self.callee == called)].sum() / max(self.own_ns[rows].sum(), 1))


def _made(calls: Calls | None, critical: Critical) -> Int64:
    """When the thread makes calls of CUDA that are work, in ascending order."""
    if calls is None:
        return np.zeros(0, np.int64)
    mine = (calls.table.pid == critical.pid) & (calls.table.tid == critical.tid) & ~calls.initial
    return np.sort(calls.table.start_ns[mine & calls.is_for(*WORK_CALLS)])


@dataclass(frozen=True)
class _Growth:
    """The resident memory of the critical process over time."""

    time_ns: Int64
    size_bytes: Int64
    first: float
    """How much it was when the program's own time began."""

    def steady(self, start_ns: int, end_ns: int) -> bool:
        """Whether the memory that is there in this time was made before."""
        looks = np.linspace(start_ns, end_ns, 2 * LOOKS).reshape(2, LOOKS)
        size = np.interp(looks, self.time_ns, self.size_bytes).mean(axis=1)
        before = float(np.interp(start_ns, self.time_ns, self.size_bytes)) - self.first
        return bool(before >= LEAST_GROWTH and 2 * (size[1] - size[0]) <= STEADY * before)


def _memory_of(capture: Capture, critical: Critical, own_ns: int) -> _Growth | None:
    log = capture.memory
    held = next((one for one in log.processes if one.pid == critical.pid), None) if log is not None else None
    if held is None or not len(held.values.get("rss", ())):
        return None
    size = held.values["rss"]
    return _Growth(held.time_ns, size, float(np.interp(own_ns, held.time_ns, size)))


def _levels(
    capture: Capture, pieces: LifePieces, own: Intervals, made: Int64, memory: _Growth | None
) -> Iterator[_Level]:
    """The levels from the start of the program on: each looks into the work of the last, or what took most of it."""
    stacks = capture.stacks
    places = places_of_all(stacks)
    line, function, own_frame = _numbers(stacks, places)
    depth = _depths(stacks, own_frame)
    pieces = pieces.take(rows_of((pieces.label != START_UP) & (pieces.label != EXIT)))
    own_ns = own.covered(pieces.start, pieces.end)
    for wanted in range(1, MOST_LEVELS + 1):
        at, callee = _at_depth(stacks, line, function, depth, wanted)
        reached = rows_of(looked_up(at != NOTHING, pieces.stack))
        pieces, own_ns = pieces.take(reached), taken(own_ns, reached)
        if not len(pieces):
            return
        statements = _statements(pieces.start, pieces.end, looked_up(at, pieces.stack), own_ns)
        main = _main(statements, made) if memory is None else _longest(statements, memory)
        yield _Level(statements, main, looked_up(callee, pieces.stack), own_ns)
        inner = int(statements.own_ns.argmax()) if main is None else main
        whole = main is not None or memory is None or statements.own_ns[inner] >= WHOLE * statements.own_ns.sum()
        if statements.line[inner] == NOTHING or not whole:
            return
        within = rows_of(statements.of == inner)
        pieces, own_ns = pieces.take(within), taken(own_ns, within)


def _numbers(stacks: StackTable, places: dict[int, Place]) -> tuple[Int64, Int64, Bool]:
    """Per frame the number of its line and of its function, NOTHING where it has no file; and whether it is the
    program's own.
    """
    line, function = (np.full(len(stacks.frames), NOTHING, np.int64) for _ in range(2))
    own = np.zeros(len(stacks.frames), np.bool_)
    numbers: dict[tuple[str, int | str], int] = {}
    for frame, place in places.items():
        if place.function == UNDECIDED_LINE:
            continue
        line[frame] = numbers.setdefault((place.path, place.line or place.function), len(numbers))
        if not _PART.search(place.function):
            function[frame] = numbers.setdefault((place.path, place.function), len(numbers))
        own[frame] = place.own
    return line, function, own


def _depths(stacks: StackTable, own: Bool) -> Int32:
    """Per node, one more for NO_NODE, how many of the program's own frames its chain has."""
    depth = np.zeros(len(stacks) + 1, np.int32)
    for nodes in stacks.levels():
        depth[nodes] = depth[stacks.parent[nodes]] + own[stacks.frame[nodes]]
    return depth


def _at_depth(stacks: StackTable, line: Int64, function: Int64, depth: Int32, wanted: int) -> tuple[Int32, Int32]:
    """Per node the line of its own frame at this depth, and the function with a file that this one calls."""
    at, callee = (np.full(len(stacks) + 1, NOTHING, np.int32) for _ in range(2))
    for nodes in stacks.levels():
        frame, parent = stacks.frame[nodes], stacks.parent[nodes]
        begins = (depth[nodes] == wanted) & (depth[parent] < wanted)
        at[nodes] = np.where(begins, line[frame], at[parent])
        first = (at[parent] != NOTHING) & (callee[parent] == NOTHING)
        callee[nodes] = np.where(first, function[frame], callee[parent])
    return at, callee


def _statements(start: Int64, end: Int64, line: Int32, own_ns: Int64) -> _Statements:
    """The statements that pieces in order of time belong to, by their lines."""
    first = changes(line)
    run = line[first]
    # A frame of a moment earlier or later may be read: a glimpse of another line within one is none.
    brief = np.flatnonzero(np.append(start[first[1:]], end[-1:]) - start[first] < GLIMPSE_NS)
    brief = brief[(brief > 0) & (brief < len(first) - 1)]
    brief = brief[run[brief - 1] == run[np.minimum(brief + 1, len(first) - 1)]]
    _, seen, often = np.unique(run[brief], return_inverse=True, return_counts=True)
    brief = brief[often[seen.reshape(-1)] < GLIMPSES]
    for number in brief.tolist():
        run[number] = run[number - 1]
    left = changes(run)
    first, run = first[left], run[left]
    last = np.append(first[1:], len(line)) - 1
    lines, which, runs = np.unique(run, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    begin, finish = start[first], end[last]
    until = np.zeros(len(lines), np.int64)
    np.maximum.at(until, which, finish)
    # Whatever lies between two turns of a loop belongs to it.
    reach = np.maximum.accumulate(np.where(runs[which] >= LOOPED, until[which], finish))
    fresh = np.ones(len(first), np.bool_)
    fresh[1:] = begin[1:] >= reach[:-1]
    of_run = np.cumsum(fresh) - 1
    count = int(fresh.sum())
    of = repeated(of_run.astype(np.int32), np.append(first, len(line)))
    leader = np.flatnonzero(fresh)
    several = np.zeros(count, np.bool_)
    several[of_run[run != run[leader][of_run]]] = True
    return _Statements(
        start=begin[leader],
        end=np.append(begin[leader[1:]], finish.max()),
        own_ns=_sums(of, own_ns, count),
        line=np.where(several, NOTHING, run[leader]),
        of=of,
    )


def _sums(of: Int32, own_ns: Int64, count: int) -> Int64:
    total = np.zeros(count, np.int64)
    add_at(total, of, own_ns)
    return total


def _calls_in(statements: _Statements, made: Int64) -> Int64:
    """Per statement how many of these calls it makes."""
    return np.searchsorted(made, statements.end) - np.searchsorted(made, statements.start)


def _main(statements: _Statements, made: Int64) -> int | None:
    """The statement that is the work: it makes most of the calls, and is not come back to; None where there is none."""
    calls = _calls_in(statements, made)
    able = (calls >= LEAST_CALLS) & (statements.own_ns >= MAIN_SHARE * statements.own_ns.sum())
    able &= _spread(statements, made) >= SPREAD
    if not able.any():
        return None
    main = int(np.where(able, calls, 0).argmax())
    return main if _once(statements, main) else None


def _longest(statements: _Statements, memory: _Growth) -> int | None:
    """The statement that is the work of a program without calls of CUDA; None where there is none.

    It is the longest with steady memory. A loop that is longer, and makes memory, is work itself.
    """
    length = statements.end - statements.start
    number: int
    for number in np.argsort(-length, kind="stable").tolist():
        if length[number] < LONGEST_SHARE * length.sum():
            return None
        begin, end = int(statements.start[number]), int(statements.end[number])
        if number and _once(statements, number) and memory.steady(begin, end):
            return number
        if statements.line[number] == NOTHING:
            return None
    return None


def _once(statements: _Statements, number: int) -> bool:
    """Whether a statement is not come back to."""
    line = statements.line[number]
    return bool(line == NOTHING or (statements.line == line).sum() == 1)


def _spread(statements: _Statements, made: Int64) -> Float64:
    """Per statement in which share of `PARTS` equally long parts of it such calls are made."""
    edges = np.linspace(statements.start, statements.end, PARTS + 1)
    return np.asarray((np.diff(np.searchsorted(made, edges), axis=0) > 0).mean(axis=0))


def _after_context(statements: _Statements, context_ns: int, none: Begun) -> Begun:
    """When the statement after the one that creates the context begins, where that is early enough."""
    number = int(np.searchsorted(statements.start, context_ns, "right")) - 1
    line = statements.line[max(number, 0)]
    once = number >= 0 and line != NOTHING and (statements.line == line).sum() == 1
    before = statements.own_ns[: number + 1].sum()
    if not once or number + 1 == len(statements.start) or before > BEFORE_SHARE * statements.own_ns.sum():
        return none
    begins = int(statements.start[number + 1])
    return Begun(begins, begins)
