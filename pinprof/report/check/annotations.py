"""Annotations of changed lines: GitHub's workflow commands, and GitLab's code quality report.

Source: docs.github.com, workflow commands, with the escapes of actions/toolkit; docs.gitlab.com, code quality reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked
from pinprof.report.check import words
from pinprof.report.check.places import SourcePlaces
from pinprof.report.check.sarif import fingerprint
from pinprof.report.forms import write_json

_MOST = 10
"""GitHub shows this many errors and this many warnings of a step."""
_COMMANDS: Mapping[BudgetOutcome, str] = {BudgetOutcome.BROKEN: "error", BudgetOutcome.UNASSESSABLE: "warning"}
_SEVERITIES: Mapping[BudgetOutcome, str] = {BudgetOutcome.BROKEN: "major", BudgetOutcome.UNASSESSABLE: "minor"}

_DATA = {ord("%"): "%25", ord("\r"): "%0D", ord("\n"): "%0A"}
_PROPERTY = {**_DATA, ord(":"): "%3A", ord(","): "%2C"}


def write_github(checked: Checked, stream: IO[str]) -> None:
    """Write a workflow command for each budget that does not hold; the last of many says how many there are more."""
    places = SourcePlaces()
    for outcome, command in _COMMANDS.items():
        verdicts = checked.of(outcome)
        shown = verdicts if len(verdicts) <= _MOST else verdicts[: _MOST - 1]
        for verdict in shown:
            stream.write(_command(command, verdict, checked, places))
        if left := len(verdicts) - len(shown):
            said = f"{left} more budgets are {words.OUTCOMES[outcome]}; the summary and the log name them."
            stream.write(f"::{command} title=pinprof check::{said}\n")


def _command(command: str, verdict: BudgetVerdict, checked: Checked, places: SourcePlaces) -> str:
    spot = places.of(verdict, checked)
    properties = {"file": words.plain(spot.path)} if spot.inside else {}
    properties |= {"line": str(spot.line)} if spot.inside and spot.line else {}
    properties["title"] = f"{words.name(verdict)}: {words.OUTCOMES[verdict.outcome]}"
    listed = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
    said = "\n".join([words.sentences(verdict, allowed=checked.allowed), *words.sites(verdict, places)])
    return f"::{command} {listed}::{said.translate(_DATA)}\n"


def write_gitlab(checked: Checked, stream: IO[str]) -> None:
    """Write a code quality report; ASCII only."""
    places = SourcePlaces()
    entries = [_entry(one, checked, places) for outcome in _SEVERITIES for one in checked.of(outcome)]
    write_json(entries, stream)


def _entry(verdict: BudgetVerdict, checked: Checked, places: SourcePlaces) -> dict[str, Any]:
    spot = places.of(verdict, checked)
    return {
        "description": f"{words.name(verdict)}: {words.sentences(verdict, allowed=checked.allowed)}",
        "check_name": f"pinprof.{verdict.budget.measure}",
        "fingerprint": fingerprint(verdict, spot),
        "severity": _SEVERITIES[verdict.outcome],
        "location": {"path": words.plain(spot.path), "lines": {"begin": max(spot.line, 1)}},
    }
