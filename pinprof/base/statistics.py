"""Whether a difference between repeated runs is more than chance, and how small a one could have been seen.

One number per run goes in: runs vary for reasons that the samples of one run do not show, so no test here counts
samples. Times are compared as ratios, on the logarithmic scale, where a change of 5 % is the same for short and long
ones.

Sources: Welch, Biometrika 34 (1947), 28; Satterthwaite, Biometrics Bulletin 2 (1946), 110; Holm, Scandinavian Journal
of Statistics 6 (1979), 65; Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004), article 3;
of trends Theil, Proceedings of the KNAW A 53 (1950), 386; Sen, Journal of the American Statistical Association 63
(1968), 1379; Mann, Econometrica 13 (1945), 245; Kendall, Biometrika 34 (1947), 139.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Float64, Int64
from pinprof.base.distributions import digamma, noncentral_t_cdf, t_cdf, t_quantile, t_shift, tetragamma, trigamma
from pinprof.base.lazy_dataclass import dataclass

LEVEL = 0.05
"""So often may a whole comparison call something significant where nothing differs."""
CONFIDENCE = 1 - LEVEL
POWER = 0.9
"""With this chance a change of the size that is called detectable is found."""

Floats = NDArray[np.float64]
Runs = Sequence[float] | Floats
"""One figure per run of a side."""


@dataclass(frozen=True)
class MeanDifference:
    """The mean difference `after - before`, in the unit of what was compared, and how far chance carries it.

    Made by `ratio` or `paired_ratio`, it counts in logarithms; its `ratio`, `ratio_interval` and `detectable_ratio` are
    after / before.
    """

    value: float
    error: float
    """Its standard error; 0 where no two runs of a side differ."""
    freedom: float
    """Degrees of freedom of the error; infinite where it is known and not estimated."""

    @property
    def p(self) -> float:
        """The chance of a difference at least as large, either way, where none exists."""
        if not self.error:
            return float(not self.value)
        return 2 * t_cdf(self.freedom, -abs(self.value) / self.error)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The interval that holds the true difference with this confidence."""
        reach = t_quantile(self.freedom, (1 + confidence) / 2) * self.error
        return self.value - reach, self.value + reach

    def detectable(self, power: float = POWER, level: float = LEVEL) -> float:
        """The smallest true difference that a test at `level` finds with chance `power`, as an amount, never negative.

        Of several comparisons, `level` is what Holm's correction leaves for this one: at worst `LEVEL / number`.
        """
        return t_shift(self.freedom, 1 - power, t_quantile(self.freedom, 1 - level / 2)) * self.error

    def detects(self, change: float, power: float = POWER, level: float = LEVEL) -> bool:
        """Whether a test at `level` finds a true difference of this amount with chance `power`.

        The same as `detectable(power, level) <= change`, without the search for the smallest one.
        """
        if not self.error:
            return True
        edge = t_quantile(self.freedom, 1 - level / 2)
        return noncentral_t_cdf(self.freedom, change / self.error, edge) <= 1 - power

    @property
    def ratio(self) -> float:
        """After / before, of logarithms."""
        return _exp(self.value)

    def ratio_interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The interval of after / before, of logarithms."""
        low, high = self.interval(confidence)
        return _exp(low), _exp(high)

    def detectable_ratio(self, power: float = POWER, level: float = LEVEL) -> float:
        """The smallest increase that would have been found, as after / before: 1.05 for 5 %; of logarithms."""
        return _exp(self.detectable(power, level))


def difference(before: Runs, after: Runs) -> MeanDifference | None:
    """Welch's estimate of sides whose runs have no partners; None where a side has fewer than two."""
    if min(len(before), len(after)) < 2:
        return None
    sides = [np.asarray(side, np.float64) for side in (before, after)]
    parts = [float(side.var(ddof=1)) / len(side) for side in sides]
    total = sum(parts)
    freedom = (
        total**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True)) if total else 1.0
    )
    return MeanDifference(float(sides[1].mean() - sides[0].mean()), math.sqrt(total), freedom)


def ratio(before: Runs, after: Runs) -> MeanDifference | None:
    """The ratio of sides whose runs have no partners, by their geometric means.

    None where a side has fewer than two runs, or one of a time that is not above 0.
    """
    logs = _logs(before), _logs(after)
    return difference(logs[0], logs[1]) if logs[0] is not None and logs[1] is not None else None


