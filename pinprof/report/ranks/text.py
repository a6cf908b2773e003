"""A launch in the terminal: the answer, why, groups of ranks, the machines' memory. It stays short for any number of
ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.base.units import format_counted, format_ns, format_share
from pinprof.ranks.results import Hold, Launch
from pinprof.report.names import printable, shortened
from pinprof.report.ranks import words
from pinprof.report.terminal.layout import plain_table, sentence, titled

_MOST_GROUPS, _MOST_LINES, _MOST_CAUSES, _MOST_NODES = 8, 5, 5, 8
_LONGEST_GROUP = 300
"""Characters that say how a group differs."""


def parts(launch: Launch, console: Console) -> Iterator[RenderableType]:
    """All of it, one below the other."""
    yield sentence(printable(launch.headline), "bold")
    yield Text(printable(f"{launch.name}: {words.facts(launch)}"), "dim")
    yield sentence(printable(launch.clock), "dim")
    for note in launch.notes:
        yield sentence(printable(note), "yellow")
    for hold in launch.holds:
        yield from _hold(hold, console)
    yield from _groups(launch)
    yield from _nodes(launch)
    yield Text("")


def _hold(hold: Hold, console: Console) -> Iterator[RenderableType]:
    cost = f"{format_ns(hold.cost_ns)} ({format_share(hold.share, 1)} of the work)"
    within = words.interval(hold)
    told = f"Costs {cost}{f'; 95 % interval {within}' if within else ''}. {hold.tested}"
    parts: list[RenderableType] = [sentence(printable(told))]
    parts.append(sentence(printable(" ".join(filter(None, (words.where(hold), words.shown(hold))))), "dim"))
    own, others = words.rank_names(hold.ranks), "others"
    width = max(console.width - 40, 20)
    lines = plain_table(own, others, "more")
    lines.add_column("at, each time" if hold.held > 1 else "at", no_wrap=True, overflow="ellipsis")
    for line in hold.lines[:_MOST_LINES]:
        figures = (words.each(hold, line.ns), words.each(hold, line.others_ns), words.each(hold, line.more_ns))
        name = shortened(f"{words.line_name(line)} · {words.mostly(line)}", width)
        lines.add_row(*figures, Text(name))
    causes = plain_table(own, others, "more")
    causes.add_column("cause, each time" if hold.held > 1 else "cause", no_wrap=True, overflow="ellipsis")
    for one in hold.causes[:_MOST_CAUSES]:
        more = one.ns - one.others_ns
        figure = f"{'−' if more < 0 else ''}{words.each(hold, abs(more))}"
        name = f"{one.cause} · {words.MEANING.get(one.cause, '')}"
        causes.add_row(words.each(hold, one.ns), words.each(hold, one.others_ns), figure, Text(shortened(name, width)))
    tables = [table for table, rows in ((lines, hold.lines), (causes, hold.causes)) if rows]
    title = f"{own.capitalize()}: {words.when(hold)}"
    yield from titled(printable(title), Group(*parts, *tables))


def _groups(launch: Launch) -> Iterator[RenderableType]:
    table = plain_table()
    table.add_column("", no_wrap=True)
    for title in ("own work", "waits"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for group in launch.groups[:_MOST_GROUPS]:
        name = Text(shortened(words.rank_names(group.ranks), 28), "red" if group.awaited else "")
        told = f"differs: {group.differs}" if group.differs else words.group_causes(group)
        told = f"alike; {told}" if len(group.ranks) > 1 else told
        table.add_row(
            name, format_ns(group.own_ns), format_ns(group.waits_ns), sentence(shortened(told, _LONGEST_GROUP))
        )
    yield from titled("Groups of ranks", table)
    if len(launch.groups) > _MOST_GROUPS:
        more = format_counted(len(launch.groups) - _MOST_GROUPS, "more group is", "more groups are")
        yield Text(f"  {more} in --format json.", "dim")


def _nodes(launch: Launch) -> Iterator[RenderableType]:
    for node in launch.nodes[:_MOST_NODES]:
        table = plain_table(header=False)
        table.add_column("", justify="right", no_wrap=True)
        table.add_column("")
        for title, value in words.node_lines(node):
            table.add_row(value, title)
        yield from titled(printable(words.node_title(node)), table)
    if len(launch.nodes) > _MOST_NODES:
        yield Text(f"  {len(launch.nodes) - _MOST_NODES} more machines are in --format json.", "dim")
