"""The head of a report: the headline, and below the answer how much was recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.text import Text

from pinprof.analyze.completeness import Gap
from pinprof.analyze.results import EventResult
from pinprof.analyze.selection import Part
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report import markdown
from pinprof.report.data import CaptureFacts, Explained
from pinprof.report.names import event_label, event_labels, printable
from pinprof.report.section import Section, picked
from pinprof.report.sections.causes import sampling
from pinprof.report.sections.quality import activity_counts
from pinprof.report.terminal.layout import kept, sentence

GAP_STYLE = {False: "yellow", True: "bold red"}
"""Whether a recording is damaged → how the line above the answer looks."""


@dataclass(frozen=True)
class Hero(Section[Explained]):
    """What was recorded, and the answer in one sentence."""

    key = "hero"

    headline: str
    gaps: tuple[Gap, ...]
    """What of the run is missing."""
    capture: CaptureFacts
    facts: tuple[str, ...]
    """What ran, how much of it, and how much was recorded."""
    part: Mapping[str, Any] | None = None
    """Which part of the recording this is; None: all of it."""

    @classmethod
    def build(cls, subject: Explained) -> Self:
        """Every report has a head."""
        counts = [f"{units.format_count(count)} {label}" for count, label in activity_counts(subject.shared.activity)]
        labels = event_labels([event.name for event in subject.shared.events])
        sampled = [_event_fact(event, labels[event.name]) for event in subject.shared.events]
        facts = (*_scenario_facts(subject.shared.capture.scenario), *sampled, *counts)
        part = _part(subject.run.part) if subject.run.part else None
        return cls(subject.shared.headline, subject.shared.gaps, subject.shared.capture, facts, part)

    def line(self) -> Text:
        """The facts in one line."""
        badge = ("host emulation · ", "yellow") if self.capture.emulated else ""
        return Text.assemble(badge, (" · ".join(kept(printable(fact)) for fact in self.facts), "dim"))

    def to_json(self) -> dict[str, Any]:
        """The answer, and how it was recorded."""
        part = {} if self.part is None else {"part": dict(self.part)}
        missing = [picked(gap, "kind text damaged") for gap in self.gaps]
        return {"incomplete": missing, "headline": self.headline, **part, "capture": asdict(self.capture)}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """What is missing and the answer, without a title."""
        yield from (sentence(printable(gap.text), GAP_STYLE[gap.damaged]) for gap in self.gaps)
        yield sentence(printable(self.headline), "bold")

    def to_markdown(self) -> Iterator[str]:
        """What is missing, and the answer."""
        for gap in self.gaps:
            yield from (f"> {markdown.text(gap.text)}", "")
        yield f"**{markdown.text(self.headline)}**"


@dataclass(frozen=True)
class HowMuch(Section[Explained]):
    """How much was recorded, below the answer: on the page with the choice of the event that is shown."""

    key = "counts"

    hero: Hero

    @classmethod
    def build(cls, subject: Explained) -> Self:
        """Every report counts something."""
        return cls(Hero.build(subject))

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A line of facts, without a title."""
        if facts := self.hero.line():
            yield from (Text(""), facts)


def _part(part: Part) -> dict[str, Any]:
    asked = part.asked
    return {
        "after_ns": asked.after_ns or 0,
        "until_ns": part.whole_ns if asked.until_ns is None else asked.until_ns,
        "whole_ns": part.whole_ns,
        "ranges": list(asked.ranges),
        "threads": list(asked.threads),
        "processes": list(asked.processes),
    }


def _scenario_facts(scenario: Mapping[str, Any]) -> list[str]:
    facts = []
    parameters = scenario.get("parameters")
    variant = parameters.get("variant") if isinstance(parameters, dict) else None
    if name := scenario.get("name"):
        facts.append(f"scenario {name}" + (f" ({variant})" if variant else ""))
    if backend := scenario.get("backend"):
        facts.append(f"{backend} backend")
    if isinstance(parameters, dict):
        size, iterations = parameters.get("size_bytes"), parameters.get("iterations")
        if isinstance(size, int):
            facts.append(f"{iterations} × {units.format_bytes(size)}" if iterations else units.format_bytes(size))
    memory = scenario.get("memory_bytes")
    if isinstance(memory, dict):
        facts += [f"{units.format_bytes(size)} of {what}" for what, size in memory.items() if isinstance(size, int)]
    return facts


def _event_fact(event: EventResult, label: str) -> str:
    if event.event.spans:
        idle = " of idle threads" if event_label(event.name) == "idle threads" else ""
        return units.format_counted(event.samples, "wait", "waits") + idle
    if event.name == event.unit:
        # Counts of which nothing is known: the event has no name but its unit.
        return units.format_counted(event.samples, "weighted stack", "weighted stacks")
    name = event.name if re.search("[/:]", event.name) else label
    what = ("weighted stack", "weighted stacks") if event.event.merged else ("sample", "samples")
    count = f"{units.format_counted(event.samples, *what)} of {name}"
    sampled = sampling(event.event)
    rate = re.search(r"\d+", sampled.replace(",", ""))
    in_name = rate is None or re.search(rf"={rate[0]}\b", event.name)
    return count if in_name else f"{count}, {sampled}"
