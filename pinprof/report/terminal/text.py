"""The terminal summary: headline, bar, causes, ranges, findings, losses and the hot tree, as wide as the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinprof import units
from pinprof.report import palette
from pinprof.report.data import EventData, FindingData, ReportData
from pinprof.report.export.streams import STANDARD_OUTPUT, text_output
from pinprof.report.hot_tree import HotTree
from pinprof.report.names import printable, shortened
from pinprof.report.summary import clock_rows, hero_facts, quality_notes, quality_tiles, quoted
from pinprof.report.terminal import activity, costs, memory, python, walls
from pinprof.report.terminal.layout import PLAIN_WIDTH, cause, console_of, kept, tidy, told

if TYPE_CHECKING:
    from pinprof.analyze import Explanation

_SMALLEST_SHARE = 0.005
"""Causes below this share are summed up in one line."""

_ADVISED_SHARE = 0.05
"""From this share of the time on, a cause comes with what helps."""

_LONG_NS = 200_000_000
"""From this wall time on, sampling noise no longer explains a difference of 3 % between the clocks."""

_TREE_SHARE, _TREE_DEPTH, _TREE_LINES = 0.03, 12, 30
"""The hot tree shows functions from this share on, to this indent, in at most so many lines."""

_SAME_WEIGHT = 0.9
"""A callee with this part of its caller's weight continues the line."""

_TREE_PURITY = 50
"""A node names its leading cause from this percentage on."""

_SEVERITY_STYLE = {"critical": "bold red", "warning": "yellow", "info": "cyan", "ok": "green"}


def print_text(data: ReportData, output: Path | None = None) -> None:
    """Print to standard output, or to a file without colours; PinprofError if the file cannot be written."""
    if output is None or output == STANDARD_OUTPUT:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        render(data, console_of())
        return
    with text_output(output) as stream:
        render(data, Console(file=stream, width=PLAIN_WIDTH, no_color=True, highlight=False, markup=False))


def render(data: ReportData, console: Console) -> None:
    """Write all sections that have something to show."""
    with tidy(console):
        _render(data, console)


def _render(data: ReportData, console: Console) -> None:
    console.print(told(printable(data.headline), "bold"))
    badge = ("host emulation · ", "yellow") if data.capture.emulated else ""
    if facts := Text.assemble(badge, (" · ".join(kept(printable(fact)) for fact in hero_facts(data)), "dim")):
        console.print(facts)
    trees = {tree.event: tree for tree in data.trees}
    main = next(
        (event for event in data.events if event.unit == "ns" and event.total), data.events[0] if trees else None
    )
    for index, event in enumerate(data.events):
        if not event.total:
            continue
        console.print()
        title = Text(printable(event.name), "bold cyan") + Text(f"  {units.format_weight(event.total, event.unit)}")
        console.print(title)
        console.print(_bar(data, event, console))
        console.print(_causes(data, event))
        if index in trees and event is main:
            _section(console, "Hot tree", _tree(data, trees[index], event, console))
    if data.ranges and not any(entry.events for entry in data.ranges):
        _section(console, "Ranges", _spreads(data))
    for event in data.events:
        if any(entry.event(event.name) for entry in data.ranges) and not (event.spans and walls.told(data)):
            _section(console, f"Ranges · {printable(event.name)}", _ranges(data, event))
    parts: list[tuple[str, RenderableType]] = [
        *python.sections(data.python, lambda leaf: _style(data, leaf)),
        *walls.sections(data, lambda leaf: _style(data, leaf)),
        *memory.sections(data),
        *(activity.sections(data.activity) if data.activity else ()),
        *costs.sections(data.counterfactual, data.pinning),
    ]
    for heading, part in parts:
        _section(console, heading, part)
    if data.findings:
        _section(console, "Findings", _findings(data.findings))
    _section(console, "Data quality", _quality(data))
    if command := quoted(data.capture.command):
        _section(console, "How to reproduce", Text(printable(command), overflow="fold"))


