"""The head of a report: the headline, how the recording was made, and a line of key facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from pinprof import units
from pinprof.analyze import Analysis
from pinprof.report.data import EventData, ReportData, Shared
from pinprof.report.names import printable
from pinprof.report.section import Section
from pinprof.report.sections.quality import activity_counts
from pinprof.report.terminal.layout import kept, sentence


@dataclass(frozen=True, slots=True)
class Hero:
    """A line of key facts under the headline."""

    facts: tuple[str, ...]


def key_facts(shared: Shared) -> list[str]:
    """What ran, how much of it, and how much was recorded."""
    facts = _scenario_facts(shared.capture.scenario)
    facts += [_event_fact(event) for event in shared.events]
    return facts + [f"{units.format_count(count)} {label}" for count, label in activity_counts(shared.activity)]


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


def _event_fact(event: EventData) -> str:
    if event.spans:
        return units.format_counted(event.samples, "wait", "waits")
    if event.name == event.unit:
        # Counts of which nothing is known: the event has no name but its unit.
        return units.format_counted(event.samples, "weighted stack", "weighted stacks")
    count = f"{units.format_counted(event.samples, 'sample', 'samples')} of {event.name}"
    rate = re.search(r"\d+", event.sampling.replace(",", ""))
    in_name = rate is None or re.search(rf"={rate[0]}\b", event.name)
    return count if in_name else f"{count}, {event.sampling}"


def _build(_: Analysis, shared: Shared) -> Hero:
    return Hero(tuple(key_facts(shared)))


def _to_json(_: Hero | None, report: ReportData) -> dict[str, Any]:
    return {"headline": report.headline, "capture": asdict(report.capture)}


def _to_text(hero: Hero, report: ReportData, _: Console) -> Iterator[RenderableType]:
    yield sentence(printable(report.headline), "bold")
    badge = ("host emulation · ", "yellow") if report.capture.emulated else ""
    if facts := Text.assemble(badge, (" · ".join(kept(printable(fact)) for fact in hero.facts), "dim")):
        yield facts


HERO = Section("hero", "", _build, to_json=_to_json, to_text=_to_text)
