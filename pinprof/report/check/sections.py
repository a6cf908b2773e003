"""The sections of a check, and of what became of budgets that were broken on purpose.

What does not hold comes first; in Markdown, what holds is folded away. JSON: docs/check.md; schema history: 1 — first
version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.base.units import format_counted
from pinprof.check.budgets import FILTERS, format_amount
from pinprof.check.judge import shown_limit
from pinprof.check.selftest import Tested
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked
from pinprof.report import markdown
from pinprof.report.check import junit, sarif, words
from pinprof.report.check.annotations import write_github, write_gitlab
from pinprof.report.check.places import SourcePlaces
from pinprof.report.forms import Forms
from pinprof.report.section import SubjectSection
from pinprof.report.terminal.layout import sentence

_STYLES = {BudgetOutcome.BROKEN: "bold red", BudgetOutcome.UNASSESSABLE: "bold yellow", BudgetOutcome.HOLDS: "green"}
_MOST_ROWS, _MOST_SITES = 100, 3
"""Rows of a table in Markdown, and places of one budget."""


class CheckHead(SubjectSection[Checked]):
    """The answer."""

    key = "hero"

    def to_json(self) -> dict[str, Any]:
        """The answer, and what was judged."""
        checked = self.it
        return {
            "headline": words.headline(checked),
            "status": checked.status,
            "outcome": checked.outcome.value,
            "allowed_unassessable": checked.allowed,
            "captures": words.captures(checked),
            "against": len(checked.against),
            "notes": list(checked.notes),
        }

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The answer, what was judged, and notes."""
        yield sentence(words.headline(self.it), "bold")
        yield Text(_judged_by(self.it), "dim")
        yield from (sentence(words.plain(note), "yellow") for note in self.it.notes)

    def to_markdown(self) -> Iterator[str]:
        """The answer, and how many budgets passed unjudged."""
        yield f"### pinprof check: {markdown.text(words.headline(self.it))}"
        if self.it.allowed and (unknown := self.it.of(BudgetOutcome.UNASSESSABLE)):
            many = format_counted(len(unknown), "budget was", "budgets were")
            yield from ("", f"**{words.SKIPPED}: {many} passed without being judged (`--allow-unassessable`).**")


def _judged_by(checked: Checked) -> str:
    runs = format_counted(len(checked.captures), "run", "runs")
    against = (
        f", against {format_counted(len(checked.against), 'run', 'runs')} of the baseline" if checked.against else ""
    )
    named = f": {words.captures(checked)[0]}" if len(checked.captures) == 1 else ""
    return f"Judged by {runs}{against}{named}"


