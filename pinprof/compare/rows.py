"""Each figure of both sides, tested: which differences are more than chance, and which could have been found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pinprof.analyze.evidence import worth_telling
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.statistics import LEVEL, POWER, MeanDifference, difference, holm, moderated, runs_needed
from pinprof.compare.lines import Moves
from pinprof.compare.results import FAMILIES, Family, MoreRuns, Row
from pinprof.compare.runs import ALL, UNDISTURBED, ComparedRun, Figure
from pinprof.compare.surroundings import RECORDERS, SAMPLING

LEAST_SAMPLES = 30
"""A figure of fewer samples on both sides is not tested: its distribution is not that of the test."""
FROM_RECORDING = 0.03
"""Where the sides were recorded in different ways, smaller differences may be the recording's own."""
_SPENT: Mapping[Family, float] = {"phase": 2, "range": 4, "call": 3, "cause": 3, "line": 2, "event": 1}
_ON_WORK = 4.0
"""How much of the error each family may spend, and the work, with and without preemption, which is asked for first:
clocks before what samples estimate, few rows before many. Declared before any run is seen.
"""
_BORROWED = 1.0
"""As many degrees of freedom may a comparison borrow from others of its family, for each one of its own."""
_ALIKE: tuple[tuple[Family, ...], ...] = (("phase", "range", "call"), ("cause",), ("line",))
"""Families whose comparisons borrow from each other: what clocks measured, what samples estimate."""
_PART = 0.01
"""Where one side has none of something, this part of the other side's time stands for it in logarithms."""
_WANTED = (0.05, 0.1, 0.2, 0.5)
"""Changes for which the runs that detect them are counted: the first that is less than what these runs detect."""
_MOST_RUNS = 100
"""On each side: nobody makes more, so a larger change is asked for instead."""

FEW_SAMPLES = "too few samples"
ONE_RUN = "one run of a side"


@dataclass(frozen=True)
class _Pair:
    """A figure on both sides, one value per run; 0 for a run without it."""

    family: Family
    before: tuple[float, ...]
    after: tuple[float, ...]
    first: Figure
    last: Figure
    samples: tuple[int, int]
    noise: float
    """The relative standard error that sampling gives the ratio."""
    once: bool


def rows_of(
    before: Sequence[ComparedRun],
    after: Sequence[ComparedRun],
    units: tuple[Sequence[float], Sequence[float]],
    unit: str,
    moved: Moves,
) -> tuple[Row, ...]:
    """The rows worth showing, tested together; by family, within it the largest change first."""
    pairs = [pair for pair in _pairs(before, after, units, moved) if _worth(pair, before, after, units)]
    rows = [_row(pair, unit) for pair in pairs]
    limit = _Limit.of(before, after)
    rows = _tested(rows, pairs, limit)
    order = sorted(
        range(len(rows)), key=lambda number: (FAMILIES.index(rows[number].family), -abs(rows[number].change))
    )
    return tuple(rows[number] for number in order)


def _pairs(
    before: Sequence[ComparedRun],
    after: Sequence[ComparedRun],
    units: tuple[Sequence[float], Sequence[float]],
    moved: Moves,
) -> list[_Pair]:
    sides = [[run.figures for run in before], [_moved_back(run, moved) for run in after]]
    measured = frozenset.intersection(*(run.measured for run in (*before, *after)))
    keys = dict.fromkeys(key for side in sides for figures in side for key in figures if key[0] in measured)
    pairs = []
    for key in keys:
        there = [[figures.get(key) for figures in side] for side in sides]
        known = [[one for one in side if one is not None] for side in there]
        if (key[0] == "event" and not all(known)) or len({one.unit for side in known for one in side}) > 1:
            continue
        once = (known[0] or known[1])[0].once
        scale = [[1.0] * len(side) if once else side for side in units]
        values = [
            tuple((one.amount if one else 0.0) / unit for one, unit in zip(side, parts, strict=True))
            for side, parts in zip(there, scale, strict=True)
        ]
        pairs.append(
            _Pair(
                family=key[0],
                before=values[0],
                after=values[1],
                first=(known[0] or known[1])[0],
                last=(known[1] or known[0])[0],
                samples=(sum(one.samples for one in known[0]), sum(one.samples for one in known[1])),
                noise=math.hypot(*(_noise(side) for side in known)),
                once=once,
            )
        )
    return pairs


