"""A fleet's answer in the terminal: whole, or as the lines that go with a page."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from pinprof.base.units import format_count, format_counted, format_ns, format_share
from pinprof.fleet.results import Answer
from pinprof.report.fleet import words
from pinprof.report.names import printable, shortened
from pinprof.report.terminal.layout import plain_table, sentence, titled

MOST, FEW = 60, 5
"""Rows of a table in all of it, and in the summary."""


def parts(answer: Answer, console: Console, most: int = MOST) -> Iterator[RenderableType]:
    """All of it with tables of at most `most` rows, one below the other."""
    yield sentence(printable(answer.headline), "bold")
    yield Text(words.counted(answer), "dim")
    yield sentence(words.tested(answer), "dim")
    yield from _outliers(answer, console, most)
    yield from _savings(answer, most)
    changes = answer.changes[:most]
    if changes:
        yield from titled("Changes over time", Text("\n".join(printable(words.change(one)) for one in changes)))
    if most > FEW:
        yield from _causes(answer)
    yield from _unreadable(answer, console, most)
    for line in answer.untested:
        yield sentence(printable(f"Not tested: {line}"), "dim")


def _outliers(answer: Answer, console: Console, most: int) -> Iterator[RenderableType]:
    if not answer.outliers:
        return
    table = plain_table("effect")
    for title in ("what", "time", "chance"):
        table.add_column(title, overflow="fold" if title != "chance" else "ellipsis")
    width = max(console.width // 3, 20)
    for one in answer.outliers[:most]:
        reasons = [words.figures(one), *(words.because(one, cause) for cause in one.because[:2])]
        about = f" ({words.about(one)})" if one.captures > 1 else ""
        style = "yellow" if one.slower else ""
        table.add_row(
            Text(words.effect(one), style),
            Text(shortened(words.who(one), width) + printable(about)),
            Text(printable("; ".join(reasons))),
            Text(words.chance(one.p)),
        )
    yield from titled("Outliers", table)
    if len(answer.outliers) > most:
        yield Text(f"  {format_counted(len(answer.outliers) - most, 'more is', 'more are')} in --format json.", "dim")


def _savings(answer: Answer, most: int) -> Iterator[RenderableType]:
    found = [one for one in answer.savings if one.saving_ns][:most]
    if not found:
        return
    table = plain_table("saves", "of", "captures")
    table.add_column("what to change", overflow="fold")
    for one in found:
        table.add_row(
            Text(format_ns(one.saving_ns), "green"),
            format_share(one.saving_ns, one.whole_ns) if one.whole_ns else "–",
            format_count(one.captures),
            sentence(printable(f"{one.place or one.program}: {one.cure} ({one.program})")),
        )
    yield from titled("Largest savings across the fleet", table)


def _causes(answer: Answer) -> Iterator[RenderableType]:
    if not answer.spreads:
        return
    table = plain_table("time", "5 %", "median", "95 %", "most", "captures")
    table.add_column("cause")
    for one in answer.spreads:
        shares = [format_share(value, 1) for value in (one.low, one.median, one.high, one.most)]
        table.add_row(format_ns(one.total_ns), *shares, format_count(one.captures), one.cause)
    yield from titled("Causes by share of the work", table)


def _unreadable(answer: Answer, console: Console, most: int) -> Iterator[RenderableType]:
    if not answer.unreadable:
        return
    table = plain_table(header=False)
    table.add_column(overflow="ellipsis", no_wrap=True, max_width=max(console.width // 3, 20))
    table.add_column(overflow="fold")
    for one in answer.unreadable[:most]:
        table.add_row(Text(printable(one.path), "yellow"), Text(printable(one.reason)))
    yield from titled("Captures that could not be read", table)
    if len(answer.unreadable) > most:
        yield Text(f"  {len(answer.unreadable) - most} more are in --format json.", "dim")
