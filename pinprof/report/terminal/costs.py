"""The run in other kinds of memory and the time to pinned memory, in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof import units
from pinprof.analyze.costs.results import Counterfactual, PinningCurve
from pinprof.report import cost_rows, palette
from pinprof.report.names import printable
from pinprof.report.terminal.layout import kept, told

_BAR = 24


def sections(run: Counterfactual | None, curve: PinningCurve | None) -> Iterator[tuple[str, RenderableType]]:
    """(title, body) of every section that has something to show."""
    if curve:
        yield "Time to pinned memory", _curve(curve)
    if run:
        yield "In other kinds of memory", _modes(run)


def _modes(run: Counterfactual) -> Group:
    lines: list[RenderableType] = [told(printable(cost_rows.saving_sentence(run)))]
    if run.measured_utc:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("an iteration", justify="right", no_wrap=True)
        table.add_column("error", no_wrap=True)
        table.add_column("against measured", no_wrap=True)
        table.add_column("with", overflow="fold")
        for row in cost_rows.mode_rows(run):
            once = f", {kept(units.format_ns(row.once_ns))} once" if row.once_ns else ""
            table.add_row(
                Text(units.format_ns(row.ns), "bold"),
                row.error or "measured",
                "" if row.measured else cost_rows.difference(run, row),
                Text(printable(row.title) + once, "bold" if row.measured else ""),
            )
        lines += [
            *((table,) if run.estimates else ()),
            *(Padding(told(printable(note), "dim"), expand=False) for note in cost_rows.notes(run)),
        ]
    return Group(*lines)


def _curve(curve: PinningCurve) -> Group:
    rows = cost_rows.pinning_rows(curve)
    longest = max(time.median_ns for _, time in rows)
    colour = palette.level_colour("pin", dark=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", overflow="fold", max_width=40)
    for title in ("per GiB", "least", "most"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name, time in rows:
        cells = round(_BAR * time.median_ns / longest) if longest else 0
        table.add_row(
            Text(printable(name)),
            Text(units.format_ns(curve.per_gib(time.median_ns)), "bold"),
            units.format_ns(curve.per_gib(time.least_ns)),
            units.format_ns(curve.per_gib(time.most_ns)),
            Text("█" * cells, colour if time.threads else "dim"),
        )
    runs = units.format_counted(curve.baseline.runs, "run", "runs")
    what = f"{units.format_bytes(curve.size_bytes)}, {runs}: medians, least and most."
    return Group(told(printable(curve.sentence())), table, told(what, "dim"))
