"""What rich leaves open about lines in the terminal: which words stay together, and that lines end with their text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

PLAIN_WIDTH = 100
"""Width when the output is no terminal."""

_GLUE = "\ue000"
"""Stands for a blank at which no line may end, one cell wide: rich breaks lines at no-break spaces, too."""

_FIGURE = re.compile(r"\d ×? ?(?:%|[nµm]?s\b|[KMGTPE]i?B\b(?:/s)?|B\b)|\d × \d")
"""`12 %`, `3 ms`, `4 GiB`, `55 GB/s`, `5 × 64`."""

_TRAILING = re.compile(r" +$", re.MULTILINE)


def console_of() -> Console:
    """Standard output: as wide as the terminal, or `PLAIN_WIDTH` and plain where it is none."""
    probe = Console(highlight=False, markup=False)
    return probe if probe.is_terminal else Console(highlight=False, markup=False, width=PLAIN_WIDTH)


def kept(text: str) -> str:
    """The text as one word, so that `12 %` or `3 copies` stay on one line. Only for what `tidy` prints."""
    return text.replace(" ", _GLUE)


def told(text: str, style: str = "") -> Text:
    """A sentence whose figures keep their units."""
    return Text(_FIGURE.sub(lambda found: kept(found[0]), text), style)


def cause(leaf: str, share: str, style: str) -> Text:
    """A cause and its share in a list of them."""
    return Text(leaf, style) + Text(kept(f" {share}") + "  ")


@contextmanager
def tidy(console: Console) -> Iterator[None]:
    """Print what the block prints, kept words with blanks in them and no blanks at the ends of lines."""
    with console.capture() as captured:
        yield
    console.file.write(_TRAILING.sub("", captured.get().replace(_GLUE, " ")))
    console.file.flush()
