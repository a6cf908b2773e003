"""Memory over time: curves of what the program held, peaks and the machine's counters in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof import units
from pinprof.analyze import Analysis
from pinprof.analyze.memory import MemoryResult
from pinprof.model import Int64
from pinprof.report.data import ReportData, Shared
from pinprof.report.section import ForScripts, Section
from pinprof.report.styles import Style
from pinprof.report.terminal.layout import kept, sentence, titled
from pinprof.units import format_bytes

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
"""Up to this number of looks a peak is easily missed."""

POINTS = 2_000
"""Points of a curve; each step of a longer log keeps its peak."""


@dataclass(frozen=True)
class MemoryData:
    """What a report shows of memory over time."""

    result: MemoryResult
    start_ns: int
    """Where the timeline begins, on the capture's clock; the first look where there is none."""

    @property
    def tiles(self) -> list[tuple[str, str]]:
        """As `memory_tiles`, for the template."""
        return memory_tiles(self)

    @property
    def notes(self) -> list[str]:
        """As `memory_notes`, for the template."""
        return memory_notes(self)

    @property
    def figure(self) -> dict[str, Any] | None:
        """As `memory_figure`."""
        return memory_figure(self)

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
    result = data.result
    return {
        "looks": result.looks,
        "processes": result.processes,
        "peak": {_json_key(key): value for key, value in result.peak.items()},
        "lowest_free_bytes": result.lowest_free_bytes,
        "growth": dict(result.growth),
        "program_faults": result.program_faults,
        "hidden_faults": result.hidden_faults,
    }


def _json_key(key: str) -> str:
    return key if key == "threads" else f"{key}_bytes"


def memory_tiles(data: MemoryData) -> list[tuple[str, str]]:
    """(figure, what it is): peaks worth a tile."""
    result = data.result
    tiles = [
        (units.format_bytes(result.peak[key]), f"{style.label.removeprefix('of it ')} at most")
        for key, style in CURVES
        if result.peak.get(key) or (key == "rss" and key in result.peak)
    ]
    if result.lowest_free_bytes is not None:
        tiles.append((units.format_bytes(result.lowest_free_bytes), "free on the machine at least"))
    if result.peak.get("threads", 0) > 1:
        tiles.append((units.format_count(result.peak["threads"]), "threads at once"))
    return tiles


def memory_notes(data: MemoryData) -> list[str]:
    """What the machine's counters say of faults, pins and huge pages."""
    growth, result, notes = data.result.growth, data.result, []
    if result.looks <= _FEW_LOOKS:
        looks = units.format_counted(result.looks, "time", "times")
        notes.append(f"Memory was looked at {looks} only: the program may have held more in between.")
    pinned, released = growth.get("nr_foll_pin_acquired", 0), growth.get("nr_foll_pin_released", 0)
    if pinned or released:
        notes.append(
            f"{units.format_counted(pinned, 'page was', 'pages were')} pinned and {units.format_count(released)} "
            "released, on the whole machine."
        )
    counted, hidden = result.program_faults, result.hidden_faults
    if hidden is not None and counted is not None and hidden >= _HIDDEN_FAULTS:
        notes.append(
            f"The machine counted {units.format_count(growth['pgfault'])} page faults, the page-fault event of the "
            f"program {units.format_count(counted)}: the other {units.format_count(hidden)} were taken inside pins, "
            "or by other programs."
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
    if result.processes > 1:
        notes.append("Processes are added up: pages that several share count in each.")
    return notes


def memory_figure(data: MemoryData) -> dict[str, Any] | None:
    """What the program held over time, a line for each kind of memory; None when nothing was ever held."""
    curves = data.curves()
    if not curves:
        return None
    most = max(int(level.max()) for _, _, _, level in curves)
    power = min(max(most.bit_length() - 1, 0) // 10, 6)
    unit = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")[power]
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "name": style.label,
                "meta": style.level,
                "x": [round(value / 1e9, 3) for value in time.tolist()],
                "y": [float(f"{value / 1024**power:.5g}") for value in level.tolist()],
                "text": [format_bytes(value) for value in level.tolist()],
                "line": {"width": 2, "shape": "hv"},
                "marker": {"symbol": "circle"},
                "hovertemplate": "%{x:.3g} s<br><b>%{text}</b><extra>%{fullData.name}</extra>",
            }
            for _, style, time, level in curves
        ],
        "layout": {
            "height": 250,
            "margin": {"l": 60, "r": 12, "t": 8, "b": 44},
            "xaxis": {"title": {"text": "seconds", "standoff": 8}, "fixedrange": True, "zeroline": False},
            "yaxis": {
                "rangemode": "tozero",
                "title": {"text": unit, "standoff": 8},
                "fixedrange": True,
                "zeroline": False,
            },
            "legend": {"traceorder": "normal"},
            "showlegend": True,
            "hovermode": "closest",
            "dragmode": False,
        },
    }


def _build(analysis: Analysis, shared: Shared) -> MemoryData | None:
    result = analysis.memory
    if result is None:
        return None
    return MemoryData(result, int(result.time_ns[0]) if shared.start_ns is None else shared.start_ns)


def _to_json(data: MemoryData | None, _: ReportData) -> dict[str, Any]:
    return {"memory": memory_json(data)}


def _to_text(data: MemoryData, _report: ReportData, _console: Console) -> Iterator[RenderableType]:
    peaks = Text(" · ").join(Text(kept(f"{figure} {what}")) for figure, what in data.tiles)
    yield from titled("Memory", Group(peaks, *(sentence(note, "dim") for note in data.notes)))


def _for_scripts(data: MemoryData | None, _: ReportData) -> ForScripts:
    figure = data.figure if data else None
    return ForScripts(figures={"memory": figure} if figure else {})


MEMORY = Section("memory", "Memory", _build, to_json=_to_json, to_text=_to_text, for_scripts=_for_scripts)
