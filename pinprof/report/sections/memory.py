"""Memory over time for people: curves for the timeline and the page, peaks and counters in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pinprof import units
from pinprof.analyze.memory import MemoryResult
from pinprof.model import Int64
from pinprof.report.styles import Style

CURVES: tuple[tuple[str, Style], ...] = (
    ("rss", Style("resident", "user")),
    ("shmem", Style("of it shared", "free")),
    ("huge", Style("of it in huge pages", "uvm")),
    ("pinned", Style("pinned (VmPin)", "pin")),
    ("locked", Style("locked (VmLck)", "dma")),
    ("swap", Style("swapped out", "fault")),
)
"""What is drawn, with a level for its colour: resident memory always, the others where there is any."""

_HIDDEN_FAULTS = 1_000
"""Fewer faults beyond the program's own say nothing: its event counts by the period, and a machine is never still."""

_FEW_LOOKS = 5
"""Up to so many looks a peak is easily missed."""

POINTS = 2_000
"""Of longer logs each step keeps its peak."""


@dataclass(frozen=True)
class MemoryData:
    """What a report shows of memory over time."""

    result: MemoryResult
    start_ns: int
    """Of the timeline, on the capture's clock; the first look where there is none."""

    def curves(self) -> list[tuple[str, Style, Int64, Int64]]:
        """(key, style, time since the start, bytes) of what the program ever held."""
        step = -(-self.result.looks // POINTS)
        edges = np.arange(0, self.result.looks, step)
        return [
            (key, style, self.result.time_ns[edges] - self.start_ns, np.maximum.reduceat(values, edges))
            for key, style in CURVES
            if (values := self.result.together.get(key)) is not None and (key == "rss" or values.any())
        ]


def memory_json(data: MemoryData | None) -> dict[str, Any] | None:
    """The documented JSON (docs/json.md); single looks stay out of it."""
    if data is None:
        return None
    found = data.result
    return {
        "looks": found.looks,
        "processes": found.processes,
        "peak": {_json_key(key): value for key, value in found.peak.items()},
        "lowest_free_bytes": found.lowest_free_bytes,
        "growth": dict(found.growth),
        "program_faults": found.program_faults,
        "hidden_faults": found.hidden_faults,
    }


def _json_key(key: str) -> str:
    return key if key == "threads" else f"{key}_bytes"


def memory_tiles(data: MemoryData) -> list[tuple[str, str]]:
    """(figure, what it is): peaks worth a tile."""
    found = data.result
    tiles = [
        (units.format_bytes(found.peak[key]), f"{style.label.removeprefix('of it ')} at most")
        for key, style in CURVES
        if found.peak.get(key) or (key == "rss" and key in found.peak)
    ]
    if found.lowest_free_bytes is not None:
        tiles.append((units.format_bytes(found.lowest_free_bytes), "free on the machine at least"))
    if found.peak.get("threads", 0) > 1:
        tiles.append((units.format_count(found.peak["threads"]), "threads at once"))
    return tiles


def memory_notes(data: MemoryData) -> list[str]:
    """What the machine's counters say of faults, pins and huge pages."""
    growth, found, notes = data.result.growth, data.result, []
    if found.looks <= _FEW_LOOKS:
        looks = units.format_counted(found.looks, "time", "times")
        notes.append(f"Memory was looked at {looks} only: the program may have held more in between.")
    pinned, released = growth.get("nr_foll_pin_acquired", 0), growth.get("nr_foll_pin_released", 0)
    if pinned or released:
        notes.append(
            f"{units.format_counted(pinned, 'page was', 'pages were')} pinned and {units.format_count(released)} "
            "released, on the whole machine."
        )
    if found.hidden_faults is not None and found.program_faults is not None and found.hidden_faults >= _HIDDEN_FAULTS:
        notes.append(
            f"The machine counted {units.format_count(growth['pgfault'])} page faults, the page-fault event of the "
            f"program {units.format_count(found.program_faults)}: the other {units.format_count(found.hidden_faults)} "
            "were taken inside pins, or by other programs."
        )
    huge, failed = growth.get("thp_fault_alloc", 0), growth.get("thp_fault_fallback", 0)
    if huge or failed:
        notes.append(
            f"{units.format_counted(huge, 'fault', 'faults')} got a huge page"
            + (f", {units.format_count(failed)} wanted one in vain." if failed else ".")
        )
    if growth.get("compact_stall"):
        notes.append(
            f"{units.format_counted(growth['compact_stall'], 'time', 'times')} a program waited for memory to be "
            "compacted."
        )
    if growth.get("pswpout") or growth.get("pswpin"):
        notes.append(
            f"{units.format_counted(growth.get('pswpout', 0), 'page was', 'pages were')} written to swap, "
            f"{units.format_count(growth.get('pswpin', 0))} read back."
        )
    if found.processes > 1:
        notes.append("Processes are added up: pages that several share count in each.")
    return notes
