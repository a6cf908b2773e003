"""The terminal's short answer: headline, phases, what to change first, what could not be seen, where the page is.

It is printed as soon as it is known, before the page is made. It has at most `MOST_LINES` lines of any recording in any
terminal, what stands below it included. Sentences are whole: where room is short, fewer of them are said, and the rest
is on the page. Only a sentence with names of any length is cut, after a word.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pinprof.analyze.attribution.categories import in_words
from pinprof.base import units
from pinprof.report.data import share_of
from pinprof.report.gather import ReportData
from pinprof.report.names import event_labels, printable, shortened
from pinprof.report.sections.findings import Findings
from pinprof.report.sections.hero import GAP_STYLE, Hero
from pinprof.report.sections.opportunities import Card, WhatToChange, site_words
from pinprof.report.sections.phases import Phases
from pinprof.report.terminal.layout import as_typed, console_of, sentence, tidy

MOST_LINES = 24
MOST_OPPORTUNITIES = 3
_BETWEEN = " · "
_EVENTS, _CAUSES, _FINDINGS, _UNSEEN, _GAPS = 3, 4, 3, 2, 3
_WHOLE = 5
"""Lines of a sentence that is not cut: nobody writes longer ones, but names in them may be of any length."""
_NAMES = 3
"""Lines of what is mostly a name."""
_SENTENCE = re.compile(r"(?<=[.:]) (?=[A-Z])")


def print_answer(reports: Sequence[ReportData], below: Sequence[str] = (), console: Console | None = None) -> None:
    """Print the answer of one recording, or the headlines of several, with room for the lines `below`."""
    console = console or console_of()
    # A terminal folds a long path; a file keeps it in one line.
    tail = ["", *map(printable, below)] if below else []
    room = MOST_LINES - sum(-(-cell_len(line) // console.width) or 1 if console.is_terminal else 1 for line in tail)
    with tidy(console):
        for line in answer_lines(reports[0], console, room) if len(reports) == 1 else _several(reports, console, room):
            console.print(line)


def answer_lines(report: ReportData, console: Console, room: int) -> list[Text]:
    """As many opportunities as there is room for, with their whole cures or the first sentences of these, and what to
    type first.
    """
    ways = ((True, True), (False, True), (False, False))
    for most, (whole, typed) in itertools.product(range(MOST_OPPORTUNITIES, -1, -1), ways):
        lines = list(_answer(report, console, most, whole=whole, typed=typed))
        if len(lines) <= room:
            break
    return lines[: max(room, 1)]


def _several(reports: Sequence[ReportData], console: Console, room: int) -> list[Text]:
    """A line for each recording."""
    lines = []
    for report in reports[: room if len(reports) <= room else max(room - 1, 1)]:
        name = Text(f"{shortened(report.capture.path, 28)}  ", "bold")
        missing = Text("".join(f"{gap.text} " for gap in report.gaps[:1]), "yellow")
        lines += _cut(name + missing + sentence(printable(report.headline)), console, 1)
    if len(lines) < len(reports):
        lines.append(Text(f"{units.format_count(len(reports) - len(lines))} more are on the page.", "dim"))
    return lines


def _answer(report: ReportData, console: Console, most: int, *, whole: bool, typed: bool) -> Iterator[Text]:
    hero, phases, change = Hero.of(report), Phases.of(report), WhatToChange.of(report)
    cards = change.cards if change else ()
    for gap in report.gaps[:_GAPS]:
        yield from _cut(sentence(printable(gap.text), GAP_STYLE[gap.damaged]), console, _WHOLE)
    yield from _cut(sentence(printable(report.headline), "bold"), console, _WHOLE)
    if hero and (not cards or report.capture.emulated):
        yield from _fitting(hero.line(), console, 1 if cards else 2)
    if phases:
        yield from _fitting(phases.line(), console, 2)
        if phases.about_steps:
            yield from _cut(sentence(printable(phases.about_steps), "dim"), console, _NAMES)
    for card in cards[:most]:
        yield Text("")
        yield from _opportunity(card, console, whole=whole)
        if typed and card.it.rank == 1:
            yield from _as_typed(card, console)
    if more := len(cards) - min(most, len(cards)):
        yield Text(f"{units.format_counted(more, 'more opportunity is', 'more opportunities are')} on the page.", "dim")
    if not cards:
        yield Text("")
        yield from _causes(report, console)
    if not change:
        yield from _findings(report, console)
    unseen = change.unseen if change else ()
    if unseen:
        yield Text("")
    for line in unseen[:_UNSEEN]:
        yield from _cut(sentence(printable(f"Not visible: {line}"), "dim"), console, _WHOLE)


def _opportunity(card: Card, console: Console, *, whole: bool) -> Iterator[Text]:
    """Title, saving and site, and the cure or its first sentence.

    Its thread is on the page. What the first one saves in other runs is in the headline; it says what it saves of a
    step, which of the others is on the page.
    """
    title = Text(f"{card.it.rank}  ", "bold") + sentence(printable(card.it.title), "bold")
    yield from _cut(title, console, _WHOLE)
    first = card.it.rank == 1
    gain = sentence(card.saves(in_other_runs=not first, in_steps=first), "green")
    if site := site_words(replace(card.it.site, thread=""), card.it.title):
        gain += sentence(f"{_BETWEEN}{printable(site)}", "dim")
    yield from _cut(gain, console, _WHOLE, indent=3)
    cure = card.it.cure.text if whole else _SENTENCE.split(card.it.cure.text)[0]
    yield from _cut(sentence(printable(f"→ {cure}")), console, _WHOLE, indent=3)


def _as_typed(card: Card, console: Console) -> Iterator[Text]:
    """The cure's code and setting where they fit one line of code and two of a setting: they are not cut."""
    for words, most in ((card.it.cure.code, 1), (card.it.cure.environment, 2)):
        lines = _wrapped(Text(as_typed(printable(words))), console, 3)
        if words and "\n" not in words and len(lines) <= most:
            yield from (Text("   ") + line for line in lines)


