"""The answer as Markdown, for a pull request or a chat: headline, phases, what to change with its code, causes.

Names come from the recorded program and may hold anything: in prose every character that Markdown or HTML reads is
escaped, code stands in spans and blocks fenced by more backticks than it holds; nothing becomes a link or a mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from pinprof.analyze import Run
from pinprof.analyze.opportunities.results import Opportunity
from pinprof.analyze.results import EventResult
from pinprof.base import units
from pinprof.report.data import ReportData, share_of
from pinprof.report.gather import build
from pinprof.report.names import printable
from pinprof.report.sections.opportunities import Card, WhatToChange, evidence_words, site_words
from pinprof.report.sections.phases import Phases

_MOST_CAUSES = 8
_LONGEST = 600
"""Characters of one name or sentence."""

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SPECIAL = re.compile(r"[&<>]|[\\`*\[\]|~$!]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown or HTML reads anywhere in a line; underscores inside a word mean nothing."""

_OPENING = re.compile(r"^(\d*)(?=[-+=.)])")
"""What would begin a list or underline a heading at the beginning of a line."""

_LINKED = re.compile(r"[@#]+|(?<=[A-Za-z]):(?=//)|(?<=mailto):|(?<=xmpp):|(?<=www)\.", re.IGNORECASE)
"""What makes an address, a mention or a reference to an issue of the letters around it."""


def write(analysis: Run, stream: IO[str], *, all_frames: bool = False) -> None:
    """Write one recording's answer."""
    stream.write("\n".join(_lines(build(analysis, drawn=False, all_frames=all_frames))) + "\n")


def text(words: str) -> str:
    """Words as prose: they read the same and mean nothing to Markdown, HTML and forges."""
    shown = _shown(words).strip()
    plain = [_SPECIAL.sub(_escape, part) for part in _LINKED.split(shown)]
    plain[0] = _OPENING.sub(r"\1\\", plain[0])
    return plain[0] + "".join(f"`{mark}`{part}" for mark, part in zip(_LINKED.findall(shown), plain[1:], strict=True))


def code(words: str) -> str:
    """Words in a code span."""
    shown = _shown(words).strip()
    fence = "`" * (_longest_run(shown) + 1)
    blank = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{blank}{shown}{blank}{fence}" if shown else ""


def block(lines: list[str]) -> list[str]:
    """Lines in a fenced block."""
    shown = [printable(line) for line in lines]
    fence = "`" * max(3, _longest_run("\n".join(shown)) + 1)
    return [fence, *shown, fence]


def _escape(mark: re.Match[str]) -> str:
    return _ENTITIES.get(mark[0], f"\\{mark[0]}")


def _shown(words: str) -> str:
    shown = printable(words)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _longest_run(words: str) -> int:
    return max((len(run) for run in re.findall("`+", words)), default=0)


def _lines(report: ReportData) -> Iterator[str]:
    yield f"**{text(report.headline)}**"
    change = WhatToChange.of(report)
    if phases := Phases.of(report):
        yield from _phases(phases)
    if change:
        yield from _change(change)
    main = next((event for event in report.events if event.unit == "ns" and event.total), None)
    if main := main or next((event for event in report.events if event.total), None):
        yield from _causes(main)
    yield ""
    yield f"Recording {code(report.capture.path)}, read by pinprof."


def _phases(phases: Phases) -> Iterator[str]:
    yield from ("", "| phase | wall time | share |", "|---|---:|---:|")
    for phase in phases.phases:
        share = units.format_share(phase.wall_ns, phases.wall_ns)
        yield f"| {phase.name} | {units.format_ns(phase.wall_ns)} | {share} |"
    if phases.about_steps:
        yield from ("", f"{text(phases.about_steps)}.")


def _change(change: WhatToChange) -> Iterator[str]:
    yield from ("", "### What to change")
    if not change.cards:
        yield from ("", f"{change.nothing} Searched for: {', '.join(change.looked_for)}.")
    for card in change.cards:
        yield from _card(card)
    for heading, rows in change.others:
        yield from ("", f"### {heading}", "")
        for one in rows:
            yield f"- {text(one.title)} ({text(site_words(one.site))}): {text(one.reason)}"
    if change.unseen:
        yield from ("", "Not visible:", "")
    for line in change.unseen:
        yield f"- {text(line)}"


def _card(card: Card) -> Iterator[str]:
    one = card.it
    yield from ("", f"#### {one.rank}. {text(one.title)}", "")
    yield f"**{card.gain[:1].upper()}{card.gain[1:]}**; costs {units.format_ns(one.cost_ns)}. {_site(one)}"
    yield from ("", text(one.cure.text))
    for lines in (one.cure.code.splitlines(), [one.cure.environment]):
        if any(lines):
            yield from ("", *block(lines))
    if one.basis or one.evidence:
        yield ""
    for line in (*one.basis, *(evidence_words(proof.text, proof.command) for proof in one.evidence)):
        yield f"- {text(line)}"


def _site(one: Opportunity) -> str:
    return code(site_words(one.site))


def _causes(event: EventResult) -> Iterator[str]:
    yield from ("", f"### Causes of {text(event.name)}", "")
    if event.too_few_words:
        yield from (f"{text(event.too_few_words.capitalize())}.", "")
    yield from ("| cause | weight | share |", "|---|---:|---:|")
    rows = list(event.by_leaf.items())
    for leaf, weight in rows[:_MOST_CAUSES]:
        yield f"| `{leaf}` | {units.format_weight(weight, event.unit)} | {share_of(event, weight)} |"
    if rest := sum(weight for _, weight in rows[_MOST_CAUSES:]):
        others = units.format_counted(len(rows) - _MOST_CAUSES, "other", "others")
        yield f"| {others} | {units.format_weight(rest, event.unit)} | {share_of(event, rest)} |"
