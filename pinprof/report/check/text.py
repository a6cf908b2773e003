"""A check in the terminal: one line a budget, what is broken first, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.base.units import format_counted
from pinprof.check.selftest import Tested
from pinprof.check.verdicts import BudgetOutcome, BudgetVerdict, Checked
from pinprof.report.check import words
from pinprof.report.check.places import SourcePlaces
from pinprof.report.terminal.layout import sentence

_STYLES = {BudgetOutcome.BROKEN: "bold red", BudgetOutcome.UNASSESSABLE: "bold yellow", BudgetOutcome.HOLDS: "green"}
_MOST_SITES = 3


def parts(checked: Checked, _console: Console) -> Iterator[RenderableType]:
    """A check, one line below the other."""
    yield sentence(words.headline(checked), "bold")
    yield Text(_judged_by(checked), "dim")
    for note in checked.notes:
        yield sentence(words.plain(note), "yellow")
    places = SourcePlaces()
    for outcome in words.OUTCOMES:
        for verdict in checked.of(outcome):
            yield from _verdict(verdict, places, allowed=checked.allowed)
    if checked.allowed and checked.of(BudgetOutcome.UNASSESSABLE):
        count = len(checked.of(BudgetOutcome.UNASSESSABLE))
        passed = format_counted(count, "budget was not checked and passes", "budgets were not checked and pass")
        yield Text("")
        yield sentence(f"{words.SKIPPED}: {passed} because of --allow-unassessable.", "bold yellow")


def _judged_by(checked: Checked) -> str:
    runs = format_counted(len(checked.captures), "run", "runs")
    against = (
        f", against {format_counted(len(checked.against), 'run', 'runs')} of the baseline" if checked.against else ""
    )
    named = f": {words.captures(checked)[0]}" if len(checked.captures) == 1 else ""
    return f"Judged by {runs}{against}{named}"


def _verdict(verdict: BudgetVerdict, places: SourcePlaces, *, allowed: bool) -> Iterator[RenderableType]:
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


def broken_on_purpose(tested: Sequence[Tested], _console: Console) -> Iterator[RenderableType]:
    """What became of budgets that were broken on purpose."""
    unnoticed, loose = sum(not one.noticed for one in tested), sum(one.loose for one in tested)
    whole = format_counted(len(tested), "budget", "budgets")
    if unnoticed:
        yield sentence(f"{unnoticed} of {whole} would go unnoticed.", "bold red")
    else:
        yield sentence(f"{whole} broken on purpose: all breaks were noticed.", "bold")
    if loose:
        limits = format_counted(loose, "limit is", "limits are")
        yield sentence(f"{limits} loose: twice the measured value would pass.", "yellow")
    for one in sorted(tested, key=lambda one: (one.noticed, not one.loose)):
        style = "bold red" if not one.noticed else "yellow" if one.loose else "green"
        mark = "not noticed" if not one.noticed else "loose" if one.loose else "noticed"
        line = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
        line.add_column(no_wrap=True, width=12)
        line.add_column()
        line.add_row(
            Text(mark, style), Text(words.plain(one.budget.name), "bold") + Text(" ") + sentence(words.plain(one.words))
        )
        yield Padding(line, 0)
