"""JUnit XML: a test case for each budget, as Jenkins, GitLab and GitHub's readers of test results take it.

A broken budget is a failure. One that cannot be judged is an error, since most readers count a skipped test as good;
only where the user lets such budgets through it is skipped, and says so. The form is that of Jenkins' junit-10.xsd,
which pytest writes too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO
from xml.etree import ElementTree as ET

from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked
from pinprof.report.check import words
from pinprof.report.check.places import SourcePlaces

_SUITE = "pinprof check"
_NO_TIME = "0"
"""Judging takes none that matters; readers expect a number."""


def write(checked: Checked, stream: IO[str]) -> None:
    """Write one check; the document is UTF-8."""
    places = SourcePlaces()
    broken, unknown = (len(checked.of(one)) for one in (BudgetOutcome.BROKEN, BudgetOutcome.UNASSESSABLE))
    errors, skipped = (0, unknown) if checked.allowed else (unknown, 0)
    whole = {"name": _SUITE, "time": _NO_TIME, "tests": str(len(checked.verdicts))}
    whole |= {"failures": str(broken), "errors": str(errors)}
    root = ET.Element("testsuites", whole)
    suite = ET.SubElement(root, "testsuite", whole | {"skipped": str(skipped)})
    for verdict in checked.verdicts:
        _case(suite, verdict, checked, places)
    about = [f"capture: {one}" for one in words.captures(checked)]
    ET.SubElement(suite, "system-out").text = "\n".join([*about, *map(words.plain, checked.notes)])
    ET.indent(root)
    stream.write('<?xml version="1.0" encoding="utf-8"?>\n')
    stream.write(ET.tostring(root, encoding="unicode") + "\n")


def _case(suite: ET.Element, verdict: BudgetVerdict, checked: Checked, places: SourcePlaces) -> None:
    measure = f"pinprof.{verdict.budget.measure}"
    case = ET.SubElement(suite, "testcase", classname=measure, name=words.name(verdict), time=_NO_TIME)
    if verdict.outcome is BudgetOutcome.HOLDS:
        return
    unknown = "skipped" if checked.allowed else "error"
    tag = "failure" if verdict.outcome is BudgetOutcome.BROKEN else unknown
    said = words.why(verdict, allowed=checked.allowed)
    element = ET.SubElement(case, tag, type=str(verdict.outcome), message=said)
    element.text = "\n".join(_lines(verdict, checked, places))


def _lines(verdict: BudgetVerdict, checked: Checked, places: SourcePlaces) -> Iterator[str]:
    yield words.sentences(verdict, allowed=checked.allowed)
    yield words.figures(verdict)
    if runs := words.by_run(verdict):
        yield runs
    yield from words.sites(verdict, places)
    if verdict.budget.place.file:
        place = verdict.budget.place
        yield f"budget: {words.place(places.spot(place.file, place.line))}"
