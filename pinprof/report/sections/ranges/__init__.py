"""Ranges: what happened inside the ranges of each name, as a chart and as tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pinprof import units
from pinprof.analyze import Analysis
from pinprof.analyze.activity.results import ScopeActivity
from pinprof.report.data import EventData, RangeData, ReportData, Shared
from pinprof.report.names import printable, shortened
from pinprof.report.section import ForScripts, Section
from pinprof.report.sections.ranges.chart import MEASURES, label
from pinprof.report.sections.ranges.walls import WALLS, Wall, wall_json
from pinprof.report.sections.uvm import uvm_tiles
from pinprof.report.terminal.layout import cause, leaf_style, ranges_table, titled

_NAME_WIDTH = 30


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges of every name, in the order of their first start."""

    rows: tuple[RangeData, ...]
    walls: tuple[Wall | None, ...]
    """One for each row; None where its wall time is not explained."""
    activity: tuple[ScopeActivity, ...]
    """One for each row; empty when nothing traced the program."""
    merged: bool
    """Whether the samples travel without their times."""

    @property
    def has_chart(self) -> bool:
        """Whether any range has samples."""
        return any(part.total for entry in self.rows for part in entry.events)

    @property
    def measures(self) -> dict[str, str]:
        """What a bar's length can mean."""
        return MEASURES


def ranges(shared: Shared) -> Ranges | None:
    """None for a recording without ranges."""
    if not shared.ranges:
        return None
    return Ranges(
        shared.ranges,
        tuple(Wall(entry.wall) if entry.wall else None for entry in shared.ranges),
        shared.activity.ranges if shared.activity else (),
        merged=shared.flame is not None and not shared.flame.timed,
    )


def _build(_: Analysis, shared: Shared) -> Ranges | None:
    return ranges(shared)


def _to_json(ranges: Ranges | None, _: ReportData) -> dict[str, Any]:
    return {"ranges": [_range_json(entry) for entry in ranges.rows] if ranges else []}


def _range_json(entry: RangeData) -> dict[str, Any]:
    return {
        "name": entry.name,
        "domain": entry.domain,
        "depth": entry.depth,
        "call": entry.call,
        "count": entry.count,
        "wall_ns": entry.wall_ns,
        "wall_min_ns": entry.wall_min_ns,
        "wall_median_ns": entry.wall_median_ns,
        "wall_max_ns": entry.wall_max_ns,
        "own_thread_ns": entry.own_thread_ns,
        "wall": wall_json(entry.wall),
        "events": [{"name": part.name, "total": part.total, "leaves": dict(part.leaves)} for part in entry.events],
    }


def _to_text(ranges: Ranges, report: ReportData, _: Console) -> Iterator[RenderableType]:
    if not any(entry.events for entry in ranges.rows):
        yield from titled("Ranges", _spreads(ranges))
    for event in report.events:
        # The table of wall times says the same of waits.
        if any(entry.event(event.name) for entry in ranges.rows) and not (event.spans and WALLS.of(report)):
            yield from titled(f"Ranges · {printable(event.name)}", _table(ranges, report, event))


def _table(ranges: Ranges, report: ReportData, event: EventData) -> Table:
    table = ranges_table(_NAME_WIDTH, "count", "wall each", "sampled each")
    table.add_column("causes", overflow="fold")
    for entry in ranges.rows:
        part = entry.event(event.name)
        causes, sampled = Text(), "–"
        if part and part.total:
            sampled = units.format_weight(part.total / entry.count, event.unit)
            for leaf, weight in list(part.leaves.items())[:4]:
                if weight >= 0.02 * part.total:
                    causes += cause(leaf, units.format_share(weight, part.total), leaf_style(report, leaf))
        table.add_row(
            Text("  " * entry.depth + shortened(entry.name, _NAME_WIDTH)),
            units.format_count(entry.count),
            units.format_ns(entry.wall_ns / entry.count),
            sampled,
            causes,
        )
    return table


def _spreads(ranges: Ranges) -> Table:
    """Ranges by their own clock alone, where nothing was sampled in them."""
    table = ranges_table(_NAME_WIDTH, "count", "wall each", "fastest", "median", "slowest")
    for entry in ranges.rows:
        spread = (entry.wall_ns / entry.count, entry.wall_min_ns, entry.wall_median_ns, entry.wall_max_ns)
        table.add_row(
            Text("  " * entry.depth + shortened(entry.name, _NAME_WIDTH)),
            units.format_count(entry.count),
            *map(units.format_ns, spread),
        )
    return table


def _for_scripts(ranges: Ranges | None, report: ReportData) -> ForScripts:
    if ranges is None:
        return ForScripts({"ranges": []})
    number = {cause.key: index for index, cause in enumerate(report.causes)}
    rows = [_for_script(report, index, entry, number) for index, entry in enumerate(ranges.rows)]
    return ForScripts({"ranges": rows}, plots=ranges.has_chart)


def _for_script(report: ReportData, index: int, entry: RangeData, number: dict[str, int]) -> dict[str, Any]:
    activity = report.activity
    # Managed memory in a range, as its section tells of the whole recording.
    tiles = uvm_tiles(activity, activity.ranges[index]) if activity else []
    return {
        "name": printable(entry.name),
        "label": label(entry),
        "depth": entry.depth,
        "count": entry.count,
        "wall": entry.wall_ns,
        "spread": [entry.wall_min_ns, entry.wall_median_ns, entry.wall_max_ns],
        "leaves": [
            [[number[leaf], weight] for leaf, weight in part.leaves.items()]
            if (part := entry.event(event.name))
            else []
            for event in report.events
        ],
        "tiles": [(tile.value, tile.label, tile.warn) for tile in tiles],
    }


RANGES = Section("ranges", "Ranges", _build, to_json=_to_json, to_text=_to_text, for_scripts=_for_scripts)
