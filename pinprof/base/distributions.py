"""The distributions that comparisons of repeated runs rest on: Student's t, central and not, and the binomial one.

SciPy has all of them, and takes more room than everything else that pinprof installs. What is here agrees with it to
nine digits (tests/unit/test_distributions.py); `fleet`, which tests many captures at once, uses SciPy itself.

Sources: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 6.3, 6.4, 26.5 and 26.7; Lentz, Applied
Optics 15 (1976), 668, for the continued fraction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import ascending

NORMAL = 1e6
"""The t distribution with this many degrees of freedom is taken for the normal one."""
_STEPS = 100_000
_TINY = 1e-300
_NEGLIGIBLE = 45.0
"""Parts of a distribution whose chance is below exp of minus this are left out."""
_REACH = 9.0
"""The standard deviations that hold all of a normal distribution, in double precision."""
_PANELS = 12


def t_cdf(freedom: float, value: float) -> float:
    """The chance that Student's t is at most this."""
    if freedom >= NORMAL:
        return math.erfc(-value / math.sqrt(2)) / 2
    square = value * value
    if math.isinf(square):
        tail = 0.0
    else:
        tail = beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square)) / 2
    return 1 - tail if value > 0 else tail


@lru_cache(4096)
def t_quantile(freedom: float, chance: float) -> float:
    """The value that Student's t stays below with this chance."""
    if chance == 0.5:
        return 0.0
    if not 0 < chance < 1:
        return math.copysign(math.inf, chance - 0.5)
    if freedom >= NORMAL:
        return _normal_quantile(chance)
    tail = min(chance, 1 - chance)
    # In logarithms both tails are nearly lines, however heavy.
    found = math.exp(
        _falling_root(lambda log: math.log(max(t_cdf(freedom, -math.exp(log)), _TINY)), math.log(tail), 0.0)
    )
    return math.copysign(found, chance - 0.5)


@lru_cache(4096)
def t_shift(freedom: float, chance: float, value: float) -> float:
    """The noncentrality with which a noncentral t is at most `value`, which is positive, with this chance."""
    if freedom >= NORMAL:
        return value - _normal_quantile(chance)
    return _falling_root(lambda shift: noncentral_t_cdf(freedom, shift, value), chance, value)


def noncentral_t_cdf(freedom: float, shift: float, value: float) -> float:
    """The chance that (Z + shift) / sqrt(V / freedom) is at most `value`, which is positive.

    It is the mean of the normal distribution function at value * w - shift, over w = sqrt(V / freedom).
    """
    if freedom >= NORMAL:
        return math.erfc((shift - value) / math.sqrt(2)) / 2
    spread = 2 * math.sqrt(freedom * _NEGLIGIBLE)
    low = math.sqrt(max(freedom - spread, 0.0) / freedom)
    high = math.sqrt((freedom + spread + 2 * _NEGLIGIBLE) / freedom)
    ends = [min(max((shift + side * _REACH) / value, low), high) for side in (-1, 1)]
    # In v = sqrt(w), whose density has no edge at 0; the panels lie where density and distribution change.
    edges = ascending(np.concatenate([np.linspace(low, high, _PANELS), np.linspace(ends[0], ends[1], _PANELS)])) ** 0.5
    half = np.diff(edges)[:, None] / 2
    nodes, node_weights = _legendre()
    v = (edges[:-1, None] + half + half * nodes).ravel()
    weights = (half * node_weights).ravel()
    w = v * v
    constant = math.log(4) + freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2)
    density = np.exp(constant + (2 * freedom - 1) * np.log(v) - freedom * w * w / 2)
    normal = np.array([math.erfc(one) for one in ((shift - value * w) / math.sqrt(2)).tolist()]) / 2
    return float(min((weights * density * normal).sum(), 1.0))


def _normal_quantile(chance: float) -> float:
    from statistics import NormalDist  # which imports fractions and decimals

    return NormalDist().inv_cdf(chance)


@cache
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of an integral; few comparisons need it, and numpy imports much for it."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    return nodes, weights


def binomial_above(count: int, trials: int, chance: float) -> float:
    """The chance of more than `count` successes in `trials`."""
    if count < 0:
        return 1.0
    if count >= trials or chance <= 0:
        return 0.0
    return beta(count + 1.0, float(trials - count), chance, 1 - chance) if chance < 1 else 1.0


def beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularized incomplete beta function at x; `rest` is 1 - x, given apart so that neither loses digits."""
    if x <= 0 or rest <= 0:
        return float(rest <= 0)
    front = math.exp(a * _log(x, rest) + b * _log(rest, x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))
    if x < (a + 1) / (a + b + 2):
        return min(front * _fraction(a, b, x) / a, 1.0)
    return 1 - min(front * _fraction(b, a, rest) / b, 1.0)


def _log(x: float, rest: float) -> float:
    return math.log1p(-rest) if rest < 0.5 else math.log(x)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, _STEPS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + numerator * d)
            c = _away_from_zero(1 + numerator / c)
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return result


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def digamma(x: float) -> float:
    """The derivative of the logarithm of the gamma function, of a positive number."""
    below = 0.0
    while x < 10:
        below += 1 / x
        x += 1
    z = 1 / (x * x)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * 691 / 32760)))))
    return math.log(x) - 0.5 / x - series - below


def trigamma(x: float) -> float:
    """The derivative of the digamma function."""
    below = 0.0
    while x < 10:
        below += 1 / (x * x)
        x += 1
    z = 1 / (x * x)
    series = z / x * (1 / 6 - z * (1 / 30 - z * (1 / 42 - z * (1 / 30 - z * (5 / 66 - z * 691 / 2730)))))
    return 1 / x + z / 2 + series + below


def tetragamma(x: float) -> float:
    """The derivative of the trigamma function."""
    below = 0.0
    while x < 10:
        below += 2 / (x * x * x)
        x += 1
    z = 1 / (x * x)
    series = z * z * (1 / 2 - z * (1 / 6 - z * (1 / 6 - z * (3 / 10 - z * (5 / 6 - z * 691 / 210)))))
    return -z - z / x - series - below


def _falling_root(function: Callable[[float], float], wanted: float, guess: float) -> float:
    """Where a falling function has this value: steps that double enclose it, then false position narrows them."""
    step, here = 1.0, function(guess) - wanted
    low = high = guess
    at_low = at_high = here
    while at_low < 0:
        low, step = low - step, 2 * step
        at_low = function(low) - wanted
    while at_high > 0:
        high, step = high + step, 2 * step
        at_high = function(high) - wanted
    for _ in range(200):
        if at_low == at_high or high - low <= 1e-12 * max(abs(low), abs(high), 1e-3):
            break
        middle = low + (high - low) * at_low / (at_low - at_high)
        at = function(middle) - wanted
        if at == 0:
            return middle
        # An end that stays counts half (the Illinois method), so that the other one moves.
        if at > 0:
            low, at_low, at_high = middle, at, at_high / 2
        else:
            high, at_high, at_low = middle, at, at_low / 2
    return (low + high) / 2