def print_explanation(explanation: Explanation) -> None:
    """Print the top stacks of one leaf, innermost function first, with the frame that decided marked."""
    console = console_of()
    with tidy(console):
        console.print(Text("\n".join(printable(line) for line in str(explanation).split("\n"))), soft_wrap=True)


def _section(console: Console, title: str, body: RenderableType) -> None:
    console.print()
    console.print(Text(title, "bold"))
    console.print(Padding(body, (0, 0, 0, 2), expand=False))


def _style(data: ReportData, leaf: str) -> str:
    return palette.level_colour(data.cause(leaf).level, dark=True)


def _bar(data: ReportData, event: EventData, console: Console) -> Text:
    """One line, one run of blocks per level; letters instead of colours where there are none."""
    width = console.width
    plain = console.color_system is None
    bar, filled, running, last = Text(), 0, 0, ""
    causes = data.by_key()
    parts = [(level.level, level.level, level.weight) for level in event.levels(causes)]
    if event.spans:
        # All waits are of one level: their kinds tell more.
        parts = [(leaf, causes[leaf].level, weight) for leaf, weight in event.leaves.items()]
    for name, level, weight in parts:
        running += weight
        cells = round(width * running / event.total) - filled
        filled += cells
        label = f" {name} {units.format_share(weight, event.total)} "
        if len(label) > cells:
            label = ""
        colour = palette.level_colour(level, dark=True)
        text = label.ljust(cells, " ")
        if cells and colour == last:
            # Neighbours of one colour, such as two kinds of waiting, are told apart by a line.
            text = f"▏{text[1:]}"
        last = colour if cells else last
        if plain:
            text = f"[{label.strip()}".ljust(cells - 1, "=") + "]" if cells >= 2 else "|" * cells
        bar.append(text, "" if plain else f"#1b1d22 on {colour}")
    return bar


def _causes(data: ReportData, event: EventData) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    rest = 0
    for leaf, weight in event.leaves.items():
        if weight < _SMALLEST_SHARE * event.total:
            rest += weight
            continue
        row = data.cause(leaf)
        # Counted faults say whose code touched the pages: what helps against a cause's time is beside the point.
        helps = row.remedy and event.unit != "faults" and weight >= _ADVISED_SHARE * event.total
        remedy = f" → {row.remedy}" if helps else ""
        table.add_row(
            Text(units.format_share(weight, event.total), "bold"),
            units.format_weight(weight, event.unit),
            Text(leaf, _style(data, leaf)),
            Text(row.meaning) + Text(remedy, "dim"),
        )
    if rest:
        share = units.format_share(rest, event.total)
        table.add_row(share, units.format_weight(rest, event.unit), "(others)", Text("each below 0.5 %", "dim"))
    return table


