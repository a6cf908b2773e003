"""A text of few lines: each section begins as it always does, and what is left out is counted."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.terminal.layout import rendered

MOST_LINES = 120
"""What a person reads in one go."""
_FEWEST = 4
"""Lines of any section: a blank one, its title, one of what it says, and the number of the others."""


@dataclass(frozen=True)
class SectionLines:
    """The lines of one section."""

    lines: Sequence[str]
    room: int
    """How much of the lines it gets, against the other sections."""

    def height(self, unit: int) -> int:
        """How many lines it has where sections have `unit` lines for each unit of their room."""
        return min(len(self.lines), max(unit * self.room, _FEWEST))


def bounded(blocks: Sequence[SectionLines], console: Console, most: int) -> str:
    """The sections one below the other; if they have more than `most` lines, each has those that it begins with."""
    whole = sum(len(block.lines) for block in blocks)
    if whole <= most:
        return _text([line for block in blocks for line in block.lines])
    unit = next(
        unit for unit in range(most, -1, -1) if unit == 0 or sum(block.height(unit) for block in blocks) <= most - 2
    )
    lines: list[str] = []
    left = 0
    for block in blocks:
        kept = block.height(unit)
        out = len(block.lines) - kept + 1 if kept < len(block.lines) else 0
        lines += block.lines[: kept - 1] if out else block.lines
        lines += _dim(f"  … {units.format_counted(out, 'more line', 'more lines')}", console) if out else []
        left += out
    count = units.format_counted(left, "line is", "lines are")
    closing = f"{count} left out. --all prints them, and JSON has everything."
    return _text([*lines, "", *_dim(closing, console)])


def _dim(words: str, console: Console) -> list[str]:
    return rendered([Text(words, "dim")], console).splitlines()


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
