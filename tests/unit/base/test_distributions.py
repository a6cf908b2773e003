"""The distributions, against SciPy's, and against what a distribution is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base import distributions
from pinprof.base.statistics import trend_of

FREEDOMS = [1, 1.3, 2, 3.7, 9, 60, 333, 5e3, 9e5, 1e6, math.inf]
CHANCES = [1e-12, 1e-6, 0.01, 0.3, 0.5, 0.75, 0.975, 1 - 0.05 / 2000, 1 - 1e-9]


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_t_agrees_with_scipy(freedom: float) -> None:
    for value in (-1e4, -30, -5, -0.7, -1e-3, 0, 1, 2.5, 8, 1e200):
        expected = float(
            scipy.special.ndtr(value) if freedom >= distributions.NORMAL else scipy.special.stdtr(freedom, value)
        )
        assert distributions.t_cdf(freedom, value) == pytest.approx(expected, rel=1e-8)
    for chance in CHANCES:
        expected = float(
            scipy.special.ndtri(chance) if freedom >= distributions.NORMAL else scipy.special.stdtrit(freedom, chance)
        )
        assert distributions.t_quantile(freedom, chance) == pytest.approx(expected, rel=1e-8)


@given(st.floats(1, 1e7), st.floats(1e-9, 1 - 1e-9))
def test_quantile_and_chance_of_t_are_inverse(freedom: float, chance: float) -> None:
    assert distributions.t_cdf(freedom, distributions.t_quantile(freedom, chance)) == pytest.approx(chance, rel=1e-7)


def test_certain_chances_of_t_have_no_quantile() -> None:
    assert distributions.t_quantile(3, 1.0) == math.inf
    assert distributions.t_quantile(3, 0.0) == -math.inf
    assert distributions.t_cdf(3, math.inf) == 1
    assert distributions.t_cdf(3, -math.inf) == 0


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_noncentral_t_agrees_with_scipy(freedom: float) -> None:
    for level in (0.05, 0.05 / 20, 0.05 / 400):
        threshold = distributions.t_quantile(freedom, 1 - level / 2)
        shift = distributions.t_shift(freedom, 0.1, threshold)
        assert scipy.special.nctdtr(min(freedom, 1e9), shift, threshold) == pytest.approx(0.1, abs=1e-6)


def test_noncentral_t_agrees_with_random_numbers() -> None:
    random = np.random.default_rng(1)
    drawn = (random.normal(size=200_000) + 2.5) / np.sqrt(random.chisquare(4, size=200_000) / 4)
    for value in (1.0, 2.5, 6.0):
        assert distributions.noncentral_t_cdf(4, 2.5, value) == pytest.approx((drawn <= value).mean(), abs=0.005)


@pytest.mark.parametrize("trials", [1, 5, 100, 5000, 1_000_000])
def test_the_binomial_distribution_agrees_with_scipy(trials: int) -> None:
    for count in {-1, 0, 1, trials // 3, trials // 2, trials - 1, trials}:
        for chance in (0, 1e-6, 0.01, 0.3, 0.9, 1):
            expected = float(scipy.stats.binom.sf(count, trials, chance))
            assert distributions.binomial_above(count, trials, chance) == pytest.approx(expected, rel=1e-8, abs=1e-280)


@given(st.floats(1e-3, 1e8))
def test_derivatives_of_the_gamma_function_agree_with_scipy(x: float) -> None:
    assert distributions.digamma(x) == pytest.approx(float(scipy.special.psi(x)), rel=1e-12, abs=1e-13)
    assert distributions.trigamma(x) == pytest.approx(float(scipy.special.polygamma(1, x)), rel=1e-12)
    assert distributions.tetragamma(x) == pytest.approx(float(scipy.special.polygamma(2, x)), rel=1e-12)


@given(st.lists(st.integers(0, 1000), min_size=8, max_size=40).filter(lambda values: len(set(values)) > 1))
def test_slopes_agree_with_scipy(values: list[int]) -> None:
    at, live = np.arange(len(values)) * 3, np.array(values, np.float64)
    slope, chance = trend_of(at, live)
    assert slope == pytest.approx(float(scipy.stats.theilslopes(live, at).slope))
    # The same test without the correction for steps of the statistic calls more series trends, never fewer.
    assert 1 >= chance >= scipy.stats.kendalltau(at, live, method="asymptotic").pvalue - 1e-12


def test_chances_of_trends_are_those_of_all_orders() -> None:
    random = np.random.default_rng(2)
    for count in (8, 12, 30):
        for _ in range(20):
            at, live = np.arange(count), random.permutation(count) + np.arange(count) * random.choice([0.0, 0.3137])
            exact = float(scipy.stats.kendalltau(at, live, method="exact").pvalue)
            assert trend_of(at, live)[1] == pytest.approx(exact, abs=0.02)
