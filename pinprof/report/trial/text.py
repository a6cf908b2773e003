"""A trial in the terminal, and the list of what can be tried."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.report.terminal.layout import console_of, sentence, tidy
from pinprof.report.trial import words
from pinprof.trial.cures import CURES
from pinprof.trial.result import CureResult, TrialResult

_STYLES = {"saves": "green", "costs more": "red", "fails": "red"}


def print_cures() -> None:
    """Print what can be tried, and what each changes."""
    console = console_of()
    with tidy(console):
        for cure in CURES.values():
            console.print(Text(cure.id, "bold"))
            set_up = [] if cure.libraries else [f"Sets: {' '.join(setting.text for setting in cure.settings)}"]
            about = (f"Memory: {cure.costs}", f"To keep it: {cure.permanent}", f"Source: {cure.source}.")
            for line in (cure.changes, *set_up, *about):
                console.print(_indented(sentence(line)))


def parts(result: TrialResult, _console: Console) -> Iterator[RenderableType]:
    """One trial, one below the other."""
    yield sentence(words.headline(result), "bold")
    middle, least, most = (
        words.amount(value, result.unit) for value in (result.as_is.median, result.as_is.least, result.as_is.most)
    )
    yield sentence(f"{words.capital(words.what(result))} as is: {middle} ({least} to {most}); {words.basis(result)}")
    if result.cures:
        yield Text("")
        yield _table(result.cures)
    for cure in result.cures:
        if cure.problem:
            yield sentence(f"{cure.id}: {cure.problem}", "dim")
    for cure in result.cures:
        if cure.significant and cure.gain > 1:
            yield Text("")
            yield Text(f"To keep {cure.id}:", "bold")
            yield _indented(sentence(cure.permanent))
            yield _indented(sentence(f"Memory: {cure.costs}", "dim"))
    for note in result.notes:
        yield sentence(note, "dim")


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2), expand=False)


def _table(cures: tuple[CureResult, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("cure", no_wrap=True)
    for title in ("measured", "predicted", "memory", "rounds"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for cure in cures:
        verdict = words.verdict(cure)
        table.add_row(
            cure.id,
            words.change(cure.ratio) if cure.ratio else "",
            words.prediction(cure),
            words.memory(cure),
            str(cure.rounds) if cure.rounds else "",
            Text(verdict.partition(" larger")[0], _STYLES.get(verdict, "dim")),
        )
    return table
