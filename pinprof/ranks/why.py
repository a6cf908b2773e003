"""Why ranks come late: what they spend more time on than the others, from one meeting to the next."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from pinprof.analyze.attribution.categories import CATEGORIES, LEAF
from pinprof.analyze.groups import group
from pinprof.analyze.intervals import Intervals, union
from pinprof.base.columns import Int64, ascending
from pinprof.ranks.late import Late
from pinprof.ranks.meeting_table import Meetings
from pinprof.ranks.rank_run import RankRun
from pinprof.ranks.results import CauseExcess, Excess
from pinprof.ranks.spent import NO_PLACE, PlaceKey, ProgramPlace

MOST_LINES, MOST_CAUSES = 8, 12
RUNNABLE = "wait.runnable"
_WORKS = 4
"""Waiting for a processor may be the cause where it is this many times what the ranks do more otherwise."""
_SURE = 3
"""Standard errors."""
_RUNS = np.array([not row.name.startswith("wait.") for row in CATEGORIES])
"""Leaf → whether a thread runs there, and is known by samples."""
_LEAST = 0.02
"""The least part of the whole excess that a row is shown for."""

_VAGUE = 0.25
"""A line comes before its file, for which the line is not known, from this part of the file's excess on."""

_Key = TypeVar("_Key")
Sums = dict[tuple[PlaceKey | None, int], float]
"""(place, cause) → ns."""


def own_time(run: RankRun, rank: int, meetings: Meetings, rows: Int64, first_ns: int) -> Intervals:
    """When a rank was on its way to these meetings: from when it went on after the one before to when it came.

    The way to the first of all meetings begins at `first_ns`.
    """
    mine = np.flatnonzero(meetings.present[:, rank])
    before = np.append(max(run.work_start_ns, first_ns), meetings.resume_ns[mine, rank][:-1])
    arrival = meetings.arrival_ns[mine, rank].astype(np.int64)
    wanted = np.isin(mine, rows)
    return union(before[wanted], arrival[wanted])


def excess(
    runs: Sequence[RankRun], meetings: Meetings, late: Late, first_ns: int
) -> tuple[tuple[Excess, ...], tuple[CauseExcess, ...], int, bool]:
    """What they spend more time on before the meetings at which the others wait for them.

    (by line, by cause, how much longer their GPUs compute, whether they want for nothing but a processor)
    """
    rows = late.rows[late.held] if len(late.held) else late.rows
    windows = [own_time(run, rank, meetings, rows, first_ns) for rank, run in enumerate(runs)]
    sums = [_sums(run, window) for run, window in zip(runs, windows, strict=True)]
    took_part = [rank for rank in range(len(runs)) if meetings.present[rows, rank].any()]
    theirs = [rank for rank in took_part if rank in late.ranks]
    others = [rank for rank in took_part if rank not in late.ranks]
    known = {place.key: place for rank in reversed(took_part) for place in runs[rank].places}
    whole = max(float(late.losses[late.held].sum()), 1.0)
    lines = list(_lines(runs, sums, windows, theirs, others, known))
    lines = [one for one in lines if one.more_ns >= _LEAST * whole][:MOST_LINES]
    by_cause = [_by_cause(part) for part in sums]
    causes = [
        CauseExcess(CATEGORIES[cause].name, _mean(by_cause, theirs, cause), _mean(by_cause, others, cause))
        for cause in {cause for rank in took_part for cause in by_cause[rank]}
    ]
    gpu = _gpu(runs, windows, theirs, others)
    period_ns = max(_period_ns(run) for run in runs)
    crowded = _crowded(causes, gpu, period_ns / max(len(theirs), 1), period_ns / max(len(others), 1))
    causes.sort(key=lambda one: (one.others_ns - one.ns, one.cause))
    causes = [one for one in causes if abs(one.ns - one.others_ns) >= _LEAST * whole][:MOST_CAUSES]
    return tuple(lines), tuple(causes), gpu, crowded


def _period_ns(run: RankRun) -> float:
    """What a sample of a rank stands for."""
    ran = run.spent.ns[_RUNS[run.spent.cause]]
    return float(np.median(ran)) if len(ran) else 0.0


def _crowded(causes: Sequence[CauseExcess], gpu_more_ns: int, period_ns: float, others_period_ns: float) -> bool:
    """Whether these ranks come late because a processor is free later for them, and not because they do more.

    On a busy machine whoever works more waits longer for a processor, too: in proportion, as all of its work does. That
    they work more is known if it is more than samples differ by chance, each of which stands for a period of one rank.
    """
    ready = [one for one in causes if one.cause == RUNNABLE]
    waited, others = sum(one.ns for one in ready), sum(one.others_ns for one in ready)
    ran = [one for one in causes if not one.cause.startswith("wait.")]
    runs, others_run = sum(one.ns for one in ran), sum(one.others_ns for one in ran)
    runs_more = max(runs - others_run, 0)
    if runs_more < _SURE * math.sqrt(runs * period_ns + others_run * others_period_ns):
        runs_more = 0
    does_more = runs_more + sum(
        max(one.ns - one.others_ns, 0) for one in causes if one.cause.startswith("wait.") and one.cause != RUNNABLE
    )
    return waited - others > max(_WORKS * does_more, gpu_more_ns, 2 * runs_more * waited / max(runs, 1))


