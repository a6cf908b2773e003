"""The sections of a difference. JSON: docs/diff.md; schema history: 1 — first version."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import PurePath
from typing import Any

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pinprof.base.units import format_counted, format_share, format_weight
from pinprof.compare.results import FAMILIES, ComparedStacks, Difference, Family, Row, Side
from pinprof.compare.stacks import unmatched
from pinprof.report import markdown
from pinprof.report.compare import words
from pinprof.report.compare.flame import ComparedFlame, compared_flame
from pinprof.report.compare.shown import CausePart, ShownFamily, ShownFate, shown_families, shown_fates, stacked
from pinprof.report.flame import pack_strings
from pinprof.report.forms import Forms
from pinprof.report.names import printable, shortened, without_home
from pinprof.report.section import ForScripts, SubjectSection, picked
from pinprof.report.terminal.layout import kept, plain_table, sentence, titled

_MOST_ROWS = 8
"""Of one family."""
_FIGURES = ("before", "after", "change", "%")
"""The columns of every table."""
_NARROWEST_NAME = 28
"""Cells that a name keeps where a table has more columns than these."""
_SHORTEST_NAME = 12
_INDENT = 2


class DifferenceHead(SubjectSection[Difference]):
    """The answer, and the two sides."""

    key = "hero"

    def to_json(self) -> dict[str, Any]:
        """The answer, how it was found, the sides."""
        return (
            {"incomplete": list(self.it.incomplete)}
            | picked(self.it, "headline tested")
            | {
                "work": asdict(self.it.work),
                "before": _side(self.it.before),
                "after": _side(self.it.after),
            }
        )

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The answer, the sides, and notes."""
        it = self.it
        yield from (sentence(printable(text), "yellow") for text in it.incomplete)
        yield sentence(printable(it.headline), "bold")
        sides = f"before: {words.side_words(it.before)} · after: {words.side_words(it.after)}"
        yield Text(printable(sides), "dim")
        yield sentence(printable(it.tested))
        yield sentence(printable(it.work.how), "dim")
        yield from (sentence(printable(note), "yellow") for note in it.notes)

    def to_markdown(self) -> Iterator[str]:
        """The answer and notes; the sides come last."""
        for text in self.it.incomplete:
            yield from (f"> {markdown.text(text)}", "")
        yield from (f"**{markdown.text(self.it.headline)}**", "")
        yield from map(markdown.text, (self.it.tested, self.it.work.how))
        for note in self.it.notes:
            yield from ("", markdown.text(note))


def _side(side: Side) -> dict[str, Any]:
    return picked(side, "name runs command units duration_ns") | {"recordings": words.paths(side)}