def _moved_back(run: ComparedRun, moved: Moves) -> Mapping[tuple[Family, str], Figure]:
    """The figures with lines under the names that they had before."""
    if not moved.shifts:
        return run.figures
    figures: dict[tuple[Family, str], Figure] = {}
    for (family, key), figure in run.figures.items():
        if figure.line and figure.line[2]:
            file, _, line = moved.before(figure.line)
            key = f"{file}\0{line}"
        figures[family, key] = figure
    return figures


def _noise(figures: Sequence[Figure]) -> float:
    total = sum(one.amount for one in figures)
    return math.sqrt(sum(one.noise**2 for one in figures)) / total if total else 0.0


def _worth(
    pair: _Pair,
    before: Sequence[ComparedRun],
    after: Sequence[ComparedRun],
    units: tuple[Sequence[float], Sequence[float]],
) -> bool:
    """Whether a reader cares: at least 1 % of the work of either side, and 10 ms of a run."""
    if pair.family == "event":
        return True
    per_run = [
        float(np.mean([value * (1 if pair.once else unit) for value, unit in zip(values, side, strict=True)]))
        for values, side in ((pair.before, units[0]), (pair.after, units[1]))
    ]
    return any(
        worth_telling(value, _whole(side), pair.first.unit)
        for value, side in zip(per_run, (before, after), strict=True)
    )


def _whole(side: Sequence[ComparedRun]) -> float:
    """The mean of the work of a side's runs, of their causes where no clock tells it."""
    return float(np.mean([_work(run) for run in side]))


def _work(run: ComparedRun) -> float:
    work = run.figures.get(("phase", "work")) or run.figures.get(("phase", ALL))
    if work:
        return work.amount
    for family in ("cause", "call", "range"):
        amounts = [figure.amount for (of, _), figure in run.figures.items() if of == family]
        if amounts:
            return max(amounts) if family == "range" else sum(amounts)
    return 0.0


def _row(pair: _Pair, unit: str) -> Row:
    first, last = pair.first, pair.last
    return Row(
        family=pair.family,
        name=last.name,
        unit=last.unit,
        before=pair.before,
        after=pair.after,
        exact=first.exact and last.exact,
        per="run" if pair.once else unit,
        samples=pair.samples,
        was=first.name if first.name != last.name else "",
    )


@dataclass(frozen=True)
class _Limit:
    """What no test may fall below."""

    period_ns: float
    """Phases begin and end at samples: their lengths are known to as much."""
    ratio: float
    """Relative difference that recording in another way may make."""

    @classmethod
    def of(cls, before: Sequence[ComparedRun], after: Sequence[ComparedRun]) -> _Limit:
        rates = {run.around.get(what) for run in (*before, *after) for what in (SAMPLING,)}
        recorders = {run.around.get(RECORDERS) for run in (*before, *after)}
        apart = len(rates) > 1 or len(recorders) > 1
        return cls(max(run.period_ns for run in (*before, *after)), FROM_RECORDING if apart else 0.0)

    def passed(self, row: Row) -> bool:
        """Whether the difference is larger than what the recordings themselves may make."""
        larger = max(row.mean_before, row.mean_after)
        if row.family == "phase" and row.per == "run" and abs(row.change) <= self.period_ns:
            return False
        return abs(row.change) > self.ratio * larger


