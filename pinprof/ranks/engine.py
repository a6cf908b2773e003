"""The ranks of a launch in, one `Launch` out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath

import numpy as np

from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.course.results import PHASE_NAMES
from pinprof.analyze.evidence import worth_telling
from pinprof.analyze.intervals import Intervals, union
from pinprof.base.columns import Int64, ascending
from pinprof.base.errors import CaptureError
from pinprof.ranks.alike import groups_of
from pinprof.ranks.clocks import clocks_of
from pinprof.ranks.headline import headline
from pinprof.ranks.lanes import lanes_of
from pinprof.ranks.late import Late, lasts, latecomers, pattern, uneven_ns
from pinprof.ranks.meeting_table import Meetings
from pinprof.ranks.meetings import meetings_of
from pinprof.ranks.nodes import nodes_of
from pinprof.ranks.notes import notes_of
from pinprof.ranks.path import job_opportunities
from pinprof.ranks.rank_run import RankRun, moved
from pinprof.ranks.results import Excess, Hold, How, JobOpportunity, Launch, Meet, RankFacts, RankLane, Start, Verdict
from pinprof.ranks.spent import NO_PLACE, ProgramPlace
from pinprof.ranks.why import excess

MOST_LANES = 64
_LATEST_START = 0.25
"""The start is over by this part of the meetings."""
_FIRST = 20
"""Meetings of a hold that are listed."""


def explain(runs: Sequence[RankRun], name: str, unreadable: Mapping[int, str]) -> Launch:
    """The answer for ranks of one launch, in the order of their numbers; `unreadable` says why others are left out.

    CaptureError where fewer than two are left.
    """
    if len(runs) < 2:
        why = next((f" Rank {number}: {reason}" for number, reason in unreadable.items()), "")
        raise CaptureError(
            f"{name} holds {'one rank' if runs else 'no rank'} with known times; a comparison needs two.{why}",
            "Give --rank N to report on one rank, or record the launch again.",
            "ranks-few",
        )
    clocks = clocks_of(runs)
    runs = [moved(run, offset) for run, offset in zip(runs, clocks.offset_ns, strict=True)]
    every = meetings_of(runs)
    early, meetings = _apart(runs, every)
    work_ns = int(np.median([run.phase_ns("work") or run.end_ns - run.start_ns for run in runs]))
    found = latecomers(meetings, work_ns)
    first_ns = int(early.release_ns[-1]) if len(early) else 0
    opportunities = job_opportunities(runs, every)
    held = [_hold(runs, meetings, late, work_ns, first_ns, opportunities) for late in found]
    # Whoever gets its processor late does nothing that the others do not.
    holds = tuple(hold for hold in held if not hold.crowded)
    crowded = [hold for hold in held if hold.crowded]
    uneven = round(uneven_ns(meetings))
    verdict = _verdict(meetings, holds, uneven, work_ns)
    start = _start(runs, early, work_ns)
    last, lost = lasts(every)
    came_last = np.bincount(last[lost > 0], minlength=len(runs)).tolist()
    facts = tuple(
        _facts(run, rank, machine, every, came_last[rank], first_ns)
        for rank, (run, machine) in enumerate(zip(runs, clocks.machine, strict=True))
    )
    groups = groups_of(facts, holds, work_ns)
    last, lost = lasts(meetings)
    begin, end = min(run.start_ns for run in runs), max(run.end_ns for run in runs)
    size = max(max(run.number for run in runs) + 1, *(_size(run) for run in runs))
    known = {run.number for run in runs}
    shown = _shown([group.ranks for group in groups], runs)
    return Launch(
        name=name,
        size=size,
        missing=tuple(rank for rank in range(size) if rank not in known)[:1000],
        verdict=verdict,
        headline=headline(verdict, holds, crowded, start, opportunities, uneven, work_ns, len(runs), len(meetings)),
        work_ns=work_ns,
        holds=holds,
        uneven_ns=uneven,
        start=start,
        ranks=facts,
        groups=groups,
        nodes=nodes_of(runs, clocks),
        clock=clocks.how,
        uncertainty_ns=clocks.uncertainty_ns,
        meetings=Meet(meetings.release_ns, np.array([run.number for run in runs], np.int32)[last], lost),
        opportunities=opportunities,
        lanes=lanes_of(runs, every, begin, end, shown),
        closeup=_closeup(runs, every, found, shown),
        incomplete=tuple(f"Rank {run.number}: {gap.text}" for run in runs for gap in run.gaps)[:_FIRST],
        damaged=any(gap.damaged for run in runs for gap in run.gaps),
        notes=tuple(notes_of(runs, meetings, work_ns, unreadable, size)),
    )


def _apart(runs: Sequence[RankRun], every: Meetings) -> tuple[Meetings, Meetings]:
    """(meetings of the start, all others).

    The start has those at which the last one had not begun to work when the others came, and all until every rank
    has been where they meet most often: until then they wait for what the launcher started later.
    """
    if not len(every):
        return every, every
    begun = np.array([run.work_start_ns for run in runs], np.int64)
    last, _ = lasts(every)
    arrival = np.where(every.present, every.arrival_ns, -np.inf)
    arrival[np.arange(len(last)), last] = -np.inf
    early = arrival.max(axis=1) < begun[last]
    early &= early.mean() <= _LATEST_START
    functions = [every.places[number].function_key if number != NO_PLACE else None for number in every.place.tolist()]
    usual = Counter(functions).most_common(1)[0][0]
    there = every.shown & np.array([function == usual for function in functions], np.bool_)[:, None]
    met = np.logical_or.accumulate(there, axis=0).sum(axis=1)
    joined = int(np.flatnonzero(met == met[-1])[0])
    early[: joined + 1] |= joined < _LATEST_START * len(every)
    return every.take(np.flatnonzero(early)), every.take(np.flatnonzero(~early))


def _verdict(meetings: Meetings, holds: Sequence[Hold], uneven: int, work_ns: int) -> Verdict:
    if holds:
        return "held"
    if not len(meetings):
        return "unknown"
    return "turns" if worth_telling(uneven, work_ns) else "even"


def _start(runs: Sequence[RankRun], early: Meetings, work_ns: int) -> Start | None:
    """Who begins last, where the others lose notable time by it."""
    if not len(early):
        return None
    last, lost = lasts(early)
    by_rank = np.bincount(last, lost, len(runs))
    rank = int(by_rank.argmax())
    begins = [run.work_start_ns for run in runs]
    late = begins[rank] - int(np.median([begin for number, begin in enumerate(begins) if number != rank]))
    waited = int(by_rank[rank])
    if not worth_telling(waited, work_ns):
        return None
    return Start(runs[rank].number, late, waited)


def _hold(
    runs: Sequence[RankRun],
    meetings: Meetings,
    late: Late,
    work_ns: int,
    first_ns: int,
    opportunities: Sequence[JobOpportunity],
) -> Hold:
    lines, causes, gpu, crowded = excess(runs, meetings, late, first_ns)
    rows = late.rows[late.held]
    low, high = late.interval_ns()
    unit, held, count, how, every = _steps(runs[late.ranks[0]], meetings, late)
    places = Counter(number for number in meetings.place[rows].tolist() if number != NO_PLACE)
    shows = np.asarray(meetings.shown[rows][:, list(late.ranks)].any(axis=1))
    cure = _cure([runs[rank].number for rank in late.ranks], lines, opportunities)
    phases = Counter(runs[late.ranks[0]].phase_at(int(release) - 1) for release in meetings.release_ns[rows])
    return Hold(
        ranks=tuple(runs[rank].number for rank in late.ranks),
        how=how,
        every=every,
        held=len(held),
        meetings=count,
        first=tuple(held[:_FIRST].tolist()),
        unit=unit,
        cost_ns=round(late.cost_ns),
        low_ns=round(low),
        high_ns=round(high),
        share=late.cost_ns / max(work_ns, 1),
        chance=late.chance,
        tested=late.tested,
        phase=phases.most_common(1)[0][0] if phases else "",
        place=meetings.places[places.most_common(1)[0][0]] if places else None,
        shown=float(shows.mean()) if shows.size else 0.0,
        lines=lines,
        causes=causes,
        gpu_more_ns=gpu,
        crowded=crowded,
        cure=cure.cure if cure else "",
        saves_ns=cure.saves_ns if cure else 0,
        losses=late.losses,
        release_ns=late.release_ns,
    )


def _steps(run: RankRun, meetings: Meetings, late: Late) -> tuple[str, Int64, int, How, int]:
    """(what is counted, numbers of those that are held up, how many there are, how often, every which).

    Steps by a range that repeats; by calls where these ranks are late in nearly all of them, and at meetings without a
    pattern; else meetings.
    """
    by_meetings: tuple[str, Int64, int, How, int] = ("meeting", late.held, len(late.rows), late.how, late.every)
    if run.steps is None:
        return by_meetings
    starts = np.array(run.steps.starts_ns, np.int64)
    step = np.searchsorted(starts, meetings.release_ns[late.rows], "right") - 1
    held = ascending(step[late.held][step[late.held] >= 0])
    how, every = pattern(held, starts) if len(held) > 1 else (late.how, late.every)
    if run.steps.by == "range":
        return run.steps.what, held, len(starts), how, every
    steps = how == "always" and late.how in ("often", "some")
    return ("step", held, len(starts), how, every) if steps else by_meetings


def _cure(
    ranks: Sequence[int], lines: Sequence[Excess], opportunities: Sequence[JobOpportunity]
) -> JobOpportunity | None:
    """What the awaited ranks' own reports say to change at the first line, by what that saves the job."""
    place: ProgramPlace | None = lines[0].place if lines else None
    if place is None or not place.line:
        return None
    here = (
        one
        for one in opportunities
        if (one.file.rpartition("/")[2], one.line) == (place.key[0], place.line) and set(one.ranks) & set(ranks)
    )
    return next(here, None)


