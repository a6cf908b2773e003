"""Memory over time: curves of what the program held, peaks and the machine's counters in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze.memory import MemoryResult
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes
from pinprof.data.model import Int64
from pinprof.report.data import Explained
from pinprof.report.figures import layout, title
from pinprof.report.section import ForScripts, Section, picked
from pinprof.report.styles import Style
from pinprof.report.terminal.layout import kept, sentence, titled

CURVES: tuple[tuple[str, Style], ...] = (
    ("rss", Style("resident", "user")),
    ("shmem", Style("shared", "free")),
    ("huge", Style("in huge pages", "uvm")),
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
class Memory(Section[Explained]):
    """What the program held over time, and what the machine counted meanwhile."""

    key, title = "memory", "Memory"
    after = (("text", "ledger"), ("json", "activity"))
    absent = (("memory", None),)

    result: MemoryResult
    start_ns: int
    """Where the timeline begins, on the capture's clock; the first look where there is none."""

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None when nothing recorded it."""
        result = subject.run.memory
        if result is None:
            return None
        return cls(result, int(result.time_ns[0]) if subject.shared.start_ns is None else subject.shared.start_ns)

    def curves(self) -> list[tuple[str, Style, Int64, Int64]]:
        """(key, style, time since the start, bytes) of what the program ever held."""
        step = -(-self.result.looks // POINTS)
        edges = np.arange(0, self.result.looks, step)
        return [
            (key, style, self.result.time_ns[edges] - self.start_ns, np.maximum.reduceat(values, edges))
            for key, style in CURVES
            if (values := self.result.together.get(key)) is not None and (key == "rss" or values.any())
        ]

    @property
    def tiles(self) -> list[tuple[str, str]]:
        """(figure, what it is): peaks worth a tile."""
        result = self.result
        tiles = [
            (units.format_bytes(result.peak[key]), f"{style.label.removeprefix('of it ')}, peak")
            for key, style in CURVES
            if result.peak.get(key) or (key == "rss" and key in result.peak)
        ]
        if result.lowest_free_bytes is not None:
            tiles.append((units.format_bytes(result.lowest_free_bytes), "free on the machine, minimum"))
        if result.peak.get("threads", 0) > 1:
            tiles.append((units.format_count(result.peak["threads"]), "threads, peak"))
        return tiles

    @property
    def notes(self) -> list[str]:
        """What the machine's counters say of faults, pins and huge pages."""
        growth, result, notes = self.result.growth, self.result, []
        if result.looks <= _FEW_LOOKS:
            looks = units.format_counted(result.looks, "time", "times")
            notes.append(f"Memory was sampled only {looks}, so short peaks may be missing.")
        pinned, released = growth.get("nr_foll_pin_acquired", 0), growth.get("nr_foll_pin_released", 0)
        if pinned or released:
            notes.append(
                f"{units.format_counted(pinned, 'page was', 'pages were')} pinned and {units.format_count(released)} "
                "released on the whole machine."
            )
        counted, hidden = result.program_faults, result.hidden_faults
        if hidden is not None and counted is not None and hidden >= _HIDDEN_FAULTS:
            notes.append(
                f"The machine counted {units.format_count(growth['pgfault'])} page faults, and the program's "
                "page-fault "
                f"event {units.format_count(counted)}. The other {units.format_count(hidden)} occurred during pins "
                "or in "
                "other programs."
            )
        huge, failed = growth.get("thp_fault_alloc", 0), growth.get("thp_fault_fallback", 0)
        if huge or failed:
            notes.append(
                f"{units.format_counted(huge, 'fault', 'faults')} got a huge page"
                + (f", {units.format_count(failed)} fell back to small pages." if failed else ".")
            )
        if growth.get("compact_stall"):
            notes.append(
                f"Programs waited {units.format_counted(growth['compact_stall'], 'time', 'times')} for memory "
                "compaction."
            )
        if growth.get("pswpout") or growth.get("pswpin"):
            notes.append(
                f"{units.format_counted(growth.get('pswpout', 0), 'page was', 'pages were')} written to swap, "
                f"{units.format_count(growth.get('pswpin', 0))} read back."
            )
        if result.processes > 1:
            notes.append("Totals add up all processes, so shared pages count once per process.")
        return notes

    @property
    def figure(self) -> dict[str, Any] | None:
        """What the program held over time, a line for each kind of memory; None when nothing was ever held."""
        curves = self.curves()
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
            "layout": layout(title("seconds"), {"rangemode": "tozero"} | title(unit), 250, showlegend=True),
        }

    def to_json(self) -> dict[str, Any]:
        """Peaks and counters; single looks stay out of it."""
        peak = {key if key == "threads" else f"{key}_bytes": value for key, value in self.result.peak.items()}
        data = picked(self.result, "looks processes") | {"peak": peak} | picked(self.result, "lowest_free_bytes")
        growth = {"growth": dict(self.result.growth)}
        return {"memory": data | growth | picked(self.result, "program_faults hidden_faults")}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """Peaks in one line, and the notes."""
        peaks = Text(" · ").join(Text(kept(f"{figure} {what}")) for figure, what in self.tiles)
        yield from titled(self.title, Group(peaks, *(sentence(note, "dim") for note in self.notes)))

    def for_scripts(self) -> ForScripts:
        """The curves as a figure."""
        figure = self.figure
        return ForScripts(figures={"memory": figure} if figure else {})
