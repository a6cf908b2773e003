"""The statistics, against published values and against what they promise of random runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from pinprof.base import statistics
from pinprof.base.statistics import MeanDifference, difference, holm, moderated, paired_ratio, ratio, runs_needed

WELCH = ([27.5, 21.0, 19.0, 23.6, 17.0, 17.9], [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8])


def test_welch_agrees_with_another_implementation() -> None:
    expected = scipy.stats.ttest_ind(WELCH[1], WELCH[0], equal_var=False)
    estimate = difference(*WELCH)
    assert estimate is not None
    assert estimate.value / estimate.error == pytest.approx(expected.statistic)
    assert estimate.freedom == pytest.approx(expected.df)
    assert estimate.p == pytest.approx(expected.pvalue)
    assert estimate.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_pairs_agree_with_another_implementation() -> None:
    before, after = [1.0, 1.2, 1.1, 0.9], [0.8, 1.1, 0.9, 0.8]
    expected = scipy.stats.ttest_rel(np.log(after), np.log(before))
    estimate = paired_ratio(before, after)
    assert estimate is not None
    assert estimate.p == pytest.approx(expected.pvalue)


def test_the_interval_and_the_test_agree() -> None:
    estimate = difference(*WELCH)
    assert estimate is not None
    low, _ = estimate.interval(1 - estimate.p)
    assert low == pytest.approx(0, abs=1e-9)


def test_one_run_of_a_side_cannot_be_tested() -> None:
    assert difference([1.0], [2.0, 2.1]) is None
    assert ratio([1.0, 1.1], [2.0]) is None
    assert paired_ratio([1.0], [2.0]) is None


def test_times_that_are_not_above_zero_have_no_ratio() -> None:
    assert ratio([1.0, 0.0], [2.0, 2.1]) is None
    assert paired_ratio([1.0, 1.0], [2.0, -2.1]) is None


def test_a_ratio_is_the_same_for_any_unit() -> None:
    small, large = ratio([1.0, 1.1, 0.9], [2.0, 2.2, 2.1]), ratio([1e9, 1.1e9, 0.9e9], [2e9, 2.2e9, 2.1e9])
    assert small is not None
    assert large is not None
    assert small.ratio == pytest.approx(large.ratio)
    assert small.p == pytest.approx(large.p)
    low, high = small.ratio_interval()
    assert low < 2.1 < high


def test_pairs_cancel_what_slows_a_whole_round() -> None:
    rounds = np.array([1.0, 1.5, 0.8, 1.2, 2.0])
    before, after = rounds, rounds * np.array([0.90, 0.91, 0.89, 0.90, 0.90])
    paired, apart = paired_ratio(before, after), ratio(before, after)
    assert paired is not None
    assert apart is not None
    assert paired.p < 0.001 < apart.p
    with pytest.raises(ValueError, match="not pairs"):
        paired_ratio([1.0, 2.0], [1.0])


def test_runs_without_any_spread() -> None:
    assert MeanDifference(0.0, 0.0, 4).p == 1
    assert MeanDifference(1.0, 0.0, 4).p == 0


def test_holm_agrees_with_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert max(holm([0.9, 0.8])) == 1


def test_weights_let_a_comparison_spend_more_of_the_error() -> None:
    adjusted = holm([0.03, 0.03], [0.9, 0.1])
    assert adjusted[0] == pytest.approx(0.03 / 0.9)
    assert holm([0.03, 0.03], [5, 5]) == pytest.approx(holm([0.03, 0.03]))
    assert adjusted[1] >= adjusted[0]


@pytest.mark.slow
def test_a_detectable_change_is_found_as_often_as_promised() -> None:
    random = np.random.default_rng(1)
    change = MeanDifference(0.0, math.sqrt(2 / 5), 8).detectable(0.9)
    before, after = random.normal(0, 1, (2, 4000, 5))
    found = [one is not None and one.p <= 0.05 for one in map(difference, before, after + change)]
    assert np.mean(found) == pytest.approx(0.9, abs=0.03)


def test_runs_needed_are_the_fewest_that_detect_the_change() -> None:
    found = MeanDifference(0.0, 0.1 * math.sqrt(2 / 5), 8)
    runs = runs_needed(found, (5, 5), 0.05)
    limits = [MeanDifference(0.0, 0.1 * math.sqrt(2 / count), 2 * count - 2).detectable() for count in (runs, runs - 1)]
    assert limits[0] <= 0.05 < limits[1]
    assert runs_needed(found, (5, 5), 1e-6, most=20) == 20
    assert runs_needed(found, (5, 5), 10.0) == 2


@pytest.mark.slow
def test_runs_needed_find_the_change_as_often_as_promised() -> None:
    random = np.random.default_rng(5)
    runs = runs_needed(MeanDifference(0.0, 0.1 * math.sqrt(2 / 5), 8), (5, 5), 0.08)
    before, after = random.normal(0, 0.1, (2, 4000, runs))
    found = [one is not None and one.p <= 0.05 for one in map(difference, before, after + 0.08)]
    assert 0.88 <= np.mean(found) <= 0.94


def test_runs_needed_do_not_depend_on_how_runs_are_shared_between_the_sides() -> None:
    """Of one run and nine a side's variation is as certain as of five and five: eight degrees of freedom."""
    wanted = runs_needed(MeanDifference(0.0, 0.1 * math.sqrt(2 / 5), 8), (5, 5), 0.05)
    assert runs_needed(MeanDifference(0.0, 0.1 * math.sqrt(1 + 1 / 9), 8), (1, 9), 0.05) == wanted


def _compared(random: np.random.Generator, rows: int, change: float, spread: np.ndarray) -> list[MeanDifference]:
    values = random.normal(0, 1, (rows, 2, 5)) * spread[:, None, None]
    values[:, 1] += change
    return [one for one in (difference(row[0], row[1]) for row in values) if one is not None]


@pytest.mark.slow
def test_borrowed_variance_keeps_the_promised_error_and_finds_more() -> None:
    random = np.random.default_rng(2)
    alone = borrowed = wrong = 0
    for _ in range(200):
        spread = np.sqrt(10 / random.chisquare(10, 20)) * 0.02
        wrong += sum(one.p <= statistics.LEVEL for one in moderated(_compared(random, 20, 0.0, spread), 8))
        found = _compared(random, 20, 0.06, spread)
        alone += sum(one.p <= 0.005 for one in found)
        borrowed += sum(one.p <= 0.005 for one in moderated(found, 8))
    assert wrong / 4000 <= 0.06
    assert borrowed > 1.1 * alone


def test_few_comparisons_borrow_nothing() -> None:
    alone = [MeanDifference(0.1, 0.02, 8), MeanDifference(0.1, 0.03, 8)]
    assert moderated(alone) == alone


def test_variances_of_one_size_are_pooled_as_far_as_allowed() -> None:
    alike = [MeanDifference(0.1, 0.02, 8)] * 5
    assert all(one.freedom == math.inf for one in moderated(alike))
    assert all(one.freedom == 16 for one in moderated(alike, 8))
    assert all(0 <= one.p <= 1 for one in moderated(alike))


@pytest.mark.parametrize("freedom", [1.0, 3.5, 8.0, 40.0, 1e7])
def test_what_is_detectable_is_detected_and_less_is_not(freedom: float) -> None:
    estimate = MeanDifference(0.0, 0.02, freedom)
    for level in (0.05, 0.001):
        least = estimate.detectable(level=level)
        assert estimate.detects(1.001 * least, level=level)
        assert not estimate.detects(0.999 * least, level=level)
