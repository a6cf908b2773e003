"""Change over time: the work of each program, and of all together, and from which capture on it takes another time.

A change point is the split of a series whose sides differ most clearly in rank (Wilcoxon, Mann and Whitney: single slow
captures do not hide it), if that is significant after a correction for every split that could have been; both sides are
then searched in the same way.
"""

from __future__ import annotations

import math

import numpy as np

from pinprof.base import statistics
from pinprof.base.columns import Float64
from pinprof.base.distributions import t_cdf
from pinprof.fleet.panel import Panel
from pinprof.fleet.results import Change, Series

FEWEST = 20
"""Captures of a series in which changes are looked for."""
_SIDE = 8
"""Captures on either side of a change at least."""
_LEAST = 0.03
_MOST_CHANGES = 6


def series_of(panel: Panel) -> tuple[Series, ...]:
    """All programs together, where there are several, then each with enough captures, the largest first."""
    dated = np.array([bool(text) for text in panel.started], np.bool_)
    rows = [("", np.flatnonzero(dated))] if len(panel.programs) > 1 else []
    programs = [(name, np.flatnonzero(dated & (panel.program == at))) for at, name in enumerate(panel.programs)]
    rows += sorted(programs, key=lambda entry: -len(entry[1]))
    rows = [(name, found) for name, found in rows if len(found) >= FEWEST]
    scaled = np.clip(panel.scaled()[:, 0], -4, 4)
    return tuple(_series(panel, name, found, scaled, len(rows)) for name, found in rows)


def _series(panel: Panel, name: str, rows: np.ndarray, scaled: Float64, tested: int) -> Series:
    ratio = np.exp(panel.residual[rows, 0])
    points: list[tuple[int, float]] = []
    _search(scaled[rows], ratio, 0, tested, points)
    points.sort()
    ends = [0, *(at for at, _ in points), len(rows)]
    changes = []
    for number, (at, p) in enumerate(points):
        before, after = slice(ends[number], at), slice(at, ends[number + 2])
        change = float(np.median(ratio[after]) / np.median(ratio[before]))
        changes.append(Change(name, panel.started[rows[at]], at - ends[number], ends[number + 2] - at, change, p))
    return Series(
        name,
        tuple(panel.started[row] for row in rows),
        tuple(ratio.tolist()),
        tuple(panel.path[row] for row in rows),
        tuple(changes),
    )


def _search(values: Float64, ratio: Float64, first: int, tested: int, found: list[tuple[int, float]]) -> None:
    """Add the change points of a part of a series, which begins at `first`, as (row, p)."""
    count = len(values)
    if count < 2 * _SIDE or len(found) >= _MOST_CHANGES:
        return
    ordered = np.sort(values)
    # Equal ones share the middle of their ranks.
    rank = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2
    splits = np.arange(_SIDE, count - _SIDE + 1)
    # Of the ranks before a split: their sum less what it is without a change, in standard deviations.
    excess = np.cumsum(rank)[splits - 1] - splits * rank.mean()
    deviation = np.sqrt(splits * (count - splits) / count * max(rank.var(ddof=1), 1e-9))
    split = int(np.argmax(np.abs(excess) / deviation))
    at = int(splits[split])
    # Every row may be the split, and every series.
    p = min(1.0, 2 * t_cdf(math.inf, -abs(float(excess[split] / deviation[split]))) * len(splits) * tested)
    change = abs(np.median(ratio[at:]) / np.median(ratio[:at]) - 1)
    if p > statistics.LEVEL or change < _LEAST:
        return
    found.append((first + at, p))
    _search(values[:at], ratio[:at], first, tested, found)
    _search(values[at:], ratio[at:], first + at, tested, found)
