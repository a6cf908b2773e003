"""The terminal's short answer: headline, phases, what to change first, what could not be seen, where the page is.

It is printed as soon as it is known, before the page is made. It has at most `MOST_LINES` lines of any recording in any
terminal, what stands below it included. Names are cut, not the figures: sentences go on for a few lines at most, and
what does not fit is on the page.
"""

from __future__ import annotations

import itertools
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
_WHOLE = 4
"""Lines of a sentence that is not cut: nobody writes longer ones, but names in them may be of any length."""


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
    """As many opportunities as there is room for, their cures in four lines, two or one, and what to type first."""
    ways = ((4, True), (2, True), (4, False), (2, False), (1, False))
    for most, (cure, typed) in itertools.product(range(MOST_OPPORTUNITIES, -1, -1), ways):
        lines = list(_answer(report, console, most, cure, typed=typed))
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


def _answer(report: ReportData, console: Console, most: int, cure: int, *, typed: bool) -> Iterator[Text]:
    hero, phases, change = Hero.of(report), Phases.of(report), WhatToChange.of(report)
    cards = change.cards if change else ()
    for gap in report.gaps[:_GAPS]:
        yield from _cut(sentence(printable(gap.text), GAP_STYLE[gap.damaged]), console, 2)
    yield from _cut(sentence(printable(report.headline), "bold"), console, 3)
    if hero and (not cards or report.capture.emulated):
        yield from _fitting(hero.line(), console, 1 if cards else 2)
    if phases:
        yield from _fitting(phases.line(), console, 2)
        if phases.about_steps:
            yield from _cut(sentence(printable(phases.about_steps), "dim"), console, 2)
    for card in cards[:most]:
        yield Text("")
        yield from _opportunity(card, console, cure)
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


def _opportunity(card: Card, console: Console, cure: int) -> Iterator[Text]:
    """Title, saving and site, in as many lines as they take, and at most `cure` lines of the cure.

    Its thread, and what it saves in each step, are on the page; the first one says the latter here, too.
    """
    title = Text(f"{card.it.rank}  ", "bold") + sentence(printable(card.it.title), "bold")
    yield from _cut(title, console, _WHOLE)
    site = site_words(replace(card.it.site, thread=""))
    gain = sentence(card.gain if card.it.rank == 1 else card.saves, "green") + Text(f" · {printable(site)}", "dim")
    yield from _cut(gain, console, _WHOLE, indent=3)
    yield from _cut(sentence(printable(f"→ {card.it.cure.text}")), console, cure, indent=3)


def _as_typed(card: Card, console: Console) -> Iterator[Text]:
    """The cure's code and setting where they fit one line of code and two of a setting: they are not cut."""
    for words, most in ((card.it.cure.code, 1), (card.it.cure.environment, 2)):
        lines = _wrapped(Text(as_typed(printable(words))), console, 3)
        if words and "\n" not in words and len(lines) <= most:
            yield from (Text("   ") + line for line in lines)


def _causes(report: ReportData, console: Console) -> Iterator[Text]:
    """Where the time went, for who may not change anything: a line or two for each event."""
    labels = event_labels([event.name for event in report.events])
    for event in [event for event in report.events if event.total][:_EVENTS]:
        leaves = [
            f"{in_words(leaf)} {units.format_weight(weight, event.unit) if event.too_few else share_of(event, weight)}"
            for leaf, weight in list(event.by_leaf.items())[:_CAUSES]
        ]
        total = units.format_weight(event.total, event.unit)
        where = "" if event.event.costs_time or event.event.counted else ", by place"
        name = Text(f"{shortened(labels[event.name], 24)} {total}{where}: ", "cyan")
        yield from _fitting(name + sentence(_BETWEEN.join(leaves)), console, 2)


def _fitting(text: Text, console: Console, most: int) -> list[Text]:
    """The parts of a list that fit into `most` lines whole; a first part that is longer is cut."""
    parts = text.split(_BETWEEN)
    for count in range(len(parts), 0, -1):
        lines = _wrapped(Text(_BETWEEN, text.style).join(parts[:count]), console)
        if len(lines) <= most:
            return lines
    return _cut(parts[0], console, most)


def _findings(report: ReportData, console: Console) -> Iterator[Text]:
    """What the rules say where nobody looked for opportunities."""
    findings = Findings.of(report)
    for one in findings.having("fired")[:_FINDINGS] if findings else ():
        yield from _cut(Text(f"{one.severity}: ", "yellow") + sentence(printable(one.title)), console, 1)


def _cut(text: Text, console: Console, most: int, indent: int = 0) -> list[Text]:
    """The text in at most `most` lines of the terminal; what is left out is an ellipsis."""
    lines = _wrapped(text, console, indent)
    if len(lines) > most:
        last = lines[most - 1]
        last.rstrip()
        last.truncate(max(console.width - indent - 1, 1))
        lines = [*lines[: most - 1], last + Text("…")]
    return [Text(" " * indent) + line for line in lines]


def _wrapped(text: Text, console: Console, indent: int = 0) -> list[Text]:
    return list(text.wrap(console, max(console.width - indent, 1))) or [Text("")]