class Surroundings(SubjectSection[Difference]):
    """What else differs between the sides."""

    key, title, short = "around", "Differences in the environment", "Environment"

    def to_json(self) -> dict[str, Any]:
        """Every difference, and whether shares can be compared."""
        around = [asdict(one) for one in self.it.surroundings]
        return {"shares": self.it.shares, "surroundings": around}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A table, and what follows of it."""
        if not self.it.surroundings:
            yield Text(words.NOTHING_AROUND, "dim")
            return
        table = plain_table()
        for title in ("around the program", "before", "after"):
            table.add_column(title, overflow="fold")
        for one in self.it.surroundings:
            table.add_row(one.what, printable(one.before), printable(one.after))
        yield from titled("What else differs", table)
        for line in dict.fromkeys(one.effect for one in self.it.surroundings if one.effect):
            yield Text("  ") + sentence(printable(line), "dim")
        if not self.it.shares:
            yield Text("  ") + Text(words.NO_SHARES, "yellow")

    def to_markdown(self) -> Iterator[str]:
        """A table."""
        if not self.it.surroundings:
            yield from ("", words.NOTHING_AROUND)
            return
        yield from ("", "### What else differs", "", "| around the program | before | after | |", "|---|---|---|---|")
        for one in self.it.surroundings:
            cells = (one.what, without_home(one.before), without_home(one.after), one.effect)
            yield f"| {' | '.join(map(markdown.text, cells))} |"
        if not self.it.shares:
            yield from ("", words.NO_SHARES)


class Changes(SubjectSection[Difference]):
    """What takes more or less, by phase, range, call, cause and line."""

    key, title = "changes", "Changes"
    shows = "families"
    after = (("text", "opportunities"), ("markdown", "opportunities"))

    @cached_property
    def families(self) -> list[ShownFamily]:
        """The tables of the page."""
        return shown_families(self.it)

    @property
    def stacked(self) -> list[tuple[str, str, list[CausePart]]]:
        """The causes of both sides as bars."""
        return list(stacked(self.it))

    def to_json(self) -> dict[str, Any]:
        """Every row."""
        return {"rows": [_row(row) for row in self.it.rows]}

    def to_text(self, console: Console) -> Iterator[RenderableType]:
        """A table for each family; only what is significant has a colour."""
        for family in FAMILIES:
            if rows := self.it.family(family):
                yield from _family_text(self.it, family, rows, console)

    def to_markdown(self) -> Iterator[str]:
        """A table for each family."""
        for family in FAMILIES:
            if rows := self.it.family(family):
                yield from _family_markdown(words.family_title(self.it, family), rows)


def _row(row: Row) -> dict[str, Any]:
    tested = row.estimate is not None and not row.untested
    low, high = row.estimate.ratio_interval() if row.estimate and tested and row.state == "both" else (None, None)
    return {
        **picked(row, "family name was unit per exact state"),
        "before": row.mean_before,
        "after": row.mean_after,
        "before_runs": list(row.before),
        "after_runs": list(row.after),
        "before_samples": row.samples[0],
        "after_samples": row.samples[1],
        "change": row.change,
        "ratio": None if row.ratio is None else {"low": low, "value": row.ratio, "high": high},
        "significant": row.significant,
        "p": row.chance,
        "detectable": None if row.detectable is None or math.isinf(row.detectable) else row.detectable,
        "more_runs": None if row.more_runs is None else asdict(row.more_runs),
        "untested": row.untested,
    }


def _figures(row: Row) -> list[str]:
    before, after = (format_weight(mean, row.unit) for mean in (row.mean_before, row.mean_after))
    return [before, after, words.signed(row), words.percent(row)]


def _width(column: Sequence[str]) -> int:
    """Cells that a column of figures takes, with the blanks after it."""
    return max(map(cell_len, column)) + 2


def _family_text(
    difference: Difference, family: Family, rows: Sequence[Row], console: Console
) -> Iterator[RenderableType]:
    shown = rows[:_MOST_ROWS]
    columns = [[title, *cells] for title, cells in zip(_FIGURES, zip(*map(_figures, shown), strict=True), strict=True)]
    shares = [words.share_of_work(difference, row) for row in shown]
    optional = (
        (["95 % interval", *map(words.interval, shown)], any(not row.untested for row in shown)),
        (["detectable from", *map(words.found_from, shown)], any(row.detectable is not None for row in shown)),
        (["of the work", *(" → ".join(share or ()) for share in shares)], any(shares)),
    )
    room = console.width - _INDENT - sum(map(_width, columns))
    wanted = max(cell_len(words.row_name(row)) for row in shown)
    for column, known in optional:
        # Figures are never cut: what has no room beside a name is left out.
        if known and room - _width(column) >= min(wanted, _NARROWEST_NAME):
            columns.append(column)
            room -= _width(column)
    table = plain_table(*(title for title, *_ in columns))
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for index, row in enumerate(shown):
        style = ("green" if row.change < 0 else "red") if row.significant else ""
        name = shortened(words.row_name(row), max(room, _SHORTEST_NAME))
        table.add_row(*(Text(column[index + 1], style) for column in columns), Text(name, style))
    yield from titled(printable(words.family_title(difference, family)), table)
    if more := _more(rows):
        yield Text(f"  {more} in --format json.", "dim")


def _family_markdown(title: str, rows: Sequence[Row]) -> Iterator[str]:
    yield from ("", f"### {markdown.text(title)}", "")
    yield "| | before | after | change | % | 95 % interval | detectable from |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for row in rows[:_MOST_ROWS]:
        mark = "**" if row.significant else ""
        before, after, *change = _figures(row)
        cells = (before, after, *(f"{mark}{cell}{mark}" for cell in change), words.interval(row), words.found_from(row))
        yield f"| {markdown.text(words.row_name(row))} | {' | '.join(cells)} |"
    if more := _more(rows):
        yield from ("", f"{more} in `--format json`.")


def _more(rows: Sequence[Row]) -> str:
    left = len(rows) - _MOST_ROWS
    return format_counted(left, "more is", "more are") if left > 0 else ""


class OpportunityChanges(SubjectSection[Difference]):
    """What became of opportunities."""

    key, title = "opportunities", "Opportunities"
    shows = "it.opportunities"

    @property
    def fates(self) -> list[ShownFate]:
        """By what became of them."""
        return shown_fates(self.it)

    def to_json(self) -> dict[str, Any]:
        """All of them."""
        return {"opportunities": [asdict(one) for one in self.it.opportunities]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A line each."""
        if not self.it.opportunities:
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for one in self.it.opportunities:
            said = sentence(printable(one.title)) + Text(kept(f" ({words.opportunity_words(one)})"), "dim")
            table.add_row(Text(words.FATE_TITLES[one.fate].lower()), said)
        yield from titled("What to change", table)

    def to_markdown(self) -> Iterator[str]:
        """A list."""
        if self.it.opportunities:
            yield from ("", "### What to change", "")
        for one in self.it.opportunities:
            fate = words.FATE_TITLES[one.fate].lower()
            yield f"- {fate}: {markdown.text(one.title)} ({markdown.text(words.opportunity_words(one))})"


