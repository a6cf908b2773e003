"""Checks judged by hand, for the tests of what shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pinprof.check.budgets import Place, budgets_of
from pinprof.check.verdicts import Checked, Outcome, Site, Verdict

PLACE = Place("pyproject.toml", 12)
SITES = (
    Site("train.py", 20, "load", 2, "/ci/run-1/project/src/train.py"),
    Site("other.py", 7, "helper", 1, "/usr/lib/python3/dist-packages/other.py"),
    Site("", 0, "cuStaging", 1),
)
HOSTILE = (
    "::error::x\r\n::set-env name=A::b\n##[add-mask]a \x1b[31m\x00\x9b\ufffe\uffff\ud800\u202e]]> <b onclick=a>&amp;"
    " [a](http://x.y) {0} | `code` @team #1 %0A,a:b \\| www.a.b </details>\u2028"
)


def verdict(
    outcome: Outcome = Outcome.BROKEN, limits: Mapping[str, Any] | None = None, name: str = "", **changed: Any
) -> Verdict:
    """One of a budget for pairs, or for what `limits` says."""
    mapping = dict(limits or {"pairs": 0, "range": "load"})
    (budget,) = budgets_of(mapping, PLACE)
    budget = replace(budget, name=name or budget.name)
    facts: dict[str, Any] = {
        "budget": budget,
        "outcome": outcome,
        "found": None if outcome is Outcome.UNASSESSABLE else 3.0 if outcome is Outcome.BROKEN else 0.0,
        "per_run": (3.0,) if outcome is Outcome.BROKEN else (),
        "limit": budget.limit,
        "unit": budget.unit,
        "why": {
            Outcome.BROKEN: "3 pairs were found, 0 may be.",
            Outcome.HOLDS: "No pair was found.",
            Outcome.UNASSESSABLE: "CUDA calls were not recorded.",
        }[outcome],
        "remedy": {
            Outcome.BROKEN: "Keep the buffer and use it again.",
            Outcome.HOLDS: "",
            Outcome.UNASSESSABLE: "Record with the rights that `pinprof doctor` names.",
        }[outcome],
        "sites": SITES if outcome is Outcome.BROKEN else (),
    }
    return Verdict(**(facts | changed))


def checked(*verdicts: Verdict, allowed: bool = False, **changed: Any) -> Checked:
    """One of each outcome, or these."""
    three = (
        verdict(Outcome.HOLDS, {"pinned-bytes": "1 GiB"}, found=float(1 << 29), per_run=(float(1 << 29),)),
        verdict(Outcome.BROKEN),
        verdict(Outcome.UNASSESSABLE, {"calls": 10, "call": "cudaMalloc"}),
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
    site = Site(HOSTILE, 3, HOSTILE, 1.0, f"/x/{HOSTILE}/{HOSTILE}")
    mine = [
        verdict(outcome, name=f"{number}{HOSTILE}", why=HOSTILE, remedy=HOSTILE * 1000, sites=(site,) * 30)
        for number, outcome in enumerate(Outcome)
    ]
    mine = [replace(one, budget=replace(one.budget, place=Place(HOSTILE, 1))) for one in mine]
    return checked(*mine, captures=(HOSTILE,), notes=(HOSTILE,))
