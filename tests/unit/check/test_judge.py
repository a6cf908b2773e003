"""Verdicts: counts by every run, times and shares as far as chance lets runs tell."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pinprof.base.errors import CaptureError, UsageError
from pinprof.check.budgets import Budget
from pinprof.check.chance import LEVEL
from pinprof.check.judge import in_turns, judge, judgeable, precise
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked
from pinprof.check.view import Amount, Unassessable
from tests.support.checked_runs import LOOP, PAGEABLE, budget, measured, run, runs

MS = 1e6


def verdict(one: Budget, values: list[float], base: list[float] | None = None, **more: float) -> BudgetVerdict:
    return judge(runs(one, values, **more), [one], runs(one, base or [], "base", **more)).verdicts[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([3], BudgetOutcome.HOLDS),
        ([4], BudgetOutcome.BROKEN),
        ([3, 3, 4], BudgetOutcome.BROKEN),
        ([1, 2, 3], BudgetOutcome.HOLDS),
    ],
)
def test_every_run_must_keep_a_count(values: list[float], outcome: BudgetOutcome) -> None:
    found = verdict(budget(pairs=3), values)
    assert found.outcome is outcome
    assert found.per_run == tuple(values)
    assert found.found == max(values)


def test_the_sentence_says_the_range_over_the_runs_and_the_excess() -> None:
    assert (
        verdict(budget(pairs=3), [2, 5, 4]).why
        == "2 to 5 pairs in 2 of 3 runs, 2 pairs more than the limit of 3 pairs."
    )


def test_what_a_run_does_not_tell_is_never_passed() -> None:
    one = budget(pairs=3)
    blind = run(9, {one: Unassessable("No CUDA calls were traced.", "Trace them.")})
    assert judge([*runs(one, [1]), blind], [one]).status == 4
    assert judge([*runs(one, [9]), blind], [one]).status == 3
    least = run(9, {one: Amount(2, missing="Records were lost.")})
    assert judge([least], [one]).verdicts[0].outcome is BudgetOutcome.UNASSESSABLE
    assert judge([run(9, {one: Amount(4, missing="Records were lost.")})], [one]).status == 3
    assert judge([blind], [one], allowed=True).status == 0
    assert verdict(budget(pairs=3, runs=2), [1]).outcome is BudgetOutcome.UNASSESSABLE


def test_an_estimate_near_the_limit_is_not_assessable() -> None:
    one = budget(page_faults=1000)
    assert verdict(one, [990], error=26).outcome is BudgetOutcome.UNASSESSABLE
    assert verdict(one, [900], error=26).outcome is BudgetOutcome.HOLDS
    assert verdict(one, [1100], error=26).outcome is BudgetOutcome.BROKEN


def test_counts_are_compared_with_the_range_of_the_baseline() -> None:
    same = budget(pairs="baseline")
    assert verdict(same, [10], [10]).outcome is BudgetOutcome.HOLDS
    assert verdict(same, [11], [10]).outcome is BudgetOutcome.BROKEN
    assert verdict(budget(pairs="baseline + 1"), [11], [10]).outcome is BudgetOutcome.HOLDS
    faults = budget(page_faults="baseline")
    assert verdict(faults, [1001], [1000]).outcome is BudgetOutcome.UNASSESSABLE
    assert verdict(faults, [1003], [1000, 1002, 1001, 1000, 999]).outcome is BudgetOutcome.HOLDS
    assert verdict(faults, [1050], [1000, 1002, 1001, 1000, 999]).outcome is BudgetOutcome.BROKEN
    assert verdict(same, [11]).outcome is BudgetOutcome.UNASSESSABLE


@pytest.mark.slow
def test_times_take_runs_and_say_how_many_would_tell() -> None:
    one = budget(time="100 ms", runs=5)
    assert "needs 5 runs" in verdict(one, [90 * MS] * 4).why
    assert verdict(one, [value * MS for value in (90, 91, 90, 92, 90)]).outcome is BudgetOutcome.HOLDS
    assert verdict(one, [value * MS for value in (110, 111, 110, 112, 110)]).outcome is BudgetOutcome.BROKEN
    wild = verdict(one, [value * MS for value in (60, 150, 90, 130, 100)])
    assert wild.outcome is BudgetOutcome.UNASSESSABLE
    assert "such runs" in wild.remedy


def test_an_excess_that_does_not_matter_breaks_nothing() -> None:
    values = [value * MS for value in (101.9, 102, 102.1, 102, 102)]
    assert verdict(budget(time="100 ms", runs=5), values).outcome is BudgetOutcome.HOLDS
    assert verdict(budget(time="100 ms", runs=5, smallest_ms=1), values).outcome is BudgetOutcome.BROKEN


def test_shares_are_judged_by_their_samples() -> None:
    one = budget(cause={"fault": "20 %"})
    assert verdict(one, [0.4], error=0.02, samples=500).outcome is BudgetOutcome.BROKEN
    assert verdict(one, [0.1], error=0.02, samples=500).outcome is BudgetOutcome.HOLDS
    assert verdict(one, [0.22], error=0.02, samples=500).outcome is BudgetOutcome.UNASSESSABLE
    few = verdict(one, [0.9], error=0.02, samples=50)
    assert few.outcome is BudgetOutcome.UNASSESSABLE
    assert verdict(one, [0.4, 0.41], error=0.02, samples=50).outcome is BudgetOutcome.BROKEN


def _rounds(seed: random.Random, count: int, slower: float = 1.0) -> tuple[list[float], list[float]]:
    """Times of a program and its baseline in turns: rounds differ by a tenth, runs of one round by a hundredth."""
    pace = [100 * MS * seed.lognormvariate(0, 0.10) for _ in range(count)]
    return tuple([one * factor * seed.lognormvariate(0, 0.01) for one in pace] for factor in (slower, 1.0))  # type: ignore[return-value]


def _in_pairs(one: Budget, slower: float, checks: int) -> list[Checked]:
    seed = random.Random(15)
    found = []
    for _ in range(checks):
        values, base = _rounds(seed, one.runs, slower)
        found.append(judge(runs(one, values), [one], runs(one, base, "base"), paired=True))
    return found


@pytest.mark.slow
def test_the_same_program_is_not_called_slower_and_one_that_is_is_noticed() -> None:
    one = budget(time="baseline", runs=6)
    alike = [check.status for check in _in_pairs(one, 1.0, 400)]
    assert sum(status != 0 for status in alike) <= 4
    slower = [check.status for check in _in_pairs(one, 1.10, 100)]
    assert sum(status == 3 for status in slower) >= 95


@pytest.mark.slow
def test_many_budgets_on_the_same_noise_share_their_chance() -> None:
    seed = random.Random(4)
    budgets = [budget(time="100 ms", runs=5, name=str(number), smallest_ms=0.001) for number in range(6)]
    broken = 0
    for _ in range(100):
        made = [run(at, {one: Amount(seed.gauss(100, 5) * MS) for one in budgets}) for at in range(5)]
        broken += judge(made, budgets).status == 3
    assert broken <= 100 * LEVEL * 4


def test_stopping_looks_at_how_well_times_are_known_alone() -> None:
    one = budget(time="100 ms", runs=5)
    assert not precise(runs(one, [value * MS for value in (60, 150, 90, 130, 100)]), [one])
    for level in (50, 100, 200):
        assert precise(runs(one, [level * MS, (level + 1) * MS, level * MS, level * MS, level * MS]), [one])


def test_another_machine_is_no_baseline_for_times() -> None:
    one = budget(time="baseline", runs=3)
    here = [replace(each, around={"processor": "A"}) for each in runs(one, [1e8, 1.01e8, 1e8])]
    there = [replace(each, around={"processor": "B"}) for each in runs(one, [1e8, 1.01e8, 1e8], "base")]
    found = judge(here, [one], there)
    assert found.status == 4
    assert "another machine" in found.verdicts[0].why


def test_runs_in_turns_are_pairs() -> None:
    one = budget(pairs=0)
    new, old = runs(one, [1, 1]), runs(one, [1, 1], "base")
    turns = [replace(each, started_utc=time) for each, time in zip((*new, *old), "1423", strict=True)]
    assert in_turns(turns[:2], turns[2:])[2]
    after = [replace(each, started_utc=time) for each, time in zip((*new, *old), "1234", strict=True)]
    assert not in_turns(after[:2], after[2:])[2]


def test_implied_budgets_that_nobody_can_tell_are_named_in_a_note() -> None:
    calls, time, faults = budget(calls="baseline"), budget(time="baseline"), budget(page_faults="baseline")
    made = [run(1, {calls: Unassessable("No CUDA."), time: Amount(1.0), faults: Amount(1.0)})]
    kept, note = judgeable([calls, time, faults], made, made)
    assert kept == (faults,)
    assert note == "Not compared: calls, time. No CUDA. Times need 5 runs of each side."


def test_the_same_recording_twice_and_none_at_all_are_refused() -> None:
    one = budget(pairs=0)
    with pytest.raises(UsageError, match="same recording"):
        judge(runs(one, [1]) * 2, [one])
    with pytest.raises(CaptureError):
        judge([], [one])


@pytest.mark.slow
def test_real_captures_are_judged_with_their_lines_and_remedies() -> None:
    budgets = [budget(pairs=0), budget(pageable_bytes="1 GiB"), budget(pinned_bytes="1 GiB")]
    found = judge([measured(LOOP, *budgets), measured(PAGEABLE, *budgets)], budgets)
    assert [one.outcome for one in found.verdicts] == [BudgetOutcome.BROKEN, BudgetOutcome.BROKEN, BudgetOutcome.HOLDS]
    assert found.status == 3
    assert found.verdicts[1].sites[0].place == "fresh_h2d.cu:19"
    assert "Pin once" in found.verdicts[0].remedy
    assert "different commands" in found.notes[0]
