"""The sections of a report. A section is one module here, one template and one line in `SECTIONS`."""

from __future__ import annotations

from pinprof.report.section import Section
from pinprof.report.sections.activity import ActivityEntry
from pinprof.report.sections.blame import WhoWaits
from pinprof.report.sections.calls import CallsSection
from pinprof.report.sections.causes import Causes
from pinprof.report.sections.findings import Findings
from pinprof.report.sections.flame import Flamegraph
from pinprof.report.sections.hero import Hero
from pinprof.report.sections.ledger import LedgerSection
from pinprof.report.sections.lines import LinesSection
from pinprof.report.sections.machine import Machine
from pinprof.report.sections.memory import Memory
from pinprof.report.sections.opportunities import WhatToChange
from pinprof.report.sections.phases import Phases
from pinprof.report.sections.quality import Quality
from pinprof.report.sections.ranges import Ranges
from pinprof.report.sections.ranges.walls import Walls
from pinprof.report.sections.reproduce import Reproduce
from pinprof.report.sections.timeline import OverTime
from pinprof.report.sections.transfers import Transfers
from pinprof.report.sections.uvm import ManagedMemory

SECTIONS: tuple[type[Section], ...] = (
    Hero, WhatToChange, Phases, OverTime, WhoWaits, Causes, Ranges, Walls, LinesSection, CallsSection,
    Transfers, ManagedMemory, LedgerSection, Memory, Flamegraph, Findings, Quality, Machine, Reproduce, ActivityEntry,
)  # fmt: skip
"""In the order of the page."""

TEXT_ORDER = (
    "hero", "opportunities", "phases", "causes", "ranges", "lines", "walls", "blame", "ledger", "memory", "calls",
    "transfers",
    "uvm", "findings", "quality", "reproduce",
)  # fmt: skip
"""The terminal's order, by key: what was measured, then what it means. Sections without a place here come last."""

JSON_ORDER = (
    "hero", "opportunities", "phases", "causes", "ranges", "quality", "findings", "activity", "memory",
    "lines", "blame", "ledger",
)  # fmt: skip
"""The JSON's order, by key of the section that writes the entries. Sections without a place here come last."""


def ordered(keys: tuple[str, ...]) -> list[type[Section]]:
    """All sections, those of `keys` first."""
    place = {key: number for number, key in enumerate(keys)}
    return sorted(SECTIONS, key=lambda section: place.get(section.key, len(place)))
