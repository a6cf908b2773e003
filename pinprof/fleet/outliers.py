"""Which captures take longer than their like, and what they share: by tests whose number is corrected for.

Groups come first. Every value of every dimension that at least `FEWEST_IN_GROUP` captures share, and as many do not,
is tested in every measure: Welch's test of standardised residuals. The clearest group whose effect is `LEAST_GROUP` or
more is taken, its shift is taken out, and the rest is tested again, until nothing is left; so a host is not named for
its driver. Then single captures are tested against the others of their program. Holm's correction spans all tests of a
step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base import statistics
from pinprof.base.columns import Float64, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.fleet.dimensions import place_of
from pinprof.fleet.packages import package
from pinprof.fleet.panel import Panel
from pinprof.fleet.results import CAPTURE, Because, Outlier

FEWEST_IN_GROUP = 5
LEAST_GROUP, LEAST_CAPTURE = 0.03, 0.10
"""The share of the expected work: smaller effects are none that somebody would look into."""
_LEAST_PART = 0.005
"""The share of the expected work that a cause of a group's shift takes."""
_MOST_GROUPS = 25
_MOST_BECAUSE = 4
_CLIPPED = 5.0
"""A single capture counts for a group by no more deviations than these."""

_FEWEST_IN_TAIL, _RATIO_ERROR = 20, 2.4
"""Two standard errors of a ratio of quantiles, times the root of the number of captures."""

Facts = Mapping[str, Mapping[str, str]]
"""Capture → dimension → value."""


@dataclass(frozen=True)
class _Groups:
    """All groups that are tested."""

    names: tuple[tuple[str, str], ...]
    """(dimension, value)."""
    members: Sequence[NDArray[np.int64]]
    """Rows of the panel."""
    compared: Sequence[NDArray[np.int64]]
    """Those of them whose program has others as well."""


@dataclass(frozen=True)
class Found:
    """All outliers, and how many tests it took."""

    outliers: tuple[Outlier, ...]
    tests: int


def outliers_of(panel: Panel, facts: Facts) -> Found:
    """Groups, those with the largest effect on the fleet first, then captures, the clearest first."""
    if not len(panel.capture):
        return Found((), 0)
    groups = _groups(panel, facts)
    found: list[Outlier] = []
    tests = len(groups.names) * len(panel.measures)
    rest = panel
    for _ in range(_MOST_GROUPS):
        step = _clearest(rest, groups)
        if step is None:
            break
        number, outlier = step
        inside = np.zeros(len(panel.capture), np.bool_)
        inside[groups.members[number]] = True
        found.append(outlier)
        rest = rest.without(inside)
    alone = list(_captures(panel, rest))
    tests += rest.residual.size
    found.sort(key=lambda one: -abs(one.ratio - 1) * one.captures)
    return Found((*found, *alone), tests)


def _groups(panel: Panel, facts: Facts) -> _Groups:
    rows: dict[tuple[str, str], list[int]] = {}
    for row, capture in enumerate(panel.capture):
        for name, value in facts.get(capture, {}).items():
            rows.setdefault((name, value), []).append(row)
    of_program = np.bincount(panel.program, minlength=len(panel.programs))
    names: list[tuple[str, str]] = []
    members, compared = [], []
    for key, found in sorted(rows.items(), key=lambda entry: (place_of(entry[0][0]), entry[0][1])):
        inside = np.array(found, np.int64)
        here = np.bincount(panel.program[inside], minlength=len(panel.programs))
        mixed = inside[(here < of_program)[panel.program[inside]]]
        if len(mixed) >= FEWEST_IN_GROUP and len(panel.capture) - len(inside) >= FEWEST_IN_GROUP:
            names.append(key)
            members.append(inside)
            compared.append(mixed)
    return _Groups(tuple(names), members, compared)


def _clearest(panel: Panel, groups: _Groups) -> tuple[int, Outlier] | None:
    """The group that differs most clearly, and by enough; None where none does."""
    if not groups.names:
        return None
    scaled = np.clip(panel.scaled(), -_CLIPPED, _CLIPPED)
    p, strength, shift = _tested(panel, groups, scaled)
    adjusted = np.array(statistics.holm(p.ravel().tolist())).reshape(p.shape)
    significant = (adjusted <= statistics.LEVEL) & (np.abs(shift) >= LEAST_GROUP)
    if not significant.any():
        return None
    size = np.array([len(rows) for rows in groups.members])[:, None]
    # Of two halves the smaller one is what differs, of equal ones the slower.
    order = np.lexsort(((-shift).ravel(), np.broadcast_to(size, p.shape).ravel(), -np.round(strength, 6).ravel()))
    best = next(at for at in order.tolist() if significant.ravel()[at])
    number, measure = divmod(best, p.shape[1])
    if significant[number, 0]:
        measure = 0
    # A cause may be there in some of the programs alone, so its part is a mean.
    part = np.clip(panel.residual[groups.compared[number]], -1, 1).mean(axis=0)
    clear = (adjusted[number] <= statistics.LEVEL) & (np.abs(part) >= _LEAST_PART)
    causes = [at for at in np.argsort(-np.abs(part)).tolist() if at and clear[at]]
    inside = groups.members[number]
    alike = tuple(
        name for other, name in enumerate(groups.names)
        if other != number and np.array_equal(groups.members[other], inside)
    )  # fmt: skip
    dimension, value = groups.names[number]
    return number, Outlier(
        dimension=dimension,
        group=value,
        capture="",
        measure=panel.measures[measure],
        unit="share" if measure else "ratio",
        value=_typical(panel, inside, measure) + shift[number, measure] if measure else float(np.exp(shift[number, 0])),
        expected=_typical(panel, inside, measure) if measure else 1.0,
        work=1.0,
        p=float(adjusted[number, measure]),
        captures=len(inside),
        programs=tuple(panel.programs[at] for at in ascending(panel.program[inside]).tolist()),
        because=tuple(
            Because(panel.measures[at], (usual := _typical(panel, inside, at)) + float(part[at]), usual)
            for at in causes[:_MOST_BECAUSE]
        ),
        alike=alike,
    )