class BothStacks(SubjectSection[Difference]):
    """The stacks of both sides: a flamegraph, and what has no counterpart."""

    key, title, short = "flame", "Flamegraph of both sides", "Flamegraph"
    shows = "flame"

    @cached_property
    def flame(self) -> ComparedFlame | None:
        """The columns of the page."""
        return compared_flame(self.it)

    @property
    def matching(self) -> list[str]:
        """Per event of the flamegraph a sentence: what only one side has, and what has another name."""
        if self.flame is None:
            return []
        apart = {stacks.event: words.unmatched_words(stacks) for stacks in self.it.stacks}
        light = self.flame.light
        cut = f" Stacks with less than {format_share(light, 1)} end in their callers." if light else ""
        how = "Functions are matched by name. Addresses, template arguments and line numbers are ignored. "
        alike = "More than 99 % of the weight has a counterpart."
        return [how + (apart[name] or alike) + cut for name, _ in self.flame.events]

    @property
    def _apart(self) -> list[str]:
        return [line for stacks in self.it.stacks if (line := words.unmatched_words(stacks))]

    def to_json(self) -> dict[str, Any]:
        """Every event."""
        return {"events": [_event(stacks) for stacks in self.it.stacks]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """What has no counterpart."""
        if self._apart:
            yield Text("")
        yield from (sentence(printable(line), "dim") for line in self._apart)

    def to_markdown(self) -> Iterator[str]:
        """The same."""
        for line in self._apart:
            yield from ("", markdown.text(line))

    def for_scripts(self) -> ForScripts:
        """The columns and what they hold."""
        flame = self.flame
        if flame is None:
            return ForScripts()
        layout, packed = flame.packed()
        data = {
            "events": [{"name": printable(name), "unit": unit, "spans": False} for name, unit in flame.events],
            "threads": [thread.name for thread in flame.data.threads],
            "dsos": [printable(dso) for dso in flame.data.dsos],
            "formerly": {number: printable(name) for number, name in flame.formerly.items()},
            "flame": {"layout": layout, "facts": flame.facts()},
        }
        names = pack_strings(printable(name) for name in flame.data.names)
        return ForScripts(data, packed={"flame-data": packed, "flame-names": names})


def _event(stacks: ComparedStacks) -> dict[str, Any]:
    apart = unmatched(stacks)
    return {
        **picked(stacks, "event unit"),
        "before": float(stacks.before.sum()),
        "after": float(stacks.after.sum()),
        "before_samples": int(stacks.before_samples.sum()),
        "after_samples": int(stacks.after_samples.sum()),
        "before_unmatched": apart["only"][0],
        "after_unmatched": apart["only"][1],
        "before_renamed": apart["renamed"][0],
        "after_renamed": apart["renamed"][1],
    }


class DifferenceMethod(SubjectSection[Difference]):
    """How it was compared."""

    key, title = "quality", "Method"

    @property
    def recordings(self) -> list[tuple[str, str, str, int]]:
        """(name, side, units of work, length in ns) of every recording."""
        return [
            (PurePath(path).name, name, f"{units:,.4g}", ns)
            for name, side in (("before", self.it.before), ("after", self.it.after))
            for path, units, ns in zip(side.paths, side.units, side.duration_ns, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """The notes."""
        return {"notes": list(self.it.notes)}

    def to_markdown(self) -> Iterator[str]:
        """The sides."""
        before, after = (markdown.code(words.side_words(side)) for side in (self.it.before, self.it.after))
        yield from ("", f"Before: {before}, after: {after}. Compared by pinprof. Significant changes are **bold**.")


FORMS = Forms[Difference](
    (DifferenceHead, Surroundings, Changes, OpportunityChanges, BothStacks, DifferenceMethod),
    shown=without_home,
    design="compare.page",
)
