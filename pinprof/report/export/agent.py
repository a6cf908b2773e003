"""The answer for a program that changes code: what to change, at which lines, why, and what to run next.

At most `MOST` characters, about 2,000 tokens: what does not fit is counted. Lines of source are those of files below
the current directory, since a recording from elsewhere may name any file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pinprof.analyze import Run
from pinprof.analyze.sites import Site, Sites
from pinprof.base.terminal import printable
from pinprof.base.units import format_counted
from pinprof.report.gather import answer_of
from pinprof.report.sections.opportunities import Card, WhatToChange, site_words
from pinprof.report.sections.phases import Phases

MOST = 8000
_LONGEST = 400
"""Characters of a line: names of recorded programs may be of any length."""
_AROUND = 2
"""Lines of source on each side."""
_LARGEST = 1 << 20
"""Bytes of a file that is read."""


def write(analysis: Run, stream: IO[str], *, all_frames: bool = False) -> None:
    """Write the answer."""
    del all_frames  # there are no stacks in it
    report = answer_of(analysis)
    change, phases = WhatToChange.of(report), Phases.of(report)
    head = [*(f"missing: {gap.text}" for gap in report.gaps), f"answer: {report.headline}"]
    if phases:
        head.append("phases: " + " · ".join(f"{tile.label} {tile.value}" for tile in phases.tiles()))
    sites = Sites(analysis.capture)
    blocks = [list(_card(card, sites)) for card in (change.cards if change else ())]
    for heading, rows in change.others if change else ():
        blocks += [[f"{heading.lower()}: {one.title} ({site_words(one.site)}) {one.reason}"] for one in rows]
    blocks += [[f"not visible: {line}"] for line in (change.unseen if change else ())]
    stream.write(_fitting(head, blocks, _next(change.cards if change else ())))


def _fitting(head: list[str], blocks: list[list[str]], tail: list[str]) -> str:
    """The head, as many blocks as there is room for, and the tail."""
    first, last = _text(head), _text(tail)
    shown, room, left = "", MOST - len(first) - len(last) - 80, 0
    for block in blocks:
        text = _text(["", *block])
        if left or len(shown) + len(text) > room:
            left += 1
        else:
            shown += text
    more = f"\n{format_counted(left, 'more entry is', 'more entries are')} in the JSON.\n" if left else ""
    return f"{first}{shown}{more}\n{last}"


def _text(lines: list[str]) -> str:
    return "".join(f"{printable(line)[:_LONGEST]}\n" for line in lines)


def _card(card: Card, sites: Sites) -> Iterator[str]:
    """One opportunity."""
    yield f"{card.it.rank}. {card.it.title} [{card.it.cure.id}]"
    for kind, words in card.fields():
        if kind == "code":
            yield "code:"
            yield from (f"  {line}" for line in words.splitlines())
        else:
            yield f"{kind}: {words}"
        if kind == "site":
            yield from _source(card.it.site, sites)


def _source(site: Site, sites: Sites) -> Iterator[str]:
    """The lines around a place, where its file is below the current directory and has that line."""
    recorded = sites.path(site.file)
    if not recorded or not site.line:
        return
    try:
        here, path = Path.cwd().resolve(), Path(recorded).resolve()
        if not path.is_relative_to(here) or not path.is_file() or path.stat().st_size > _LARGEST:
            return
        lines = path.read_text("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return
    if site.line > len(lines):
        return
    yield f"source: {path.relative_to(here)}"
    for number in range(max(site.line - _AROUND, 1), min(site.line + _AROUND, len(lines)) + 1):
        yield f"{'>' if number == site.line else ' '} {number:4} {lines[number - 1]}"


def _next(cards: tuple[Card, ...]) -> list[str]:
    """What to run."""
    lines = [f"next: pinprof explain {card.it.cure.id}" for card in cards[:1]]
    if any(card.it.cure.environment for card in cards):
        lines.append("next: pinprof try -- COMMAND   (measures the cures that need no code changes)")
    if cards:
        lines.append("next: change the code, record it again, then pinprof diff BEFORE.pinprof AFTER.pinprof")
    return [*lines, "next: pinprof report CAPTURE --format json   (everything)"]
