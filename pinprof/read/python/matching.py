"""Which Python stack a sample belongs to: looks at a thread, its waits and what it called decide.

A look sees the stack that a thread has; a sample lies between two looks. What is known besides:

- a wait is in one line. A look inside a wait says in which one, and says nothing of what ran before and after it;
- between two waits a thread ran, but for times in which others kept it from running, which do not count: only looks in
  that stretch speak for the samples in it. The time to them, and what the samples called, the native functions below
  the interpreter, say in which line each probably is (likely.py);
- stretches that begin after the same line's wait, or end before it, are alike: in short ones, and towards the edges of
  others, where looks on one side are missing, that look counts which came as long after such a wait, or before it. But
  only where this tells the line, unlike after waits for a lock, which come anywhere;
- a thread that others keep from running stays where a look then saw it;
- a wait without a look was in a line that was seen waiting like this. A line that never was is not charged with it.

What all this does not tell stays undecided: the callers that both neighbours agree on, and no line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int32, Int64
from pinprof.read.python.likely import CallHabits, Gaps, LookTimes, likely_stacks
from pinprof.read.python.stacks import NO_STACK

NONE, CERTAIN, NEARER, UNDECIDED = range(4)
"""How a sample's stack is known: not at all; by a look at it, or two that agree; by the nearer of two; it is not."""

_FARTHEST_PERIODS = 8
"""Between two looks that differ; beyond, nothing is known."""
_SHORT_PERIODS = 4
"""A stretch: looks that fell into it say too little about its beginning and end."""
_AGREED_NS = 1_000_000_000
"""Between two looks that agree."""
_EDGE_NS = 100_000
"""Before the end of a wait, a look may have seen what came after it; at both ends of a time in which others kept the
thread from running, what it did beside it."""
_TELLING = 0.3
"""The part of what is left to chance that the time since a wait must explain, to count as telling the line."""
_BY_MISTAKE = 0.02
"""The part of the looks at a wait that saw what came some microseconds later."""
_LEAST_SHORT = 2
"""Looks into short waits that agree, at least, to say where such waits are."""
_NOWHERE = -1
_TOP = 1 << 31


@dataclass
class ThreadSamples:
    """One thread: what was recorded of it; columns of `run_*` and `wait_*` each of one length, ascending."""

    looked: Int64
    saw: Int32
    """Stack of each look."""
    due: Int64
    """When each was to begin: since then it may itself have kept the thread from running, on its processor."""
    run_time: Int64
    """Samples on the processors."""
    run_called: Int64
    """What each had called: equal numbers for equal native functions below the interpreter."""
    run_clock: Bool
    """Which of them a clock took, so that they say how long the thread was where."""
    wait_start: Int64
    wait_end: Int64
    wait_called: Int64
    kept_start: Int64
    """Intervals in which others kept the thread from running."""
    kept_end: Int64


@dataclass
class Matched:
    """Per sample its stack; where it is UNDECIDED, `other` is that of the other neighbour."""

    stack: Int32
    other: Int32
    how: NDArray[np.uint8]

    @classmethod
    def nothing(cls, count: int) -> Matched:
        """`count` samples, of which nothing is known yet."""
        none = np.full(count, NO_STACK, np.int32)
        return cls(none, none.copy(), np.zeros(count, np.uint8))

    def put(self, rows: NDArray[np.intp], stack: Int32, how: int, other: Int32 | None = None) -> None:
        """Note what samples belong to."""
        self.stack[rows] = stack
        self.other[rows] = stack if other is None else other
        self.how[rows] = how


def match(threads: list[ThreadSamples], period_ns: int, callers: Int64) -> list[tuple[Matched, Matched]]:
    """Per thread its samples on the processors, and its waits.

    `callers`: per number of what was called, the number without its innermost function, -1 for none.
    """
    views = [_View(thread, max(period_ns, 1)) for thread in threads]
    for view in views:
        view.match_looks()
    waited = _Habits([(view.thread.wait_called, view.waits) for view in views])
    perhaps = _Habits([view.short_waits() for view in views])
    called = CallHabits(callers, [view.near_looks() for view in views])
    for view in views:
        view.match_waits(waited, perhaps)
        view.match_runs(called)
        view.match_kept()
    return [(view.runs, view.waits) for view in views]


