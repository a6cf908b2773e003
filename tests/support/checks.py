"""Checks judged by hand, for the tests of what shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pinprof.check.budgets import BudgetPlace, budgets_of
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked, JudgedSite

PLACE = BudgetPlace("pyproject.toml", 12)
SITES = (
    JudgedSite("train.py", 20, "load", 2, "/ci/run-1/project/src/train.py"),
    JudgedSite("other.py", 7, "helper", 1, "/usr/lib/python3/dist-packages/other.py"),
    JudgedSite("", 0, "cuStaging", 1),
)
HOSTILE = (
    "::error::x\r\n::set-env name=A::b\n##[add-mask]a \x1b[31m\x00\x9b\ufffe\uffff\ud800\u202e]]> <b onclick=a>&amp;"
    " [a](http://x.y) {0} | `code` @team #1 %0A,a:b \\| www.a.b </details>\u2028"
)


def verdict(
    outcome: BudgetOutcome = BudgetOutcome.BROKEN,
    limits: Mapping[str, Any] | None = None,
    name: str = "",
    **changed: Any,
) -> BudgetVerdict:
    """One of a budget for pairs, or for what `limits` says."""
    mapping = dict(limits or {"pairs": 0, "range": "load"})
    (budget,) = budgets_of(mapping, PLACE)
    budget = replace(budget, name=name or budget.name)
    facts: dict[str, Any] = {
        "budget": budget,
        "outcome": outcome,
        "found": None if outcome is BudgetOutcome.UNASSESSABLE else 3.0 if outcome is BudgetOutcome.BROKEN else 0.0,
        "per_run": (3.0,) if outcome is BudgetOutcome.BROKEN else (),
        "limit": budget.limit,
        "unit": budget.unit,
        "why": {
            BudgetOutcome.BROKEN: "3 pairs were found, 0 may be.",
            BudgetOutcome.HOLDS: "No pair was found.",
            BudgetOutcome.UNASSESSABLE: "CUDA calls were not recorded.",
        }[outcome],
        "remedy": {
            BudgetOutcome.BROKEN: "Keep the buffer and use it again.",
            BudgetOutcome.HOLDS: "",
            BudgetOutcome.UNASSESSABLE: "Record with the rights that `pinprof doctor` names.",
        }[outcome],
        "sites": SITES if outcome is BudgetOutcome.BROKEN else (),
    }
    return BudgetVerdict(**(facts | changed))


def checked(*verdicts: BudgetVerdict, allowed: bool = False, **changed: Any) -> Checked:
    """One of each outcome, or these."""
    three = (
        verdict(BudgetOutcome.HOLDS, {"pinned-bytes": "1 GiB"}, found=float(1 << 29), per_run=(float(1 << 29),)),
        verdict(BudgetOutcome.BROKEN),
        verdict(BudgetOutcome.UNASSESSABLE, {"calls": 10, "call": "cudaMalloc"}),
    )
    facts: dict[str, Any] = {
        "verdicts": verdicts or three,
        "captures": ("/home/someone/out/run-1.pinprof",),
        "notes": ("One run was judged.",),
        "allowed": allowed,
    }
    return Checked(**(facts | changed))


def hostile() -> Checked:
    """Every text of it is an attack, and one is very long."""
    site = JudgedSite(HOSTILE, 3, HOSTILE, 1.0, f"/x/{HOSTILE}/{HOSTILE}")
    mine = [
        verdict(outcome, name=f"{number}{HOSTILE}", why=HOSTILE, remedy=HOSTILE * 1000, sites=(site,) * 30)
        for number, outcome in enumerate(BudgetOutcome)
    ]
    mine = [replace(one, budget=replace(one.budget, place=BudgetPlace(HOSTILE, 1))) for one in mine]
    return checked(*mine, captures=(HOSTILE,), notes=(HOSTILE,))
