"""Where ranks meet, by their own calls: the calls of one communicator with one number are one meeting.

Who waits for whom is what the function says: all for all, all for the root, the root for all, one for another. By a
call that comes back before its work is done (NCCL's), or that another thread makes (Gloo's), a rank loses only while
its critical thread does nothing. Such another thread was woken to make the call: the rank came then, and that the
thread waited for a processor after that is nobody's work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self, get_args

import numpy as np

from pinprof.analyze.attribution.categories import CATEGORIES, LEAF
from pinprof.analyze.course.critical import AWAITS
from pinprof.analyze.intervals import Intervals, any_of, union
from pinprof.base.columns import Bool, Int8, Int32, Int64, Table, ascending, pack
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import Caller
from pinprof.data.meeting_calls import MeetingCalls
from pinprof.data.meeting_functions import Waits
from pinprof.data.model import READY, Capture, SampleTable
from pinprof.ranks.spent import NO_PLACE, ProgramPlace, Spent

WAITS: tuple[Waits, ...] = get_args(Waits)
ALL, ROOT, GATHER, CHAIN, PAIR, WHOM, LATER, NONE = range(len(WAITS))
_IDLE = np.array([row.name.startswith(("sync.", "wait.")) and row.name != "wait.runnable" for row in CATEGORIES])
"""Leaf → whether a thread does nothing there."""
_RUNNABLE = LEAF["wait.runnable"]
SOON_NS = 300_000
"""A thread that runs no longer than this before it makes a call was woken for it."""
NEVER = any_of(())
"""Intervals of nothing."""
Group = tuple[int, ...]
"""Calls that are numbered together: (communicator) or, of messages, (communicator, sender, receiver, tag)."""


@dataclass(frozen=True)
class RankCalls(Table):
    """Calls in which a rank meets others that are known, ordered by start."""

    start_ns: Int64
    end_ns: Int64
    group: Int32
    """Index into `groups`."""
    number: Int64
    waits: Int8
    """Index into WAITS."""
    is_root: Bool
    own: Bool
    """Whether the critical thread makes it, and so waits in it."""
    place: Int32
    """Who calls, an index into the rank's places; NO_PLACE where not known."""
    groups: tuple[Group, ...] = ()
    roles: tuple[tuple[int, int], ...] = ()
    """(communicator, the rank in it)."""


def rank_calls(
    calls: MeetingCalls | None, pid: int, tid: int, places: Sequence[ProgramPlace]
) -> tuple[RankCalls, Intervals, Intervals, tuple[ProgramPlace, ...]]:
    """(the calls of a process, when its critical thread is in any, when any thread is, the places and who calls)."""
    if calls is None:
        return RankCalls.empty(), NEVER, NEVER, tuple(places)
    calls = calls.take(calls.pid == pid)
    functions = calls.functions
    waits = np.array([WAITS.index(each.waits) for each in functions] or [NONE], np.int8)[calls.name]
    own = calls.tid == tid
    blocks = (waits != LATER) & (waits != NONE)
    meeting = union(calls.start_ns[blocks], calls.end_ns[blocks])
    blocking = union(calls.start_ns[own & blocks], calls.end_ns[own & blocks])
    numbers = {place: number for number, place in enumerate(places)}
    of_site = [numbers.setdefault(_place(site), len(numbers)) for site in calls.sites]
    place = np.array([*of_site, NO_PLACE], np.int32)[calls.site]
    sends = np.array([each.sends for each in functions] or [False], np.bool_)[calls.name]
    pairs = np.array([each.peer is not None for each in functions] or [False], np.bool_)[calls.name]
    known = (calls.communicator >= 0) & ((calls.number > 0) | (pairs & (calls.peer >= 0)))
    groups: dict[Group, int] = {}
    met: dict[int, int] = {}
    group, number = np.full(len(calls), -1, np.int32), np.minimum(calls.number, 2**31 - 1)
    columns = (column.tolist() for column in (calls.communicator, calls.peer, calls.tag, sends, pairs))
    for row, (one, peer, tag, send, pair) in enumerate(zip(*columns, strict=True)):
        if not known[row]:
            continue
        identity, rank, _ = calls.communicators[one]
        key: Group = (identity,)
        if pair:
            key = (identity, rank, peer, tag) if send else (identity, peer, rank, tag)
        group[row] = groups.setdefault(key, len(groups))
        if pair:
            number[row] = met[group[row]] = met.get(int(group[row]), 0) + 1
    rank_in = np.array([one.rank for one in calls.communicators] or [-1], np.int64)[calls.communicator]
    table = RankCalls(
        calls.start_ns, calls.end_ns, group, number, waits, rank_in == calls.peer, own, place, tuple(groups),
        tuple((one.identity, one.rank) for one in calls.communicators),
    )  # fmt: skip
    return table.take(known), blocking, meeting, tuple(numbers)