def _tested(rows: Sequence[Row], pairs: Sequence[_Pair], limit: _Limit) -> list[Row]:
    estimates = [_estimate(pair) for pair in pairs]
    enough = [row.exact or max(row.samples) >= LEAST_SAMPLES for row in rows]
    tried = [number for number, one in enumerate(estimates) if one is not None and enough[number]]
    estimates = _with_borrowed(rows, pairs, estimates, tried)
    spent = _spent([rows[number] for number in tried])
    chances = holm([_found(estimates[number]).p for number in tried], spent)
    once_tested = _spent(rows)
    result = []
    for number, row in enumerate(rows):
        if number not in tried:
            why = FEW_SAMPLES if not enough[number] else ONE_RUN
            least = _one_sided(pairs[number])
            limit_of_row = least.detectable_ratio() - 1 if least else None
            level = LEVEL * once_tested[number] / sum(once_tested)
            more = _more_runs(row, least, limit_of_row, level) if enough[number] else None
            result.append(replace(row, untested=why, detectable=limit_of_row, more_runs=more))
            continue
        place = tried.index(number)
        estimate, chance = _found(estimates[number]), chances[place]
        level = LEVEL * spent[place] / sum(spent)
        smallest = max(estimate.detectable_ratio(POWER, level) - 1, limit.ratio)
        significant = chance <= LEVEL and limit.passed(row)
        more = _more_runs(row, estimate, smallest, level)
        result.append(
            replace(row, estimate=estimate, chance=chance, significant=significant, detectable=smallest, more_runs=more)
        )
    return result


def _found(estimate: MeanDifference | None) -> MeanDifference:
    assert estimate is not None
    return estimate


def _spent(rows: Sequence[Row]) -> list[float]:
    """Every comparison's part of the error: its family's, in equal parts."""
    families = [row.family for row in rows if not _is_work(row)]
    return [_ON_WORK if _is_work(row) else _SPENT[row.family] / families.count(row.family) for row in rows]


def _is_work(row: Row) -> bool:
    return row.family == "phase" and row.name in ("work", UNDISTURBED)


def _varies_alike(row: Row) -> bool:
    """Start-up and exit vary in their own ways, and so does time without what other programs take."""
    return row.state == "both" and (row.family != "phase" or row.name in ("work", "whole run"))


def _estimate(pair: _Pair) -> MeanDifference | None:
    """The logarithm of after / before; at least as uncertain as sampling makes it."""
    larger = max(np.mean(pair.before), np.mean(pair.after))
    least = min((*pair.before, *pair.after))
    extra = 0.0 if least > 0 else _PART * float(larger)
    if not larger:
        return None
    logs = [np.log(np.asarray(side) + extra) for side in (pair.before, pair.after)]
    estimate = difference(logs[0], logs[1])
    if estimate is None:
        return None
    return replace(estimate, error=max(estimate.error, pair.noise if least > 0 else 0.0))


def _with_borrowed(
    rows: Sequence[Row], pairs: Sequence[_Pair], estimates: Sequence[MeanDifference | None], tried: Sequence[int]
) -> list[MeanDifference | None]:
    """The estimates, their errors drawn towards those of their families."""
    result = list(estimates)
    for families in _ALIKE:
        mine = [number for number in tried if rows[number].family in families and _varies_alike(rows[number])]
        own = [_found(estimates[number]) for number in mine]
        most = _BORROWED * min((one.freedom for one in own), default=0.0)
        for number, shared in zip(mine, moderated(own, most), strict=True):
            result[number] = replace(shared, error=max(shared.error, pairs[number].noise))
    return result


def _one_sided(pair: _Pair) -> MeanDifference | None:
    """With one run of a side: how certain a change could be at best; None where nothing tells.

    What several runs of the other side vary by; else what sampling alone hides.
    """
    sides = [np.asarray(side, np.float64) for side in (pair.before, pair.after)]
    many = [side for side in sides if len(side) > 1 and (side > 0).all()]
    if many:
        error = float(np.log(many[0]).std(ddof=1)) * math.sqrt(1 + 1 / len(many[0]))
        return MeanDifference(0.0, max(error, pair.noise), len(many[0]) - 1)
    return MeanDifference(0.0, pair.noise, math.inf) if pair.noise else None


def _more_runs(row: Row, found: MeanDifference | None, smallest: float | None, level: float) -> MoreRuns | None:
    """How many runs of each side detect less than these do, at most `_MOST_RUNS`; None without any need or hope."""
    sides = len(row.before), len(row.after)
    if found is None or smallest is None or smallest <= _WANTED[0] or max(sides) < 2 or not found.error:
        return None
    for change in (one for one in _WANTED if one < smallest):
        runs = runs_needed(found, sides, math.log1p(change), POWER, level, _MOST_RUNS + 1)
        if runs <= _MOST_RUNS:
            return MoreRuns(runs, change)
    return None
