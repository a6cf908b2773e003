"""The words of a check that every output shares, and the one filter of the names in them.

Names of budgets, ranges, functions and files come from whoever recorded the program and whoever wrote the budgets.
`plain` leaves one line of bounded length in which nothing is invisible; each format escapes its own marks after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from pinprof.base.units import format_counted
from pinprof.check.budgets import format_amount
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked
from pinprof.report.check.places import SourcePlaces, Spot
from pinprof.report.names import shortened, without_home

LONGEST_NAME, LONGEST_SENTENCE = 200, 600
"""Characters. A name that is longer keeps its beginning and its end."""
MOST_SITES, MOST_RUNS = 10, 50
"""Of one verdict; the rest is in JSON."""

OUTCOMES = {BudgetOutcome.BROKEN: "broken", BudgetOutcome.UNASSESSABLE: "not assessable", BudgetOutcome.HOLDS: "holds"}
"""In the order in which they matter."""
SKIPPED = "NOT CHECKED"
"""Begins what is said of a budget that could not be judged and was let through."""


def plain(text: str, longest: int = LONGEST_SENTENCE) -> str:
    """A text on one line that any format may carry: marks that do not show are spelled out, homes are `~`."""
    return shortened(without_home(text), longest)


def name(verdict: BudgetVerdict) -> str:
    """What the budget is called."""
    return plain(verdict.budget.name, LONGEST_NAME)


def why(verdict: BudgetVerdict, *, allowed: bool = False) -> str:
    """What was found, in one sentence; `allowed`: budgets that cannot be judged do not fail the check."""
    loud = f"{SKIPPED}: " if allowed and verdict.outcome is BudgetOutcome.UNASSESSABLE else ""
    return loud + plain(verdict.why)


def sentences(verdict: BudgetVerdict, *, allowed: bool = False) -> str:
    """What was found, and what to do about it."""
    return " ".join(filter(None, (why(verdict, allowed=allowed), plain(verdict.remedy))))


def figures(verdict: BudgetVerdict) -> str:
    """`found 3 pairs, limit 0 pairs`."""
    found = "not measured" if verdict.found is None else f"found {format_amount(verdict.found, verdict.unit)}"
    return f"{found}, limit {limit(verdict)}"


def limit(verdict: BudgetVerdict) -> str:
    """`0 pairs`; with a limit above the baseline's also what that comes to: `the baseline + 5 %, 1.2 GiB`."""
    budget = verdict.budget
    limits = [plain(budget.limit_words, LONGEST_NAME)] if budget.relative or verdict.limit is None else []
    limits += [format_amount(verdict.limit, verdict.unit)] if verdict.limit is not None else []
    return ", ".join(limits)


def by_run(verdict: BudgetVerdict) -> str:
    """`by run: 3 pairs, 3 pairs`; empty where there was one."""
    if len(verdict.per_run) < 2:
        return ""
    return "by run: " + ", ".join(format_amount(one, verdict.unit) for one in verdict.per_run[:MOST_RUNS])


def place(spot: Spot) -> str:
    """`load (train.py:20)`, `train.py:20`."""
    where = plain(f"{spot.path}:{spot.line}" if spot.line else spot.path, LONGEST_NAME)
    return f"{plain(spot.function, LONGEST_NAME)} ({where})" if spot.function else where


def sites(verdict: BudgetVerdict, places: SourcePlaces, most: int = MOST_SITES) -> Iterator[str]:
    """`2 pairs at load (train.py:20)`: where it comes from, the largest first."""
    for site, spot in list(zip(verdict.sites, places.sites(verdict), strict=True))[:most]:
        where = place(spot) if spot else plain(site.function, LONGEST_NAME) or "an unknown place"
        yield f"{format_amount(site.amount, verdict.unit)} at {where}"
    if left := len(verdict.sites[most:]):
        yield f"and at {format_counted(left, 'more place', 'more places')}"


def captures(checked: Checked) -> list[str]:
    """Names of the captures that were judged; their directories may hold names of users."""
    return [plain(PurePath(one).name, LONGEST_NAME) for one in checked.captures]


def headline(checked: Checked) -> str:
    """`2 of 9 budgets are broken, 1 is not assessable.`"""
    whole = len(checked.verdicts)
    broken, unknown = (len(checked.of(one)) for one in (BudgetOutcome.BROKEN, BudgetOutcome.UNASSESSABLE))
    if not broken and not unknown:
        return f"All {whole} budgets hold." if whole != 1 else "The budget holds."
    parts = []
    if broken:
        parts.append(f"{broken} of {format_counted(whole, 'budget', 'budgets')} {_are(broken)} broken")
    if unknown:
        of = "" if broken else f" of {format_counted(whole, 'budget', 'budgets')}"
        parts.append(f"{unknown}{of} {_are(unknown)} not assessable{', and passed' if checked.allowed else ''}")
    return f"{', '.join(parts)}."


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
