"""Lines of all languages: each event's weight by line, cut to the heavy ones, what is left out summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pinprof.analyze import Run
from pinprof.analyze.lines import EventLines, SourceLine
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import Explained
from pinprof.report.names import printable, shortened
from pinprof.report.rows import pool_name
from pinprof.report.section import Section, picked
from pinprof.report.terminal.layout import cause, kept, leaf_style, plain_table, titled

MOST_LINES = 40
SMALLEST_SHARE = 0.002
"""Lines below this share of the event's weight are summed up."""

_MOST_ROWS = 15
_SMALLEST_ROW = 0.005
_CAUSES, _SMALLEST_CAUSE = 4, 0.03
_NAME_WIDTH = 60
"""Cells for a file, a function and a library's line: as wide as the column is in 80 columns, so that none is broken."""


@dataclass(frozen=True)
class LineTable:
    """One event by line (by function of Python, where no line is known)."""

    event: str
    unit: str
    total: int
    """Weight of the event, with and without lines."""
    weight: int
    """Weight of the samples that have such a line, or an undecided one."""
    undecided: int
    """Weight of those at a line that is not known."""
    has_lines: bool
    rows: tuple[SourceLine, ...]
    """Heaviest first."""
    rest: int
    """How many lines are left out."""
    rest_weight: int

    @property
    def noun(self) -> str:
        """What a row is."""
        return "line" if self.has_lines else "function"


def main_threads(threads: Mapping[str, int], most: int = 2) -> str:
    """Names of the threads that a line ran in, heaviest first: `pt_data_pin`, `main, worker-* × 4 + 3 more`."""
    alike = Counter(map(pool_name, threads))
    named = (
        f"{pool_name(name)} × {alike[pool_name(name)]}" if alike[pool_name(name)] > 1 else name for name in threads
    )
    names = [name for name in dict.fromkeys(named) if name]
    more = f" + {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


@dataclass(frozen=True)
class LinesSection(Section[Explained]):
    """The events that have lines, in the order of the recording."""

    key, title = "lines", "Lines"
    after = (("json", "memory"),)
    absent = (("python", ()), ("lines", ()))

    tables: tuple[LineTable, ...]
    python: tuple[LineTable, ...] = ()
    """Python alone; equal where there is nothing else."""

    main_threads = staticmethod(main_threads)

    @classmethod
    def build(cls, subject: Explained) -> Self | None:
        """None without lines."""
        if not subject.run.lines:
            return None
        tables, python = (
            tuple(_table(subject.run, event) for event in events) for events in (subject.run.lines, subject.run.python)
        )
        return cls(tables, python)

    def table(self, event: str) -> LineTable | None:
        """The table of one event."""
        return next((table for table in self.tables if table.event == event), None)

    def to_json(self) -> dict[str, Any]:
        """Every table."""
        return {
            "python": [_table_json(table) for table in self.python],
            "lines": [_table_json(table) for table in self.tables],
        }

    def to_text(self, _: Console) -> Iterator[RenderableType]:
        """A table for each event."""
        for table in self.tables:
            yield from titled(f"{table.noun.capitalize()}s · {printable(table.event)}", _table_text(table))


def _table(analysis: Run, result: EventLines) -> LineTable:
    event = analysis.capture.events[result.event]
    rows = [line for line in result.lines[:MOST_LINES] if line.weight >= SMALLEST_SHARE * result.total]
    return LineTable(
        event=event.name,
        unit=event.unit,
        total=result.total,
        weight=result.weight,
        undecided=result.undecided,
        has_lines=result.has_lines,
        rows=tuple(rows),
        rest=len(result.lines) - len(rows),
        rest_weight=result.weight - result.undecided - sum(line.weight for line in rows),
    )


def _table_json(table: LineTable) -> dict[str, Any]:
    return (
        picked(table, "event total weight undecided")
        | {
            "lines": [
                asdict(line) | {"leaves": dict(line.leaves), "threads": dict(line.threads)} for line in table.rows
            ],
        }
        | picked(table, "rest rest_weight")
    )


def _table_text(data: LineTable) -> Table:
    table = plain_table()
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column(data.noun, overflow="fold")
    shown = [row for row in data.rows[:_MOST_ROWS] if row.weight >= _SMALLEST_ROW * data.total]
    threads = [printable(main_threads(row.threads)) for row in shown]
    several = len(set(threads)) > 1
    if several:
        table.add_column("thread", overflow="fold", max_width=18)
    table.add_column("causes", overflow="fold")
    for row, thread in zip(shown, threads, strict=True):
        causes = Text()
        for leaf, weight in list(row.leaves.items())[:_CAUSES]:
            if weight >= _SMALLEST_CAUSE * row.weight:
                causes += cause(leaf, units.format_share(weight, row.weight), leaf_style(leaf))
        line = Text(shortened(row.place, _NAME_WIDTH), "bold") + Text(f"  {shortened(row.function, _NAME_WIDTH)}")
        if row.inside and 2 * row.inside_weight > row.weight:
            line += Text(f"  {kept('in ' + shortened(row.inside, _NAME_WIDTH))}", "dim")
        table.add_row(
            Text(units.format_share(row.weight, data.total), "bold"),
            units.format_weight(row.weight, data.unit),
            line,
            *((Text(thread, "dim"),) if several else ()),
            causes,
        )
    left = data.weight - data.undecided - sum(row.weight for row in shown)
    rest = (
        (left, f"(other {data.noun}s)"),
        (data.undecided, "(line undecided)"),
        (data.total - data.weight, f"(no {data.noun} known)"),
    )
    for weight, label in rest:
        if weight:
            share = units.format_share(weight, data.total)
            table.add_row(share, units.format_weight(weight, data.unit), Text(kept(label), "dim"))
    return table
