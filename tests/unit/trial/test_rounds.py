"""Rounds with numbers and a clock that the test makes: nothing here is timed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from pinprof.trial import rounds
from pinprof.trial.rounds import AS_IS, Failed, Wanted


class Clock:
    """Tells the time, which passes by a second a run."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def played(
    ids: list[str], value: Callable[[str], float], error: float = 0.02, until: float = 1e9, seed: int = 1, **bounds: int
) -> tuple[rounds.Rounds, list[str]]:
    clock, order = Clock(), []

    def run(name: str) -> float:
        clock.now += 1
        order.append(name)
        return value(name)

    return rounds.play(ids, run, Wanted(error, until, seed, **bounds), clock, 1.0), order


def noisy(seed: int, spread: float, **factors: float) -> Callable[[str], float]:
    noise = random.Random(seed)
    return lambda name: 100 * factors.get(name, 1.0) * noise.lognormvariate(0, spread)


@pytest.mark.slow
def test_every_round_has_every_player_once_and_its_own_order() -> None:
    _, order = played(["a", "b", "c"], noisy(1, 0.05))
    each = [tuple(order[at : at + 4]) for at in range(0, 24, 4)]
    assert all(sorted(one) == ["", "a", "b", "c"] for one in each)
    assert len(set(each)) > 1


def test_the_same_seed_gives_the_same_order() -> None:
    orders = [played(["a", "b"], lambda _: 1.0, seed=seed)[1] for seed in (4, 4, 5)]
    assert orders[0] == orders[1] != orders[2]


def test_numbers_that_do_not_vary_need_the_fewest_rounds() -> None:
    found, _ = played(["a"], lambda name: 50.0 if name else 100.0)
    ratio = found.pairs["a"].ratio(1)
    assert len(found.as_is) == rounds.LEAST_ROUNDS
    assert ratio is not None
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((0.5, 0.5, 0.5))


def test_more_noise_takes_more_rounds_until_the_error_is_reached() -> None:
    calm, noise = (played(["a"], noisy(2, spread))[0] for spread in (0.01, 0.05))
    assert len(calm.as_is) < len(noise.as_is)
    for found in (calm, noise):
        ratio = found.pairs["a"].ratio(1)
        assert ratio is not None
        assert (ratio.high - ratio.low) / 2 <= 0.02 * ratio.median


def test_time_ends_the_rounds_before_it_is_over() -> None:
    found, order = played(["a", "b"], noisy(3, 0.5), until=31.0)
    assert len(order) == 30
    assert len(found.as_is) == 10


def test_the_first_round_is_played_whatever_the_time() -> None:
    found, order = played(["a"], lambda _: 1.0, until=0.0)
    assert len(order) == 2
    assert found.pairs["a"].ratio(1) is None


@pytest.mark.slow
def test_a_cure_that_is_known_well_enough_plays_no_more() -> None:
    steady = noisy(4, 0.001)
    wild = noisy(5, 0.3)
    _, order = played(["steady", "wild"], lambda name: wild(name) if name == "wild" else steady(name), until=300.0)
    counts = Counter(order)
    assert counts["steady"] == rounds.LEAST_ROUNDS
    assert counts["wild"] == counts[AS_IS] > 50


def test_a_cure_that_fails_leaves_and_the_others_go_on() -> None:
    def value(name: str) -> float:
        if name == "bad":
            raise Failed("It exits with 3.")
        return 10.0

    found, order = played(["bad", "good"], value)
    assert found.failed == {"bad": "It exits with 3."}
    assert Counter(order)["bad"] == 1
    assert len(found.pairs["good"].cured) == rounds.LEAST_ROUNDS


def test_a_program_that_fails_as_it_is_ends_the_rounds() -> None:
    def value(name: str) -> float:
        if name == AS_IS:
            raise Failed("It exits with 3.")
        return 10.0

    with pytest.raises(Failed):
        played(["a"], value)


def test_what_was_played_before_an_interruption_stays() -> None:
    runs = iter(range(100))

    def value(_: str) -> float:
        if next(runs) == 7:
            raise KeyboardInterrupt
        return 1.0

    found, _ = played(["a"], value)
    assert found.interrupted
    assert len(found.pairs["a"].cured) == len(found.as_is) == 3


def test_an_interruption_of_the_first_round_ends_the_trial() -> None:
    def value(_: str) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        played(["a"], value)


def test_what_slows_a_whole_round_cancels() -> None:
    runs = iter(range(10**6))

    def value(name: str) -> float:
        return 3.0 ** (next(runs) // 2) * (0.5 if name else 1.0)

    found, _ = played(["a"], value)
    ratio = found.pairs["a"].ratio(1)
    assert ratio is not None
    assert (ratio.low, ratio.high) == pytest.approx((0.5, 0.5))


@pytest.mark.slow
def test_of_trials_without_a_difference_few_find_one() -> None:
    # 4 cures in each; of 100 trials that err with 5 %, more than 11 do in less than 1 % of all cases.
    wrong = 0
    for seed in range(100):
        found, _ = played(["a", "b", "c", "d"], noisy(1000 + seed, 0.04), error=0.03, until=150.0, seed=seed)
        ratios = [pairs.ratio(4) for pairs in found.pairs.values()]
        wrong += any(ratio is not None and not ratio.low <= 1 <= ratio.high for ratio in ratios)
    assert wrong <= 11


def test_a_difference_larger_than_the_error_is_found() -> None:
    found, _ = played(["a", "b"], noisy(9, 0.04, a=0.93))
    better, same = (found.pairs[name].ratio(2) for name in ("a", "b"))
    assert better is not None
    assert same is not None
    assert better.high < 1
    assert same.low <= 1 <= same.high
