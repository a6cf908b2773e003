"""The terminal's tables of Python lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.table import Table
from rich.text import Text

from pinprof import units
from pinprof.report.names import printable, shortened
from pinprof.report.python_data import PythonTable, main_threads
from pinprof.report.terminal.layout import cause, kept

_MOST_ROWS = 15
_SMALLEST_SHARE = 0.005
_CAUSES, _SMALLEST_CAUSE = 4, 0.03
_NAME_WIDTH = 28
"""Of a file, a function and a library's line: as wide as the column is in 80 columns, so that none is broken."""


def sections(tables: tuple[PythonTable, ...], style: Callable[[str], str]) -> Iterator[tuple[str, Table]]:
    """(heading, table) of each event; `style` gives the colour of a cause."""
    for table in tables:
        yield f"Python {table.noun}s · {printable(table.event)}", _table(table, style)


def _table(data: PythonTable, style: Callable[[str], str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column(data.noun, overflow="fold")
    shown = [row for row in data.rows[:_MOST_ROWS] if row.weight >= _SMALLEST_SHARE * data.total]
    threads = [printable(main_threads(row.threads)) for row in shown]
    several = len(set(threads)) > 1
    if several:
        table.add_column("thread", overflow="fold", max_width=18)
    table.add_column("causes", overflow="fold")
    for row, thread in zip(shown, threads, strict=True):
        causes = Text()
        for leaf, weight in list(row.leaves.items())[:_CAUSES]:
            if weight >= _SMALLEST_CAUSE * row.weight:
                causes += cause(leaf, units.format_share(weight, row.weight), style(leaf))
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
        (data.total - data.weight, "(no Python on the stack)"),
    )
    for weight, label in rest:
        if weight:
            share = units.format_share(weight, data.total)
            table.add_row(share, units.format_weight(weight, data.unit), Text(kept(label), "dim"))
    return table
