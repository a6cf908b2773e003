"""Where ranks meet: collectives, barriers, and whatever else makes one wait until another has come.

Calls that the agent has recorded say it (calls.py). Of other waits nothing records who ends them. But who waits for
others goes on when the last of them has come: waits of several ranks that end together are one meeting, and who did
not wait then came last. A rank that came last shows itself where it waits there too, if only for a moment, or where
its own samples lie in the function that others wait in. GPUs meet in collective kernels: who has the shortest one came
last, whatever their clocks say.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pinprof.analyze.intervals import union
from pinprof.base.columns import Bool, Float64, Int32, Int64, Table
from pinprof.base.distributions import binomial_above
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.statistics import LEVEL
from pinprof.ranks.calls import LATER, MetCalls, matched
from pinprof.ranks.rank_run import RankRun, apart, moved
from pinprof.ranks.spent import NO_PLACE, ProgramPlace
from pinprof.ranks.waits import RankWaits

LONG_NS = 200_000
"""A meeting of threads has a wait of at least this length: shorter ones cost nothing that is worth telling."""
TOGETHER_NS, TOGETHER, FARTHEST_NS = 10_000_000, 0.25, 50_000_000
"""Waits of one meeting end within the first, or within this part of their length, and never farther apart than the
last: on a busy machine processors come late."""
NEAR_NS = 2_000_000
"""So near to the end of a wait the one that was awaited shows itself."""
BEFORE_NS = 6_000_000
"""So much earlier it may have gone on: who waited gets its processor late on a busy machine."""
_TURNS, _LEAST_SHIFT, _GOLDEN = 4, 0.15, 0.618
"""By which parts of a step clocks are set wrong to see what chance does: these, spread evenly over the ranks."""
_LEAST_ROWS, _SURE = 5, 0.001
_MOST_CELLS = 1 << 23
"""Meetings of calls, times ranks, that are held at most."""
SELDOM = 0.2
"""A place shows that a rank takes part where the rank is no more than this part of its own time."""
OFTEN = 0.2
"""Ranks that are seen together in this part of their meetings belong together."""


@dataclass(frozen=True)
class Meetings(Table):
    """Meetings in order of time, on the common clock; where it says so, columns are [meeting, rank]."""

    release_ns: Int64
    """When the last had come."""
    wait_ns: Float64
    """[meeting, rank]: how long each waited for the last; 0 of that one, NaN of a rank that takes no part."""
    lost_ns: Float64
    """[meeting, rank]: the same less what its GPU computed meanwhile, which is time that is lost."""
    resume_ns: Int64
    """[meeting, rank]: when each went on."""
    shown: Bool
    """[meeting, rank]: whether the rank's own recording shows that it takes part."""
    place: Int32
    """Where ranks wait: index into `places`, NO_PLACE where that is not known."""
    gpu: Bool
    """Whether GPUs meet."""
    places: tuple[ProgramPlace, ...]

    @property
    def present(self) -> Bool:
        """[meeting, rank]: who takes part."""
        return np.asarray(~np.isnan(self.wait_ns))

    @property
    def arrival_ns(self) -> Float64:
        """[meeting, rank]: when each came; NaN of a rank that takes no part."""
        return self.release_ns[:, None] - self.wait_ns


def meetings_of(runs: Sequence[RankRun]) -> Meetings:
    """All meetings of ranks that are on one clock."""
    numbers: dict[ProgramPlace, int] = {}
    gpus = _of_gpus(runs, numbers)
    met = matched([run.calls for run in runs], later=not all(len(run.collectives) for run in runs))
    called = _of_calls(runs, met, numbers)
    others = [_without(run, met.take(rows)) for run, rows in zip(runs, met.by_rank(len(runs)), strict=True)]
    threads = _of_threads(others, numbers)
    threads = threads.take(np.flatnonzero(_at_meeting_places(others, threads, tuple(numbers))))
    whole = replace(gpus.joined(called, threads), places=tuple(numbers))
    whole = whole.take(np.flatnonzero(whole.present.sum(axis=1) > 1))
    return whole.take(np.argsort(whole.release_ns, kind="stable"))


