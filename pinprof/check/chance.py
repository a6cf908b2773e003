"""Verdicts on what varies by chance: times by repeated runs, shares by their samples as well.

One number a run goes in. All tests of a check are corrected together (Holm), so that a check calls a budget broken by
chance alone in `LEVEL` of all checks at most. Times against a baseline are compared as ratios: a machine that is slower
for a while slows both by the same factor, and in paired runs that cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.statistics import MeanDifference, difference, holm, paired_ratio, ratio
from pinprof.base.units import format_counted, format_share
from pinprof.check.budgets import Budget, format_amount
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict
from pinprof.check.view import Amount

LEVEL = 0.005
"""So often may a check call a budget broken where nothing is: once in 200 checks."""
_CONFIDENCE = 0.90
"""Two-sided, of intervals: with 95 % the excess is below their upper end."""
_POWER = 0.95
"""With this chance an excess twice as large as what matters must be noticed, else runs tell nothing."""
_MOST_RUNS = 200
_SCATTER = 0.15
"""Standard deviation of a share's odds between runs, relative to them, where one run alone must do."""


@dataclass(frozen=True)
class Test:
    """One budget's excess over its limit, as far as runs tell it."""

    budget: Budget
    amounts: tuple[Amount, ...]
    excess: MeanDifference
    """Over the limit: in the measure's unit, or of logarithms for a ratio."""
    matters: float
    """The smallest excess that matters, in the same unit."""
    limit: float
    """In the measure's unit."""
    found: float
    words: str
    """What was found and what is allowed: the beginning of the sentence."""
    spread: float
    """Standard deviation of a run, or a pair of runs, in the excess's unit."""

    @property
    def chance(self) -> float:
        """That runs which keep the limit show such an excess (one-sided)."""
        return self.excess.p / 2 if self.excess.value > 0 else 1 - self.excess.p / 2

    def capable(self, comparisons: int) -> bool:
        """Whether runs that vary so would show an excess twice as large as what matters."""
        return self.excess.detectable(_POWER, 2 * LEVEL / comparisons) <= 2 * self.matters

    def runs_needed(self, comparisons: int) -> int:
        """How many runs would tell, if they vary as these do; `_MOST_RUNS` for that or more.

        An excess that matters must be more than chance; else one twice as large must be sure to be noticed.
        """
        over = self.excess.value > self.matters
        for runs in range(len(self.amounts) + 1, _MOST_RUNS):
            likely = MeanDifference(0.0, self.spread / math.sqrt(runs), runs - 1)
            if over and likely.interval(1 - 2 * LEVEL / comparisons)[1] <= self.excess.value:
                return runs
            if not over and likely.detectable(_POWER, 2 * LEVEL / comparisons) <= 2 * self.matters:
                return runs
        return _MOST_RUNS


def time_test(budget: Budget, amounts: Sequence[Amount], base: Sequence[Amount], *, paired: bool) -> Test:
    """A time, against its limit or against the baseline's."""
    return _against(budget, amounts, base, paired=paired) if budget.relative else _absolute(budget, amounts)


def _absolute(budget: Budget, amounts: Sequence[Amount]) -> Test:
    values = [one.value for one in amounts]
    matters = budget.smallest_ms * 1e6 or budget.smallest_share * budget.limit
    mean, spread = fmean(values), max(stdev(values), _sampled(amounts) * math.sqrt(len(values)))
    excess = MeanDifference(mean - budget.limit, spread / math.sqrt(len(values)), len(values) - 1)
    error = format_amount(excess.interval(_CONFIDENCE)[1] - excess.value, "ns")
    allowed = f"the limit is {format_amount(budget.limit, 'ns')}"
    words = f"{format_amount(mean, 'ns')} ± {error} in {len(values)} runs, and {allowed}"
    return Test(budget, tuple(amounts), excess, matters, budget.limit, mean, words, spread)


def _against(budget: Budget, amounts: Sequence[Amount], base: Sequence[Amount], *, paired: bool) -> Test:
    values, before = [one.value for one in amounts], [one.value for one in base]
    together = paired and len(values) == len(before)
    found = paired_ratio(before, values) if together else ratio(before, values)
    mean, was = fmean(values), fmean(before)
    allowed_ns = was * (1 + budget.growth) + budget.limit
    matters_ns = budget.smallest_ms * 1e6 or budget.smallest_share * was
    if found is None:
        # One of them is 0: there is no ratio, and their difference tells enough.
        plain = difference(before, values)
        assert plain is not None, "runs were counted before"
        excess = replace(plain, value=mean - allowed_ns)
        words = f"{format_amount(mean, 'ns')}, and the limit is {format_amount(allowed_ns, 'ns')}"
        spread = plain.error * math.sqrt(len(values))
        return Test(budget, tuple(amounts), excess, max(matters_ns, 1.0), allowed_ns, mean, words, spread)
    sampled = math.hypot(_sampled(amounts) / mean, _sampled(base) / was)
    error = max(found.error, sampled)
    excess = replace(found, value=found.value - math.log(allowed_ns / was), error=error)
    low, high = (format_share(limit - 1, 1) for limit in replace(found, error=error).ratio_interval(_CONFIDENCE))
    change = format_share(abs(found.ratio - 1), 1)
    words = (
        f"{format_amount(mean, 'ns')} against the baseline's {format_amount(was, 'ns')}: "
        f"{change} {'more' if found.ratio >= 1 else 'less'} ({low} to {high}, {len(values)} runs), "
        f"and the limit is {budget.limit_words}"
    )
    matters = math.log1p(matters_ns / allowed_ns)
    spread = error * math.sqrt(len(values))
    return Test(budget, tuple(amounts), excess, matters, allowed_ns, mean, words, spread)