def _sums(run: RankRun, window: Intervals) -> Sums:
    """A rank's own time inside a window by place and cause, without waits for others."""
    spent = run.spent
    rows = np.flatnonzero(~spent.outside)
    length = spent.end_ns[rows] - spent.start_ns[rows]
    inside = window.covered(spent.start_ns[rows], spent.end_ns[rows])
    # A row may stand for a part of its time alone.
    ns = inside * (spent.ns[rows] / np.maximum(length, 1))
    rows, ns = rows[inside > 0], ns[inside > 0]
    if not len(rows):
        return {}
    cells = group(spent.place[rows].astype(np.int64) + 1, spent.cause[rows].astype(np.int64))
    total = np.bincount(cells.of, ns, len(cells))
    result: Sums = defaultdict(float)
    for place, cause, value in zip(*(key.tolist() for key in cells.keys), total.tolist(), strict=True):
        result[run.places[place - 1].key if place else None, cause] += value
    return dict(result)


def _lines(
    runs: Sequence[RankRun],
    sums: Sequence[Sums],
    windows: Sequence[Intervals],
    theirs: Sequence[int],
    others: Sequence[int],
    known: Mapping[PlaceKey, ProgramPlace],
) -> Iterable[Excess]:
    """Per line what the awaited ranks spend there, the largest excess first, but for waits for a processor."""
    by_line = [_by_line(part) for part in sums]
    keys = {key for rank in theirs for key in by_line[rank]}
    runs_there = [_by_line({key: ns for key, ns in part.items() if key[1] != LEAF[RUNNABLE]}) for part in sums]
    more = {key: _mean(runs_there, theirs, key) - _mean(runs_there, others, key) for key in keys}
    weight = {key: excess * (_VAGUE if key and key[1:] == ("", 0) else 1) for key, excess in more.items()}
    for key in sorted(keys, key=lambda key: (-weight[key], key or ("", "", 0)))[:MOST_LINES]:
        if more[key] <= 0:
            return
        causes: dict[str, float] = defaultdict(float)
        for rank in theirs:
            for (place, cause), ns in sums[rank].items():
                if place == key:
                    causes[CATEGORIES[cause].name] += ns / len(theirs)
        yield Excess(
            place=known[key] if key else None,
            ns=_mean(by_line, theirs, key),
            others_ns=_mean(by_line, others, key),
            causes={name: round(ns) for name, ns in sorted(causes.items(), key=lambda item: -item[1])},
            range=_range(runs, windows, theirs, key),
        )


def _by_line(sums: Sums) -> dict[PlaceKey | None, float]:
    result: dict[PlaceKey | None, float] = defaultdict(float)
    for (place, _), ns in sums.items():
        result[place] += ns
    return dict(result)


def _by_cause(sums: Sums) -> dict[int, float]:
    result: dict[int, float] = defaultdict(float)
    for (_, cause), ns in sums.items():
        result[cause] += ns
    return dict(result)


def _mean(sums: Sequence[Mapping[_Key, float]], ranks: Sequence[int], key: _Key) -> int:
    return round(sum(sums[rank].get(key, 0.0) for rank in ranks) / max(len(ranks), 1))


def _range(runs: Sequence[RankRun], windows: Sequence[Intervals], ranks: Sequence[int], key: PlaceKey | None) -> str:
    """The innermost range around most of the time that the first of these ranks spends at a place."""
    run, window = runs[ranks[0]], windows[ranks[0]]
    if not len(run.spans):
        return ""
    numbers = [number for number, place in enumerate(run.places) if place.key == key] or [NO_PLACE]
    spent = run.spent
    rows = np.flatnonzero(np.isin(spent.place, numbers) & ~spent.outside)
    inside = window.covered(spent.start_ns[rows], spent.end_ns[rows])
    rows, inside = rows[inside > 0], inside[inside > 0]
    if not len(rows):
        return ""
    middle = (spent.start_ns[rows] + spent.end_ns[rows]) // 2
    innermost = _innermost(run, middle)
    weight = np.bincount(innermost + 1, inside, len(run.range_names) + 1)
    best = int(weight.argmax())
    return run.range_names[best - 1] if best and 2 * weight[best] > weight.sum() else ""


def _innermost(run: RankRun, time_ns: Int64) -> Int64:
    """Per instant the name of the deepest range around it, -1 without one."""
    result = np.full(len(time_ns), -1, np.int64)
    for depth in ascending(run.spans.depth).tolist():
        spans = run.spans.take(run.spans.depth == depth)
        row = np.searchsorted(spans.start_ns, time_ns, "right") - 1
        hit = (row >= 0) & (time_ns < np.append(spans.end_ns, 0)[row])
        result[hit] = spans.name[row[hit]]
    return result


def _gpu(runs: Sequence[RankRun], windows: Sequence[Intervals], theirs: Sequence[int], others: Sequence[int]) -> int:
    """How much longer their GPUs compute on the way to these meetings."""

    def mean(ranks: Sequence[int]) -> float:
        busy = [float(runs[rank].computing.covered(windows[rank].start, windows[rank].end).sum()) for rank in ranks]
        return sum(busy) / max(len(busy), 1)

    return round(mean(theirs) - mean(others))