def _at_meeting_places(runs: Sequence[RankRun], meetings: Meetings, places: Sequence[ProgramPlace]) -> Bool:
    """Which meetings are some: others show themselves there, or do so in the function that is waited in.

    Enough is more than if each rank's clock were wrong by a part of a step: any waits end together at times, by chance.
    """
    shows = meetings.shown.sum(axis=1) - 1
    if not len(meetings):
        return np.zeros(0, np.bool_)
    locked = _locked(runs, meetings)
    if not shows.any():
        return locked
    others, chance = len(runs) - 1, _by_chance(runs, meetings)

    def sure(rows: Int64, level: float) -> bool:
        return binomial_above(int(shows[rows].sum()) - 1, len(rows) * others, chance) <= level

    if not sure(np.arange(len(meetings)), _SURE):
        return locked
    enough = np.array([binomial_above(count - 1, others, chance) <= LEVEL for count in range(others + 1)])
    result: Bool = locked | ((shows > 0) & enough[shows])
    functions = {number: place.function_key for number, place in enumerate(places)}
    rows_of: dict[tuple[str, str] | None, list[int]] = {}
    for row, number in enumerate(meetings.place.tolist()):
        rows_of.setdefault(functions.get(number), []).append(row)
    for some in rows_of.values():
        rows = np.array(some, np.int64)
        result[rows] |= len(rows) >= _LEAST_ROWS and sure(rows, _SURE)
    return result


def _locked(runs: Sequence[RankRun], meetings: Meetings) -> Bool:
    """Of two ranks: meetings at which the one that does not wait goes on to one line of its own, time and again.

    Whoever is awaited comes to what follows the meeting just when the other's wait ends. Of more ranks, those that wait
    together tell as much.
    """
    result = np.zeros(len(meetings), np.bool_)
    for rank, run in enumerate(runs if len(runs) == 2 else ()):
        rows = np.flatnonzero(np.isnan(meetings.wait_ns[:, rank]) | (meetings.wait_ns[:, rank] == 0))
        spent = run.spent
        if len(rows) < _LEAST_ROWS or len(spent) < 2:
            continue
        enters = np.flatnonzero(np.diff(spent.place, prepend=spent.place[:1]) != 0)
        places, count = np.unique(spent.place[enters], return_counts=True)
        usual = [place for place, times in zip(places.tolist(), count.tolist(), strict=True) if times >= len(rows) / 2]
        for place in usual:
            at = spent.start_ns[enters[spent.place[enters] == place]]
            window = BEFORE_NS + NEAR_NS
            rate = -math.expm1(-len(at) * window / max(int(spent.end_ns[-1] - spent.start_ns[0]), 1))
            until = np.searchsorted(at, meetings.release_ns[rows] + NEAR_NS, "right")
            hits = until > np.searchsorted(at, meetings.release_ns[rows] - BEFORE_NS, "left")
            many = int(hits.sum())
            if 2 * many >= len(rows) and binomial_above(many - 1, len(rows), rate) * len(usual) <= _SURE:
                result[rows] = True
    return result


def _by_chance(runs: Sequence[RankRun], meetings: Meetings) -> float:
    """How likely another rank shows itself at the end of a wait where the ranks' clocks are wrong."""
    step = int(np.median(np.diff(np.unique(meetings.release_ns)))) if len(np.unique(meetings.release_ns)) > 1 else 0
    shown = trials = 0
    for turn in range(_TURNS):
        parts = [(rank * _GOLDEN + turn / _TURNS) % 1 for rank in range(len(runs))]
        shifts = [int(step * (_LEAST_SHIFT + (1 - 2 * _LEAST_SHIFT) * part)) for part in parts]
        wrong = _of_threads([moved(run, shift) for run, shift in zip(runs, shifts, strict=True)], {})
        shown += int((wrong.shown.sum(axis=1) - 1).sum())
        trials += len(wrong) * (len(runs) - 1)
    return (shown + 1) / (trials + 2)