def _ranges(data: ReportData, event: EventData) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("range", overflow="ellipsis", no_wrap=True, max_width=30)
    for title in ("count", "wall each", "sampled each"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("causes", overflow="fold")
    for entry in data.ranges:
        part = entry.event(event.name)
        causes, sampled = Text(), "–"
        if part and part.total:
            sampled = units.format_weight(part.total / entry.count, event.unit)
            for leaf, weight in list(part.leaves.items())[:4]:
                if weight >= 0.02 * part.total:
                    causes += cause(leaf, units.format_share(weight, part.total), _style(data, leaf))
        table.add_row(
            Text("  " * entry.indent + shortened(entry.name, 30)),
            units.format_count(entry.count),
            units.format_ns(entry.wall_ns / entry.count),
            sampled,
            causes,
        )
    return table


def _spreads(data: ReportData) -> Table:
    """Ranges by their own clock alone, where nothing was sampled in them."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("range", overflow="ellipsis", no_wrap=True, max_width=30)
    for title in ("count", "wall each", "fastest", "median", "slowest"):
        table.add_column(title, justify="right", no_wrap=True)
    for entry in data.ranges:
        spread = (entry.wall_ns / entry.count, entry.wall_min_ns, entry.wall_median_ns, entry.wall_max_ns)
        table.add_row(
            Text("  " * entry.indent + shortened(entry.name, 30)),
            units.format_count(entry.count),
            *map(units.format_ns, spread),
        )
    return table


def _findings(findings: tuple[FindingData, ...]) -> Group:
    lines: list[RenderableType] = []
    for finding in findings:
        if finding.fired:
            style = _SEVERITY_STYLE.get(finding.severity, "")
            lines.append(Text(f"{finding.severity}: ", style) + Text(printable(finding.title), "bold"))
            more = [printable(line) for line in finding.evidence]
            more += [f"→ {printable(finding.advice)}"] if finding.advice else []
            lines += [Padding(told(line), (0, 0, 0, 2), expand=False) for line in more]
    clear = [finding.rule for finding in findings if finding.severity == "ok"]
    unknown = [finding.rule for finding in findings if not finding.assessable]
    for label, rules in (("checked and clear", clear), ("not assessable from this recording", unknown)):
        if rules:
            lines.append(Text(f"{label}: {', '.join(printable(rule) for rule in rules)}", "dim"))
    return Group(*lines)


def _quality(data: ReportData) -> Group:
    figures = Text(" · ").join(
        Text(kept(f"{tile.value} {tile.label}"), "yellow" if tile.warn else "")
        for tile in quality_tiles(data)
        if tile.label == "samples" or not re.match(r"0\b", tile.value)
    )
    off = [
        Text(f"{shortened(row.name, 30)}: {units.format_share(row.sampled_ns, row.wall_ns)} of its wall time sampled")
        for row in clock_rows(data)
        if not walls.told(data) and row.wall_ns >= _LONG_NS and not 0.97 <= row.sampled_ns / row.wall_ns <= 1.03
    ]
    return Group(figures, *off, *(told(printable(note), "dim") for note in quality_notes(data)))


def _tree(data: ReportData, tree: HotTree, event: EventData, console: Console) -> Group:
    """The heavy part of the tree, one line per run of calls without a fork."""
    lines = []
    for run, depth in _runs(tree):
        share = units.format_share(int(tree.total_weight[run[0]]), event.total)
        leaf, purity = int(tree.leaf[run[-1]]), int(tree.purity[run[-1]])
        named = Text()
        if leaf >= 0 and purity >= _TREE_PURITY:
            key = data.causes[leaf].key
            named = Text(f"  {key}" + (f" {purity} %" if purity < 100 else ""), _style(data, key))
        room = max(console.width - 2 * depth - 12 - len(named), 12)
        names = [data.names[tree.name[node]] for node in run]
        lines.append(Text(f"{share:>6}  {'  ' * depth}{_chain(names, room)}") + named)
        if len(lines) == _TREE_LINES:
            break
    return Group(*lines)


def _chain(names: list[str], room: int) -> str:
    """Calls joined by `›`, repeated names once; where they do not fit, the outermost and the innermost ones."""
    distinct = [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]
    shown = [
        shortened(name, max(room // 2 - 4, 5)) if len(distinct) > 1 else shortened(name, room) for name in distinct
    ]
    if len(text := " › ".join(shown)) <= room:
        return text
    tail = [shown[-1]]
    for name in reversed(shown[1:-1]):
        if len(" › ".join([shown[0], "…", name, *tail])) > room:
            break
        tail.insert(0, name)
    return " › ".join([shown[0], *(["…"] if len(tail) < len(shown) - 1 else []), *tail])


def _runs(tree: HotTree) -> Iterator[tuple[list[int], int]]:
    """(nodes from caller to callee, indent): a run goes on while one callee has nearly all of its caller's weight."""
    total = tree.total_weight
    heavy = np.flatnonzero(total >= _TREE_SHARE * int(total[0]))
    children: dict[int, list[int]] = {}
    for node in heavy[1:].tolist():
        children.setdefault(int(tree.parent[node]), []).append(node)
    pending = [(child, 0) for child in reversed(children.get(0, []))]
    while pending:
        node, depth = pending.pop()
        run = [node]
        while len(below := children.get(run[-1], [])) == 1 and total[below[0]] >= _SAME_WEIGHT * total[node]:
            run.append(below[0])
        yield run, depth
        if depth < _TREE_DEPTH:
            pending += [(child, depth + 1) for child in reversed(below)]
