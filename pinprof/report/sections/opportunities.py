"""Opportunities: what to change, at which line, and what it saves; a card each, the largest saving first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pinprof.analyze import Run
from pinprof.analyze.attribution.categories import LEAF, in_words
from pinprof.analyze.opportunities.results import Opportunities, Opportunity, PerStep, Refused, Saving, ToMeasure
from pinprof.analyze.opportunities.search import looked_for
from pinprof.analyze.sites import Site
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.spoken import spoken
from pinprof.report import markdown
from pinprof.report.data import Explained, Shared
from pinprof.report.flame import FlameData
from pinprof.report.names import printable
from pinprof.report.section import ForScripts, Section
from pinprof.report.terminal.layout import as_typed, sentence, titled

_SHOWN = 0.03
"""The share of what an opportunity costs: causes of less are left to the page."""


@dataclass(frozen=True)
class Card:
    """One opportunity and what it is drawn against."""

    it: Opportunity
    phase_ns: int
    """Wall time of its phase; what it costs, where the phase is not known."""
    event: int
    """The event that shows its samples; -1 where none does."""

    @property
    def full_ns(self) -> int:
        """The length of its bar."""
        return max(self.phase_ns, self.it.cost_ns, self.it.saving.high_ns, 1)

    def part(self, ns: int) -> str:
        """A time's part of the bar, in percent of its length."""
        return f"{100 * max(ns, 0) / self.full_ns:.2f}"

    @property
    def site(self) -> str:
        """Where it is."""
        return site_words(self.it.site)

    @property
    def gain(self) -> str:
        """All that is known of what it saves."""
        return self.saves(in_other_runs=True, in_steps=True)

    def saves(self, *, in_other_runs: bool, in_steps: bool) -> str:
        """What it saves, of what; what in other runs; and what of a step, in how many, where steps were seen."""
        likely, ends = saving_words(self.it.saving)
        words = f"saves {likely} of {units.format_ns(self.phase_ns)} of {self.it.phase}"
        if in_other_runs and ends:
            words += f" ({ends} in other runs)"
        return f"{words}: {step_words(self.it.per_step)}" if in_steps and self.it.per_step else words

    def fields(self) -> Iterator[tuple[str, str]]:
        """(kind, words) of everything that is said below the title, in the order of every form."""
        one = self.it
        least = _SHOWN * sum(one.causes.values())
        causes = [
            f"{in_words(leaf)} {units.format_ns(ns)}" for leaf, ns in one.causes.items() if leaf in LEAF and ns >= least
        ]
        costs = f"costs {units.format_ns(one.cost_ns)}" + (f": {', '.join(causes)}" if causes else "")
        yield "gain", f"{self.gain}; {costs}"
        yield "site", self.site
        yield "cure", one.cure.text
        copied = ("code", one.cure.code), ("environment", one.cure.environment)
        yield from ((kind, text) for kind, text in copied if text)
        yield from (("basis", line) for line in one.basis)
        yield from (("evidence", evidence_words(proof.text, proof.command)) for proof in one.evidence)


