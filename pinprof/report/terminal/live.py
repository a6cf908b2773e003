"""The screen of `pinprof top`: the pulse of a window, and one of its views, in the lines that a terminal has."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from pinprof.base import units
from pinprof.report.data import Explained
from pinprof.report.gather import ReportData
from pinprof.report.names import shortened
from pinprof.report.section import Section
from pinprof.report.sections.blame import WhoWaits
from pinprof.report.sections.calls import CallsSection
from pinprof.report.sections.causes import Causes
from pinprof.report.sections.lines import LinesSection
from pinprof.report.sections.memory import Memory
from pinprof.report.sections.pulse import Pulse
from pinprof.report.sections.transfers import Transfers
from pinprof.report.terminal.layout import rendered
from pinprof.report.terminal.summary import MOST_LINES, answer_lines

_SECTIONS: tuple[tuple[type[Section[Explained]], ...], ...] = (
    (Causes,), (LinesSection,), (WhoWaits,), (Memory,), (CallsSection, Transfers),
)  # fmt: skip
VIEWS = "aclwmg"
"""Keys: the answer, and then sections each."""
_NOTHING = "There is nothing of this in the window."


def screen(report: ReportData, view: str, title: str, keys: str, console: Console, height: int | None) -> str:
    """A title, the pulse, a view, and what keys do, in the lines of a terminal; all there is for None."""
    pulse = Pulse.of(report)
    head = [Text(shortened(title, console.width), "bold"), *(pulse.to_text(console) if pulse else ()), Text("")]
    lines = rendered(head, console).splitlines()
    room = max(height - len(lines) - 1, 1) if height else MOST_LINES
    body = rendered(_body(report, view, console, room), console).strip("\n").splitlines()
    if height is None:
        return "\n".join([*lines, *body, ""])
    if len(body) > room:
        left = units.format_counted(len(body) - room + 1, "more line", "more lines")
        more = rendered([Text(f"{left} in the page of a saved window.", "dim")], console).rstrip("\n")
        body = [*body[: room - 1], more]
    lines += body + [""] * (room - len(body))
    foot = rendered([Text(shortened(keys, console.width), "dim")], console).rstrip("\n")
    return "\n".join([*lines[: height - 1], foot])


def _body(report: ReportData, view: str, console: Console, room: int) -> Sequence[RenderableType]:
    if view == VIEWS[0]:
        return answer_lines(report, console, min(room, MOST_LINES))
    found = [section.of(report) for section in _SECTIONS[VIEWS.index(view) - 1]]
    lines = [line for section in found if section for line in section.to_text(console)]
    return lines or [Text(_NOTHING, "dim")]
