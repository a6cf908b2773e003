"""Meetings that nothing recorded, by the ranks' waits.

Nothing says who ends a wait. But who waits for others goes on when the last of them has come: waits of several ranks
that end together are one meeting, and who did not wait then came last. A rank that came last shows itself where it
waits there too, if only for a moment, or where its own samples lie in the function that others wait in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from pinprof.base.columns import Bool, Int32, Int64, ascending
from pinprof.base.distributions import binomial_above
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.statistics import LEVEL
from pinprof.ranks.meeting_table import Meetings, numbered
from pinprof.ranks.rank_run import RankRun, moved
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
_TELLING = 32
"""At most this many ranks tell what chance does: all pairs of a thousand would be a million."""
_LEAST_ROWS, _SURE = 5, 0.001
SELDOM = 0.2
"""A place shows that a rank takes part where the rank is no more than this part of its own time."""
OFTEN = 0.2
"""Ranks that are seen together in this part of their meetings belong together."""


def inferred(runs: Sequence[RankRun], numbers: dict[ProgramPlace, int]) -> Meetings:
    """Meetings of threads; places get their numbers."""
    found = _of_threads(runs, numbers)
    return found.take(np.flatnonzero(_at_meeting_places(runs, found, tuple(numbers))))


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
    """How likely another rank shows itself at the end of a wait where the ranks' clocks are wrong; of very many, some
    ranks tell.
    """
    runs = runs[:: -(-len(runs) // _TELLING)]
    step = int(np.median(np.diff(ascending(meetings.release_ns)))) if len(ascending(meetings.release_ns)) > 1 else 0
    shown = trials = 0
    for turn in range(_TURNS):
        parts = [(rank * _GOLDEN + turn / _TURNS) % 1 for rank in range(len(runs))]
        shifts = [int(step * (_LEAST_SHIFT + (1 - 2 * _LEAST_SHIFT) * part)) for part in parts]
        wrong = _of_threads([moved(run, shift) for run, shift in zip(runs, shifts, strict=True)], {})
        shown += int((wrong.shown.sum(axis=1) - 1).sum())
        trials += len(wrong) * (len(runs) - 1)
    return (shown + 1) / (trials + 2)


@dataclass
class Cluster:
    """A meeting whose waits are being collected."""

    release_ns: int
    length_ns: int
    """The longest wait's in it."""
    members: dict[int, int]
    """Rank → row of its wait."""


def clusters(waits: Sequence[RankWaits], least_ns: int) -> list[Cluster]:
    """Waits of at least this length that are open together and end together, ordered by when the first of them ends."""
    rank = np.concatenate([np.full(len(one), number) for number, one in enumerate(waits)])
    row = np.concatenate([np.arange(len(one)) for one in waits])
    start, end = (np.concatenate([getattr(one, side) for one in waits]) for side in ("start_ns", "end_ns"))
    long = np.flatnonzero(end - start >= least_ns)
    order = long[np.argsort(end[long], kind="stable")]
    found: list[Cluster] = []
    ahead: list[Cluster] = []
    columns = (rank[order].tolist(), row[order].tolist(), start[order].tolist(), end[order].tolist())
    for number, place, begin, finish in zip(*columns, strict=True):
        ahead = [one for one in ahead if finish - one.release_ns <= FARTHEST_NS]
        mine = Cluster(finish, finish - begin, {number: place})
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


def members(clusters: Sequence[Cluster], ranks: int) -> Int64:
    """[meeting, rank] → row of the rank's wait, -1 without one."""
    table = np.full((len(clusters), ranks), -1, np.int64)
    for number, one in enumerate(clusters):
        table[number, list(one.members)] = list(one.members.values())
    return table


def _of_threads(runs: Sequence[RankRun], numbers: dict[ProgramPlace, int]) -> Meetings:
    """Meetings of threads: long waits that end together, and the ranks that did not wait then."""
    found = clusters([run.waits for run in runs], LONG_NS)
    member = members(found, len(runs))
    release = np.array([one.release_ns for one in found], np.int64)
    places: dict[ProgramPlace, int] = {}
    place = numbered([_where(runs, one) for one in found], places)
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
        inside = _in_function(run, release[rows], place[rows], tuple(places))
        wait[rows[inside], rank] = 0.0
        unseen[rows[~inside], rank] = True
    shown = ~np.isnan(wait)
    wait[_belongs(shown, unseen)] = 0.0
    none = np.zeros(len(release), np.bool_)
    known = np.append(numbered(tuple(places), numbers), np.int32(NO_PLACE))
    return Meetings(release, wait, wait.copy(), resume, shown, known[place], none, ())


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


def _in_function(run: RankRun, release: Int64, place: Int32, places: Sequence[ProgramPlace]) -> Bool:
    """Per meeting whether the rank's samples near it lie in the function that others wait in there, or on their line.

    A function, or line, where the rank spends much of its own time shows nothing: there it is at any time.
    """
    result = np.zeros(len(release), np.bool_)
    spent = run.spent
    own = np.bincount(spent.place[~spent.outside] + 1, spent.ns[~spent.outside], len(run.places) + 1)[1:]
    for wanted in ascending(place[place != NO_PLACE]).tolist():
        of_others = places[wanted]
        function = [number for number, mine in enumerate(run.places) if mine.function_key == of_others.function_key]
        line = [number for number in function if run.places[number].key == of_others.key]
        numbers = next((some for some in (function, line) if some and own[some].sum() <= SELDOM * own.sum()), None)
        if numbers is None:
            continue
        rows = np.isin(spent.place, numbers)
        start, end = spent.start_ns[rows], np.maximum.accumulate(spent.end_ns[rows])
        of = np.flatnonzero(place == wanted)
        first = np.searchsorted(end, release[of] - NEAR_NS, "left")
        last = np.searchsorted(start, release[of] + NEAR_NS, "right")
        result[of] = last > first
    return result


def _belongs(shown: Bool, unseen: Bool) -> Bool:
    """Which ranks take part though nothing shows it: those that meet the others elsewhere, or never wait at all."""
    present, asked = shown.sum(axis=0), np.flatnonzero(unseen.any(axis=0))
    together = shown.T.astype(np.float64) @ shown[:, asked].astype(np.float64)
    least = np.minimum(present[:, None], present[None, asked])
    knows = (together >= OFTEN * least) & (together > 0)
    never = present < OFTEN * np.median(present[present > 0]) if (present > 0).any() else present == 0
    result: Bool = unseen & never[None, :]
    result[:, asked] |= unseen[:, asked] & ((shown.astype(np.float64) @ knows.astype(np.float64)) > 0)
    return result


def _where(runs: Sequence[RankRun], one: Cluster) -> ProgramPlace | None:
    """Where most of its ranks wait."""
    places: Counter[ProgramPlace] = Counter()
    for rank, row in one.members.items():
        number = int(runs[rank].waits.place[row])
        if number != NO_PLACE:
            places[runs[rank].places[number]] += 1
    return places.most_common(1)[0][0] if places else None
