"""Ranges: what happened inside the ranges of each name, as a chart and as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pinprof.analyze.activity.results import ActivityAnalysis, ScopeActivity
from pinprof.analyze.ranges.paths import RangePath
from pinprof.analyze.results import RangeResult
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Cause, Explained
from pinprof.report.names import printable, shortened
from pinprof.report.section import ForScripts, Section, picked
from pinprof.report.sections.ranges.walls import Wall, wall_json
from pinprof.report.sections.uvm import uvm_tiles
from pinprof.report.shown import ShownRanges
from pinprof.report.terminal.layout import DEEPEST, cause, leaf_style, range_name, ranges_table, sentence, titled

MEASURES = {"mean": "per range", "total": "total", "share": "share"}
"""Key → label of what a bar's length and a cell of the full table can mean."""

_NAME_WIDTH, _LABEL_WIDTH = 44, 28
"""Characters of a name in the terminal, and beside a bar of the chart."""


@dataclass(frozen=True)
class Ranges(Section[Explained]):
    """The ranges of every name, in the order of their first start."""

    key, title = "ranges", "Ranges"
    shows = "rows"

    rows: tuple[RangeResult, ...]
    walls: tuple[Wall | None, ...]
    """One for each row; None where its wall time is unexplained."""
    activity: ActivityAnalysis | None
    """With one of its ranges for each row; None when nothing traced the program."""
    causes: tuple[Cause, ...]
    """As in `Shared`."""
    phase_calls: Mapping[str, str]
    """As in `Shared`."""
    shown: ShownRanges
    """Which of the rows people are shown; JSON has all."""
    merged: bool
    """Whether the samples travel without their times."""

    measures = MEASURES

    @classmethod
    def build(cls, subject: Explained) -> Self:
        """The page's scripts and the JSON want a list, if an empty one."""
        return cls(
            subject.shared.ranges,
            tuple(Wall(entry.wall) if entry.wall else None for entry in subject.shared.ranges),
            subject.shared.activity,
            subject.shared.causes,
            subject.shared.phase_calls,
            subject.shared.shown,
            merged=subject.shared.flame is not None and not subject.shared.flame.timed,
        )

    @property
    def has_activity(self) -> bool:
        """Whether anything of CUDA happened in a range that is shown."""
        scopes = (scope for _, _, scope in self.shown_rows if scope)
        return any(scope.calls or scope.busy_ns or scope.lost_ns for scope in scopes)

    @property
    def shown_rows(self) -> list[tuple[RangeResult, Wall | None, ScopeActivity | None]]:
        """What people are shown, in the order of `rows`."""
        return [
            (self.rows[index], self.walls[index], self.activity.ranges[index] if self.activity else None)
            for index in self.shown.index.tolist()
        ]

    @property
    def others(self) -> str:
        """What is said of the ranges that are not shown; empty where all are."""
        if not self.shown.hidden:
            return ""
        calls = units.format_counted(self.shown.hidden_calls, "call", "calls")
        return (
            f"The list shows the longest {units.format_count(len(self.shown.index))} of "
            f"{units.format_count(len(self.rows))} ranges. The others have {calls}, and none of them took longer than "
            f"{units.format_ns(self.shown.longest_hidden_ns)} in total. The JSON lists all of them."
        )

    @property
    def has_chart(self) -> bool:
        """Whether any range that is shown has samples."""
        return any(part.total for entry, _, _ in self.shown_rows for part in entry.events)

    def to_json(self) -> dict[str, Any]:
        """Every row."""
        number: dict[RangePath | None, int | None] = {None: None}
        number.update((entry.path, index) for index, entry in enumerate(self.rows))
        return {
            "ranges": [
                picked(entry, "name domain depth")
                | {"parent": number[entry.path.parent]}
                | _range_json(entry, self.phase_calls.get(entry.name, ""))
                for entry in self.rows
            ]
        }

    def to_text(self, _: Console) -> Iterator[RenderableType]:
        """A table for each event; where nothing was sampled in ranges, one by their own clock."""
        explained = any(wall for _, wall, _ in self.shown_rows)
        if self.rows and not self.has_chart:
            yield from titled(self.title, _spreads(self))
        for index, event in enumerate(self.rows[0].events if self.rows else ()):
            # The table of wall times says the same of waits.
            if any(entry.events[index].total for entry in self.rows) and not (event.event.spans and explained):
                yield from titled(f"{self.title} · {printable(event.name)}", _table(self, index))
        if self.others:
            yield sentence(self.others, "dim")

    def for_scripts(self) -> ForScripts:
        """Every row, to be summed again for a filtered part."""
        number = {cause.key: index for index, cause in enumerate(self.causes)}
        rows = [_for_script(self.activity, index, self.rows[index], number) for index in self.shown.index.tolist()]
        return ForScripts({"ranges": rows}, plots=self.has_chart)


def _range_json(entry: RangeResult, call: str) -> dict[str, Any]:
    figures = picked(entry, "count wall_ns wall_min_ns wall_median_ns wall_max_ns own_thread_ns")
    return {
        "call": call,
        **figures,
        "wall": wall_json(entry.wall) if entry.wall else None,
        "events": [picked(part, "name total") | {"leaves": part.by_leaf} for part in entry.events if part.total],
    }


def _table(ranges: Ranges, index: int) -> Table:
    """A row for each range, with the heaviest causes of one event."""
    table = ranges_table(_NAME_WIDTH, "count", "wall each", "sampled each")
    table.add_column("causes", overflow="fold")
    for entry, _, _ in ranges.shown_rows:
        part = entry.events[index]
        causes, sampled = Text(), "–"
        if part.total:
            sampled = units.format_weight(part.total / entry.count, part.unit)
            for leaf, weight in list(part.by_leaf.items())[:4]:
                if weight >= 0.02 * part.total:
                    causes += cause(leaf, units.format_share(weight, part.total), leaf_style(leaf))
            if part.too_few:
                causes += Text(f"too few samples: {units.format_count(part.drawn or 0)}", "dim")
        table.add_row(
            range_name(entry),
            units.format_count(entry.count),
            units.format_ns(entry.wall_ns / entry.count),
            sampled,
            causes,
        )
    return table


def _spreads(ranges: Ranges) -> Table:
    """Ranges by their own clock alone, where nothing was sampled in them."""
    table = ranges_table(_NAME_WIDTH, "count", "wall each", "fastest", "median", "slowest")
    for entry, _, _ in ranges.shown_rows:
        spread = (entry.wall_ns / entry.count, entry.wall_min_ns, entry.wall_median_ns, entry.wall_max_ns)
        table.add_row(
            range_name(entry),
            units.format_count(entry.count),
            *map(units.format_ns, spread),
        )
    return table


def _for_script(
    activity: ActivityAnalysis | None, index: int, entry: RangeResult, number: Mapping[str, int]
) -> dict[str, Any]:
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
            [[number[leaf], weight] for leaf, weight in part.by_leaf.items()] if part.total else []
            for part in entry.events
        ],
        "tiles": [(tile.value, tile.label, tile.warn) for tile in tiles],
    }


def label(entry: RangeResult) -> str:
    """A range's name beside its bar, indented by its depth, as text that plotly does not read as markup."""
    name = "\u00a0" * (3 * min(entry.depth, DEEPEST)) + shortened(entry.name, _LABEL_WIDTH)
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
