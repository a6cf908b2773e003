"""The public JSON of `pinprof check --format json`, documented in docs/check.md.

Schema history: 1 — first version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pinprof.check.budgets import FILTERS
from pinprof.check.judge import shown_limit
from pinprof.check.selftest import Tested
from pinprof.check.verdicts import BudgetVerdict, Checked
from pinprof.report.check import words

SCHEMA = 1


def to_json(checked: Checked) -> dict[str, Any]:
    """All of a check."""
    return {
        "schema": SCHEMA,
        "kind": "check",
        "headline": words.headline(checked),
        "status": checked.status,
        "outcome": checked.outcome.value,
        "allowed_unassessable": checked.allowed,
        "captures": words.captures(checked),
        "against": len(checked.against),
        "notes": list(checked.notes),
        "verdicts": [_verdict(verdict) for verdict in checked.verdicts],
    }


def _verdict(verdict: BudgetVerdict) -> dict[str, Any]:
    budget = verdict.budget
    return {
        "name": budget.name,
        "outcome": verdict.outcome.value,
        "measure": budget.measure,
        "filters": {name: getattr(budget, name) for name in FILTERS if getattr(budget, name)},
        "unit": verdict.unit,
        "found": verdict.found,
        "limit": verdict.limit,
        "limit_words": shown_limit(verdict),
        "relative": budget.relative,
        "runs": budget.runs,
        "smallest_ms": budget.smallest_ms or None,
        "per_run": list(verdict.per_run),
        "why": verdict.why,
        "remedy": verdict.remedy,
        "sites": [{name: value for name, value in asdict(site).items() if name != "path"} for site in verdict.sites],
        "place": asdict(budget.place) if budget.place.file else None,
    }


def tested_to_json(tested: Sequence[Tested]) -> dict[str, Any]:
    """What `--self-test` found."""
    rows = [
        {"name": one.budget.name, "noticed": one.noticed, "more": one.more, "unit": one.budget.unit, "loose": one.loose,
         "words": one.words}
        for one in tested
    ]  # fmt: skip
    return {"schema": SCHEMA, "kind": "check-self-test", "noticed": all(one.noticed for one in tested), "budgets": rows}
