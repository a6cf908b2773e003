"""The sections of a trial's answer. JSON: docs/try.md; schema history: 1 — first version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.report import markdown
from pinprof.report.forms import Forms
from pinprof.report.section import SubjectSection
from pinprof.report.terminal.layout import console_of, sentence, tidy
from pinprof.report.trial import words
from pinprof.report.trial.drawn import Ratios, Strip, strips
from pinprof.trial.cures import CURES
from pinprof.trial.result import CureResult, TrialResult

_STYLES = {"saves": "green", "costs more": "red", "fails": "red"}


class TrialHead(SubjectSection[TrialResult]):
    """The answer in one sentence, and what was measured."""

    key = "hero"

    def to_json(self) -> dict[str, Any]:
        """All facts but the cures."""
        facts = {name: value for name, value in asdict(self.it).items() if name != "cures"}
        return {"headline": words.headline(self.it), **facts}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The answer, and the program as it is."""
        yield sentence(words.headline(self.it), "bold")
        side = self.it.as_is
        middle, least, most = (words.amount(value, self.it.unit) for value in (side.median, side.least, side.most))
        what = words.capital(words.what(self.it))
        yield sentence(f"{what} as is: {middle} ({least} to {most}); {words.basis(self.it)}")

    def to_markdown(self) -> Iterator[str]:
        """The same, with the command."""
        yield f"**{markdown.text(words.headline(self.it))}**"
        as_is = words.amount(self.it.as_is.median, self.it.unit)
        about = f"{words.what(self.it)} as is {as_is}; {words.basis(self.it)}"
        yield from ("", f"{markdown.code(words.command_line(self.it))}: {markdown.text(about)}")


class TriedCures(SubjectSection[TrialResult]):
    """What each cure saved, and how to keep it."""

    key, short = "cures", "Cures"
    shows = "it.measured"

    @property
    def heading(self) -> str:
        """What was measured."""
        return f"Effect of each cure on {words.what(self.it)}"

    @cached_property
    def ratios(self) -> Ratios:
        """The scale that all ratios share."""
        ratios = [cure.ratio for cure in self.it.measured] + [cure.predicted_ratio for cure in self.it.measured]
        return Ratios([ratio for ratio in ratios if ratio is not None])

    def to_json(self) -> dict[str, Any]:
        """Every cure."""
        return {
            "cures": [asdict(cure) | {"off": cure.off, "no_larger_than": cure.no_larger_than} for cure in self.it.cures]
        }

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A table, what went wrong, and how to keep what saves."""
        if self.it.cures:
            yield from (Text(""), _table(self.it.cures))
        for cure in self.it.cures:
            if cure.problem:
                yield sentence(f"{cure.id}: {cure.problem}", "dim")
        for cure in self.it.saving:
            yield from (Text(""), Text(f"To keep {cure.id}:", "bold"), _indented(sentence(cure.permanent)))
            yield _indented(sentence(f"Memory: {cure.costs}", "dim"))

    def to_markdown(self) -> Iterator[str]:
        """The same."""
        if self.it.cures:
            yield from ("", "| cure | result | measured | predicted | memory | rounds |")
            yield "|---|---|---:|---:|---:|---:|"
        for cure in self.it.cures:
            ratio = words.change(cure.ratio) if cure.ratio else ""
            cells = (words.verdict(cure), ratio, words.prediction(cure), words.memory(cure), str(cure.rounds))
            yield f"| {' | '.join((markdown.code(cure.id), *map(markdown.text, cells)))} |"
        for cure in self.it.cures:
            if cure.problem:
                yield from ("", f"{markdown.code(cure.id)}: {markdown.text(cure.problem)}")
        for cure in self.it.saving:
            yield from ("", f"To keep {markdown.code(cure.id)} (memory: {markdown.text(cure.costs)})", "")
            yield from markdown.block([cure.permanent])


class TriedRuns(SubjectSection[TrialResult]):
    """Every run as a dot."""

    key, title, short = "runs", "All runs", "Runs"
    shows = "it.measured"

    @property
    def strips(self) -> Sequence[Strip]:
        """The runs as they are, and those with each cure."""
        return strips(self.it)


class NotMeasured(SubjectSection[TrialResult]):
    """Cures without a figure."""

    key, title = "others", "Not measured"
    shows = "cures"

    @property
    def cures(self) -> list[CureResult]:
        """Which these are."""
        return [cure for cure in self.it.cures if cure.ratio is None]


class TrialMethod(SubjectSection[TrialResult]):
    """How it was measured."""

    key, title = "quality", "Method"

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The notes."""
        yield from (sentence(note, "dim") for note in self.it.notes)

    def to_markdown(self) -> Iterator[str]:
        """The notes."""
        for note in self.it.notes:
            yield from ("", markdown.text(note))


FORMS = Forms[TrialResult](
    (TrialHead, TriedCures, TriedRuns, NotMeasured, TrialMethod),
    {"schema": 1, "kind": "trial"},
    design="trial.drawn",
)


def print_cures() -> None:
    """Print what can be tried, and what each changes."""
    console = console_of()
    with tidy(console):
        for cure in CURES.values():
            console.print(Text(cure.id, "bold"))
            set_up = [] if cure.by_agent else [f"Sets: {' '.join(setting.text for setting in cure.settings)}"]
            about = (f"Memory: {cure.costs}", f"To keep it: {cure.permanent}", f"Source: {cure.source}.")
            for line in (cure.changes, *set_up, *about):
                console.print(_indented(sentence(line)))


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