def woken(calls: MeetingCalls, capture: Capture, pid: int, tid: int) -> MeetingCalls:
    """The calls of a process as if each of its threads but the critical one, `tid`, got a processor when it was woken.

    A thread can be woken earlier for something else: it has not come as long as the critical thread does not wait.
    """
    samples, wakes = capture.samples, capture.wakeups
    if wakes is None or samples.wait is None:
        return calls
    is_wait = np.array([event.spans for event in capture.events], np.bool_)[samples.event] & (samples.pid == pid)
    mine = _Waits.of(samples.take(is_wait & (samples.tid == tid)))
    start = calls.start_ns.copy()
    for thread in ascending(calls.tid[(calls.pid == pid) & (calls.tid != tid)]).tolist():
        waits = _Waits.of(samples.take(is_wait & (samples.tid == thread)))
        rows = np.flatnonzero((calls.pid == pid) & (calls.tid == thread))
        times = np.append(0, wakes.time_ns[wakes.woken == thread])
        woke = times[np.searchsorted(times, calls.start_ns[rows], "right") - 1]
        # It got a processor when the wait was over in which it was woken, and again after each that a processor ends.
        ran = np.clip(waits.around(woke)[1], woke, calls.start_ns[rows])
        soon = calls.start_ns[rows] - ran - waits.ready.covered(ran, calls.start_ns[rows]) <= SOON_NS
        rows, woke = rows[soon & (ran > woke)], woke[soon & (ran > woke)]
        start[rows] = np.maximum(woke, mine.around(calls.start_ns[rows])[0])
    return replace(calls, start_ns=start).take(np.argsort(start, kind="stable"))


@dataclass(frozen=True)
class _Waits:
    """When a thread has no processor, ordered by start."""

    start_ns: Int64
    end_ns: Int64
    ready: Intervals
    """When it could run."""

    @classmethod
    def of(cls, samples: SampleTable) -> Self:
        start, end = samples.time_ns, samples.time_ns + samples.weight
        ready = np.zeros(len(start), np.bool_) if samples.wait is None else samples.wait & READY > 0
        return cls(start, end, union(start[ready], end[ready]))

    def around(self, time_ns: Int64) -> tuple[Int64, Int64]:
        """(begin, end) of the wait that each instant is in; zeros where it is in none."""
        if not len(self.start_ns):
            return np.zeros(len(time_ns), np.int64), np.zeros(len(time_ns), np.int64)
        row = np.maximum(np.searchsorted(self.start_ns, time_ns, "right") - 1, 0)
        inside = (self.start_ns[row] <= time_ns) & (time_ns <= self.end_ns[row])
        return np.where(inside, self.start_ns[row], 0), np.where(inside, self.end_ns[row], 0)


def _place(site: Caller) -> ProgramPlace:
    text = f"{site.file}:{site.line}" if site.line else site.function
    return ProgramPlace(text, site.path, site.function, site.line)


def busy(spent: Spent) -> Intervals:
    """When a critical thread does anything: it does not wait, nor spin in a synchronisation.

    That it could run, while the processor ran something else, is a part of what it does most at that place.
    """
    idle, ready = spent.outside | _IDLE[spent.cause], spent.cause == _RUNNABLE
    waits = np.where(ready, 0, np.where(idle, spent.ns, -spent.ns))
    waits_there = np.bincount(spent.place + 1, waits) > 0
    rows = ~(idle | (ready & waits_there[spent.place + 1]))
    return union(spent.start_ns[rows], spent.end_ns[rows])


def outside(spent: Spent, caller: Bool, blocking: Intervals, meeting: Intervals) -> Bool:
    """Which time of a critical thread is a wait for other ranks: in a call of its own, whatever it does there, and in
    another thread's what it waits; never that it could run. What it waits for is another thread, and `caller` says
    whether that is one that makes such calls.
    """
    length = spent.end_ns - spent.start_ns
    own, others = (2 * calls.covered(spent.start_ns, spent.end_ns) > length for calls in (blocking, meeting))
    waits = spent.outside | own | (others & caller)
    result: Bool = (waits & (spent.cause != _RUNNABLE)) | (others & AWAITS[spent.cause])
    return result


@dataclass(frozen=True)
class MetCalls(Table):
    """The calls of all ranks, those of a meeting one after the other, meetings in the order of their release."""

    meeting: Int64
    """Its number, from 0 without gaps."""
    rank: Int64
    """Column of the rank."""
    row: Int64
    """Row of its `RankCalls`."""
    start_ns: Int64
    end_ns: Int64
    release_ns: Int64
    """When the last one had come for whom another waits."""

    def by_rank(self, ranks: int) -> list[Int64]:
        """The rows of each of this number of ranks, meetings in order."""
        order = np.argsort(self.rank, kind="stable")
        return np.split(order, np.searchsorted(self.rank[order], np.arange(1, ranks)))


