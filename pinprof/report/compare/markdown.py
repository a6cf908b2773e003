"""A difference as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from pinprof.base.units import format_counted, format_weight
from pinprof.compare.results import FAMILIES, Difference, Family
from pinprof.report.compare import figures
from pinprof.report.export.markdown import code, text
from pinprof.report.names import without_home

_MOST_ROWS = 8


def lines(difference: Difference) -> Iterator[str]:
    """All of it."""
    yield f"**{text(difference.headline)}**"
    yield ""
    yield text(difference.tested)
    yield text(difference.work.how)
    for note in difference.notes:
        yield from ("", text(note))
    yield from _surroundings(difference)
    yield from _opportunities(difference)
    for family in FAMILIES:
        yield from _family(difference, family)
    for stacks in difference.stacks:
        if words := figures.unmatched_words(stacks):
            yield from ("", text(words))
    yield ""
    before, after = (code(figures.side_words(side)) for side in (difference.before, difference.after))
    yield f"Before: {before}, after: {after}. Compared by pinprof. Significant changes are **bold**."


def _surroundings(difference: Difference) -> Iterator[str]:
    if not difference.surroundings:
        yield from ("", figures.NOTHING_AROUND)
        return
    yield from ("", "### What else differs", "", "| around the program | before | after | |", "|---|---|---|---|")
    for one in difference.surroundings:
        cells = (one.what, without_home(one.before), without_home(one.after), one.effect)
        yield f"| {' | '.join(map(text, cells))} |"
    if not difference.shares:
        yield from ("", figures.NO_SHARES)


def _opportunities(difference: Difference) -> Iterator[str]:
    if difference.opportunities:
        yield from ("", "### What to change", "")
    for one in difference.opportunities:
        fate = figures.FATE_TITLES[one.fate].lower()
        yield f"- {fate}: {text(one.title)} ({text(figures.opportunity_words(one))})"


def _family(difference: Difference, family: Family) -> Iterator[str]:
    rows = difference.family(family)
    if not rows:
        return
    yield from ("", f"### {text(figures.family_title(difference, family))}", "")
    yield from (
        "| | before | after | change | % | 95 % interval | detectable from |",
        "|---|---:|---:|---:|---:|---:|---:|",
    )
    for row in rows[:_MOST_ROWS]:
        mark = "**" if row.significant else ""
        cells = (
            format_weight(row.mean_before, row.unit),
            format_weight(row.mean_after, row.unit),
            f"{mark}{figures.signed(row)}{mark}",
            f"{mark}{figures.percent(row)}{mark}",
            figures.interval(row),
            figures.found_from(row),
        )
        yield f"| {text(figures.row_name(row))} | {' | '.join(cells)} |"
    if len(rows) > _MOST_ROWS:
        yield from ("", f"{format_counted(len(rows) - _MOST_ROWS, 'more is', 'more are')} in `--format json`.")