class Verdicts(SubjectSection[Checked]):
    """Every budget."""

    key = "verdicts"

    def to_json(self) -> dict[str, Any]:
        """All of them."""
        return {"verdicts": [_verdict_json(verdict) for verdict in self.it.verdicts]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """One line a budget, and where it comes from."""
        places = SourcePlaces()
        for outcome in words.OUTCOMES:
            for verdict in self.it.of(outcome):
                yield from _verdict_text(verdict, places, allowed=self.it.allowed)

    def to_markdown(self) -> Iterator[str]:
        """A table for each outcome."""
        places = SourcePlaces()
        for outcome in (BudgetOutcome.BROKEN, BudgetOutcome.UNASSESSABLE):
            if verdicts := self.it.of(outcome):
                yield from ("", *_markdown_table(verdicts, self.it, places))
        if verdicts := self.it.of(BudgetOutcome.HOLDS):
            holds = format_counted(len(verdicts), "budget holds", "budgets hold")
            yield from ("", f"<details><summary>{holds}</summary>")
            yield from ("", *_markdown_table(verdicts, self.it, places), "", "</details>")


def _verdict_json(verdict: BudgetVerdict) -> dict[str, Any]:
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


def _verdict_text(verdict: BudgetVerdict, places: SourcePlaces, *, allowed: bool) -> Iterator[RenderableType]:
    """What holds takes one line; anything else says what to do and where."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, width=14)
    table.add_column()
    about = Text(words.name(verdict), "bold" if verdict.outcome is not BudgetOutcome.HOLDS else "")
    about += Text(": ") + sentence(words.why(verdict, allowed=allowed))
    table.add_row(Text(words.OUTCOMES[verdict.outcome], _STYLES[verdict.outcome]), about)
    if verdict.outcome is BudgetOutcome.HOLDS:
        yield table
        return
    if verdict.outcome is BudgetOutcome.BROKEN and verdict.sites:
        table.add_row("", Text("; ".join(words.sites(verdict, places, _MOST_SITES)), "cyan"))
    if verdict.remedy:
        table.add_row("", sentence(words.plain(verdict.remedy)))
    if verdict.budget.place.file:
        table.add_row("", Text(words.plain(f"budget: {verdict.budget.place}"), "dim"))
    yield Text("")
    yield table


def _markdown_table(verdicts: Sequence[BudgetVerdict], checked: Checked, places: SourcePlaces) -> Iterator[str]:
    explained = verdicts[0].outcome is not BudgetOutcome.HOLDS
    yield "| budget | | found | limit |" + (" why | where |" if explained else "")
    yield "|---|---|---:|---:|" + ("---|---|" if explained else "")
    for verdict in verdicts[:_MOST_ROWS]:
        outcome = words.OUTCOMES[verdict.outcome]
        cells = [markdown.text(words.name(verdict)), f"**{outcome}**" if explained else outcome]
        cells += [format_amount(verdict.found, verdict.unit) if verdict.found is not None else "–"]
        cells += [words.limit(verdict)]
        if explained:
            sites = "<br>".join(map(markdown.text, words.sites(verdict, places, _MOST_SITES)))
            cells += [markdown.text(words.sentences(verdict, allowed=checked.allowed)), sites]
        yield f"| {' | '.join(cells)} |"
    if len(verdicts) > _MOST_ROWS:
        yield from ("", f"{format_counted(len(verdicts) - _MOST_ROWS, 'more is', 'more are')} in `--format json`.")


class CheckEnd(SubjectSection[Checked]):
    """What was let through, and what was judged."""

    key = "quality"

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """Budgets that passed unjudged."""
        if self.it.allowed and (unknown := self.it.of(BudgetOutcome.UNASSESSABLE)):
            passed = format_counted(
                len(unknown), "budget was not checked and passes", "budgets were not checked and pass"
            )
            yield Text("")
            yield sentence(f"{words.SKIPPED}: {passed} because of --allow-unassessable.", "bold yellow")

    def to_markdown(self) -> Iterator[str]:
        """Notes, and the captures."""
        for note in self.it.notes:
            yield from ("", markdown.text(words.plain(note)))
        yield from ("", f"Judged by pinprof: {_captures(self.it)}.")


def _captures(checked: Checked) -> str:
    names = words.captures(checked)
    shown = ", ".join(map(markdown.code, names[:_MOST_SITES]))
    return shown if len(names) <= _MOST_SITES else f"{shown} and {len(names) - _MOST_SITES} more"


class BrokenOnPurpose(SubjectSection[Sequence[Tested]]):
    """What `--self-test` found."""

    key = "self-test"

    def to_json(self) -> dict[str, Any]:
        """Every budget."""
        rows = [
            {"name": one.budget.name, "noticed": one.noticed, "more": one.more, "unit": one.budget.unit,
             "loose": one.loose, "words": one.words}
            for one in self.it
        ]  # fmt: skip
        return {"noticed": all(one.noticed for one in self.it), "budgets": rows}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A line for each budget, those that nothing breaks first."""
        unnoticed, loose = sum(not one.noticed for one in self.it), sum(one.loose for one in self.it)
        whole = format_counted(len(self.it), "budget", "budgets")
        if unnoticed:
            yield sentence(f"{unnoticed} of {whole} would go unnoticed.", "bold red")
        else:
            yield sentence(f"{whole} broken on purpose: all breaks were noticed.", "bold")
        if loose:
            limits = format_counted(loose, "limit is", "limits are")
            yield sentence(f"{limits} loose: twice the measured value would pass.", "yellow")
        for one in sorted(self.it, key=lambda one: (one.noticed, not one.loose)):
            style = "bold red" if not one.noticed else "yellow" if one.loose else "green"
            mark = "not noticed" if not one.noticed else "loose" if one.loose else "noticed"
            line = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
            line.add_column(no_wrap=True, width=12)
            line.add_column()
            line.add_row(
                Text(mark, style),
                Text(words.plain(one.budget.name), "bold") + Text(" ") + sentence(words.plain(one.words)),
            )
            yield Padding(line, 0)


FORMS = Forms[Checked](
    (CheckHead, Verdicts, CheckEnd),
    {"schema": 1, "kind": "check"},
    others={"junit": junit.write, "sarif": sarif.write, "github": write_github, "gitlab": write_gitlab},
)
SELF_TEST = Forms[Sequence[Tested]]((BrokenOnPurpose,), {"schema": 1, "kind": "check-self-test"})
