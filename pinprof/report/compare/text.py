"""A difference in the terminal, as wide as that is. Only what is significant has a colour."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pinprof.base.units import format_counted, format_weight
from pinprof.compare.results import FAMILIES, Difference, Family, Row
from pinprof.report.compare import figures
from pinprof.report.names import printable, shortened
from pinprof.report.terminal.layout import kept, plain_table, sentence, titled

_MOST_ROWS = 8
"""Of one family."""
_WIDE = 100
"""Cells from which on a table has its intervals."""
_NARROWEST_NAME = 12


def parts(difference: Difference, console: Console) -> Iterator[RenderableType]:
    """All of it, one below the other."""
    yield sentence(printable(difference.headline), "bold")
    sides = f"before: {figures.side_words(difference.before)} · after: {figures.side_words(difference.after)}"
    yield Text(printable(sides), "dim")
    yield sentence(printable(difference.tested))
    yield sentence(printable(difference.work.how), "dim")
    for note in difference.notes:
        yield sentence(printable(note), "yellow")
    yield from _surroundings(difference)
    yield from _opportunities(difference)
    for family in FAMILIES:
        yield from _family(difference, family, console)
    yield from _unmatched(difference)


def _surroundings(difference: Difference) -> Iterator[RenderableType]:
    if not difference.surroundings:
        yield Text(figures.NOTHING_AROUND, "dim")
        return
    table = plain_table()
    for title in ("around the program", "before", "after"):
        table.add_column(title, overflow="fold")
    for one in difference.surroundings:
        table.add_row(one.what, printable(one.before), printable(one.after))
    yield from titled("What else differs", table)
    for line in dict.fromkeys(one.effect for one in difference.surroundings if one.effect):
        yield Text("  ") + sentence(printable(line), "dim")
    if not difference.shares:
        yield Text("  ") + Text(figures.NO_SHARES, "yellow")


def _opportunities(difference: Difference) -> Iterator[RenderableType]:
    if not difference.opportunities:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for one in difference.opportunities:
        words = sentence(printable(one.title)) + Text(kept(f" ({figures.opportunity_words(one)})"), "dim")
        table.add_row(Text(figures.FATE_TITLES[one.fate].lower()), words)
    yield from titled("What to change", table)


def _family(difference: Difference, family: Family, console: Console) -> Iterator[RenderableType]:
    rows = difference.family(family)
    if not rows:
        return
    shown = rows[:_MOST_ROWS]
    wide = console.width >= _WIDE
    tested = any(not row.untested for row in shown)
    shares = {row: figures.share_of_work(difference, row) for row in shown}
    titles = ["before", "after", "change", "%"]
    titles += ["95 % interval"] if wide and tested else []
    limits = any(row.detectable is not None for row in shown)
    titles += ["detectable from"] if limits else []
    titles += ["of the work"] if wide and any(shares.values()) else []
    table = plain_table(*titles)
    table.add_column("", no_wrap=True, overflow="ellipsis", min_width=_NARROWEST_NAME)
    for row in shown:
        style = _style(row)
        cells = [format_weight(row.mean_before, row.unit), format_weight(row.mean_after, row.unit)]
        cells += [figures.signed(row), figures.percent(row)]
        cells += [figures.interval(row)] if wide and tested else []
        cells += [figures.found_from(row)] if limits else []
        if wide and any(shares.values()):
            share = shares[row]
            cells.append(f"{share[0]} → {share[1]}" if share else "")
        name = shortened(figures.row_name(row), max(console.width - 40, _NARROWEST_NAME))
        table.add_row(*(Text(cell, style) for cell in cells), Text(name, style))
    yield from titled(printable(figures.family_title(difference, family)), table)
    if len(rows) > len(shown):
        more = format_counted(len(rows) - len(shown), "more is", "more are")
        yield Text(f"  {more} in --format json.", "dim")


def _style(row: Row) -> str:
    """Green for less, red for more; nothing without significance."""
    if not row.significant:
        return ""
    return "green" if row.change < 0 else "red"


def _unmatched(difference: Difference) -> Iterator[RenderableType]:
    lines = [line for stacks in difference.stacks if (line := figures.unmatched_words(stacks))]
    if lines:
        yield Text("")
    for line in lines:
        yield sentence(printable(line), "dim")
