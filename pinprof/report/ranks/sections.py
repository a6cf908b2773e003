"""The sections of a launch's answer; they stay short for any number of ranks.

JSON: docs/ranks.md, times in ns, of ranks' lives and meetings on the clock of the first machine; schema history: 1 —
first version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pinprof.base.units import format_counted, format_ns, format_share
from pinprof.ranks.headline import rank_names
from pinprof.ranks.results import Excess, Hold, Launch, RankFacts
from pinprof.ranks.spent import ProgramPlace
from pinprof.report import markdown
from pinprof.report.forms import Forms
from pinprof.report.names import printable, shortened, without_home
from pinprof.report.ranks import words
from pinprof.report.ranks.drawn import Bars, Lanes, awaited_ranks, bars, drawings
from pinprof.report.section import SubjectSection, picked
from pinprof.report.terminal.layout import plain_table, sentence, titled

_MOST_GROUPS, _MOST_LINES, _MOST_CAUSES, _MOST_NODES, _MOST_OPPORTUNITIES = 8, 5, 5, 8, 5
_LONGEST_GROUP = 300
"""Characters that say how a group differs."""
MOST_LOSSES = 2000
"""Meetings of a hold that are listed one by one, the most expensive ones; all are in its figures."""


class LaunchHead(SubjectSection[Launch]):
    """The answer."""

    key = "hero"

    def to_json(self) -> dict[str, Any]:
        """The answer and the launch's figures."""
        return {
            "incomplete": list(self.it.incomplete),
            **picked(self.it, "headline verdict name size"),
            "missing": list(self.it.missing),
            "work_ns": self.it.work_ns,
            "meetings": len(self.it.meetings),
            "uneven_ns": self.it.uneven_ns,
        }

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """The answer, facts, clocks and notes."""
        yield from (sentence(printable(text), "yellow") for text in self.it.incomplete)
        yield sentence(printable(self.it.headline), "bold")
        yield Text(printable(f"{self.it.name}: {words.facts(self.it)}"), "dim")
        yield sentence(printable(self.it.clock), "dim")
        yield from (sentence(printable(note), "yellow") for note in self.it.notes)

    def to_markdown(self) -> Iterator[str]:
        """The answer and facts."""
        for text in self.it.incomplete:
            yield from (f"> {markdown.text(text)}", "")
        yield from (f"**{markdown.text(self.it.headline)}**", "")
        yield markdown.text(f"{self.it.name}: {words.facts(self.it)}")


class Holds(SubjectSection[Launch]):
    """Who holds the others up, and why."""

    key, title, short = "why", "Delays between ranks and their causes", "Why"
    shows = "it.holds"

    @property
    def drawn(self) -> list[tuple[Hold, Bars]]:
        """Each with what every meeting costs."""
        return [(hold, bars(hold)) for hold in self.it.holds]

    def to_json(self) -> dict[str, Any]:
        """All of them, and who began late."""
        start = self.it.start
        return {
            "holds": [_hold_json(hold) for hold in self.it.holds],
            "start": asdict(start) if start else None,
        }

    def to_text(self, console: Console) -> Iterator[RenderableType]:
        """Cost, place, lines and causes of each."""
        for hold in self.it.holds:
            yield from _hold_text(hold, console)


def _hold_json(hold: Hold) -> dict[str, Any]:
    costliest = sorted(range(len(hold.losses)), key=lambda row: -hold.losses[row])[:MOST_LOSSES]
    return {
        **picked(hold, "ranks how every held meetings unit first cost_ns share"),
        "cost_low_ns": hold.low_ns,
        "cost_high_ns": hold.high_ns,
        "p": hold.chance,
        **picked(hold, "tested phase"),
        "waits_at": _place(hold.place),
        **picked(hold, "shown gpu_more_ns cure saves_ns"),
        "lines": [_line(line) for line in hold.lines],
        "causes": [asdict(one) for one in hold.causes],
        "losses": [[int(hold.release_ns[row]), round(float(hold.losses[row]))] for row in sorted(costliest)],
    }


def _place(place: ProgramPlace | None) -> dict[str, Any] | None:
    return picked(place, "file function line") | {"place": place.text} if place else None


def _line(line: Excess) -> dict[str, Any]:
    place = _place(line.place) or {"file": "", "function": "", "line": 0, "place": ""}
    return {**place, **picked(line, "range ns others_ns"), "causes": dict(line.causes)}


def _hold_text(hold: Hold, console: Console) -> Iterator[RenderableType]:
    cost = f"{format_ns(hold.cost_ns)} ({format_share(hold.share, 1)} of the work)"
    within = words.interval(hold)
    said = f"Costs {cost}{f'; 95 % interval {within}' if within else ''}. {hold.tested}"
    where = " ".join(filter(None, (words.where(hold), words.shown(hold))))
    own, width = words.rank_names(hold.ranks), max(console.width - 40, 20)
    lines, causes = _more_table(hold, "at"), _more_table(hold, "cause")
    for line in hold.lines[:_MOST_LINES]:
        figures = (words.each(hold, ns) for ns in (line.ns, line.others_ns, line.more_ns))
        lines.add_row(*figures, Text(shortened(f"{words.line_name(line)} · {words.mostly(line)}", width)))
    for one in hold.causes[:_MOST_CAUSES]:
        more = one.ns - one.others_ns
        figure = f"{'−' if more < 0 else ''}{words.each(hold, abs(more))}"
        name = shortened(f"{one.cause} · {words.MEANING.get(one.cause, '')}", width)
        causes.add_row(words.each(hold, one.ns), words.each(hold, one.others_ns), figure, Text(name))
    tables = [table for table, rows in ((lines, hold.lines), (causes, hold.causes)) if rows]
    parts: list[RenderableType] = [sentence(printable(said)), sentence(printable(where), "dim"), *tables]
    yield from titled(printable(f"{own.capitalize()}: {words.when(hold)}"), Group(*parts))


