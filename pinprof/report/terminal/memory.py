"""Memory over time in the terminal: peaks in one line, and what the machine's counters say."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.text import Text

from pinprof.report.data import ReportData
from pinprof.report.memory_rows import memory_notes, memory_tiles
from pinprof.report.terminal.layout import kept, told


def sections(data: ReportData) -> Iterator[tuple[str, Group]]:
    """(heading, lines), when memory was recorded."""
    if data.memory is None:
        return
    peaks = Text(" · ").join(Text(kept(f"{figure} {what}")) for figure, what in memory_tiles(data.memory))
    yield "Memory", Group(peaks, *(told(note, "dim") for note in memory_notes(data.memory)))
