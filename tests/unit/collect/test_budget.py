"""What tracing calls may cost: decisions on rates alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pinprof.collect.native.budget import CREDIT_NS, Prices, TracingBudget, TracingLevel, untraced_rate

PRICES = Prices(full=5000, bare=3000)
MS = 1_000_000
KINDS = {"copies": False, "memory": False}


def run(
    budget: TracingBudget, rates: dict[str, float], seconds: float, start_ns: int = 0, step_ns: int = 10 * MS
) -> Iterator[tuple[int, str, TracingLevel]]:
    """What changes, with the time, while each kind is called so often a second."""
    for now in range(start_ns + step_ns, start_ns + round(seconds * 1e9) + 1, step_ns):
        traced = {
            name: round(rate * step_ns * 1e-9)
            for name, rate in rates.items()
            if budget.level(name) < TracingLevel.COUNTED
        }
        for name, level in budget.looked(now, traced).items():
            yield now, name, level


def test_what_keeps_the_budget_keeps_its_stacks() -> None:
    budget = TracingBudget(3, PRICES, KINDS, 0)
    # 5,900 × 5 µs are 2.95 %.
    assert list(run(budget, {"copies": 3900, "memory": 2000}, 30)) == []


def test_a_flood_is_counted_at_once() -> None:
    budget = TracingBudget(3, PRICES, KINDS, 0)
    ((when, kind, level),) = run(budget, {"copies": 180_000, "memory": 1000}, 1)
    assert (kind, level) == ("copies", TracingLevel.COUNTED)
    assert when <= 20 * MS
    assert budget.level("memory") == TracingLevel.FULL


def test_a_budget_of_everything_traces_whatever_it_costs() -> None:
    """The price is only the usual one while the program runs: by it these calls take all of the time and more."""
    budget = TracingBudget(100, PRICES, KINDS, 0)
    budget.seen_twice("copies")
    assert list(run(budget, {"copies": 400_000}, 10)) == []


def test_stacks_go_first_where_that_is_enough() -> None:
    budget = TracingBudget(3, PRICES, KINDS, 0)
    # 8,000 calls a second: 4 % with their stacks, 2.4 % without.
    changes = [(kind, level) for _, kind, level in run(budget, {"copies": 8000}, 10)]
    assert changes == [("copies", TracingLevel.BARE)]


def test_a_burst_is_no_flood() -> None:
    budget = TracingBudget(3, PRICES, KINDS, 0)
    assert budget.looked(10 * MS, {"memory": CREDIT_NS // PRICES.full}) == {}
    assert list(run(budget, {"memory": 100}, 10, 10 * MS)) == []
    assert budget.looked(10_020 * MS, {"memory": CREDIT_NS // PRICES.full}) == {}, "the account has filled again"


def test_the_dearest_kind_gives_way_first_and_the_others_as_far_as_they_must() -> None:
    # 2 % and 2.5 %; 2 % and 1.5 %; 1.2 % and 1.5 %.
    budget = TracingBudget(3, PRICES, KINDS, 0)
    changes = [(kind, level) for _, kind, level in run(budget, {"copies": 4000, "memory": 5000}, 1.9)]
    assert changes == [("memory", TracingLevel.BARE), ("copies", TracingLevel.BARE)]


@pytest.mark.slow
def test_a_kind_comes_back_when_its_rate_has_fallen_and_waits_longer_after_each_relapse() -> None:
    budget, now, waits = TracingBudget(3, PRICES, KINDS, 0), 0, []
    for _ in range(7):
        ((gone, _, level),) = run(budget, {"copies": 180_000}, 0.05, now)
        assert level == TracingLevel.COUNTED
        for _ in range(20):
            budget.counted("copies", 100.0)
        ((back, _, level), *rest) = run(budget, {"copies": 100}, 66, gone)
        assert (level, rest) == (TracingLevel.FULL, [])
        waits.append(round((back - gone) / 1e9))
        now = gone + 66_000 * MS
    assert waits == [2, 4, 8, 16, 32, 64, 64]


def test_a_kind_whose_rate_stays_high_does_not_come_back() -> None:
    budget = TracingBudget(3, PRICES, KINDS, 0)
    list(run(budget, {"copies": 180_000}, 0.05))
    for _ in range(20):
        budget.counted("copies", 4000.0)  # 1.2 % without stacks; half of the budget is 1.5 %
    assert [level for _, _, level in run(budget, {"copies": 4000}, 30, 50 * MS)] == [TracingLevel.BARE]
    budget = TracingBudget(3, PRICES, KINDS, 0)
    list(run(budget, {"copies": 180_000}, 0.05))
    for _ in range(20):
        budget.counted("copies", 6000.0)
    assert list(run(budget, {"copies": 6000}, 30, 50 * MS)) == []


def test_one_quiet_window_brings_nothing_back() -> None:
    budget = TracingBudget(3, PRICES, KINDS, 0)
    list(run(budget, {"copies": 180_000}, 0.05))
    now = 50 * MS
    for rate in (20_000.0, 0.0, 0.0, 20_000.0, 0.0, 0.0):
        budget.counted("copies", rate)
        assert list(run(budget, {}, 3, now)) == []
        now += 3000 * MS


def test_what_could_not_come_back_is_not_asked_for_again() -> None:
    budget = TracingBudget(3, PRICES, KINDS, 0)
    list(run(budget, {"copies": 180_000}, 0.05))
    for _ in range(20):
        budget.counted("copies", 0.0)
    ((_, _, level),) = run(budget, {}, 5, 50 * MS)
    assert level == TracingLevel.FULL
    budget.stays_given_up("copies")
    assert list(run(budget, {}, 200, 6000 * MS)) == []
    assert budget.level("copies") == TracingLevel.COUNTED


def test_what_another_recorder_sees_is_given_up_earlier() -> None:
    rates = {"copies": 3000.0}  # 1.5 %
    assert list(run(TracingBudget(3, PRICES, KINDS, 0), rates, 10)) == []
    assert list(run(TracingBudget(3, PRICES, {"copies": True}, 0), rates, 1.9))
    told = TracingBudget(3, PRICES, KINDS, 0)
    told.seen_twice("copies")
    assert list(run(told, rates, 1.9))


@pytest.mark.parametrize("passed", [0, -5])
def test_no_time_decides_nothing(passed: int) -> None:
    assert TracingBudget(3, PRICES, KINDS, 100).looked(100 + passed, {"copies": 10**9}) == {}


def test_the_rate_without_tracing_lies_between_that_with_it_and_what_the_rest_of_the_time_holds() -> None:
    assert untraced_rate(100, 1_000_000, 5000) == pytest.approx((100 / 0.001 * 100 / 0.0005) ** 0.5)
    assert untraced_rate(200, 1_000_000, 5000) == pytest.approx(200 / 0.001 * 10**0.5), "at most ten times as many"
    assert untraced_rate(0, 0, 5000) == 0
