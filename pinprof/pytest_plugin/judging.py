"""A block judged by budgets, and what a person reads when one is broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from pinprof.analyze.run import Run
from pinprof.base.errors import UsageError
from pinprof.base.terminal import printable_lines
from pinprof.base.units import format_count
from pinprof.check.budgets import CALLS, Budget, budgets_of, format_amount
from pinprof.check.judge import judge
from pinprof.check.taken import take
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked, JudgedSite
from pinprof.collect.late import UNTRACED
from pinprof.data.model import Capture
from pinprof.pytest_plugin.recorder import Block

EXACT = "page-faults"
"""The measure that the kernel counts for every block, with or without samples."""
_MOST_SITES = 3
_PYTEST = ("_pytest/", "pluggy/")
"""Where the callers of every test are: no place to change anything."""
_NO_FILE = f"{UNTRACED}the agent wrote no file."
_DOCTOR = "Run `pinprof doctor` to see what sampling needs here."
_LONGER = "Do more of it in the test, or sample more often (pinprof_frequency)."


def judged(block: Block, budgets: Sequence[Budget]) -> Checked:
    """The verdicts, in the order of the budgets. Samples are only looked at where counts do not decide."""
    counted = [_exact(_unseen(block, budget), block) for budget in budgets]
    if all(verdict.outcome is BudgetOutcome.HOLDS for verdict in counted):
        return Checked(tuple(counted), (block.name,))
    if all(budget.measure in {*CALLS, EXACT} and not budget.phase for budget in budgets) and (few := block.counted):
        checked = _by_samples(few, budgets, block)
        if checked.outcome is BudgetOutcome.HOLDS:
            return checked
    analysis = block.analysis
    return _by_samples(analysis, budgets, block) if analysis else Checked(tuple(counted), (block.name,))


def _by_samples(analysis: Run, budgets: Sequence[Budget], block: Block) -> Checked:
    checked = judge([take(analysis, budgets)], budgets)
    verdicts = (_exact(_in_a_test(verdict, analysis.capture), block) for verdict in checked.verdicts)
    return replace(checked, verdicts=tuple(verdicts))


def _unseen(block: Block, budget: Budget) -> BudgetVerdict:
    """For a block without samples."""
    limit = None if budget.relative else budget.limit
    why, _, remedy = (block.missing or "The test was not sampled.").partition(". ")
    why = f"{why.rstrip('.')}."
    return BudgetVerdict(budget, BudgetOutcome.UNASSESSABLE, None, (), limit, budget.unit, why, remedy or _DOCTOR)


def _in_a_test(verdict: BudgetVerdict, capture: Capture) -> BudgetVerdict:
    """The verdict with what is to do about a test, which is not always what is to do about a recording."""
    if verdict.outcome is not BudgetOutcome.UNASSESSABLE:
        return verdict
    of_calls = verdict.budget.measure in CALLS or bool(verdict.budget.call)
    if of_calls and capture.activity is None:
        notes = (str(note) for note in capture.manifest.outcome.get("notes") or ())
        noted = next((note for note in notes if note.startswith(UNTRACED)), _NO_FILE)
        why, _, remedy = noted.partition(". ")
        return replace(verdict, why=f"{why.rstrip('.')}.", remedy=remedy or _DOCTOR)
    if of_calls:
        return verdict
    if capture.manifest.kernel_left_out:
        return replace(verdict, remedy=_DOCTOR)
    if verdict.budget.measure == "share" and verdict.found is not None:
        return replace(verdict, remedy=_LONGER)
    return verdict


def _exact(verdict: BudgetVerdict, block: Block) -> BudgetVerdict:
    """The verdict by the kernel's own count, where it is of the whole block."""
    budget = verdict.budget
    if budget.measure != EXACT or budget.relative or budget.range or budget.phase:
        return verdict
    found = float(block.page_faults)
    broken = found > budget.limit
    why = f"{format_count(block.page_faults)} page faults; the budget is {format_count(round(budget.limit))}."
    return replace(
        verdict,
        outcome=BudgetOutcome.BROKEN if broken else BudgetOutcome.HOLDS,
        found=found,
        per_run=(found,),
        limit=budget.limit,
        why=why,
        remedy=verdict.remedy if broken and verdict.outcome is not BudgetOutcome.UNASSESSABLE else "",
    )


def message(checked: Checked, block: Block, after: str = "") -> str:
    """What is wrong with a test, for people; its first line says it. `after` comes last."""
    wrong = [*checked.of(BudgetOutcome.BROKEN), *checked.of(BudgetOutcome.UNASSESSABLE)]
    lines = []
    if len(wrong) > 1:
        lines.append(f"pinprof: {len(wrong)} of {len(checked.verdicts)} budgets are broken.")
    for verdict in wrong:
        word = "broken" if verdict.outcome is BudgetOutcome.BROKEN else "not assessable"
        begin = "pinprof:" if len(wrong) == 1 else " "
        lines.append(f"{begin} {verdict.budget.name} is {word}: {verdict.why}")
        lines += _told(verdict)
    if block.left_out:
        lines.append(f"    not counted: {block.left_out}")
    if after:
        lines.append(f"    {after}")
    return printable_lines("\n".join(lines))


def _told(verdict: BudgetVerdict) -> Iterable[str]:
    """Where it comes from, and what to do."""
    sites = [site for site in verdict.sites if _is_place(site)]
    if sites:
        places = (
            f"{site.place}{f' ({site.function})' if site.file and site.function else ''}"
            f" {format_amount(site.amount, verdict.unit)}"
            for site in sites[:_MOST_SITES]
        )
        yield f"    where: {'; '.join(places)}"
    if verdict.remedy:
        yield f"    to do: {verdict.remedy}"


def _is_place(site: JudgedSite) -> bool:
    """Whether it can be changed: not in pytest, and not a library without a function, as of ctypes' calls."""
    return not site.file.startswith(_PYTEST) and (bool(site.file) or not site.place.startswith("["))


def demanded(block: Block, keywords: Mapping[str, object]) -> Checked:
    """The verdicts of a block of a test; a budget that does not hold fails it."""
    __tracebackhide__ = True
    try:
        budgets = budgets_of(keywords)
    except UsageError as error:
        pytest.fail(str(error), pytrace=False)
    checked = judged(block, budgets)
    if checked.outcome is not BudgetOutcome.HOLDS:
        pytest.fail(message(checked, block), pytrace=False)
    return checked