def _causes(report: ReportData, console: Console) -> Iterator[Text]:
    """Where the time went, for who may not change anything: a line or two for each event."""
    labels = event_labels([event.name for event in report.events])
    for event, whole in [pair for pair in zip(report.own, report.events, strict=True) if pair[0].total][:_EVENTS]:
        leaves = [
            f"{in_words(leaf)} {units.format_weight(weight, event.unit) if event.too_few else share_of(event, weight)}"
            for leaf, weight in list(event.by_leaf.items())[:_CAUSES]
        ]
        total = units.format_weight(event.total, event.unit)
        where = "" if event.total == whole.total else " in the program's own time"
        where += "" if event.event.costs_time or event.event.counted else ", by place"
        name = Text(f"{shortened(labels[event.name], 24)} {total}{where}: ", "cyan")
        yield from _fitting(name + sentence(_BETWEEN.join(leaves)), console, 2)


def _fitting(text: Text, console: Console, most: int) -> list[Text]:
    """The parts of a list that fit into `most` lines whole; a first part that is longer is cut."""
    parts = text.split(_BETWEEN)
    for count in range(len(parts), 0, -1):
        lines = _wrapped(Text(_BETWEEN, text.style).join(parts[:count]), console)
        if len(lines) <= most:
            return lines
    return _cut(parts[0], console, max(most, _NAMES))


def _findings(report: ReportData, console: Console) -> Iterator[Text]:
    """What the rules say where nobody looked for opportunities."""
    findings = Findings.of(report)
    for one in findings.having("fired")[:_FINDINGS] if findings else ():
        yield from _cut(Text(f"{one.severity}: ", "yellow") + sentence(printable(one.title)), console, _NAMES)


def _cut(text: Text, console: Console, most: int, indent: int = 0) -> list[Text]:
    """The text in at most `most` lines of the terminal; what is left out, of whole words, is an ellipsis."""
    lines = _wrapped(text, console, indent)
    if len(lines) > most:
        last = lines[most - 1]
        last.rstrip()
        room = max(console.width - indent - 2, 1)
        if last.cell_len > room:
            last = last[: last.plain[: room + 1].rfind(" ")] if " " in last.plain[: room + 1] else last[:room]
        lines = [*lines[: most - 1], last + Text(" …")]
    return [Text(" " * indent) + line for line in lines]


def _wrapped(text: Text, console: Console, indent: int = 0) -> list[Text]:
    return list(text.wrap(console, max(console.width - indent, 1))) or [Text("")]