@dataclass(frozen=True)
class WhatToChange(Section[Explained]):
    """The answer."""

    key, title = "opportunities", "What to change"
    room = 4
    absent = (("opportunities", ()), ("to_measure", ()), ("refused", ()), ("unseen", ()))

    cards: tuple[Card, ...]
    to_measure: tuple[ToMeasure, ...]
    refused: tuple[Refused, ...]
    unseen: tuple[str, ...]
    headline: str
    places: Mapping[str, int]
    """Leaf → its row of the taxonomy."""

    looked_for = staticmethod(looked_for)

    @property
    def others(self) -> tuple[tuple[str, tuple[ToMeasure | Refused, ...]], ...]:
        """What is no opportunity but is named all the same, by its heading."""
        rest = (("Worth a measurement", self.to_measure), ("Not worth changing", self.refused))
        return tuple((heading, rows) for heading, rows in rest if rows)

    site_words = staticmethod(lambda site: site_words(site))

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None where nobody looked."""
        answer = subject.run.opportunities
        if answer is None:
            return None
        return cls(
            tuple(_cards(answer, subject.run, subject.shared)),
            answer.to_measure,
            answer.refused,
            answer.unseen,
            answer.headline,
            {cause.key: index for index, cause in enumerate(subject.shared.causes)},
        )

    @property
    def nothing(self) -> str:
        """What no opportunity means: a recording may show too little to tell."""
        if self.to_measure:
            return "No change has a known saving."
        if not self.headline:
            return "This recording has too little data to suggest changes."
        return "Nothing to gain." if self.headline.startswith("Nothing to gain") else "No known change saves enough."

    def to_json(self) -> dict[str, Any]:
        """Every opportunity, what a measurement decides, what would not pay, and what could not be seen."""
        return {
            "opportunities": [_json(card.it) for card in self.cards],
            "to_measure": [asdict(one) for one in self.to_measure],
            "refused": [asdict(one) for one in self.refused],
            "unseen": list(self.unseen),
        }

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """Every opportunity with cure, code, basis and evidence."""
        lines: list[RenderableType] = []
        for card in self.cards:
            lines += _card_text(card)
        if not self.cards:
            lines.append(sentence(f"{self.nothing} Searched for: {self.looked_for()}.", "dim"))
        for heading, rows in self.others:
            lines.append(Text(f"{heading}:", "bold"))
            for one in rows:
                where = site_words(one.site, one.title)
                words = printable(f"{one.title.rstrip('.')}{f' ({where})' if where else ''}. {one.reason}")
                lines.append(Padding(sentence(words), (0, 0, 0, 3), expand=False))
        lines += [sentence(printable(f"Not visible: {line}"), "dim") for line in self.unseen]
        yield from titled(self.title, Group(*lines))

    def to_markdown(self) -> Iterator[str]:
        """The same, with the code in blocks."""
        yield from ("", "### What to change")
        if not self.cards:
            yield from ("", f"{self.nothing} Searched for: {self.looked_for()}.")
        for card in self.cards:
            yield from _card_markdown(card)
        for heading, rows in self.others:
            yield from ("", f"### {heading}", "")
            for one in rows:
                title, site, reason = map(markdown.text, (one.title, site_words(one.site), one.reason))
                yield f"- {title} ({site}): {reason}"
        if self.unseen:
            yield from ("", "Not visible:", "")
        for line in self.unseen:
            yield f"- {markdown.text(line)}"

    def for_scripts(self) -> ForScripts:
        """What each card filters to; its samples are columns of the flamegraph."""
        cards = [
            {
                "title": printable(card.it.title),
                "event": max(card.event, 0),
                "causes": [self.places[leaf] for leaf in card.it.causes if leaf in self.places],
            }
            for card in self.cards
        ]
        return ForScripts({"opportunities": cards})


def saving_words(saving: Saving) -> tuple[str, str]:
    """`1.3 s` and `1.1–1.4 s`, empty where both ends are the same."""
    about = units.format_ns_about
    likely, ends = about(saving.likely_ns), units.format_ns_range(saving.low_ns, saving.high_ns, about)
    return likely, "" if ends == likely else ends


def step_words(part: PerStep) -> str:
    """`12 ms of 85 ms a step, in 200 of 200 steps`."""
    each = f"{units.format_ns_about(part.saving_ns)} of {units.format_ns_about(part.step_ns)} a step"
    return each if part.seen is None else f"{each}, in {part.seen:,} of {part.steps:,} steps"


def site_words(site: Site, said: str = "") -> str:
    """`main (a.cu:11) · thread loader · range epoch/step`, as far as each is known; without the place where a text
    begins with it.
    """
    function, place = spoken(site.function), site.place
    if said and said.lower().startswith(place.lower()):
        inside = "" if function.startswith("<") or function == place else function
        where = f"in {inside}" if inside else ""
        place = ""
    else:
        where = function if not function or place in function else f"{function} ({place})"
    parts = [
        where or place,
        f"thread {site.thread}" if site.thread else "",
        f"range {site.range}" if site.range and not said.lower().startswith(f"range {site.range} ".lower()) else "",
    ]
    return " · ".join(part for part in dict.fromkeys(parts) if part)


def _cards(answer: Opportunities, analysis: Run, shared: Shared) -> Iterator[Card]:
    for number, one in enumerate(answer.found):
        phase = analysis.course.phase(one.phase) if analysis.course else None
        event = _event_of(shared.flame, number, analysis) if shared.flame else -1
        yield Card(one, phase.wall_ns if phase else one.cost_ns, event)


def _event_of(flame: FlameData, number: int, analysis: Run) -> int:
    """The main event where it has such samples, else the one with most; -1 without any."""
    inside = np.isin(flame.node, flame.opportunities[number])
    samples = np.bincount(flame.event[inside], minlength=len(analysis.events))
    main = next((index for index, event in enumerate(analysis.events) if event is analysis.main), 0)
    if not samples.any():
        return -1
    return main if samples[main] else int(samples.argmax())


def _json(one: Opportunity) -> dict[str, Any]:
    """All fields but the samples, which are numbers of this analysis alone."""
    data = asdict(replace(one, causes=dict(one.causes), samples=frozenset()))
    del data["samples"]
    data["saving"] = {end.removesuffix("_ns"): ns for end, ns in data["saving"].items()}
    return {"saving_ns" if name == "saving" else name: value for name, value in data.items()}


_STYLES = {"gain": "green", "basis": "dim", "evidence": "dim"}


def _card_text(card: Card) -> Iterator[RenderableType]:
    yield Text(f"{card.it.rank}  ", "bold") + sentence(printable(card.it.title), "bold")
    lines: list[Text] = []
    for kind, words in card.fields():
        if kind in ("code", "environment"):
            lines += [Text("    " + as_typed(printable(line))) for line in words.splitlines()]
        else:
            arrow = "→ " if kind == "cure" else ""
            lines.append(sentence(printable(arrow + words), _STYLES.get(kind, "")))
    yield Padding(Group(*lines), (0, 0, 0, 3), expand=False)


def _card_markdown(card: Card) -> Iterator[str]:
    one = card.it
    yield from ("", f"#### {one.rank}. {markdown.text(one.title)}", "")
    gain = card.gain[:1].upper() + card.gain[1:]
    yield f"**{gain}**; costs {units.format_ns(one.cost_ns)}. {markdown.code(card.site)}"
    listed = False
    for kind, words in card.fields():
        if kind in ("code", "environment"):
            yield from ("", *markdown.block(words.splitlines()))
        elif kind == "cure":
            yield from ("", markdown.text(words))
        elif kind not in ("gain", "site"):
            yield from ([] if listed else [""])
            listed = True
            yield f"- {markdown.text(words)}"


def evidence_words(text: str, command: str) -> str:
    """The proof, and the command that shows it."""
    return f"{text} (pinprof {command})" if command else text
