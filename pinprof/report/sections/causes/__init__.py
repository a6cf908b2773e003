"""Causes: each event's weight by cause as a bar and a table, and in the terminal the hot tree of the main event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pinprof.analyze.evidence import MIN_SAMPLES
from pinprof.analyze.results import EventResult, main_event
from pinprof.analyze.run import OWN_TIME
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Event
from pinprof.report import markdown, palette
from pinprof.report.data import Explained, Shared, share_of
from pinprof.report.names import event_label, printable
from pinprof.report.section import Section, picked
from pinprof.report.sections.causes.hot_tree import HotTree, hot_trees
from pinprof.report.sections.causes.hot_tree_text import hot_tree_text
from pinprof.report.terminal.layout import leaf_style, plain_table, titled

_SMALLEST_SHARE = 0.005
"""Causes below this share are summed up in one line."""

_MOST_CAUSES = 8
"""In Markdown."""

_ADVISED_SHARE = 0.05
"""From this share of the time on, a cause comes with what helps."""


@dataclass(frozen=True)
class Causes(Section[Explained]):
    """The events, each with the weight of every cause."""

    key, title = "causes", "Causes"
    room = 2

    shared: Shared
    trees: tuple[HotTree, ...]
    """The heavy part of each event's call tree, in the program's own time."""

    @property
    def events(self) -> tuple[EventResult, ...]:
        """All, in the order of the recording."""
        return self.shared.events

    @classmethod
    def build(cls, subject: Explained) -> Self:
        """Events without weight are in the JSON, too."""
        shared, flame = subject.shared, subject.shared.flame
        if flame is not None and flame.timed and subject.run.course and subject.run.own is not subject.run.view:
            mine = subject.run.course.own.contains(flame.start_ns + flame.time_ns)
            flame = replace(flame, weight=np.where(mine, flame.weight, 0))
        return cls(shared, hot_trees(flame, len(shared.events)) if flame else ())

    def on_page(self) -> bool:
        """Whether anything has a weight."""
        return any(event.total for event in self.events)

    def to_json(self) -> dict[str, Any]:
        """Every event as it is, in the order of the recording."""
        return {
            "events": [
                picked(result, "name unit")
                | {"sampling": sampling(result.event), "spans": result.event.spans}
                | picked(result, "samples total heuristic")
                | {"too_few_samples": result.too_few, "samples_needed": MIN_SAMPLES}
                | {"leaves": result.by_leaf, "work": result.by_work}
                for result in self.events
            ]
        }

    def to_text(self, console: Console) -> Iterator[RenderableType]:
        """A bar and a table for each event of the program's own time, and the hot tree of the first in nanoseconds."""
        trees = {tree.event: tree for tree in self.trees}
        main = main_event(self.shared.own)
        for index, (event, whole) in enumerate(zip(self.shared.own, self.events, strict=True)):
            if not event.total:
                continue
            yield Text("")
            label = event_label(event.name)
            said = f"{label} · {printable(event.name)}" if label else printable(event.name)
            amount = units.format_weight(whole.total, event.unit)
            where = "" if event.total == whole.total else f" in {OWN_TIME}, of {amount}"
            where += "" if event.event.costs_time else ", by place"
            yield Text(said, "bold cyan") + Text(f"  {units.format_weight(event.total, event.unit)}{where}")
            if event.too_few_words:
                yield Text(event.too_few_words, "yellow")
            yield _bar(self.shared, event, console)
            yield _table(self.shared, event)
            if index in trees and event is main:
                yield from titled("Hot tree", hot_tree_text(self.shared, trees[index], event, console.width))

    def to_markdown(self) -> Iterator[str]:
        """The heaviest causes of the main event, in the program's own time."""
        if main := main_event(self.shared.own):
            whole = next(event for event in self.events if event.event is main.event)
            yield from _markdown(main, "" if main.total == whole.total else " in the program's own time")


def _markdown(event: EventResult, when: str) -> Iterator[str]:
    what = "Causes" if event.event.costs_time else "Places"
    yield from ("", f"### {what} of {markdown.text(event.name)}{when}", "")
    if event.too_few_words:
        yield from (f"{markdown.text(event.too_few_words.capitalize())}.", "")
    yield from (f"| {what[:-1].lower()} | weight | share |", "|---|---:|---:|")
    rows = list(event.by_leaf.items())
    for leaf, weight in rows[:_MOST_CAUSES]:
        yield f"| `{leaf}` | {units.format_weight(weight, event.unit)} | {share_of(event, weight)} |"
    if rest := sum(weight for _, weight in rows[_MOST_CAUSES:]):
        others = units.format_counted(len(rows) - _MOST_CAUSES, "other", "others")
        yield f"| {others} | {units.format_weight(rest, event.unit)} | {share_of(event, rest)} |"


def sampling(event: Event) -> str:
    """How an event was sampled: `999 Hz`, `every 64 faults`; empty where that is unknown."""
    if event.spans:
        return "every wait"
    if event.freq_hz:
        return f"{event.freq_hz} Hz"
    if event.period:
        one = event.unit.removesuffix("s")
        return f"every {units.format_weight(event.period, event.unit) if event.period > 1 else one}"
    return ""


def _bar(shared: Shared, event: EventResult, console: Console) -> Text:
    """One line, one run of blocks per level; letters instead of colours where there are none."""
    width = console.width
    plain = console.color_system is None
    bar, filled, running, last = Text(), 0, 0, ""
    causes = shared.by_key()
    parts = [(level, level, weight) for level, weight in event.by_level.items()]
    if event.event.spans:
        # All waits are of one level: their kinds tell more.
        parts = [(leaf, causes[leaf].level, weight) for leaf, weight in event.by_leaf.items()]
    for name, level, weight in parts:
        running += weight
        cells = round(width * running / event.total) - filled
        filled += cells
        label = f" {name} {share_of(event, weight)} "
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


def _table(shared: Shared, event: EventResult) -> Table:
    table = plain_table("share", "weight", header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    rest = 0
    for leaf, weight in event.by_leaf.items():
        if weight < _SMALLEST_SHARE * event.total:
            rest += weight
            continue
        row = shared.cause(leaf)
        # Where something else than time was counted, what helps against a cause's time is beside the point.
        helps = row.remedy and event.event.costs_time and weight >= _ADVISED_SHARE * event.total
        remedy = f" → {row.remedy}" if helps else ""
        table.add_row(
            Text(share_of(event, weight), "bold"),
            units.format_weight(weight, event.unit),
            Text(leaf, leaf_style(leaf)),
            Text(row.meaning) + Text(remedy, "dim"),
        )
    if rest:
        table.add_row(
            share_of(event, rest), units.format_weight(rest, event.unit), "(others)", Text("each below 0.5 %", "dim")
        )
    return table