def _closeup(
    runs: Sequence[RankRun], every: Meetings, found: Sequence[Late], shown: Sequence[int]
) -> Mapping[int, RankLane]:
    """The lanes from the meeting before a typical one that is held up to the one after it."""
    if not found or not len(found[0].held):
        return {}
    late = found[0]
    held = late.held[np.argsort(late.losses[late.held])]
    at = int(np.searchsorted(every.release_ns, late.release_ns[held[len(held) // 2]]))
    first, last = max(at - 1, 0), min(at + 1, len(every) - 1)
    begin, end = int(every.release_ns[first]), int(every.release_ns[last])
    least = 2 * int(late.losses[held[len(held) // 2]])
    begin, end = min(begin, int(every.release_ns[at]) - least), max(end, int(every.release_ns[at]) + least // 4)
    return lanes_of(runs, every, begin, end, shown)


def _facts(run: RankRun, rank: int, machine: int, meetings: Meetings, last: int, first_ns: int) -> RankFacts:
    spent = run.spent
    start, end = _bounds(run)
    work = union(np.maximum(start, first_ns), np.maximum(end, first_ns))
    waiting = _waiting(rank, meetings)
    rows = np.flatnonzero(~spent.outside & (spent.end_ns > spent.start_ns))
    start, end = spent.start_ns[rows], spent.end_ns[rows]
    inside = work.covered(start, end) * (spent.ns[rows] / (end - start))
    causes = np.bincount(spent.cause[rows], inside, len(CATEGORIES))
    order = np.argsort(-causes, kind="stable")
    return RankFacts(
        number=run.number,
        name=PurePath(run.path).name,
        machine=machine,
        start_ns=run.start_ns,
        end_ns=run.end_ns,
        phases={name: run.phase_ns(name) for name in PHASE_NAMES if name in run.phases},
        own_ns=max(work.total - int(waiting.covered(work.start, work.end).sum()), 0),
        waits_ns=int(np.nansum(meetings.wait_ns[:, rank])),
        last=last,
        answer=run.answer,
        causes={CATEGORIES[number].name: round(causes[number]) for number in order.tolist() if causes[number] >= 1},
    )


def _bounds(run: RankRun) -> tuple[Int64, Int64]:
    work = run.phases.get("work", ())
    return np.array([part.start_ns for part in work], np.int64), np.array([part.end_ns for part in work], np.int64)


def _waiting(rank: int, meetings: Meetings) -> Intervals:
    rows = np.flatnonzero(meetings.present[:, rank])
    return union(meetings.arrival_ns[rows, rank].astype(np.int64), meetings.release_ns[rows])


def _shown(groups: Sequence[Sequence[int]], runs: Sequence[RankRun]) -> list[int]:
    """Columns of the ranks that get a lane: all, or of many the first ones of each group in turn."""
    if len(runs) <= MOST_LANES:
        return list(range(len(runs)))
    place = {run.number: rank for rank, run in enumerate(runs)}
    turns = sorted((turn, place[number]) for group in groups for turn, number in enumerate(group))
    return sorted(rank for _, rank in turns[:MOST_LANES])


def _size(run: RankRun) -> int:
    """How many ranks the launch had, as its manifest says; 0 where it does not."""
    rank = run.manifest.outcome.get("rank")
    size = rank.get("size") if isinstance(rank, Mapping) else None
    return size if isinstance(size, int) and 0 < size <= 1 << 20 else 0
