"""How to reproduce a recording: its command, the scenario's parameters, the recorders' own commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.text import Text

from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained
from pinprof.report.names import printable
from pinprof.report.section import Section
from pinprof.report.terminal.layout import titled


@dataclass(frozen=True)
class Reproduce(Section[Explained]):
    """Commands as a shell reads them."""

    key, title, short = "reproduce", "How to reproduce", "Reproduce"

    command: str
    scenario: Mapping[str, Any]
    collectors: tuple[tuple[str, str], ...]
    """(name, command) of each recorder."""

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where no command is known."""
        capture = subject.shared.capture
        if not capture.command and not capture.collectors:
            return None
        collectors = tuple((entry.get("name", ""), _command_of(entry)) for entry in capture.collectors)
        return cls(quoted(capture.command), capture.scenario, collectors)

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The program's own command."""
        if self.command:
            yield from titled(self.title, Text(printable(self.command), overflow="fold"))


def quoted(words: Sequence[str]) -> str:
    """Words as a shell reads them; a leading `~/` stays outside the quotes, so that it is expanded."""
    return " ".join(
        "~/" + shlex.quote(word[2:]) if word.startswith("~/") and word[2:] else shlex.quote(word) for word in words
    )


def _command_of(collector: Mapping[str, Any]) -> str:
    command = collector.get("command", ())
    return command if isinstance(command, str) else quoted([str(word) for word in command])
