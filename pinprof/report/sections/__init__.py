"""The sections of a report. A section is one module here, one template and one line in `SECTIONS`."""

from __future__ import annotations

from typing import Any

from pinprof.report.section import Section
from pinprof.report.sections.activity import ACTIVITY
from pinprof.report.sections.calls import CALLS
from pinprof.report.sections.causes import CAUSES
from pinprof.report.sections.counterfactual import COUNTERFACTUAL
from pinprof.report.sections.findings import FINDINGS
from pinprof.report.sections.flame import FLAME
from pinprof.report.sections.hero import HERO
from pinprof.report.sections.machine import MACHINE
from pinprof.report.sections.memory import MEMORY
from pinprof.report.sections.pinning import PINNING
from pinprof.report.sections.python import PYTHON
from pinprof.report.sections.quality import QUALITY
from pinprof.report.sections.ranges import RANGES
from pinprof.report.sections.ranges.walls import WALLS
from pinprof.report.sections.reproduce import REPRODUCE
from pinprof.report.sections.timeline import TIMELINE
from pinprof.report.sections.transfers import TRANSFERS
from pinprof.report.sections.uvm import UVM

SECTIONS: tuple[Section[Any], ...] = (
    HERO, CAUSES, PINNING, FINDINGS, COUNTERFACTUAL, RANGES, WALLS, PYTHON, TIMELINE, CALLS, TRANSFERS, UVM, MEMORY,
    FLAME, QUALITY, MACHINE, REPRODUCE, ACTIVITY,
)  # fmt: skip
"""In the order of the page."""

TEXT_ORDER = (
    "hero", "causes", "ranges", "python", "walls", "memory", "calls", "transfers", "uvm", "pinning", "counterfactual",
    "findings", "quality", "reproduce",
)  # fmt: skip
"""The terminal's order, by key: what was measured, then what it means. Sections without a place here come last."""

JSON_ORDER = (
    "hero", "causes", "ranges", "quality", "findings", "activity", "memory", "counterfactual", "pinning", "python",
)  # fmt: skip
"""The JSON's order, by key of the section that writes the entries. Sections without a place here come last."""


def ordered(keys: tuple[str, ...]) -> list[Section[Any]]:
    """All sections, those of `keys` first."""
    place = {key: number for number, key in enumerate(keys)}
    return sorted(SECTIONS, key=lambda section: place.get(section.key, len(place)))
