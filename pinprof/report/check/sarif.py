"""SARIF 2.1.0: a result at the line that broke its budget, for code scanning and editors.

Budgets that hold have no result: GitHub shows each one as an alert, and closes an alert when it is gone. A budget that
is broken is an error, one that cannot be judged a warning. Paths are relative to the checked-out sources.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0, errata 01; GitHub's limits on what it takes of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import quote

from pinprof import __version__
from pinprof.check.budgets import LIMITED
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked
from pinprof.report.check import words
from pinprof.report.check.places import SourcePlaces, Spot
from pinprof.report.forms import write_json

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_BASE = "%SRCROOT%"
_LEVELS: Mapping[BudgetOutcome, str] = {BudgetOutcome.BROKEN: "error", BudgetOutcome.UNASSESSABLE: "warning"}
_FINGERPRINT = "pinprofBudget/v1"

_LINK, _PLACEHOLDER = re.compile(r"\](?=\()"), re.compile(r"\{(?=\d+\})")
"""What a SARIF message reads as a link and as an argument."""


def write(checked: Checked, stream: IO[str]) -> None:
    """Write one check: ASCII only, the same bytes for the same check."""
    write_json(to_sarif(checked), stream)


def to_sarif(checked: Checked) -> dict[str, Any]:
    """The whole log."""
    places = SourcePlaces()
    shown = [one for outcome in _LEVELS for one in checked.of(outcome)]
    measures = [measure for measure in LIMITED if any(one.budget.measure == measure for one in checked.verdicts)]
    driver = {"name": "pinprof", "version": __version__, "rules": [_rule(measure) for measure in measures]}
    notes = [{"level": "note", "message": {"text": _message(note)}} for note in checked.notes]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_BASE: {"description": {"text": "The directory in which the sources are checked out."}}},
        "invocations": [
            {"executionSuccessful": True, "exitCode": checked.status, "toolExecutionNotifications": notes},
        ],
        "results": [_result(one, measures.index(one.budget.measure), checked, places) for one in shown],
        "properties": {"captures": words.captures(checked), "budgets": len(checked.verdicts)},
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(measure: str) -> dict[str, Any]:
    limited = LIMITED[measure]
    title = f"Budget: {limited.title}"
    how = {
        "count": "Each run must stay within the limit.",
        "share": "The samples must be sufficient to judge it.",
        "time": "Runs vary, so the check needs several of them and ignores an excess that chance explains.",
    }[limited.how]
    narrowed = f"Filters: {', '.join(limited.filters)}."
    return {
        "id": measure,
        "name": "".join(part.capitalize() for part in f"budget-{measure}".split("-")),
        "shortDescription": {"text": title},
        "fullDescription": {"text": limited.help},
        "help": {
            "text": f"{limited.help} {how} {narrowed}",
            "markdown": f"**{title}**\n\n{limited.help} {how}\n\n{narrowed}",
        },
        "defaultConfiguration": {"level": "error"},
        "properties": {
            "tags": ["performance", "memory", "CUDA"],
            "precision": "very-high" if limited.exact else "high",
        },
    }


def _result(verdict: BudgetVerdict, rule: int, checked: Checked, places: SourcePlaces) -> dict[str, Any]:
    budget, spot = verdict.budget, places.of(verdict, checked)
    others = [one for one in places.sites(verdict) if one and one != spot]
    # Some readers take a message that begins with the rule's id apart.
    text = f"Budget {words.name(verdict)}: {words.sentences(verdict, allowed=checked.allowed)}"
    result: dict[str, Any] = {
        "ruleId": budget.measure,
        "ruleIndex": rule,
        "level": _LEVELS[verdict.outcome],
        "message": {"text": _message(text)},
        "locations": [_location(spot)],
        "partialFingerprints": {_FINGERPRINT: fingerprint(verdict, spot)},
        "properties": {
            "budget": words.name(verdict),
            "outcome": str(verdict.outcome),
            "found": verdict.found,
            "limit": verdict.limit,
            "unit": verdict.unit,
            "perRun": list(verdict.per_run),
        },
    }
    if others:
        related = [_location(one) | {"id": number} for number, one in enumerate(others[: words.MOST_SITES])]
        result["relatedLocations"] = related
    return result


def fingerprint(verdict: BudgetVerdict, spot: Spot) -> str:
    """What stays while lines move: the budget, its measure, and the file and function where it is shown."""
    parts = (verdict.budget.measure, verdict.budget.name, str(verdict.outcome), spot.path, spot.function)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _location(spot: Spot) -> dict[str, Any]:
    artifact = {"uri": quote(spot.path.encode("utf-8", "surrogateescape"), safe="/")}
    if spot.inside:
        artifact["uriBaseId"] = _BASE
    # GitHub takes no result without a line.
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": artifact, "region": {"startLine": max(spot.line, 1)}}
    }
    if spot.function:
        function = words.plain(spot.function, words.LONGEST_NAME)
        location["logicalLocations"] = [{"fullyQualifiedName": function, "kind": "function"}]
    return location


def _message(text: str) -> str:
    return _PLACEHOLDER.sub("{ ", _LINK.sub("] ", words.plain(text, 2 * words.LONGEST_SENTENCE)))
