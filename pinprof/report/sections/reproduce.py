"""How to reproduce a recording: its command, the scenario's parameters, the recorders' own commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from pinprof.analyze import Analysis
from pinprof.report.data import CaptureFacts, ReportData, Shared
from pinprof.report.names import printable
from pinprof.report.section import Section
from pinprof.report.terminal.layout import titled


@dataclass(frozen=True, slots=True)
class Reproduce:
    """Commands as a shell reads them."""

    command: str
    scenario: Mapping[str, Any]
    collectors: tuple[tuple[str, str], ...]
    """(name, command) of each recorder."""


def quoted(words: Sequence[str]) -> str:
    """Words as a shell reads them; a leading `~/` stays outside the quotes, so that it is expanded."""
    return " ".join(
        "~/" + shlex.quote(word[2:]) if word.startswith("~/") and word[2:] else shlex.quote(word) for word in words
    )


def commands(capture: CaptureFacts) -> Reproduce | None:
    """The commands of a recording; None where none is known."""
    if not capture.command and not capture.collectors:
        return None
    collectors = tuple((entry.get("name", ""), _command_of(entry)) for entry in capture.collectors)
    return Reproduce(quoted(capture.command), capture.scenario, collectors)


def _command_of(collector: Mapping[str, Any]) -> str:
    command = collector.get("command", ())
    return command if isinstance(command, str) else quoted([str(word) for word in command])


def _build(_: Analysis, shared: Shared) -> Reproduce | None:
    return commands(shared.capture)


def _to_text(reproduce: Reproduce, _report: ReportData, _console: Console) -> Iterator[RenderableType]:
    if reproduce.command:
        yield from titled("How to reproduce", Text(printable(reproduce.command), overflow="fold"))


REPRODUCE = Section("reproduce", "How to reproduce", _build, to_text=_to_text)
