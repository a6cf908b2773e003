"""Verdicts on what is counted: every run must keep the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

from pinprof.base.distributions import t_quantile
from pinprof.base.units import format_counted
from pinprof.check.budgets import Budget, Unit, format_amount
from pinprof.check.chance import LEVEL
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict
from pinprof.check.view import Amount, Unassessable

SURE = 2.6
"""Standard errors by which an estimate must be beyond a limit: chance takes it so far once in a hundred times."""
VARYING = ("page-faults", "findings")
"""Measures that differ a little between runs of the same program: one run of a baseline does not tell their range."""
_RANGE_RUNS = 3
"""The runs that show it."""


def count_verdict(budget: Budget, found: Sequence[Amount | Unassessable], base: Sequence[Amount]) -> BudgetVerdict:
    """Judge runs one by one, `base` being the baseline's for a budget that is relative."""
    amounts = [one for one in found if isinstance(one, Amount)]
    values = tuple(one.value for one in amounts)
    limit = _limit(budget, base, len(found))
    about_limit, baseline = _told(budget, limit, base)
    worst = max(amounts, key=lambda one: one.value, default=None)
    verdict = BudgetVerdict(
        budget=budget,
        outcome=BudgetOutcome.UNASSESSABLE,
        found=worst.value if worst else None,
        per_run=values,
        limit=limit,
        unit=budget.unit,
        why="",
        sites=worst.sites if worst else (),
    )
    above = [one for one in amounts if one.value - SURE * one.error > limit]
    if above and _range_unknown(budget, base):
        few = f"{len(base)} of the baseline {'does' if len(base) == 1 else 'do'} not show how much"
        why = f"{_shown(values, budget.unit)}, above {about_limit}{baseline}. Runs vary a little, and {few}."
        remedy = f'Give {_RANGE_RUNS} runs of the baseline, or allow a margin: "baseline + 1 %".'
        return _with(verdict, BudgetOutcome.UNASSESSABLE, why, remedy)
    if above and budget.measure == "findings" and 2 * len(above) <= len(found):
        why = f"{_shown(values, budget.unit)}: above {about_limit} in {len(above)} of {len(found)} runs only{baseline}."
        return _with(
            verdict, BudgetOutcome.UNASSESSABLE, why, "A rule is near its threshold: run pinprof report for details."
        )
    if above:
        return _broken(verdict, limit, above, len(found), about_limit + baseline)
    reason = _undecided(budget, found, amounts, limit)
    if reason is not None:
        return _with(verdict, BudgetOutcome.UNASSESSABLE, *reason)
    shown = _shown(values, budget.unit)
    note = f", {worst.note}" if worst and worst.note and worst.error else ""
    return _with(verdict, BudgetOutcome.HOLDS, f"{shown}{_in_runs(values)}{note}, within {about_limit}{baseline}.", "")


def _broken(
    verdict: BudgetVerdict, limit: float, above: Sequence[Amount], runs: int, about_limit: str
) -> BudgetVerdict:
    worst = max(above, key=lambda one: one.value)
    unit = verdict.unit
    more = format_amount(worst.value - limit, unit)
    often = f" in {len(above)} of {runs} runs" if runs > 1 else ""
    note = f" ({worst.note})" if worst.note else ""
    why = f"{_shown(verdict.per_run, unit)}{often}{note}, {more} more than {about_limit}."
    return _with(verdict, BudgetOutcome.BROKEN, why, worst.remedy)


def _undecided(
    budget: Budget,
    found: Sequence[Amount | Unassessable],
    amounts: Sequence[Amount],
    limit: float,
) -> tuple[str, str] | None:
    """Why runs that are not above the limit do not show that it is kept, with a remedy; None where they do."""
    untold = next((one for one in found if isinstance(one, Unassessable)), None)
    if untold is not None:
        some = f" in {len(found) - len(amounts)} of {len(found)} runs" if amounts else ""
        return f"{untold.why.rstrip('.')}{some}.", untold.remedy
    missing = next((one.missing for one in amounts if one.missing), "")
    if missing:
        return f"{_shown([one.value for one in amounts], budget.unit)} or more. {missing}", ""
    near = next((one for one in amounts if one.value + SURE * one.error > limit and one.error), None)
    if near is not None:
        error = format_amount(SURE * near.error, budget.unit)
        shown, at_most = format_amount(near.value, budget.unit), format_amount(limit, budget.unit)
        return (
            f"{shown} ± {error} is too close to the limit of {at_most}.",
            "Record with --fault-period 1 for an exact count.",
        )
    if len(found) < budget.runs:
        have = f"there {'is' if len(found) == 1 else 'are'} {len(found)}"
        return f"It needs {budget.runs} runs, but {have}.", "Record the program more often."
    return None


def _range_unknown(budget: Budget, base: Sequence[Amount]) -> bool:
    """Whether a baseline without room is too short to tell how far chance alone takes a run."""
    no_room = budget.relative and not (budget.growth or budget.limit)
    return no_room and budget.measure in VARYING and len(base) < _RANGE_RUNS


def _limit(budget: Budget, base: Sequence[Amount], runs: int) -> float:
    """What may be found at most.

    Above a baseline whose runs differ, chance alone takes some of the next runs beyond the largest of them: the limit
    is where one does so in `LEVEL` of the checks, by Student's prediction interval, if that is higher.
    """
    if not budget.relative:
        return budget.limit
    values = [one.value + SURE * one.error for one in base]
    top = max(values)
    if len(values) >= _RANGE_RUNS and (spread := stdev(values)):
        reach = t_quantile(len(values) - 1, 1 - LEVEL / runs) * spread * math.sqrt(1 + 1 / len(values))
        top = max(top, fmean(values) + reach)
    # What is counted comes in whole numbers.
    return float(math.floor(top * (1 + budget.growth) + budget.limit + 1e-9))


def _told(budget: Budget, limit: float, base: Sequence[Amount]) -> tuple[str, str]:
    """The limit in words, and what it comes from."""
    if not budget.relative:
        return f"the limit of {format_amount(limit, budget.unit)}", ""
    often = f" in {len(base)} runs" if len(base) > 1 else ""
    room = budget.limit_words.removeprefix("the baseline").removeprefix(" + ")
    more = f", plus a margin of {room}" if room else ""
    shown = _shown([one.value for one in base], budget.unit)
    return f"the {format_amount(limit, budget.unit)} that are allowed", f" (the baseline has {shown}{often}{more})"


def _shown(values: Sequence[float], unit: Unit) -> str:
    """`12 calls`, `12 to 14 calls`."""
    low, high = format_amount(min(values), unit), format_amount(max(values), unit)
    if low == high:
        return high
    number, _, word = low.rpartition(" ")
    return f"{number} to {high}" if high.endswith(f" {word}") or word.rstrip("s") in high else f"{low} to {high}"


def _in_runs(values: Sequence[float]) -> str:
    return f" in each of {format_counted(len(values), 'run', 'runs')}" if len(values) > 1 else ""


def _with(verdict: BudgetVerdict, outcome: BudgetOutcome, why: str, remedy: str) -> BudgetVerdict:
    return replace(verdict, outcome=outcome, why=why, remedy=remedy)