def matched(calls: Sequence[RankCalls], *, later: bool) -> MetCalls:
    """The calls by which ranks meet; `later`: also those whose work the GPU does afterwards."""
    numbers = _group_numbers(calls)
    parts = []
    for rank, one in enumerate(calls):
        rows, keys = _numbered(one, numbers, later | (one.waits != LATER))
        chosen = one.take(rows)
        parts.append((
            keys, np.full(len(rows), rank), rows, chosen.start_ns, chosen.end_ns, chosen.waits, chosen.is_root,
        ))  # fmt: skip
    key, rank_of, row, start, end, waits, is_root = (
        np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True)
    )
    order = np.lexsort((start, key))
    key, rank_of, row, start, end, waits, is_root = (
        part[order] for part in (key, rank_of, row, start, end, waits, is_root)
    )
    first = np.flatnonzero(np.diff(key, prepend=key[:1] - 1))
    if not len(first):
        return MetCalls.empty()
    of = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(key))))
    release, takes_part = _releases(first, of, start, end, waits, is_root > 0)
    takes_part &= np.bincount(of, takes_part, len(first))[of] > 1
    place = np.argsort(np.argsort(release, kind="stable"), kind="stable")
    found = MetCalls(place[of], rank_of, row, start, end, release[of]).take(takes_part)
    found = found.take(np.lexsort((found.rank, found.meeting)))
    return replace(found, meeting=np.unique(found.meeting, return_inverse=True)[1].reshape(-1))


def _group_numbers(calls: Sequence[RankCalls]) -> Mapping[Group, int]:
    """Groups of all ranks; without those of communicators that two say they are the same rank of, which are several."""
    known: set[tuple[int, int]] = set()
    several: set[int] = set()
    for one in calls:
        mine = set(one.roles)
        several |= {identity for identity, _ in known & mine}
        known |= mine
    found: dict[Group, int] = {}
    for one in calls:
        for key in one.groups:
            if key[0] not in several:
                found.setdefault(key, len(found))
    return found


def _numbered(calls: RankCalls, numbers: Mapping[Group, int], chosen: Bool) -> tuple[Int64, Int64]:
    """(the rows of chosen calls whose group has a number, the key of each call's meeting)."""
    group = np.array([numbers.get(key, -1) for key in calls.groups] or [-1], np.int64)[calls.group]
    rows = np.flatnonzero((group >= 0) & chosen)
    return rows, pack(group[rows], calls.number[rows])


def _releases(first: Int64, of: Int64, start: Int64, end: Int64, waits: Int64, is_root: Bool) -> tuple[Int64, Bool]:
    """Per meeting when the last one had come; per call whether it takes part: its rank waits, or is that last one."""
    none = np.iinfo(np.int64).min

    def latest(rows: Bool) -> Int64:
        return np.maximum.reduceat(np.where(rows, start, none), first)

    # In a call when the next comes, by whoever came before and is still there; those of a meeting are ordered by start.
    reach = np.full(len(end), none)
    bounds = [*first.tolist(), len(end)]
    kind = waits[first]
    loose = np.flatnonzero((kind == CHAIN) | (kind == PAIR))
    for number in loose.tolist():
        low, high = bounds[number], bounds[number + 1]
        reach[low + 1 : high] = np.maximum.accumulate(end[low : high - 1])
    root_start, root_end = latest(is_root), np.maximum.reduceat(np.where(is_root, end, none), first)
    waited = ~is_root & (start < root_start[of]) & (root_start[of] <= end)
    by_root = np.where(np.logical_or.reduceat(waited, first), root_start, none)
    gathered = latest(~is_root & (start > root_start[of]) & (start <= root_end[of]) & (kind[of] == GATHER))
    rooted = np.where(gathered > none, gathered, by_root)
    release = np.where((kind == ALL) | (kind == LATER), latest(np.ones(len(start), np.bool_)), latest(start <= reach))
    release = np.where((kind == ROOT) | (kind == GATHER), rooted, release)
    inside = (start <= release[of]) & ((end >= release[of]) | np.isin(kind[of], (ALL, LATER)))
    is_rooted = np.isin(kind[of], (ROOT, GATHER))
    to_root = is_rooted & (gathered[of] == none)
    for_root = is_rooted & (gathered[of] > none)
    takes_part = np.where(to_root, is_root | inside, np.where(for_root, is_root | (start == release[of]), inside))
    return release, takes_part & (release[of] > none)


def together(one: RankCalls, other: RankCalls) -> tuple[Int64, Int64]:
    """(rows, rows) of calls of both in which all wait for all, meeting by meeting: they end at the same time."""
    numbers = _group_numbers((one, other))
    (mine, keys), (theirs, others) = (_numbered(calls, numbers, calls.waits == ALL) for calls in (one, other))
    _, first, second = np.intersect1d(keys, others, return_indices=True)
    return mine[first], theirs[second]
