"""A text of few lines: each section begins as it always does, and what is left out is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.terminal.layout import rendered

MOST_LINES = 120
"""What a person reads in one go."""
_FEWEST = 4
"""Lines of any section: a blank one, its title, one of what it says, and the number of the others."""
_NOT_LEFT_OUT = 3
"""The most lines that are shown rather than counted."""


@dataclass(frozen=True)
class SectionLines:
    """The lines of one section."""

    lines: Sequence[str]
    room: int
    """How much of the lines it gets, against the other sections."""
    heads: frozenset[int] = frozenset()
    """Which of them are heads of tables: they are not the last ones that are shown."""

    def height(self, wanted: int) -> int:
        """How many lines it shows where `wanted` are meant for it."""
        height = max(wanted, _FEWEST)
        height += height - 2 in self.heads
        return height if len(self.lines) - height + 1 > _NOT_LEFT_OUT else len(self.lines)


def section_lines(parts: Iterable[RenderableType], console: Console, room: int) -> SectionLines:
    """What a section prints."""
    lines: list[str] = []
    heads: set[int] = set()
    for piece, left in (piece for part in parts for piece in _pieces(part)):
        if isinstance(piece, Table) and piece.show_header:
            heads.add(len(lines))
        lines += rendered([Padding(piece, (0, 0, 0, left), expand=False) if left else piece], console).splitlines()
    return SectionLines(lines, room, frozenset(heads))


def _pieces(part: RenderableType, left: int = 0) -> Iterator[tuple[RenderableType, int]]:
    """What stands one below the other, with its indent."""
    if isinstance(part, Padding) and not part.top and not part.bottom:
        yield from _pieces(part.renderable, left + part.left)
    elif isinstance(part, Group):
        for one in part.renderables:
            yield from _pieces(one, left)
    else:
        yield part, left


def bounded(blocks: Sequence[SectionLines], console: Console, most: int) -> str:
    """The sections one below the other; if they have more than `most` lines, each has those that it begins with."""
    whole = sum(len(block.lines) for block in blocks)
    if whole <= most:
        return _text([line for block in blocks for line in block.lines])
    most -= 2
    for unit in range(most, -1, -1):
        heights = [block.height(unit * block.room) for block in blocks]
        if sum(heights) <= most:
            break
    for place, block in enumerate(blocks):
        # What is left over goes to the first that it helps.
        longer = block.height(heights[place] + max(most - sum(heights), 0))
        heights[place] = longer if sum(heights) - heights[place] + longer <= most else heights[place]
    lines: list[str] = []
    left = 0
    for block, kept in zip(blocks, heights, strict=True):
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
