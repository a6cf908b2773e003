"""Every answer is written here: to a terminal, a stream or a file, in the forms that the answer declares.

An answer over several runs declares what it prints, its JSON and its other forms in `report/NAME/formats.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from rich.console import Console, RenderableType

from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.export.streams import STANDARD_OUTPUT, text_output
from pinprof.report.terminal.console import PrintableConsole
from pinprof.report.terminal.layout import PLAIN_WIDTH, console_of, tidy

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Forms(Generic[Subject]):
    """The forms of one kind of answer."""

    text: Callable[[Subject, Console], Iterable[RenderableType]]
    """What the terminal prints, one below the other."""
    json: Callable[[Subject], Any]
    """Its documented JSON."""
    markdown: Callable[[Subject], Iterable[str]] | None = None
    """Its lines of Markdown."""
    others: Mapping[str, Callable[[Subject, IO[str]], None]] = field(default_factory=dict)
    """Further forms, by the name that `--format` takes."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `--format` takes."""
        return ("text", "json", *(["markdown"] if self.markdown else []), *self.others)

    def show(self, subject: Subject, console: Console) -> None:
        """Print all of it."""
        with tidy(console):
            for part in self.text(subject, console):
                console.print(part)

    def write(self, subject: Subject, form: str, stream: IO[str]) -> None:
        """Write one form; text is plain."""
        if form == "text":
            self.show(subject, PrintableConsole(file=stream, width=PLAIN_WIDTH, no_color=True))
        elif form == "json":
            write_json(self.json(subject), stream)
        elif form == "markdown" and self.markdown:
            stream.write("\n".join(self.markdown(subject)) + "\n")
        else:
            self.others[form](subject, stream)

    def save(self, subject: Subject, form: str, output: Path | None = None) -> None:
        """Write one form to a file, or to standard output for None and `-`; CollectError if it cannot be written."""
        if form == "text" and output in (None, STANDARD_OUTPUT):
            self.show(subject, console_of())
            return
        with text_output(output) as stream:
            self.write(subject, form, stream)


def write_json(document: object, stream: IO[str]) -> None:
    """Write a document as JSON: ASCII only, so that any byte a name may hold survives the way."""
    json.dump(document, stream, indent=1, ensure_ascii=True, allow_nan=False)
    stream.write("\n")
