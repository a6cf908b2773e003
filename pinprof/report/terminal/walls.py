"""The terminal's table of wall time: how much of each range its thread ran, waited, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pinprof import units
from pinprof.report.data import ReportData
from pinprof.report.names import shortened
from pinprof.report.terminal.layout import cause

_MOST, _NAME_WIDTH = 3, 24


def told(data: ReportData) -> bool:
    """Whether waits were recorded, so that wall time is explained and not just compared."""
    return any(entry.wall for entry in data.ranges)


def sections(data: ReportData, style: Callable[[str], str]) -> Iterator[tuple[str, Group]]:
    """(heading, table), when there is one; `style` gives the colour of a cause."""
    if told(data):
        yield "Wall time of the threads that opened the ranges", _table(data, style)


def _table(data: ReportData, style: Callable[[str], str]) -> Group:
    walls = [(entry, entry.wall) for entry in data.ranges if entry.wall]
    gpu = any(wall.gpu_ns for _, wall in walls)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("range", overflow="ellipsis", no_wrap=True, max_width=_NAME_WIDTH)
    for title in ("wall each", "on CPU", *(("GPU",) if gpu else ()), "waits", "rest"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("most of it", overflow="fold")
    for entry, wall in walls:
        parts = Text()
        for part in wall.most(_MOST):
            parts += cause(part.leaf, units.format_share(part.share, 1), style(part.leaf))
        table.add_row(
            Text("  " * entry.indent + shortened(entry.name, _NAME_WIDTH)),
            units.format_ns(wall.wall_ns / entry.count),
            units.format_share(wall.on_cpu_ns, wall.wall_ns) if wall.sampled_enough else "–",
            *((units.format_share(wall.gpu_ns, wall.wall_ns) if wall.sampled_enough else "–",) if gpu else ()),
            units.format_share(wall.off_cpu_ns, wall.wall_ns),
            units.format_share(wall.remainder_ns, wall.wall_ns) if wall.sampled_enough else "–",
            parts if wall.sampled_enough else Text("too short for its samples", "dim"),
        )
    notes = [Text("GPU: waiting for it, on a CPU or off it; part of both.", "dim")] if gpu else []
    return Group(table, *notes)