def _tested(panel: Panel, groups: _Groups, scaled: Float64) -> tuple[Float64, Float64, Float64]:
    """Per group and measure Welch's p and t, and by how much of the expected work the group's median is off."""
    count = len(panel.capture)
    total, squares = scaled.sum(axis=0), (scaled**2).sum(axis=0)
    shape = (len(groups.names), len(panel.measures))
    p, strength, shift = np.ones(shape), np.zeros(shape), np.zeros(shape)
    for number, (inside, compared) in enumerate(zip(groups.members, groups.compared, strict=True)):
        mine, everybody = scaled[compared], scaled[inside]
        few, many = len(compared), count - len(inside)
        others = (total - everybody.sum(axis=0)) / many
        variance = mine.var(axis=0, ddof=1) / few
        beyond = (squares - (everybody**2).sum(axis=0)) / many - others**2
        rest = np.maximum(beyond, 0) * many / (many - 1) / many
        both = variance + rest
        difference = mine.mean(axis=0) - others
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(both > 0, difference / np.sqrt(both), 0.0)
            freedom = np.where(both > 0, both**2 / (variance**2 / (few - 1) + rest**2 / (many - 1)), 1.0)
        p[number] = 2 * _t().stdtr(np.minimum(freedom, 1e6), -np.abs(t))
        strength[number] = np.abs(t)
        shift[number] = np.median(panel.residual[compared], axis=0)
    return p, strength, shift


def _t() -> Any:
    """SciPy's functions of Student's t, for whole tables."""
    return package("scipy.special", "The search for outliers")


def _tails(scaled: Float64) -> Float64:
    """Per measure the degrees of freedom of a t distribution whose tails are as heavy as those of the residuals.

    By the 90th and the 50th percentile of their amounts: a tenth of the captures may stand out and change nothing. What
    chance alone may do to the ratio of both is not taken for a tail.
    """
    degrees = np.array([1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60, 1e6])
    ratios = _t().stdtrit(degrees, 0.95) / _t().stdtrit(degrees, 0.75)
    found = np.full(scaled.shape[1], degrees[-1])
    for measure in range(scaled.shape[1]):
        amount = np.abs(scaled[:, measure])
        amount = amount[amount > 0]
        if len(amount) < _FEWEST_IN_TAIL:
            continue
        half, most = np.quantile(amount, (0.5, 0.9))
        ratio = most / half / (1 + _RATIO_ERROR / np.sqrt(len(amount))) if half else 0.0
        found[measure] = np.interp(-ratio, -ratios, degrees)
    return found


def _typical(panel: Panel, rows: NDArray[np.int64], measure: int) -> float:
    """What share of the work a cause is expected to have in these captures."""
    return float(np.mean(panel.expected[rows, measure] / panel.work[rows]))


def _captures(panel: Panel, rest: Panel) -> Iterator[Outlier]:
    """Single captures, one row for each."""
    scaled = rest.scaled()
    size = np.bincount(panel.program, minlength=len(panel.programs))[panel.program]
    freedom = np.minimum((size - 1).astype(np.float64)[:, None], _tails(scaled)[None, :])
    p = 2 * _t().stdtr(freedom, -np.abs(scaled))
    adjusted = np.array(statistics.holm(p.ravel().tolist())).reshape(p.shape)
    significant = (adjusted <= statistics.LEVEL) & (np.abs(rest.residual) >= LEAST_CAPTURE)
    for row in sorted(
        np.flatnonzero(significant.any(axis=1)).tolist(), key=lambda row: -np.abs(rest.residual[row]).max()
    ):
        measures = [at for at in np.argsort(-np.abs(rest.residual[row])).tolist() if significant[row, at]]
        measure = 0 if significant[row, 0] else measures[0]
        yield Outlier(
            dimension=CAPTURE,
            group="",
            capture=panel.path[row],
            measure=panel.measures[measure],
            unit="ns",
            value=float(panel.value[row, measure]),
            expected=float(panel.expected[row, measure]),
            work=float(panel.work[row]),
            p=float(adjusted[row, measure]),
            captures=1,
            programs=(panel.programs[int(panel.program[row])],),
            because=tuple(
                Because(panel.measures[at], float(panel.value[row, at]), float(panel.expected[row, at]))
                for at in measures if at
            )[:_MOST_BECAUSE],
        )  # fmt: skip