def _more_table(hold: Hold, what: str) -> Table:
    table = plain_table(words.rank_names(hold.ranks), "others", "more")
    table.add_column(f"{what}, each time" if hold.held > 1 else what, no_wrap=True, overflow="ellipsis")
    return table


class JobOpportunities(SubjectSection[Launch]):
    """What to change in any rank, by what the job gains."""

    key, title, short = "opportunities", "Opportunities of all ranks", "Opportunities"
    shows = "it.opportunities"

    def to_json(self) -> dict[str, Any]:
        """All of them."""
        fields = "ranks title place file line saves_ns rank_saves_ns cure"
        return {"opportunities": [picked(one, fields) for one in self.it.opportunities]}

    def to_text(self, console: Console) -> Iterator[RenderableType]:
        """The first ones."""
        if not self.it.opportunities:
            return
        table = plain_table("the job", "each rank")
        table.add_column("saves", no_wrap=True, overflow="ellipsis")
        for one in self.it.opportunities[:_MOST_OPPORTUNITIES]:
            said = printable(
                shortened(f"{rank_names(one.ranks)}: {one.title.removesuffix('.')}", max(console.width - 24, 20))
            )
            table.add_row(words.gain(one), format_ns(one.rank_saves_ns), Text(said))
        yield from titled(self.title, table)


class RankLanes(SubjectSection[Launch]):
    """Ranks over time."""

    key, title = "lanes", "Ranks over time"

    @property
    def drawings(self) -> Sequence[Lanes]:
        """Around a meeting, and the whole."""
        return list(drawings(self.it))

    def on_page(self) -> bool:
        """Whether anything is drawn."""
        return bool(self.it.closeup or self.it.lanes)


class RankGroups(SubjectSection[Launch]):
    """Ranks that do alike."""

    key, title, short = "groups", "Groups of ranks", "Groups"
    most = 64

    def to_json(self) -> dict[str, Any]:
        """Every group."""
        fields = "ranks own_ns waits_ns differs awaited"
        return {"groups": [picked(one, fields) | {"causes": dict(one.causes)} for one in self.it.groups]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A row each."""
        table = plain_table()
        table.add_column("", no_wrap=True)
        for title in ("own work", "waits"):
            table.add_column(title, justify="right", no_wrap=True)
        table.add_column("")
        for group in self.it.groups[:_MOST_GROUPS]:
            name = Text(shortened(words.rank_names(group.ranks), 28), "red" if group.awaited else "")
            said = f"differs: {group.differs}" if group.differs else words.group_causes(group)
            differs = shortened(f"alike; {said}" if len(group.ranks) > 1 else said, _LONGEST_GROUP)
            table.add_row(name, format_ns(group.own_ns), format_ns(group.waits_ns), sentence(differs))
        yield from titled(self.title, table)
        if len(self.it.groups) > _MOST_GROUPS:
            more = format_counted(len(self.it.groups) - _MOST_GROUPS, "more group is", "more groups are")
            yield Text(f"  {more} in --format json.", "dim")


class MachineMemory(SubjectSection[Launch]):
    """What all ranks of a machine hold together."""

    key, title, short = "memory", "Memory of the machines", "Memory"
    most = 64
    shows = "it.nodes"
    after = (("json", "ranks"),)

    def to_json(self) -> dict[str, Any]:
        """Every machine, and how their clocks were put together."""
        fields = "machine ranks memory_bytes numa_nodes free_bytes page_cache_bytes huge_bytes numa_misses"
        return {
            "nodes": [picked(node, fields) | {"together": dict(node.together)} for node in self.it.nodes],
            "clock": {"how": self.it.clock, "uncertainty_ns": self.it.uncertainty_ns},
            "notes": list(self.it.notes),
        }

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A table for each machine."""
        for node in self.it.nodes[:_MOST_NODES]:
            table = plain_table(header=False)
            table.add_column("", justify="right", no_wrap=True)
            table.add_column("")
            for title, value in words.node_lines(node):
                table.add_row(value, title)
            yield from titled(printable(words.node_title(node)), table)
        if len(self.it.nodes) > _MOST_NODES:
            yield Text(f"  {len(self.it.nodes) - _MOST_NODES} more machines are in --format json.", "dim")
        yield Text("")


class EachRank(SubjectSection[Launch]):
    """Every rank in a row."""

    key, title = "ranks", "Each rank"
    most = 512

    @property
    def shown(self) -> Sequence[RankFacts]:
        """Those of the page, the awaited ones first."""
        awaited = awaited_ranks(self.it)
        return sorted(self.it.ranks, key=lambda rank: (rank.number not in awaited, rank.number))[: self.most]

    def to_json(self) -> dict[str, Any]:
        """All of them."""
        fields = "number name machine start_ns end_ns own_ns waits_ns last answer"
        return {
            "ranks": [
                picked(rank, fields) | {"phases": dict(rank.phases), "causes": dict(rank.causes)}
                for rank in self.it.ranks
            ]
        }


FORMS = Forms[Launch](
    (LaunchHead, Holds, JobOpportunities, RankLanes, RankGroups, MachineMemory, EachRank),
    shown=without_home,
    design="ranks.drawn",
)