def paired_ratio(before: Runs, after: Runs) -> MeanDifference | None:
    """The ratio of interleaved rounds: number k of one side ran beside number k of the other.

    What slows a whole round slows both of its runs, and cancels. None for fewer than two rounds, or a time not above 0.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} and {len(after)} runs are not pairs")
    logs = _logs(before), _logs(after)
    if logs[0] is None or logs[1] is None or len(before) < 2:
        return None
    rounds = logs[1] - logs[0]
    error = float(rounds.std(ddof=1)) / math.sqrt(len(rounds))
    return MeanDifference(float(rounds.mean()), error, len(rounds) - 1)


def holm(chances: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """Adjusted p-values, in the order given: what is at most `LEVEL` is significant.

    The chance that any of several comparisons is called significant where nothing differs is then at most `LEVEL`,
    however they depend on each other. `weights` (positive, any sum) let some comparisons spend more of it than others.
    """
    if weights is None:
        weights = [1.0] * len(chances)
    order = sorted(range(len(chances)), key=lambda number: chances[number] / weights[number])
    adjusted = [1.0] * len(chances)
    left, highest = math.fsum(weights), 0.0
    for number in order:
        highest = max(highest, min(1.0, chances[number] * left / weights[number]))
        adjusted[number] = highest
        left = max(left - weights[number], weights[number])
    return adjusted


def threshold(freedom: float, comparisons: int) -> float:
    """How many standard errors a difference must have where a number of them are compared (Bonferroni's correction)."""
    return t_quantile(freedom, 1 - LEVEL / (2 * comparisons))


def runs_needed(
    found: MeanDifference,
    runs: tuple[int, int],
    change: float,
    power: float = POWER,
    level: float = LEVEL,
    most: int = 1000,
) -> int:
    """How many runs of each side detect a change of this size, in the unit of `found`; `most` where more are needed.

    `found` compares these `runs` of the sides; further runs vary as these do, and as much on one side as on the
    other. Each further run is a degree of freedom more; what an estimate borrowed from others stays.
    """
    spread = found.error / math.sqrt(1 / runs[0] + 1 / runs[1])

    def detects(count: int) -> bool:
        freedom = max(1.0, found.freedom + 2 * count - sum(runs))
        return MeanDifference(0.0, spread * math.sqrt(2 / count), freedom).detects(change, power, level)

    return 2 + bisect_left(range(2, most), True, key=detects)


def moderated(estimates: Sequence[MeanDifference], most: float = math.inf) -> list[MeanDifference]:
    """Estimates whose errors borrow from each other, after Smyth's empirical Bayes.

    Few runs tell a variance badly. Where many comparisons of the same runs were made, the distribution of their
    variances tells what a variance is here, and how much that is worth, in degrees of freedom; each one is drawn
    towards it. `most` bounds what may be borrowed, in degrees of freedom: comparisons that overlap vary together, and
    look more alike than independent ones. The variances must be of one kind: of ratios, from sides of the same size.
    """
    rows = [number for number, one in enumerate(estimates) if one.error > 0 and math.isfinite(one.freedom)]
    if len(rows) < 3:
        return list(estimates)
    variance = np.array([estimates[number].error ** 2 for number in rows])
    freedom = np.array([estimates[number].freedom for number in rows])
    prior, typical = _prior(variance, freedom)
    prior = min(prior, most)
    result = list(estimates)
    for number, own, degrees in zip(rows, variance.tolist(), freedom.tolist(), strict=True):
        shared = (prior * typical + degrees * own) / (prior + degrees) if math.isfinite(prior) else typical
        result[number] = replace(estimates[number], error=math.sqrt(shared), freedom=prior + degrees)
    return result


def _prior(variance: Floats, freedom: Floats) -> tuple[float, float]:
    """Degrees of freedom and value of the variance that all share, by the moments of the variances' logarithms.

    No degree where they differ by more than any prior explains.
    """
    centred = np.log(variance) - _each(digamma, freedom / 2) + np.log(freedom / 2)
    beyond = float(centred.var(ddof=1) - _each(trigamma, freedom / 2).mean())
    middle = float(centred.mean())
    if beyond <= 0:
        return math.inf, math.exp(middle)
    half = _inverse_trigamma(beyond)
    return 2 * half, math.exp(middle + digamma(half) - math.log(half))


def _inverse_trigamma(value: float) -> float:
    """Where the trigamma function has this value, by Newton's method on its reciprocal, which is nearly a line."""
    guess = 0.5 + 1 / value
    for _ in range(50):
        here = trigamma(guess)
        step = here * (1 - here / value) / tetragamma(guess)
        guess += step
        if abs(step) < 1e-10 * guess:
            break
    return guess


def _logs(values: Runs) -> Floats | None:
    column = np.asarray(values, np.float64)
    return np.log(column) if len(column) and bool((column > 0).all()) else None


def _each(function: Callable[[float], float], values: Floats) -> Floats:
    return np.array([function(value) for value in values.tolist()])


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))


def trend_of(at: Int64, values: Float64) -> tuple[float, float]:
    """The median slope of all pairs, and the chance of a trend at least as clear, either way, where none exists.

    `at` rises; values may be the same, but not all of them.
    """
    first, second = np.triu_indices(len(values), 1)
    rises = values[second] - values[first]
    slope = float(np.median(rises / (at[second] - at[first])))
    balance = abs(float(np.sign(rises).sum()))
    ties = np.unique(values, return_counts=True)[1]
    variance = (_pairs(len(values)) - sum(map(_pairs, ties.tolist()))) / 18
    return slope, math.erfc(max(balance - 1, 0) / math.sqrt(2 * variance))


def _pairs(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)
