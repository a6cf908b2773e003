"""What is compared: every capture's times against those of the other captures of its program.

Times are divided by a unit of work that all captures of the program have: the one by which they differ least, so that
runs of different lengths compare. A residual is by how much of the expected work a time is longer than the median of
its program; those of different programs can be put together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Float64
from pinprof.base.lazy_dataclass import dataclass

WORK = "work"
FEWEST = 8
"""Captures of a program that tell what is usual."""
_NOTICED = 0.01
"""The share of the expected work: causes that take less everywhere are not tested."""
_FINEST = 0.005
"""The share of the expected work: smaller differences do not count as such."""
_MOST_COUNT = 1e18
_MAD = 1.4826
"""Makes the median deviation that of a normal distribution."""
RUN = "run"


@dataclass(frozen=True)
class Panel:
    """Captures that can be compared. Arrays have a row per capture, and a column per measure."""

    capture: tuple[str, ...]
    path: tuple[str, ...]
    started: tuple[str, ...]
    programs: tuple[str, ...]
    """Names, sorted."""
    program: NDArray[np.int64]
    """Per capture its index."""
    unit: tuple[str, ...]
    """Per program what times are divided by."""
    count: Float64
    """Per capture how many units of work it did."""
    measures: tuple[str, ...]
    """`work`, then causes by their time in the fleet."""
    value: Float64
    """ns per unit of work; NaN where a measure is not tested in the program."""
    expected: Float64
    """Medians of the program, same shape."""
    work: Float64
    """Per capture the median of its program's work per unit."""
    residual: Float64
    """(value - expected) / work; of `work` the logarithm of the ratio."""

    def scaled(self) -> Float64:
        """Residuals in units of what is usual within the program, shape of `residual`."""
        scale = np.ones_like(self.residual)
        for number in range(len(self.programs)):
            mine = self.program == number
            scale[mine] = scale_of(self.residual[mine])
        return self.residual / scale

    def without(self, group: NDArray[np.bool_]) -> Panel:
        """The same as if these captures were as others of their programs are: their common shift taken out."""
        residual = self.residual.copy()
        for number in range(len(self.programs)):
            mine = self.program == number
            inside, outside = mine & group, mine & ~group
            if inside.any() and outside.any():
                residual[inside] -= np.median(residual[inside], axis=0) - np.median(residual[outside], axis=0)
                residual[mine] -= np.median(residual[mine], axis=0)
        return replace(self, residual=residual)


def scale_of(residual: Float64) -> Float64:
    """Per measure the usual deviation, robust against outliers, never below what counts as a difference."""
    deviation = np.abs(residual - np.median(residual, axis=0))
    return np.maximum(_MAD * np.median(deviation, axis=0), _FINEST)


def panel_of(connection: Any) -> Panel:
    """The captures that can be compared, from the views of a fleet."""
    rows = connection.execute(
        "SELECT capture, path, coalesce(started_utc, ''), program, work_ns FROM captures "
        "WHERE state = 'read' AND outcome IN ('complete', '') AND work_ns > 0 AND program <> '' "
        f"AND program IN (SELECT program FROM captures WHERE state = 'read' AND outcome IN ('complete', '') "
        f"AND work_ns > 0 GROUP BY program HAVING count(*) >= {FEWEST}) ORDER BY started_utc, path"
    ).fetchall()
    capture, path, started = (tuple(row[at] for row in rows) for at in range(3))
    programs = tuple(sorted({row[3] for row in rows}))
    at = {name: number for number, name in enumerate(programs)}
    program = np.array([at[row[3]] for row in rows], np.int64)
    work = np.array([row[4] for row in rows], np.float64)
    place = {name: number for number, name in enumerate(capture)}
    unit, count = _units(connection, programs, program, work, place)
    causes, time = _causes(connection, place)
    value = np.column_stack([work, time]) / count[:, None] if len(rows) else np.zeros((0, 1 + len(causes)))
    expected = np.zeros_like(value)
    for number in range(len(programs)):
        mine = program == number
        expected[mine] = np.median(value[mine], axis=0)
        # What no more than a few captures have is tested too: a cause may be there in the bad ones alone.
        seldom = np.max(value[mine], axis=0) < _NOTICED * expected[mine][0, 0]
        value[np.ix_(mine, seldom)] = expected[np.ix_(mine, seldom)]
    middle = expected[:, 0].copy()
    residual = (value - expected) / middle[:, None]
    residual[:, 0] = np.log(value[:, 0] / middle)
    measures = (WORK, *causes)
    return Panel(capture, path, started, programs, program, unit, count, measures, value, expected, middle, residual)


def _causes(connection: Any, place: dict[str, int]) -> tuple[tuple[str, ...], Float64]:
    """Causes of the work, the heaviest first, and their times per capture."""
    rows = connection.execute(
        "SELECT capture, cause, sum(weight)::DOUBLE FROM costs WHERE measure = 'wall' AND phase = 'work' GROUP BY ALL"
    ).fetchall()
    total: dict[str, float] = {}
    for capture, cause, ns in rows:
        if capture in place:
            total[cause] = total.get(cause, 0.0) + ns
    causes = tuple(sorted(total, key=lambda cause: -total[cause]))
    column = {cause: number for number, cause in enumerate(causes)}
    time = np.zeros((len(place), len(causes)))
    for capture, cause, ns in rows:
        if capture in place:
            time[place[capture], column[cause]] = ns
    return causes, time


def _units(
    connection: Any, programs: tuple[str, ...], program: NDArray[np.int64], work: Float64, place: dict[str, int]
) -> tuple[tuple[str, ...], Float64]:
    """Per program the unit of work by which its captures differ least, and per capture how many of it it did."""
    counts: dict[str, Float64] = {}
    # Amounts that no program counts to are damage.
    usable = f"count BETWEEN {1 / _MOST_COUNT} AND {_MOST_COUNT}"
    for capture, unit, amount in connection.execute(
        f"SELECT capture, unit, count FROM work WHERE {usable} ORDER BY unit"
    ).fetchall():
        if capture in place:
            counts.setdefault(unit, np.zeros(len(work)))[place[capture]] = amount
    chosen, count = [], np.ones(len(work))
    for number in range(len(programs)):
        mine = program == number
        best, spread = RUN, _spread(work[mine]) * 0.8
        for unit, amounts in counts.items():
            if (amounts[mine] > 0).all() and (apart := _spread(work[mine] / amounts[mine])) < spread:
                best, spread = unit, apart
        if best != RUN:
            count[mine] = counts[best][mine]
        chosen.append(best)
    return tuple(chosen), count


def _spread(values: Float64) -> float:
    """The usual deviation of logarithms."""
    return float(scale_of(np.log(values)[:, None])[0])
