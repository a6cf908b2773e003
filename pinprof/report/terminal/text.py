"""All of a report in the terminal: what every section prints, as wide as the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from pinprof.report.data import ReportData
from pinprof.report.export.streams import STANDARD_OUTPUT, text_output
from pinprof.report.names import printable
from pinprof.report.sections import TEXT_ORDER, ordered
from pinprof.report.terminal.console import PrintableConsole
from pinprof.report.terminal.layout import PLAIN_WIDTH, console_of, tidy

if TYPE_CHECKING:
    from pinprof.report.explanation import Explanation


def print_text(data: ReportData, output: Path | None = None) -> None:
    """Print to standard output, or to a file without colours; PinprofError if the file cannot be written."""
    if output is None or output == STANDARD_OUTPUT:
        render(data, console_of())
        return
    with text_output(output) as stream:
        render(data, PrintableConsole(file=stream, width=PLAIN_WIDTH, no_color=True))


def render(report: ReportData, console: Console) -> None:
    """Write all sections that have something to show."""
    with tidy(console):
        for section in ordered(TEXT_ORDER):
            if (data := section.of(report)) is not None:
                for part in data.to_text(report, console):
                    console.print(part)


def print_explanation(explanation: Explanation) -> None:
    """Print the top stacks of one leaf, innermost function first, with the frame that decided marked."""
    console = console_of()
    with tidy(console):
        console.print(Text("\n".join(printable(line) for line in str(explanation).split("\n"))), soft_wrap=True)
