"""The sections of a fleet's answer. JSON: docs/fleet.md; schema history: 1 — first version."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from pinprof.base.units import format_count, format_counted, format_ns, format_share
from pinprof.fleet.results import Answer, Member, Outlier
from pinprof.report import markdown
from pinprof.report.flame import pack
from pinprof.report.fleet import words
from pinprof.report.fleet.drawn import MOST_MEMBERS, MOST_SERIES, DrawnSeries, columns, drawn
from pinprof.report.forms import Forms
from pinprof.report.names import printable, shortened, without_home
from pinprof.report.section import ForScripts, SubjectSection, picked
from pinprof.report.terminal.layout import plain_table, sentence, titled


def _most(answer: Answer) -> int:
    """Rows of a table in the terminal."""
    return 5 if answer.brief else 60


class FleetHead(SubjectSection[Answer]):
    """The answer."""

    key = "hero"

    def to_json(self) -> dict[str, Any]:
        """The answer, and what was compared."""
        programs = [{"program": name, "captures": count, "per": unit} for name, count, unit in self.it.programs]
        return {
            **picked(self.it, "headline captures compared copies tests"),
            "untested": list(self.it.untested),
            "programs": programs,
        }

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The same."""
        yield sentence(printable(self.it.headline), "bold")
        yield Text(words.counted(self.it), "dim")
        yield sentence(words.tested(self.it), "dim")

    def to_markdown(self) -> Iterator[str]:
        """The same."""
        yield from (f"**{markdown.text(self.it.headline)}**", "")
        yield from map(markdown.text, (words.counted(self.it), words.tested(self.it)))


class Outliers(SubjectSection[Answer]):
    """What takes another time than is expected."""

    key, title = "outliers", "Outliers"
    shows = "it.outliers"

    @property
    def reach(self) -> float:
        """How far the furthest is from what is expected."""
        return max((abs(one.ratio - 1) for one in self.it.outliers), default=1.0) or 1.0

    def to_json(self) -> dict[str, Any]:
        """All of them."""
        return {"outliers": [_outlier(one) for one in self.it.outliers]}

    def to_text(self, console: Console) -> Iterator[RenderableType]:
        """A row each, with the reasons."""
        outliers, most = self.it.outliers, _most(self.it)
        if not outliers:
            return
        table = plain_table("effect")
        for title in ("what", "time", "chance"):
            table.add_column(title, overflow="fold" if title != "chance" else "ellipsis")
        width = max(console.width // 3, 20)
        for one in outliers[:most]:
            reasons = [words.figures(one), *(words.because(one, cause) for cause in one.because[:2])]
            about = f" ({words.about(one)})" if one.captures > 1 else ""
            table.add_row(
                Text(words.effect(one), "yellow" if one.slower else ""),
                Text(shortened(words.who(one), width) + printable(about)),
                Text(printable("; ".join(reasons))),
                Text(words.chance(one.p)),
            )
        yield from titled(self.title, table)
        if len(outliers) > most:
            yield Text(f"  {format_counted(len(outliers) - most, 'more is', 'more are')} in --format json.", "dim")


def _outlier(one: Outlier) -> dict[str, Any]:
    return {
        "capture": one.capture or None,
        **picked(one, "dimension"),
        "group": one.group or None,
        **picked(one, "measure unit value expected work p captures"),
        "programs": list(one.programs),
        "because": [asdict(cause) for cause in one.because],
        "alike": [{"dimension": name, "group": value} for name, value in one.alike],
    }


class FleetSavings(SubjectSection[Answer]):
    """What would save most over all captures."""

    key, title, short = "savings", "Largest savings across the fleet", "Largest savings"
    shows = "it.savings"

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {"opportunities": [asdict(one) for one in self.it.savings]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A row each."""
        found = [one for one in self.it.savings if one.saving_ns][: _most(self.it)]
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
        yield from titled(self.title, table)


class OverCaptures(SubjectSection[Answer]):
    """How the work changes over time."""

    key, title = "change", "Over time"
    shows = "series"

    @cached_property
    def series(self) -> list[DrawnSeries]:
        """The programs with most captures, as drawings."""
        return [drawn(one) for one in self.it.series[:MOST_SERIES]]

    def to_json(self) -> dict[str, Any]:
        """Every change."""
        return {"changes": [asdict(one) for one in self.it.changes]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A line each."""
        if changes := self.it.changes[: _most(self.it)]:
            yield from titled("Changes over time", Text("\n".join(printable(words.change(one)) for one in changes)))


class CauseSpreads(SubjectSection[Answer]):
    """How causes are distributed over the captures."""

    key, title, short = "causes", "Distribution of causes", "Causes"
    shows = "it.spreads"

    def to_json(self) -> dict[str, Any]:
        """Every cause."""
        return {"causes": [asdict(one) for one in self.it.spreads]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A row each, but in the summary."""
        if self.it.brief or not self.it.spreads:
            return
        table = plain_table("time", "5 %", "median", "95 %", "most", "captures")
        table.add_column("cause")
        for one in self.it.spreads:
            shares = [format_share(value, 1) for value in (one.low, one.median, one.high, one.most)]
            table.add_row(format_ns(one.total_ns), *shares, format_count(one.captures), one.cause)
        yield from titled("Causes by share of the work", table)


class Members(SubjectSection[Answer]):
    """Every capture."""

    key, title = "captures", "Captures"
    most = MOST_MEMBERS
    after = (("json", "unreadable"),)

    def to_json(self) -> dict[str, Any]:
        """Those that could be read."""
        return {"members": [_member(one) for one in self.it.members if one.state == "read"]}

    def for_scripts(self) -> ForScripts:
        """The rows, as columns."""
        packed = pack(json.dumps(columns(self.it.members), ensure_ascii=True).encode())
        return ForScripts({"members": len(self.it.members)}, packed={"member-data": packed})


def _member(one: Member) -> dict[str, Any]:
    return {
        "capture": one.path,
        **picked(one, "program started work_ns expected_ns answer"),
        "facts": dict(one.facts),
        "causes": {name: share for name, share in one.causes if math.isfinite(share)},
    }


class UnreadCaptures(SubjectSection[Answer]):
    """Captures that count for nothing, and why."""

    key, title, short = "unreadable", "Captures that could not be read", ""
    shows = "it.unreadable"

    def to_json(self) -> dict[str, Any]:
        """All of them."""
        return {"unreadable": [{"capture": one.path, "reason": one.reason} for one in self.it.unreadable]}

    def to_text(self, console: Console) -> Iterator[RenderableType]:
        """A row each."""
        unreadable, most = self.it.unreadable, _most(self.it)
        if not unreadable:
            return
        table = plain_table(header=False)
        table.add_column(overflow="ellipsis", no_wrap=True, max_width=max(console.width // 3, 20))
        table.add_column(overflow="fold")
        for one in unreadable[:most]:
            table.add_row(Text(printable(one.path), "yellow"), Text(printable(one.reason)))
        yield from titled(self.title, table)
        if len(unreadable) > most:
            yield Text(f"  {len(unreadable) - most} more are in --format json.", "dim")


class FleetMethod(SubjectSection[Answer]):
    """How it was compared."""

    key, title = "quality", "Method"

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """What was not tested."""
        yield from (sentence(printable(f"Not tested: {line}"), "dim") for line in self.it.untested)


FORMS = Forms[Answer](
    (FleetHead, Outliers, FleetSavings, OverCaptures, CauseSpreads, Members, UnreadCaptures, FleetMethod),
    shown=without_home,
    design="fleet.drawn",
)
