"""The documents that travel with the package, and their parts by heading."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from pinprof.base.errors import ToolMissing

_PACKAGED = Path(__file__).parents[1] / "docs"
"""Where setup.py puts them."""
_SOURCE = Path(__file__).parents[2] / "docs"
_HEADING = re.compile(r"(#{1,6}) (.+)")
_FENCE = re.compile(r"\s*(```|~~~)")


def folder() -> Path:
    """Where the documents are: in the package, or beside it in a source tree; ToolMissing where they are not."""
    for place in (_PACKAGED, _SOURCE):
        if (place / "glossary.md").is_file():
            return place
    raise ToolMissing("This installation of pinprof has no documents.", "Install pinprof again.", "topic")


def names() -> tuple[str, ...]:
    """The documents, by name without ending, in alphabetical order."""
    return tuple(sorted(path.stem for path in folder().glob("*.md")))


@cache
def text(name: str) -> str:
    """A document as Markdown."""
    return (folder() / f"{name}.md").read_text("utf-8")


def title(name: str) -> str:
    """A document's first heading."""
    return next((match[2] for line in text(name).splitlines() if (match := _HEADING.fullmatch(line))), name)


def introduction(name: str) -> str:
    """What a document says before its second heading, the first one left out."""
    return next((body for _, _, body in parts(name) if body), "")


def parts(name: str) -> list[tuple[int, str, str]]:
    """(level, heading, text below it up to the next heading of any level) for each heading of a document."""
    found: list[tuple[int, str, list[str]]] = []
    fenced = False
    for line in text(name).splitlines():
        fenced ^= bool(_FENCE.match(line))
        match = None if fenced else _HEADING.fullmatch(line)
        if match:
            found.append((len(match[1]), match[2], []))
        elif found:
            found[-1][2].append(line)
    return [(level, heading, "\n".join(lines).strip()) for level, heading, lines in found]


def rows(name: str) -> list[list[str]]:
    """The cells of all rows of a document's tables, heads and rules left out."""
    lines = text(name).splitlines()
    found = []
    for number, line in enumerate(lines):
        head = number + 1 < len(lines) and re.fullmatch(r"\|[-:| ]+\|", lines[number + 1])
        if line.startswith("|") and not head and not re.fullmatch(r"\|[-:| ]+\|", line):
            found.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found
