"""Budgets broken on purpose: a gate that nothing can break is none.

Every budget is judged with more than the captures show, in ever smaller and larger amounts, until the smallest one that
breaks it is known; and where something was found, with its limit just below. Both go through the judge as real runs do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_share
from pinprof.check.budgets import Budget, format_amount
from pinprof.check.judge import judge
from pinprof.check.taken import Taken, TakenRun
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict
from pinprof.check.view import Amount

LOOSE = 1.0
"""A budget that lets through what was found and as much again is called loose."""
_SMALLEST: Mapping[str, float] = {"ns": 1000.0, "share": 0.001, "bytes": 1.0}
"""Amount of the first attempt, by unit; one of everything else."""
_DOUBLINGS, _HALVINGS = 62, 12


@dataclass(frozen=True)
class Tested:
    """What became of one budget."""

    budget: Budget
    noticed: bool
    """Whether an amount was found that breaks it."""
    more: float | None
    """The smallest amount above what was found that breaks it, in the budget's unit; None where none does."""
    loose: bool
    """Whether it takes more than as much again as was found."""
    words: str
    """One sentence."""


def self_test(
    runs: Sequence[TakenRun], budgets: Sequence[Budget], against: Sequence[TakenRun] = ()
) -> tuple[Tested, ...]:
    """Break every budget on purpose."""
    return tuple(_tested(budget, runs, against) for budget in budgets)


def _tested(budget: Budget, runs: Sequence[TakenRun], against: Sequence[TakenRun]) -> Tested:
    now = _judged(budget, runs, against, 0.0)
    found = now.found
    if found is None or not now.per_run:
        return Tested(budget, False, None, False, f"would go unnoticed: {now.why}")
    if now.outcome is BudgetOutcome.BROKEN:
        return Tested(budget, True, 0.0, False, f"is already broken: {now.why}")
    more = _least(budget, runs, against)
    if more is None:
        return Tested(budget, False, None, False, f"would go unnoticed: {now.why}")
    if not _noticed_below(budget, runs, found):
        return Tested(budget, False, more, False, "would go unnoticed: even a limit below the measured value passes.")
    loose = bool(found) and more > LOOSE * found and budget.unit != "share"
    part = f" ({format_share(more, found)} of the measured value)" if found else ""
    words = f"notices an excess of {format_amount(more, budget.unit)} or more{part}"
    return Tested(budget, True, more, loose, f"{words}{', so the limit is loose' if loose else ''}.")


def _noticed_below(budget: Budget, runs: Sequence[TakenRun], found: float) -> bool:
    """Whether a limit below what was counted is noticed to be broken; true where there is nothing to go below."""
    amounts = [taken for run in runs if isinstance(taken := _of(run, budget), Amount)]
    if budget.relative or not found or budget.limited.how != "count" or any(one.error for one in amounts):
        return True
    return _judged(replace(budget, limit=found / 2), runs, ()).outcome is BudgetOutcome.BROKEN


def _least(budget: Budget, runs: Sequence[TakenRun], against: Sequence[TakenRun]) -> float | None:
    """The smallest amount that breaks a budget where every run shows so much more; None where none does."""

    def breaks(more: float) -> bool:
        return _judged(budget, runs, against, more).outcome is BudgetOutcome.BROKEN

    high = _SMALLEST.get(budget.unit, 1.0)
    for _ in range(_DOUBLINGS):
        if breaks(high):
            break
        high *= 2
    else:
        return None
    low = high / 2 if high > _SMALLEST.get(budget.unit, 1.0) else 0.0
    whole = budget.unit not in ("ns", "share")
    for _ in range(_DOUBLINGS if whole else _HALVINGS):
        middle = (low + high) // 2 if whole else (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if breaks(middle) else (middle, high)
    return high


def _judged(budget: Budget, runs: Sequence[TakenRun], against: Sequence[TakenRun], more: float = 0.0) -> BudgetVerdict:
    """One budget's verdict where every run shows `more` than it does."""
    changed = [replace(run, amounts={budget: _with(_of(run, budget), more, budget)}) for run in runs]
    base = [replace(run, amounts={budget: _of(run, budget)}) for run in against]
    return judge(changed, [budget], base).verdicts[0]


def _of(run: TakenRun, budget: Budget) -> Taken:
    """What a run shows of a budget, or of the one of that name which has another limit."""
    return next(taken for one, taken in run.amounts.items() if one.name == budget.name)


def _with(taken: Taken, more: float, budget: Budget) -> Taken:
    if not isinstance(taken, Amount):
        return taken
    value = taken.value + more
    return replace(taken, value=min(value, 1.0) if budget.unit == "share" else value)
