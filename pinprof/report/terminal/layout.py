"""What the terminal's sections share: tables, titles, which words stay together, and that lines end with their text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof.analyze.attribution.categories import CATEGORIES, LEAF
from pinprof.analyze.results import RangeResult
from pinprof.base.terminal import write
from pinprof.report import palette
from pinprof.report.data import Tile
from pinprof.report.names import printable
from pinprof.report.styles import Style
from pinprof.report.terminal.console import PrintableConsole

PLAIN_WIDTH = 100
"""Width when the output goes to a file or a pipe."""

DEEPEST = 15
"""Depth of a range from which on its name stands no further to the right: neither table nor chart has the room."""

_GLUE = "\ue000"
"""Stands for a blank at which no line may end, one cell wide: rich breaks lines at no-break spaces, too."""

_UNMEASURED = {code: 0xE0000 + code for code in range(0x20, 0x7F)}
"""ASCII → characters that stand for it and take no cells (Unicode's tags), so that rich leaves their line alone."""
_TYPED = {stands_for: code for code, stands_for in _UNMEASURED.items()}

_FIGURE = re.compile(r"\d ×? ?(?:%|[nµm]?s\b|[KMGTPE]i?B\b(?:/s)?|B\b)|\d × \d")
"""`12 %`, `3 ms`, `4 GiB`, `55 GB/s`, `5 × 64`."""

_TRAILING = re.compile(r" +$", re.MULTILINE)


def console_of() -> Console:
    """Standard output: as wide as the terminal, or `PLAIN_WIDTH` and plain where it is none."""
    probe = PrintableConsole()
    return probe if probe.is_terminal else PrintableConsole(width=PLAIN_WIDTH)


def plain_console(stream: IO[str]) -> Console:
    """A file or a pipe."""
    return PrintableConsole(file=stream, width=PLAIN_WIDTH, no_color=True)


def kept(text: str) -> str:
    """The text as one word, so that `12 %` or `3 copies` stay on one line. Only for what `tidy` prints."""
    return text.replace(" ", _GLUE)


def as_typed(text: str) -> str:
    """A line to copy, such as a command: no width breaks or cuts it. Only for what `tidy` prints."""
    return text.translate(_UNMEASURED)


def sentence(text: str, style: str = "") -> Text:
    """A sentence whose figures keep their units."""
    return Text(_FIGURE.sub(lambda figure: kept(figure[0]), text), style)


def titled(title: str, body: RenderableType) -> Iterator[RenderableType]:
    """A blank line, a title and what stands below it."""
    yield Text("")
    yield Text(title, "bold")
    yield Padding(body, (0, 0, 0, 2), expand=False)


def tiles_line(tiles: Iterable[Tile]) -> Text:
    """Figures in one line, each kept together with its label."""
    return Text(" · ").join(Text(kept(f"{tile.value} {tile.label}"), "yellow" if tile.warn else "") for tile in tiles)


def plain_table(*figures: str, header: bool = True) -> Table:
    """A table without lines, which begins with columns of figures."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=header)
    for title in figures:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def figures_table(*titles: str) -> Table:
    """A table whose first column is text; all others are figures."""
    table = plain_table()
    for index, title in enumerate(titles):
        table.add_column(title, justify="right" if index else "left", no_wrap=True, overflow="ellipsis")
    return table


def ranges_table(width: int, *titles: str) -> Table:
    """A table of ranges: their names, folded at `width` cells, and figures."""
    table = plain_table()
    table.add_column("range", overflow="fold", max_width=width)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def range_name(entry: RangeResult) -> Text:
    """A range's name, indented by its depth."""
    return Text("  " * min(entry.depth, DEEPEST) + printable(entry.name))


def leaf_style(leaf: str) -> str:
    """The colour of a cause."""
    return palette.level_colour(CATEGORIES[LEAF[leaf]].level, dark=True)


def style_colour(style: Style) -> str:
    """The colour of a legend's entry."""
    return palette.level_colour(style.level, dark=True)


def cause(leaf: str, share: str, style: str) -> Text:
    """A cause and its share in a list of them."""
    return Text(leaf, style) + Text(kept(f" {share}") + "  ")


def plain_lines(parts: Callable[[Console], Iterable[RenderableType]]) -> list[str]:
    """What a console prints, as lines of plain text without blank ones at either end."""
    stream = io.StringIO()
    print_all(parts, plain_console(stream))
    return stream.getvalue().strip("\n").splitlines()


def print_all(parts: Callable[[Console], Iterable[RenderableType]], console: Console) -> None:
    """Print what is made for a console, one below the other."""
    write(console.file, rendered(parts(console), console))


def rendered(parts: Iterable[RenderableType], console: Console) -> str:
    """What a console prints, with its colours, as text."""
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return _tidied(captured.get())


def _tidied(text: str) -> str:
    return _TRAILING.sub("", text.replace(_GLUE, " ").translate(_TYPED))


@contextmanager
def tidy(console: Console) -> Iterator[None]:
    """Print what the block prints, kept words with blanks in them and no blanks at the ends of lines."""
    with console.capture() as captured:
        yield
    write(console.file, _tidied(captured.get()))
