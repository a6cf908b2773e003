"""The sections of what `pinprof fix` found. JSON: docs/fix.md; schema history: 1 — first version."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from pinprof.base.units import format_counted
from pinprof.fix.result import FixedChange, FixResult
from pinprof.report import markdown
from pinprof.report.forms import Forms
from pinprof.report.section import SubjectSection
from pinprof.report.terminal.layout import sentence
from pinprof.report.trial import words

_STYLES = {"keep": "green", "changes results": "red", "does not run": "red"}
_MOST_ADDED = 8
"""Lines in a row; only inserted functions have more."""
_COLOURS = {"+": "green", "-": "red"}


def headline(result: FixResult) -> str:
    """The answer in one sentence."""
    kept = result.kept
    if not kept:
        tried = format_counted(len(result.changes), "change", "changes")
        return f"No change is proven to save: {tried} measured, {len(result.left_alone)} left alone."
    first = kept[0].measured
    assert first.ratio is not None
    others = f", and {format_counted(len(kept) - 1, 'other change', 'other changes')}" if kept[1:] else ""
    what = words.what(result.trial)
    return f"{words.capital(first.title)} needs {words.factor(first.ratio)} of {what}{others}."


class FixHead(SubjectSection[FixResult]):
    """The answer in one sentence, and how it was measured."""

    key = "hero"

    def to_json(self) -> dict[str, Any]:
        """All facts but the changes."""
        it, trial = self.it, asdict(self.it.trial)
        del trial["cures"]
        facts = {"command": list(it.command), "patch": it.patch, "notes": [*it.notes, *it.trial.notes]}
        return {"headline": headline(it), **facts, "trial": trial}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The answer, and the program as it is."""
        yield sentence(headline(self.it), "bold")
        as_is = words.amount(self.it.trial.as_is.median, self.it.trial.unit)
        yield sentence(f"{words.capital(words.what(self.it.trial))} as is: {as_is}; {words.basis(self.it.trial)}")

    def to_markdown(self) -> Iterator[str]:
        """The same."""
        yield f"**{markdown.text(headline(self.it))}**"


class FixChanges(SubjectSection[FixResult]):
    """Each change with its proof."""

    key, title = "changes", "Changes"
    room = 4

    def to_json(self) -> dict[str, Any]:
        """Every change."""
        return {"changes": [asdict(one) | _measured(one) for one in self.it.changes]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """Verdict, figures and diff."""
        for one in self.it.changes:
            yield Text("")
            yield Text(f"{one.place}: {one.verdict}", _STYLES.get(one.verdict, "bold"))
            yield sentence(_figures(one))
            for line in _folded(one.diff.splitlines()):
                yield Text(line, _COLOURS.get(line[:1], "dim"), overflow="ellipsis", no_wrap=True)

    def to_markdown(self) -> Iterator[str]:
        """The same."""
        for one in self.it.changes:
            yield from ("", f"{markdown.code(one.place)}: **{one.verdict}**. {markdown.text(_figures(one))}", "")
            yield from markdown.block(list(_folded(one.diff.splitlines())))


class FixLeftAlone(SubjectSection[FixResult]):
    """What stays as it is, and why."""

    key, title = "left-alone", "Left alone"

    def to_json(self) -> dict[str, Any]:
        """Every opportunity without a change."""
        return {"left_alone": [asdict(one) for one in self.it.left_alone]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A line each, and the notes."""
        if self.it.left_alone:
            yield from (Text(""), Text("Left alone:", "bold"))
        for one in self.it.left_alone:
            yield sentence(f"{one.title}: {one.reason}", "dim")
        for note in (*self.it.notes, *self.it.trial.notes):
            yield sentence(note, "dim")

    def to_markdown(self) -> Iterator[str]:
        """The same."""
        for one in self.it.left_alone:
            yield from ("", f"{markdown.text(one.title)}: {markdown.text(one.reason)}")


def _folded(lines: list[str]) -> Iterator[str]:
    """A diff without the lines of inserted functions, which the patch has."""
    for added, group in itertools.groupby(lines, lambda line: line.startswith("+") and not line.startswith("+++")):
        some = list(group)
        if added and len(some) > _MOST_ADDED:
            yield f"+ … {len(some)} lines of inserted functions, which --patch writes"
        else:
            yield from some


def _figures(one: FixedChange) -> str:
    """What was measured and predicted, or why nothing was."""
    cure = one.measured
    if cure.problem:
        return cure.problem
    measured = f"Measured {words.change(cure.ratio)}" if cure.ratio else "Not measured: too few rounds"
    predicted = f"; predicted {text}" if (text := words.prediction(cure)) else ""
    memory = f"; peak memory {text}" if (text := words.memory(cure)) else ""
    return f"{measured}{predicted}{memory}. {cure.costs}{_without_code(one)}"


def _without_code(one: FixedChange) -> str:
    """What the cure that does the same without a change of code saves."""
    other, own = one.without_code, one.measured.ratio
    if other is None or other.ratio is None or own is None:
        return ""
    agree = other.ratio.low <= own.high and own.low <= other.ratio.high
    said = "both agree" if agree else "the two differ"
    return f" Without a change of code (pinprof try --cure {other.id}): {words.change(other.ratio)}; {said}."


def _measured(one: FixedChange) -> dict[str, Any]:
    """Both cures with the figures that follow from theirs."""
    cures = {"measured": one.measured, "without_code": one.without_code}
    return {
        key: cure and asdict(cure) | {"off": cure.off, "no_larger_than": cure.no_larger_than}
        for key, cure in cures.items()
    }


FORMS = Forms[FixResult]((FixHead, FixChanges, FixLeftAlone), {"schema": 1, "kind": "fix"})