def share_test(budget: Budget, amounts: Sequence[Amount], base: Sequence[Amount]) -> Test:
    """A share: its samples say how far chance carries it, and several runs how much they vary."""
    values = [one.value for one in amounts]
    mean, count = fmean(values), len(values)
    error, freedom = _error(amounts)
    limit = budget.limit
    if budget.relative:
        before, other = _error(base)
        was = fmean([one.value for one in base])
        limit, error, freedom = was + budget.limit, math.hypot(error, before), min(freedom, other)
    excess = MeanDifference(mean - limit, error, freedom)
    runs = f" in {count} runs" if count > 1 else ""
    note = f" of {format_counted(sum(one.samples for one in amounts), 'sample', 'samples')}"
    words = f"{format_share(mean, 1) if mean else '0 %'} ± {format_share(2 * error, 1) if error else '0 %'}{note}{runs}"
    allowed = f"the limit is {format_share(limit, 1) if limit else '0 %'}"
    return Test(budget, tuple(amounts), excess, 0.0, limit, mean, f"{words}, and {allowed}", error * math.sqrt(count))


def _error(amounts: Sequence[Amount]) -> tuple[float, float]:
    """Standard error of the mean of shares, at least that of sampling, and its degrees of freedom."""
    sampled, count = _sampled(amounts), len(amounts)
    if count == 1:
        # Nothing tells how much runs vary: on a machine that does other work too it is about this.
        value = amounts[0].value
        return math.hypot(sampled, _SCATTER * value * (1 - value)), math.inf
    varied = stdev([one.value for one in amounts]) / math.sqrt(count)
    return (varied, count - 1) if varied > sampled else (sampled, math.inf)


def _sampled(amounts: Sequence[Amount]) -> float:
    """Standard error that sampling alone gives the mean."""
    return math.sqrt(sum(one.error**2 for one in amounts)) / len(amounts)


def decide(tests: Sequence[Test]) -> list[BudgetVerdict]:
    """The verdicts, each test's chance corrected for the number of them."""
    chances = holm([test.chance for test in tests])
    return [_verdict(test, chance, len(tests)) for test, chance in zip(tests, chances, strict=True)]


def _verdict(test: Test, chance: float, comparisons: int) -> BudgetVerdict:
    budget, amounts = test.budget, test.amounts
    outcome, why, remedy = _outcome(test, chance, comparisons)
    worst = max(amounts, key=lambda one: one.value)
    return BudgetVerdict(
        budget=budget,
        outcome=outcome,
        found=test.found,
        per_run=tuple(one.value for one in amounts),
        limit=test.limit,
        unit=budget.unit,
        why=why,
        remedy=remedy,
        sites=worst.sites,
    )


def _outcome(test: Test, chance: float, comparisons: int) -> tuple[BudgetOutcome, str, str]:
    over = test.excess.value > test.matters
    if chance <= LEVEL and over:
        return BudgetOutcome.BROKEN, f"{test.words}; chance {_chance(chance)}.", test.amounts[0].remedy
    missing = next((one.missing for one in test.amounts if one.missing), "")
    if missing:
        return BudgetOutcome.UNASSESSABLE, f"{test.words}. {missing}", ""
    if test.budget.limited.how == "share":
        if test.excess.value <= 0:
            return BudgetOutcome.HOLDS, f"{test.words}.", ""
        why = f"{test.words}, which may be due to chance."
        return BudgetOutcome.UNASSESSABLE, why, "Record for longer, or with a higher --frequency."
    sure = test.excess.interval(_CONFIDENCE)[1] <= test.matters
    if not over and (sure or test.capable(comparisons)):
        return BudgetOutcome.HOLDS, f"{test.words}.", ""
    needed = test.runs_needed(comparisons)
    many = f"{needed} or more" if needed >= _MOST_RUNS else f"about {needed}"
    why = f"{test.words}, but the runs vary too much to judge it."
    return BudgetOutcome.UNASSESSABLE, why, f"Use {many} such runs, or a quieter machine."


def _chance(chance: float) -> str:
    return "below 0.01 %" if chance < 1e-4 else f"{chance:.2%}".replace("%", " %")