class _Habits:
    """How often each native function was seen under each stack, by samples that are certain."""

    def __init__(self, seen: list[tuple[Int64, Matched]]) -> None:
        called = np.concatenate([np.zeros(0, np.int64), *(of[matched.how == CERTAIN] for of, matched in seen)])
        stack = np.concatenate([np.zeros(0, np.int32), *(matched.stack[matched.how == CERTAIN] for _, matched in seen)])
        self._called = ascending(called)
        self._pairs, self._count = np.unique(self._packed(called, stack), return_counts=True)

    def _packed(self, called: Int64, stack: Int32) -> Int64:
        place = np.searchsorted(self._called, called)
        known = place < len(self._called)
        known[known] = self._called[place[known]] == called[known]
        return np.where(known, place * _TOP + stack + 1, -1)

    def count(self, called: Int64, stack: Int32) -> Int64:
        """How often a function was seen under a stack."""
        return _at(self._pairs, self._count.astype(np.int64), self._packed(called, stack))

    def knows(self, called: Int64) -> Bool:
        """Whether a function is seen at all."""
        return np.isin(called, self._called)

    def usual(self, called: Int64, stack: Int32) -> Bool:
        """Whether a function is seen under a stack more often than by mistake."""
        count = self.count(called, stack)
        total = np.bincount(self._pairs // _TOP, self._count, minlength=len(self._called)).astype(np.int64)
        return (count > 1) & (count >= _BY_MISTAKE * _at(self._called, total, called))

    def only_stack(self, called: Int64) -> Int32:
        """The stack under which a function is seen nine times of ten; NO_STACK where there is none."""
        of_pair, stack = self._pairs // _TOP, (self._pairs % _TOP - 1).astype(np.int32)
        order = np.lexsort((self._count, of_pair))
        total = np.zeros(len(self._called), np.int64)
        np.add.at(total, of_pair, self._count)
        best, most = np.full(len(total), NO_STACK, np.int32), np.zeros(len(total), np.int64)
        best[of_pair[order]], most[of_pair[order]] = stack[order], self._count[order]
        best[10 * most < 9 * total] = NO_STACK
        return _at(self._called, best, called, NO_STACK).astype(np.int32)


@dataclass
class _Edge:
    """The wait on one side of samples or looks: its stack, and how long they are away from it in own time."""

    stack: Int32
    distance: Int64


class _View:
    """One thread's looks and samples, with what lies where."""

    def __init__(self, thread: ThreadSamples, period_ns: int) -> None:
        self.thread, self._period, self._farthest = thread, period_ns, _FARTHEST_PERIODS * period_ns
        self.runs, self.waits = Matched.nothing(len(thread.run_time)), Matched.nothing(len(thread.wait_start))
        looked = thread.looked
        self._wait_of_look = np.searchsorted(thread.wait_start, looked, side="right") - 1
        inside = self._wait_of_look >= 0
        inside[inside] = looked[inside] < thread.wait_end[self._wait_of_look[inside]]
        self._running = np.flatnonzero(~inside & ~self._kept(looked, thread.due))
        self._stretch_of_look = self._stretch(looked[self._running])
        self._stretch_of_run = self._stretch(thread.run_time)
        # From here on distances count in the thread's own time: a look while it was kept from running is as near to
        # what it did before as to what it did after.
        self._run_looked, self._run_saw = self._own(looked[self._running]), thread.saw[self._running]
        self._run_time, self._wait_end = self._own(thread.run_time), self._own(thread.wait_end)
        self._looks = LookTimes(self._run_looked, self._run_saw, self._stretch_of_look, period_ns)

    def _kept(self, times: Int64, due: Int64) -> Bool:
        """Whether others kept the thread from running at a time, and had begun to before a look was due.

        They do so more at some places than at others, such as after it let go of a lock: looks in such a time would
        make much of these places.
        """
        thread = self.thread
        place = np.searchsorted(thread.kept_start, times, side="right") - 1
        inside = place >= 0
        there = place[inside]
        inside[inside] = (times[inside] < thread.kept_end[there]) & (due[inside] > thread.kept_start[there])
        return inside

    def _own(self, times: Int64) -> Int64:
        """The thread's own time: what had passed without the intervals off the CPU."""
        thread = self.thread
        start = np.concatenate([thread.wait_start, thread.kept_start])
        order = np.argsort(start, kind="stable")
        start = start[order]
        end = np.maximum.accumulate(np.concatenate([thread.wait_end, thread.kept_end])[order])
        length = np.maximum(end - start, 0)
        passed = np.append(0, np.cumsum(length))
        place = np.searchsorted(start, times, side="right")
        inside = np.where(place > 0, np.maximum(np.append(end, 0)[place - 1] - times, 0), 0)
        return np.asarray(times - passed[place] + inside)

    def _stretch(self, times: Int64) -> NDArray[np.intp]:
        """The number of the running stretch that a time lies in."""
        return np.searchsorted(self.thread.wait_start, times, side="right")

    def match_looks(self) -> None:
        """What looks say at once: waits with a look inside, and samples between two looks that agree."""
        thread = self.thread
        first = np.searchsorted(thread.looked, thread.wait_start)
        last = np.maximum(np.searchsorted(thread.looked, thread.wait_end - _EDGE_NS), first)
        rows = np.flatnonzero(last > first)
        # The one in the middle: clocks of looks are some microseconds off.
        self.waits.put(rows, thread.saw[(first[rows] + last[rows] - 1) // 2], CERTAIN)
        self._place, stretch = np.searchsorted(self._run_looked, self._run_time), self._stretch_of_run
        self._before, self._after = self._neighbour(self._place - 1, stretch), self._neighbour(self._place, stretch)
        both = np.flatnonzero((self._before >= 0) & (self._after >= 0))
        before, after = self._before[both], self._after[both]
        agree = self._run_saw[before] == self._run_saw[after]
        agree &= self._run_looked[after] - self._run_looked[before] < _AGREED_NS
        self.runs.put(both[agree], self._run_saw[before[agree]], CERTAIN)

    def _neighbour(self, place: NDArray[np.intp], stretch: NDArray[np.intp]) -> NDArray[np.intp]:
        """The look at a place if it lies in the stretch."""
        valid = (place >= 0) & (place < len(self._run_looked))
        valid[valid] = self._stretch_of_look[place[valid]] == stretch[valid]
        return np.where(valid, place, _NOWHERE)

    def short_waits(self) -> tuple[Int64, Matched]:
        """What waits had called that are too short for a look to have seen nothing else, and what the look in each saw.

        Where it saw what came after it, looks into others of its kind do not agree.
        """
        thread = self.thread
        first, last = (np.searchsorted(thread.looked, times) for times in (thread.wait_start, thread.wait_end))
        rows = np.flatnonzero((last > first) & (thread.wait_end - thread.wait_start <= _EDGE_NS))
        seen = Matched.nothing(len(rows))
        seen.put(np.arange(len(rows)), thread.saw[first[rows]], CERTAIN)
        return thread.wait_called[rows], seen

    def match_waits(self, habits: _Habits, perhaps: _Habits) -> None:
        """Waits that no look fell into; `perhaps`: what short ones have in common, of which no habits are known."""
        thread, looked = self.thread, self.thread.looked
        rows = np.flatnonzero(self.waits.how == NONE)
        if not len(rows) or not len(looked):
            return
        place = np.searchsorted(looked, thread.wait_start[rows])
        before, after = np.maximum(place - 1, 0), np.minimum(place, len(looked) - 1)
        called = thread.wait_called[rows]
        apart = [np.abs(thread.wait_start[rows] - looked[side]) for side in (before, after)]
        nearer = np.where(apart[0] <= apart[1], before, after)
        farther = before + after - nearer
        known = np.minimum(*apart) <= self._farthest
        near, far, only = thread.saw[nearer], thread.saw[farther], habits.only_stack(called)
        by_near, by_far = known & habits.usual(called, near), known & habits.usual(called, far)
        by_habit = known & (only != NO_STACK)
        common = perhaps.only_stack(called)
        in_common = known & (common != NO_STACK) & ~habits.knows(called)
        in_common &= perhaps.count(called, common) >= _LEAST_SHORT
        chosen = np.select([by_near, by_far, by_habit, in_common], [near, far, only, common], near).astype(np.int32)
        decided = by_near | by_far | by_habit | in_common
        self.waits.put(rows[decided], chosen[decided], NEARER)
        open_ = known & ~decided
        self.waits.put(rows[open_], near[open_], UNDECIDED, far[open_])

    def match_runs(self, calls: CallHabits) -> None:
        """Samples on the processors; between two looks that agree, a thread may have been elsewhere."""
        short = self._is_short()
        both = (self._before >= 0) & (self._after >= 0)
        rows = np.flatnonzero(np.where(both, short & (self.runs.how == NONE), True))
        if not len(self._run_looked):
            self._leave_open(rows)
            return
        since, until = self._edges(self._stretch_of_run[rows], self._run_time[rows])
        seen = self._edges(self._stretch_of_look, self._run_looked)
        (some_start, from_start), (some_end, from_end) = (
            self._like_others(mine, others) for mine, others in zip((since, until), seen, strict=True)
        )
        before, after = self._before[rows], self._after[rows]
        # A look in the stretch, unless its edge is nearer.
        after_look = np.where(before >= 0, self._run_time[rows] - self._run_looked[before], _TOP)
        to_look = np.where(after >= 0, self._run_looked[after] - self._run_time[rows], _TOP)
        by_look = np.where(before >= 0, self._run_saw[before], self._run_saw[after])
        by_edge = np.where(before >= 0, from_end, from_start)
        edge_nearer = np.where(before >= 0, until.distance < after_look, since.distance < to_look)
        alone = (before >= 0) != (after >= 0)
        near = alone & (np.minimum(after_look, to_look) <= self._farthest)
        always = np.where(from_start != NO_STACK, from_start, from_end)
        chosen = np.select(
            [short[rows], alone & edge_nearer & (by_edge != NO_STACK), near], [always, by_edge, by_look], NO_STACK
        ).astype(np.int32)
        chosen = np.where((chosen == NO_STACK) & near, by_look, chosen).astype(np.int32)
        decided = chosen != NO_STACK
        self.runs.put(rows[decided], chosen[decided], NEARER)
        between = both & ~short
        between[rows[~decided]] = both[rows[~decided]]
        self._between(np.flatnonzero(between), calls)
        neither = ~decided & (before < 0) & (after < 0)
        some = np.select([always != NO_STACK, some_start != NO_STACK], [always, some_start], some_end).astype(np.int32)
        alike = neither & (some != NO_STACK)
        self.runs.put(rows[alike], some[alike], NEARER)
        self._leave_open(rows[~decided & ~alike & ~both[rows]])

    def match_kept(self) -> None:
        """Times in which others kept the thread from running: it stayed where a look in such a time saw it."""
        thread = self.thread
        kept = np.searchsorted(thread.kept_start, thread.run_time, side="right") - 1
        rows = np.flatnonzero(kept >= 0)
        rows = rows[thread.run_time[rows] < thread.kept_end[kept[rows]]]
        first = np.searchsorted(thread.looked, thread.kept_start[kept[rows]] + _EDGE_NS)
        last = np.searchsorted(thread.looked, thread.kept_end[kept[rows]] - _EDGE_NS)
        seen = last > first
        self.runs.put(rows[seen], thread.saw[(first[seen] + last[seen] - 1) // 2], CERTAIN)

    def _is_short(self) -> Bool:
        """Which samples are in a short stretch."""
        start, end = self._own(self.thread.wait_start), self._wait_end
        far = np.array([_TOP], np.int64)
        length = np.concatenate([far, start[1:] - end[:-1], far]) if len(start) else far
        return np.asarray(length[self._stretch_of_run] < _SHORT_PERIODS * self._period)

    def _gaps(self, rows: NDArray[np.intp]) -> Gaps:
        """What lies around samples between two looks."""
        before, time = self._before[rows], self._run_time[rows]
        since, until = time - self._run_looked[before], self._run_looked[before + 1] - time
        return Gaps(before, since, until, self.thread.run_called[rows], self.thread.run_clock[rows])

    def near_looks(self) -> tuple[Int64, Int32]:
        """What samples next to a look had called, and the stack that it saw."""
        gaps = self._gaps(np.flatnonzero((self._before >= 0) & (self._after >= 0)))
        near = self._looks.is_near(gaps)
        return gaps.called[near], self._looks.nearest(gaps)[near]

    def _between(self, rows: NDArray[np.intp], calls: CallHabits) -> None:
        """Samples between two looks."""
        gaps = self._gaps(rows)
        near = gaps.since + gaps.until <= self._farthest
        chosen, first = likely_stacks(gaps.take(near), self._looks, calls), gaps.before[near]
        agree = (self._run_saw[first] == chosen) & (self._run_saw[first + 1] == chosen)
        self.runs.put(rows[near][agree], chosen[agree], CERTAIN)
        self.runs.put(rows[near][~agree], chosen[~agree], NEARER)
        far, other = self._run_saw[gaps.before[~near]], self._run_saw[gaps.before[~near] + 1]
        self.runs.put(rows[~near][far != other], far[far != other], UNDECIDED, other[far != other])

    def _edges(self, stretch: NDArray[np.intp], own_time: Int64) -> tuple[_Edge, _Edge]:
        """The waits before and after a time in a stretch."""
        count = len(self.thread.wait_start)
        wait_start = self._own(self.thread.wait_start)
        edges = []
        for wait, bound in ((stretch - 1, self._wait_end), (stretch, wait_start)):
            known = (wait >= 0) & (wait < count)
            place = np.where(known, wait, 0)
            distance = np.full(len(stretch), _TOP - 1, np.int64)
            stack = np.full(len(stretch), NO_STACK, np.int32)
            if count:
                distance = np.where(known, np.clip(np.abs(own_time - bound[place]), 0, _TOP - 1), distance)
                known &= np.isin(self.waits.how[place], (CERTAIN, NEARER))
                stack = np.where(known, self.waits.stack[place], NO_STACK).astype(np.int32)
            edges.append(_Edge(stack, distance))
        return edges[0], edges[1]

    def _like_others(self, mine: _Edge, others: _Edge) -> tuple[Int32, Int32]:
        """What looks saw as long after, or before, a wait in the same line, NO_STACK where there is no such look; and
        the same, but NO_STACK also where it matters little how long.
        """
        valid = others.stack != NO_STACK
        seen, saw = others.stack[valid].astype(np.int64) * _TOP + others.distance[valid], self._run_saw[valid]
        order = np.argsort(seen)
        seen, saw = seen[order], saw[order]
        context = seen // _TOP
        telling = _telling(context, saw)
        wanted = mine.stack.astype(np.int64) * _TOP + mine.distance
        place = np.searchsorted(seen, wanted)
        best, least = np.full(len(wanted), NO_STACK, np.int32), np.full(len(wanted), self._farthest + 1, np.int64)
        for side in (place - 1, place):
            there = np.flatnonzero((side >= 0) & (side < len(seen)) & (mine.stack != NO_STACK))
            apart = np.abs(seen[side[there]] - wanted[there])
            better = apart < least[there]
            best[there[better]], least[there[better]] = saw[side[there[better]]], apart[better]
        return best, np.where(np.isin(mine.stack, telling), best, NO_STACK).astype(np.int32)

    def _leave_open(self, rows: NDArray[np.intp]) -> None:
        """What the looks around, of whatever kind, agree on; nothing where they are far away."""
        looked, saw, times = self.thread.looked, self.thread.saw, self.thread.run_time[rows]
        if not len(looked):
            return
        place = np.searchsorted(looked, times)
        before, after = np.maximum(place - 1, 0), np.minimum(place, len(looked) - 1)
        near = np.minimum(np.abs(times - looked[before]), np.abs(looked[after] - times)) <= self._farthest
        self.runs.put(rows[near], saw[before[near]], UNDECIDED, saw[after[near]])


def _telling(context: Int64, saw: Int32) -> Int64:
    """The contexts in which neighbours in order agree, clearly more often than they would in any order."""
    contexts, number = np.unique(context, return_inverse=True)
    number = number.reshape(-1)
    many = np.bincount(number, minlength=len(contexts)).astype(np.float64)
    agree = (context[1:] == context[:-1]) & (saw[1:] == saw[:-1])
    agreed = np.bincount(number[1:][agree], minlength=len(contexts)) / np.maximum(many - 1, 1)
    _, each = np.unique(number * _TOP + saw, return_inverse=True)
    alike = np.bincount(each.reshape(-1))[each.reshape(-1)]
    chance = np.bincount(number, alike, minlength=len(contexts)) / np.maximum(many, 1) ** 2
    return np.asarray(contexts[agreed - chance > _TELLING * (1 - chance)])


def _at(keys: NDArray[Any], values: NDArray[Any], wanted: NDArray[Any], missing: int = 0) -> Int64:
    """The value of each wanted key; keys ascend."""
    if not len(keys):
        return np.full(len(wanted), missing, np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], missing).astype(np.int64)
