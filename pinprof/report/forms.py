"""Every answer in every form: a report and each answer over several runs is a list of sections, and this writes it.

`Forms` declares an answer: its sections, and what a form needs besides. `Forms.of` makes the sections of one subject;
`FORMS` writes them. A form of all answers is one function here, and a method of `Section`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar, cast

from rich.console import Console, RenderableType

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import write
from pinprof.report.export.streams import STANDARD_OUTPUT, text_output
from pinprof.report.section import Section, ordered
from pinprof.report.terminal.bounded import bounded, section_lines
from pinprof.report.terminal.layout import console_of, plain_console, print_all

if TYPE_CHECKING:
    from pinprof.report.page.design import Design

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Forms(Generic[Subject]):
    """One kind of answer."""

    sections: tuple[type[Section[Subject]], ...]
    """In the order of the page."""
    head: Mapping[str, Any] = field(default_factory=lambda: {"schema": 1})
    """The first entries of its JSON."""
    shown: Callable[[Any], Any] = dict
    """What its JSON goes through last, such as `without_home`."""
    brief: tuple[type[Section[Subject]], ...] = ()
    """The sections in Markdown and their order, where these are not all."""
    design: str = ""
    """The module below `report` with the `DESIGN` of its page, imported when a page is made; empty: it has none."""
    others: Mapping[str, Callable[[Subject, IO[str]], None]] = field(default_factory=dict)
    """Forms that no other answer has, by the name that `--format` takes."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `--format` takes."""
        return (*(name for name in FORMS if name != "html" or self.design), *self.others)

    def page_design(self) -> Design:
        """How its page is made."""
        return cast("Design", importlib.import_module(f"pinprof.report.{self.design}").DESIGN)

    def of(self, subject: Subject) -> Answered[Subject]:
        """The answer about one subject."""
        return Answered(self, subject, self.made(subject))

    def made(self, subject: Subject) -> dict[str, Section[Subject]]:
        """The sections that apply."""
        built = {section.key: section.build(subject) for section in self.sections}
        return {key: section for key, section in built.items() if section is not None}


class Written(Generic[Subject]):
    """An answer that can be written in every form."""

    forms: Forms[Subject]
    subject: Subject
    sections: Mapping[str, Section[Subject]]
    """Those that apply, in the order of the page."""

    def to_json(self) -> dict[str, Any]:
        """As documented."""
        document = dict(self.forms.head)
        for section in ordered(self.forms.sections, "json"):
            made = self.sections.get(section.key)
            document |= made.to_json() if made else dict(section.absent)
        return dict(self.forms.shown(document))

    def to_text(self, console: Console) -> Iterable[RenderableType]:
        """What the terminal prints, one below the other."""
        for section in self._chosen(ordered(self.forms.sections, "text")):
            yield from section.to_text(console)

    def to_markdown(self) -> Iterable[str]:
        """Its lines."""
        for section in self._chosen(self.forms.brief or ordered(self.forms.sections, "markdown")):
            yield from section.to_markdown()

    def _chosen(self, sections: Iterable[type[Section[Subject]]]) -> Iterable[Section[Subject]]:
        return [self.sections[section.key] for section in sections if section.key in self.sections]

    def show(self, console: Console, most: int | None = None) -> None:
        """Print all of it, or `most` lines, of which each section has some."""
        if most is None:
            print_all(self.to_text, console)
            return
        sections = self._chosen(ordered(self.forms.sections, "text"))
        blocks = [section_lines(one.to_text(console), console, one.room) for one in sections]
        write(console.file, bounded([block for block in blocks if block.lines], console, most))

    def write(self, form: str, stream: IO[str]) -> None:
        """Write one form; text is plain."""
        if form in self.forms.others:
            self.forms.others[form](self.subject, stream)
        else:
            FORMS[form](self, stream)

    def save(self, form: str, output: Path | None = None, *, most: int | None = None) -> None:
        """Write one form to a file, or to standard output for None and `-`; CollectError if it cannot be written.

        Text has all lines, or `most`.
        """
        if form == "text" and output in (None, STANDARD_OUTPUT):
            self.show(console_of(), most)
            return
        with text_output(output) as stream:
            if form == "text" and most is not None:
                self.show(plain_console(stream), most)
            else:
                self.write(form, stream)


@dataclass(frozen=True)
class Answered(Written[Subject]):
    """One answer."""

    forms: Forms[Subject]
    subject: Subject
    sections: Mapping[str, Section[Subject]]


def _write_page(answer: Written[Any], stream: IO[str]) -> None:
    from pinprof.report.page.html import render

    stream.write(render(answer))


_INDENTED = 2
"""Levels of a JSON document whose members have lines of their own."""

FORMS: Mapping[str, Callable[[Written[Any], IO[str]], None]] = {
    "text": lambda answer, stream: answer.show(plain_console(stream)),
    "json": lambda answer, stream: write_json(answer.to_json(), stream),
    "markdown": lambda answer, stream: stream.writelines(f"{line}\n" for line in answer.to_markdown()),
    "html": _write_page,
}
"""The forms of every answer, by the names that `--format` takes; a page only where there is a design."""


def write_json(document: object, stream: IO[str]) -> None:
    """Write a document as JSON: ASCII only, so that any byte a name may hold survives the way.

    Members of the document, and their own members, have a line each: what json need not indent it writes many times
    faster.
    """
    stream.writelines(_lines(document, _INDENTED))
    stream.write("\n")


def _lines(value: object, levels: int, indent: str = "") -> Iterator[str]:
    if not levels or not value or not isinstance(value, dict | list | tuple):
        yield json.dumps(value, allow_nan=False)
        return
    named = isinstance(value, dict)
    yield "{" if named else "["
    for number, member in enumerate(value):
        yield f"{',' if number else ''}\n{indent} "
        if named:
            yield f"{json.dumps(str(member))}: "
        yield from _lines(value[member] if named else member, levels - 1, f"{indent} ")
    yield f"\n{indent}{'}' if named else ']'}"
