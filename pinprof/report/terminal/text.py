"""What `pinprof report --explain` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from pinprof.report.names import printable
from pinprof.report.terminal.layout import console_of, tidy

if TYPE_CHECKING:
    from pinprof.report.explanation import Explanation


def print_explanation(explanation: Explanation) -> None:
    """Print the top stacks of one leaf, innermost function first, with the frame that decided marked."""
    console = console_of()
    with tidy(console):
        console.print(Text("\n".join(printable(line) for line in str(explanation).split("\n"))), soft_wrap=True)