def _without(run: RankRun, met: MetCalls) -> RankRun:
    """The rank without waits that its calls explain."""
    return replace(run, waits=apart(run.waits, union(met.start_ns, np.maximum(met.end_ns, met.release_ns))))


def _of_calls(runs: Sequence[RankRun], met: MetCalls, numbers: dict[ProgramPlace, int]) -> Meetings:
    """Meetings of calls; of more than are held those with the longest waits."""
    release = np.zeros(int(met.meeting.max(initial=-1)) + 1, np.int64)
    release[met.meeting] = met.release_ns
    longest = np.zeros(len(release), np.int64)
    np.maximum.at(longest, met.meeting, met.release_ns - met.start_ns)
    kept = np.sort(np.argsort(-longest, kind="stable")[: max(_MOST_CELLS // len(runs), 1)])
    number = np.full(len(release), -1, np.int64)
    number[kept] = np.arange(len(kept))
    met = met.take(number[met.meeting] >= 0)
    at = number[met.meeting]
    release, shape = release[kept], (len(kept), len(runs))
    wait, lost, resume = np.full(shape, np.nan), np.full(shape, np.nan), np.repeat(release[:, None], len(runs), axis=1)
    place, placed = np.full(len(kept), NO_PLACE, np.int32), np.full(len(kept), -1.0)
    for rank, (run, rows) in enumerate(zip(runs, met.by_rank(len(runs)), strict=True)):
        of, calls = at[rows], run.calls.take(met.row[rows])
        # Until the meeting before was over it was there.
        before = np.append(0, met.release_ns[rows])[:-1]
        arrival = np.minimum(np.maximum(calls.start_ns, before), release[of])
        wait[of, rank] = release[of] - arrival
        worked = run.busy.covered(arrival, release[of])
        lost[of, rank] = np.maximum(wait[of, rank] - worked, run.blocking.covered(arrival, release[of]))
        blocks = calls.own & (calls.waits != LATER)
        resume[of, rank] = np.where(blocks, np.maximum(calls.end_ns, release[of]), release[of])
        where = np.where(calls.own, calls.place, _doing(run, release[of] - 1))
        seen, which = np.unique(where, return_inverse=True)
        new = _numbered([None if one == NO_PLACE else run.places[one] for one in seen.tolist()], numbers)[which]
        better = (new != NO_PLACE) & (wait[of, rank] > placed[of])
        place[of[better]], placed[of[better]] = new[better], wait[of[better], rank]
    none = np.zeros(len(kept), np.bool_)
    return Meetings(release, wait, lost, resume, ~np.isnan(wait), place, none, ())


def _doing(run: RankRun, time_ns: Int64) -> Int32:
    """Where a rank's thread is at some instants."""
    if not len(run.spent):
        return np.full(len(time_ns), NO_PLACE, np.int32)
    return run.spent.place[np.maximum(np.searchsorted(run.spent.start_ns, time_ns, "right") - 1, 0)]


@dataclass
class _Open:
    """A meeting whose waits are being collected."""

    release_ns: int
    length_ns: int
    """The longest wait's in it."""
    members: dict[int, int]
    """Rank → row of its wait."""


def _clusters(waits: Sequence[RankWaits], least_ns: int) -> list[_Open]:
    """Waits of at least this length that are open together and end together, ordered by when the first of them ends."""
    rank = np.concatenate([np.full(len(one), number) for number, one in enumerate(waits)])
    row = np.concatenate([np.arange(len(one)) for one in waits])
    start, end = (np.concatenate([getattr(one, side) for one in waits]) for side in ("start_ns", "end_ns"))
    long = np.flatnonzero(end - start >= least_ns)
    order = long[np.argsort(end[long], kind="stable")]
    found: list[_Open] = []
    ahead: list[_Open] = []
    columns = (rank[order].tolist(), row[order].tolist(), start[order].tolist(), end[order].tolist())
    for number, place, begin, finish in zip(*columns, strict=True):
        ahead = [one for one in ahead if finish - one.release_ns <= FARTHEST_NS]
        mine = _Open(finish, finish - begin, {number: place})
        for one in ahead:
            reach = max(TOGETHER_NS, TOGETHER * max(one.length_ns, mine.length_ns))
            if begin < one.release_ns and finish - one.release_ns <= reach and number not in one.members:
                one.members[number] = place
                one.length_ns = max(one.length_ns, mine.length_ns)
                break
        else:
            found.append(mine)
            ahead.append(mine)
    return found


def _members(clusters: Sequence[_Open], ranks: int) -> Int64:
    """[meeting, rank] → row of the rank's wait, -1 without one."""
    table = np.full((len(clusters), ranks), -1, np.int64)
    for number, one in enumerate(clusters):
        table[number, list(one.members)] = list(one.members.values())
    return table


def _of_threads(runs: Sequence[RankRun], numbers: dict[ProgramPlace, int]) -> Meetings:
    """Meetings of threads: long waits that end together, and the ranks that did not wait then."""
    clusters = _clusters([run.waits for run in runs], LONG_NS)
    member = _members(clusters, len(runs))
    release = np.array([one.release_ns for one in clusters], np.int64)
    place = tuple(_where(runs, one) for one in clusters)
    wait, resume = np.full(member.shape, np.nan), np.repeat(release[:, None], len(runs), axis=1)
    unseen = np.zeros(member.shape, np.bool_)
    for rank, run in enumerate(runs):
        rows = np.flatnonzero(member[:, rank] >= 0)
        of = member[rows, rank]
        wait[rows, rank] = np.maximum(release[rows] - run.waits.start_ns[of], 0)
        resume[rows, rank] = run.waits.end_ns[of]
        others = np.flatnonzero(member[:, rank] < 0)
        near = _nearest(run.waits, release[others])
        rows, of = others[near >= 0], near[near >= 0]
        wait[rows, rank] = np.maximum(release[rows] - run.waits.start_ns[of], 0)
        resume[rows, rank] = np.maximum(release[rows], run.waits.end_ns[of])
        rows = others[near == _BUSY]
        rows = rows[(release[rows] >= run.start_ns) & (release[rows] < run.end_ns)]
        inside = _in_function(run, release[rows], [place[row] for row in rows.tolist()])
        wait[rows[inside], rank] = 0.0
        unseen[rows[~inside], rank] = True
    shown = ~np.isnan(wait)
    wait[_belongs(shown, unseen)] = 0.0
    none = np.zeros(len(release), np.bool_)
    return Meetings(release, wait, wait.copy(), resume, shown, _numbered(place, numbers), none, ())


_BUSY, _ELSEWHERE = -1, -2


def _nearest(waits: RankWaits, release: Int64) -> Int64:
    """Per meeting the row of a wait that begins or ends there; _BUSY without one, _ELSEWHERE in a wait that goes on."""
    result = np.full(len(release), _BUSY, np.int64)
    if not len(waits):
        return result
    row = np.clip(np.searchsorted(waits.start_ns, release + NEAR_NS, "right") - 1, 0, None)
    start, end = waits.start_ns[row], waits.end_ns[row]
    inside = (start <= release + NEAR_NS) & (end >= release - NEAR_NS)
    beyond = inside & (start < release) & (end > release + NEAR_NS) & (end - start >= LONG_NS)
    result[inside] = row[inside]
    result[beyond] = _ELSEWHERE
    return result


def _in_function(run: RankRun, release: Int64, places: Sequence[ProgramPlace | None]) -> Bool:
    """Per meeting whether the rank's samples near it lie in the function that others wait in there, or on their line.

    A function, or line, where the rank spends much of its own time shows nothing: there it is at any time.
    """
    result = np.zeros(len(release), np.bool_)
    spent = run.spent
    own = np.bincount(spent.place[~spent.outside] + 1, spent.ns[~spent.outside], len(run.places) + 1)[1:]
    for place in {one for one in places if one is not None}:
        function = [number for number, mine in enumerate(run.places) if mine.function_key == place.function_key]
        line = [number for number in function if run.places[number].key == place.key]
        numbers = next((some for some in (function, line) if some and own[some].sum() <= SELDOM * own.sum()), None)
        if numbers is None:
            continue
        rows = np.isin(spent.place, numbers)
        start, end = spent.start_ns[rows], np.maximum.accumulate(spent.end_ns[rows])
        of = np.flatnonzero([one == place for one in places])
        first = np.searchsorted(end, release[of] - NEAR_NS, "left")
        last = np.searchsorted(start, release[of] + NEAR_NS, "right")
        result[of] = last > first
    return result


def _belongs(shown: Bool, unseen: Bool) -> Bool:
    """Which ranks take part though nothing shows it: those that meet the others elsewhere, or never wait at all."""
    present = shown.sum(axis=0)
    together = shown.T.astype(np.float64) @ shown.astype(np.float64)
    least = np.minimum(present[:, None], present[None, :])
    knows = (together >= OFTEN * least) & (together > 0)
    never = present < OFTEN * np.median(present[present > 0]) if (present > 0).any() else present == 0
    met = (shown.astype(np.float64) @ knows.astype(np.float64)) > 0
    return np.asarray(unseen & (met | never[None, :]))


def _where(runs: Sequence[RankRun], one: _Open) -> ProgramPlace | None:
    """Where most of its ranks wait."""
    places: Counter[ProgramPlace] = Counter()
    for rank, row in one.members.items():
        number = int(runs[rank].waits.place[row])
        if number != NO_PLACE:
            places[runs[rank].places[number]] += 1
    return places.most_common(1)[0][0] if places else None


def _of_gpus(runs: Sequence[RankRun], numbers: dict[ProgramPlace, int]) -> Meetings:
    """Meetings of GPUs. For ranks with one sequence of collectives the nth are one; for others those that overlap."""
    names = [tuple(run.collective_names[number] for number in run.collectives.place.tolist()) for run in runs]
    if len(set(names)) == 1:
        member = np.repeat(np.arange(len(names[0]))[:, None], len(runs), axis=1)
    else:
        member = _members(_clusters([run.collectives for run in runs], 0), len(runs))
    length, end = np.full(member.shape, np.nan), np.zeros(member.shape, np.int64)
    for rank, run in enumerate(runs):
        rows = np.flatnonzero(member[:, rank] >= 0)
        of = member[rows, rank]
        length[rows, rank] = run.collectives.end_ns[of] - run.collectives.start_ns[of]
        end[rows, rank] = run.collectives.end_ns[of]
    shown = ~np.isnan(length)
    least = np.where(shown, length, np.inf).min(axis=1, initial=np.inf)
    wait = length - least[:, None]
    release = np.where(shown, end, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    release = release - np.where(np.isfinite(least), least, 0).astype(np.int64)
    lost = wait.copy()
    for rank, run in enumerate(runs):
        rows = np.flatnonzero(shown[:, rank])
        start = run.collectives.start_ns[member[rows, rank]]
        until = start + wait[rows, rank].astype(np.int64)
        lost[rows, rank] -= run.computing.covered(start, until)
    first = [next((rank for rank in range(len(runs)) if row[rank] >= 0), -1) for row in member.tolist()]
    place = tuple(
        ProgramPlace(name, "", name, 0) if (name := names[rank][member[row, rank]]) else None
        for row, rank in enumerate(first)
    )
    every = np.ones(len(release), np.bool_)
    return Meetings(release, wait, lost, end, shown, _numbered(place, numbers), every, ())


def _numbered(places: Sequence[ProgramPlace | None], numbers: dict[ProgramPlace, int]) -> Int32:
    """Per place its number, new ones added."""
    found = [NO_PLACE if place is None else numbers.setdefault(place, len(numbers)) for place in places]
    return np.array(found, np.int32)
