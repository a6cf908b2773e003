"""The JSON Schemas of the answers over several runs, and the list of all: `pinprof schema`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pinprof.check.budgets import FILTERS, Budget, BudgetPlace
from pinprof.check.selftest import Tested
from pinprof.check.verdicts import BudgetVerdict, Checked, JudgedSite
from pinprof.compare.results import ComparedStacks, Difference, OpportunityChange, Row, Side, Surrounding
from pinprof.dump.results import Dump
from pinprof.fix.result import FixedChange, FixResult, LeftAlone
from pinprof.fleet import results as fleet
from pinprof.ranks import results as ranks
from pinprof.ranks.spent import ProgramPlace
from pinprof.report.check.sections import FORMS as CHECK
from pinprof.report.check.sections import SELF_TEST
from pinprof.report.compare.sections import FORMS as DIFFERENCE
from pinprof.report.dump.sections import FORMS as DUMP
from pinprof.report.export import schema as report
from pinprof.report.export.typed import (
    DIALECT,
    TEXT,
    TEXTS,
    WHOLE,
    YES,
    Schema,
    entries_of,
    fields_of,
    list_of,
    of_type,
    or_null,
    record,
)
from pinprof.report.fix.sections import FORMS as FIX
from pinprof.report.fleet.sections import FORMS as FLEET
from pinprof.report.forms import Forms
from pinprof.report.ranks.sections import FORMS as RANKS
from pinprof.report.trial.sections import FORMS as TRIAL
from pinprof.trial.result import CureResult, TrialResult

_NUMBER, _NUMBERS, _SHARES = of_type(float), of_type(list[float]), of_type(Mapping[str, float])


def _document(forms: Forms[Any], title: str, body: Schema) -> Schema:
    head = {name: {"const": value} for name, value in forms.head.items()}
    whole = {**body, "properties": head | body["properties"], "required": [*head, *body["required"]]}
    return {"$schema": DIALECT, "title": f"{title}, schema {forms.head['schema']}", **whole}


def _difference() -> Schema:
    side = record(Side, "name runs command units duration_ns", recordings=TEXTS)
    ratio = or_null(entries_of({"low": of_type(float | None), "value": _NUMBER, "high": of_type(float | None)}))
    row = record(
        Row, "family name was unit per exact state significant detectable more_runs untested change",
        **dict.fromkeys(("before", "after"), _NUMBER), **dict.fromkeys(("before_runs", "after_runs"), _NUMBERS),
        **dict.fromkeys(("before_samples", "after_samples"), WHOLE), ratio=ratio, p=of_type(float | None),
    )  # fmt: skip
    sides = [f"{side}_{what}" for side in ("before", "after") for what in ("samples", "unmatched", "renamed")]
    events = record(ComparedStacks, "event unit", **dict.fromkeys(("before", "after", *sides), _NUMBER))
    surroundings = list_of(record(Surrounding, fields_of(Surrounding)))
    return record(
        Difference, "incomplete headline tested work shares notes", before=side, after=side,
        surroundings=surroundings, rows=list_of(row), opportunities=list_of(of_type(OpportunityChange)),
        events=list_of(events),
    )  # fmt: skip


def _check() -> Schema:
    site = record(JudgedSite, fields_of(JudgedSite, "path"))
    verdict = record(
        BudgetVerdict, "outcome unit found limit per_run why remedy",
        **record(Budget, "name measure relative runs")["properties"],
        filters={"type": "object", "properties": dict.fromkeys(FILTERS, TEXT)}, limit_words=TEXT,
        smallest_ms=of_type(float | None), sites=list_of(site), place=or_null(of_type(BudgetPlace)),
    )  # fmt: skip
    return record(
        Checked, "status outcome captures notes", headline=TEXT, allowed_unassessable=YES, against=WHOLE,
        verdicts=list_of(verdict),
    )  # fmt: skip


def _self_test() -> Schema:
    budget = record(Tested, "noticed more loose words", **record(Budget, "name unit")["properties"])
    return entries_of({"noticed": YES, "budgets": list_of(budget)})


def _ranks() -> Schema:
    place = {**record(ProgramPlace, "file function line")["properties"], "place": TEXT}
    line = record(ranks.Excess, "range ns others_ns causes", **place)
    hold = record(
        ranks.Hold,
        "ranks how every held meetings unit first cost_ns share tested phase shown gpu_more_ns cure saves_ns causes",
        cost_low_ns=WHOLE, cost_high_ns=WHOLE, p=of_type(float | None), waits_at=or_null(entries_of(place)),
        lines=list_of(line), losses=list_of(of_type(tuple[int, int])),
    )  # fmt: skip
    return record(
        ranks.Launch, "incomplete headline verdict name size missing work_ns uneven_ns start notes nodes",
        meetings=WHOLE, holds=list_of(hold), opportunities=list_of(of_type(ranks.JobOpportunity)),
        groups=list_of(of_type(ranks.Group)), clock=entries_of({"how": TEXT, "uncertainty_ns": WHOLE}),
        ranks=list_of(record(ranks.RankFacts, fields_of(ranks.RankFacts, "page"))),
    )  # fmt: skip


def _fleet() -> Schema:
    outlier = record(
        fleet.Outlier, "dimension measure unit value expected work p captures programs because",
        **dict.fromkeys(("capture", "group"), of_type(str | None)),
        alike=list_of(entries_of({"dimension": TEXT, "group": TEXT})),
    )  # fmt: skip
    member = record(fleet.Member, "program started work_ns expected_ns answer facts", capture=TEXT, causes=_SHARES)
    return record(
        fleet.Answer, "headline captures compared copies tests untested changes", outliers=list_of(outlier),
        programs=list_of(entries_of({"program": TEXT, "captures": WHOLE, "per": TEXT})),
        opportunities=list_of(of_type(fleet.FleetSaving)), causes=list_of(of_type(fleet.CauseSpread)),
        members=list_of(member), unreadable=list_of(entries_of({"capture": TEXT, "reason": TEXT})),
    )  # fmt: skip


def _cure() -> Schema:
    return record(CureResult, f"{fields_of(CureResult)} off no_larger_than")


def _fix() -> Schema:
    change = record(
        FixedChange, fields_of(FixedChange, "measured without_code"), measured=_cure(), without_code=or_null(_cure())
    )  # fmt: skip
    trial = record(TrialResult, fields_of(TrialResult, "cures"))
    return record(
        FixResult, "command patch notes", headline=TEXT, trial=trial, changes=list_of(change),
        left_alone=list_of(of_type(LeftAlone)),
    )  # fmt: skip


def _trial() -> Schema:
    cure = _cure()
    return record(TrialResult, fields_of(TrialResult, "cures"), headline=TEXT, cures=list_of(cure))


SCHEMAS: Mapping[str, Callable[[], Schema]] = {
    "report": report.schema,
    "diff": lambda: _document(DIFFERENCE, "pinprof diff", _difference()),
    "check": lambda: _document(CHECK, "pinprof check", _check()),
    "self-test": lambda: _document(SELF_TEST, "pinprof check --self-test", _self_test()),
    "ranks": lambda: _document(RANKS, "pinprof report of a launch", _ranks()),
    "fleet": lambda: _document(FLEET, "pinprof fleet", _fleet()),
    "try": lambda: _document(TRIAL, "pinprof try", _trial()),
    "fix": lambda: _document(FIX, "pinprof fix", _fix()),
    "dump": lambda: _document(DUMP, "pinprof dump", of_type(Dump)),
}
"""By what `pinprof schema` takes."""
