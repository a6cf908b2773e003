"""CUDA calls, copies and managed memory in the terminal: tables that fit 80 columns, each only where there is data."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pinprof import units
from pinprof.report import palette
from pinprof.report.activity_data import ActivityData
from pinprof.report.activity_rows import (
    call_line,
    context_sentence,
    device_sentence,
    has_splits,
    told_parts,
    uvm_notes,
    uvm_tiles,
)
from pinprof.report.names import printable, shortened
from pinprof.report.styles import CAUSES, DIRECTIONS, PURPOSES, Style, memory_style
from pinprof.report.terminal.layout import kept, told

_CALLS, _NAME_WIDTH = 12, 26
_LEAST_PER_GIB_NS = 1e6
"""What takes less for a GiB does not touch its bytes: an asynchronous copy, a reservation of managed memory."""
_TOLD_SAMPLES = 5
"""Of fewer samples the causes inside a call are chance."""


def sections(data: ActivityData) -> Iterator[tuple[str, RenderableType]]:
    """(title, body) of every section that has something to show."""
    if data.analysis.whole.calls:
        yield "CUDA calls", _calls(data)
    if data.analysis.whole.copies:
        yield "Transfers", _copies(data)
    if data.analysis.uvm:
        yield "Managed memory", _uvm(data)


def _look(style: Style) -> str:
    return palette.level_colour(style.level, dark=True)


def _table(*titles: str) -> Table:
    """The first column is text, all others are figures."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, title in enumerate(titles):
        table.add_column(title, justify="right" if index else "left", no_wrap=True, overflow="ellipsis")
    return table


def _calls(data: ActivityData) -> Group:
    calls = data.calls(memory=True) or data.calls(memory=False)
    if all(call.failures == call.count for call in data.analysis.whole.calls) and not data.analysis.context_init:
        # As on a machine with the driver's library and no GPU: there is nothing to tell of times and sizes.
        names = ", ".join(f"{shortened(call.name, _NAME_WIDTH)} ({units.format_count(call.count)})" for call in calls)
        return Group(Text(f"All of them failed: {names}."))
    several = sum(call.count for call in data.analysis.whole.calls) > 1
    table = _table("call", "count", "bytes", "total", "of run", "median", "per GiB")
    for call in calls[:_CALLS]:
        failed = f" ({call.failures} failed)" if call.failures else ""
        table.add_row(
            Text(shortened(call.name, _NAME_WIDTH) + failed, _look(PURPOSES[call.purpose])),
            units.format_count(call.count),
            units.format_bytes(call.size_bytes) if call.size_bytes else "–",
            Text(units.format_ns(call.time_ns.total), "bold"),
            units.format_share(call.time_ns.total, data.analysis.span_ns) if several else "–",
            units.format_ns(call.time_ns.median),
            units.format_ns(per_gib) if (per_gib := call.ns_per_gib or 0.0) >= _LEAST_PER_GIB_NS else "–",
        )
    lines: list[RenderableType] = [table]
    if has_splits(data):
        lines += [
            Text(f"{shortened(call_line(call), 2 * _NAME_WIDTH)}: ")
            + told(", ".join(f"{part.label} {units.format_ns(part.ns)}" for part in told_parts(call.split)), "dim")
            for call in calls[:_CALLS]
            if call.split and call.split.samples >= _TOLD_SAMPLES and told_parts(call.split)
        ]
    if len(calls) > _CALLS:
        lines.append(Text(f"{units.format_count(len(calls) - _CALLS)} more kinds of calls took less.", "dim"))
    lines += [told(printable(context_sentence(entry)), "dim") for entry in data.analysis.context_init]
    return Group(*lines)


def _copies(data: ActivityData) -> Group:
    table = _table("memory", "direction", "copies", "bytes", "bandwidth", "of link", "host blocked")
    for copy in data.analysis.whole.copies:
        table.add_row(
            Text(copy.memory + (" async" if copy.asynchronous else ""), _look(memory_style(copy.memory))),
            copy.direction,
            units.format_count(copy.count),
            units.format_bytes(copy.size_bytes.total),
            Text(units.format_rate(copy.size_bytes.total, copy.busy_ns), "bold"),
            "–" if copy.link_share is None else units.format_share(copy.link_share, 1),
            units.format_ns(copy.host_ns),
        )
    notes = [device_sentence(device) for device in data.analysis.transfers.devices]
    if link := data.analysis.transfers.link:
        notes.append(f"{link.name}: {link.source}.")
    return Group(table, *(told(printable(note), "dim") for note in notes))


def _uvm(data: ActivityData) -> Group:
    uvm = data.analysis.uvm
    assert uvm is not None
    lines: list[RenderableType] = [told(printable(uvm.summary))]
    tiles = uvm_tiles(data)
    lines.append(
        Text(" · ").join(Text(kept(f"{tile.value} {tile.label}"), "yellow" if tile.warn else "") for tile in tiles)
    )
    if data.analysis.whole.migrations:
        table = _table("cause", "direction", "count", "bytes", "median", "bandwidth")
        for moved in data.analysis.whole.migrations:
            style = CAUSES[moved.cause]
            table.add_row(
                Text(moved.cause, _look(style)),
                DIRECTIONS[moved.direction],
                units.format_count(moved.count),
                Text(units.format_bytes(moved.size_bytes.total), "bold"),
                units.format_bytes(moved.size_bytes.median),
                units.format_rate(moved.size_bytes.total, moved.busy_ns),
            )
        lines.append(table)
    return Group(*lines, *(told(printable(note), "dim") for note in uvm_notes(uvm)))
