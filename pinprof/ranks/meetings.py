"""Where ranks meet: collectives, barriers, and whatever else makes one wait until another has come.

Calls that the agent has recorded say it (calls.py); other waits tell it (inference.py). GPUs meet in collective
kernels: who has the shortest one came last, whatever their clocks say.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np

from pinprof.analyze.intervals import union
from pinprof.base.columns import Int32, Int64
from pinprof.ranks.calls import MetCalls, matched
from pinprof.ranks.inference import clusters, inferred, members
from pinprof.ranks.meeting_table import Meetings, numbered
from pinprof.ranks.rank_run import RankRun, apart
from pinprof.ranks.spent import NO_PLACE, PlaceKey, ProgramPlace

_MOST_CELLS = 1 << 23
"""Meetings of calls, times ranks, that are held at most."""


def meetings_of(runs: Sequence[RankRun]) -> Meetings:
    """All meetings of ranks that are on one clock."""
    numbers: dict[ProgramPlace, int] = {}
    gpus = _of_gpus(runs, numbers)
    met = matched([run.calls for run in runs], later=not all(len(run.collectives) for run in runs))
    called = _of_calls(runs, met, numbers)
    called_at = {place.key for place in numbers if numbers[place] in set(called.place.tolist())}
    others = [_without(run, met.take(rows), called_at) for run, rows in zip(runs, met.by_rank(len(runs)), strict=True)]
    whole = gpus.joined(called, inferred(others, numbers))
    whole = replace(whole, places=tuple(numbers))
    whole = whole.take(np.flatnonzero(whole.present.sum(axis=1) > 1))
    return whole.take(np.argsort(whole.release_ns, kind="stable"))


def _without(run: RankRun, met: MetCalls, called_at: Container[PlaceKey]) -> RankRun:
    """The rank without waits that its calls explain: those in them, and those at the places that they are made at."""
    there = [number for number, place in enumerate(run.places) if place.key in called_at]
    waits = run.waits.take(~np.isin(run.waits.place, there))
    return replace(run, waits=apart(waits, union(met.start_ns, np.maximum(met.end_ns, met.release_ns))))


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
    # Who gets its processor late after a meeting comes late to the next one: its way begins at the release.
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
        where = np.where(calls.own, calls.place, _doing(run, release[of] - 1))
        seen, which = np.unique(where, return_inverse=True)
        new = numbered([None if one == NO_PLACE else run.places[one] for one in seen.tolist()], numbers)[which]
        better = (new != NO_PLACE) & (wait[of, rank] > placed[of])
        place[of[better]], placed[of[better]] = new[better], wait[of[better], rank]
    none = np.zeros(len(kept), np.bool_)
    return Meetings(release, wait, lost, resume, ~np.isnan(wait), place, none, ())


def _doing(run: RankRun, time_ns: Int64) -> Int32:
    """Where a rank's thread is at some instants."""
    if not len(run.spent):
        return np.full(len(time_ns), NO_PLACE, np.int32)
    return run.spent.place[np.maximum(np.searchsorted(run.spent.start_ns, time_ns, "right") - 1, 0)]


def _of_gpus(runs: Sequence[RankRun], numbers: dict[ProgramPlace, int]) -> Meetings:
    """Meetings of GPUs. For ranks with one sequence of collectives the nth are one; for others those that overlap."""
    names = [tuple(run.collective_names[number] for number in run.collectives.place.tolist()) for run in runs]
    if len(set(names)) == 1:
        member = np.repeat(np.arange(len(names[0]))[:, None], len(runs), axis=1)
    else:
        member = members(clusters([run.collectives for run in runs], 0), len(runs))
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
    return Meetings(release, wait, lost, end, shown, numbered(place, numbers), every, ())
