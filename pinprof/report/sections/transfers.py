"""Transfers: copies by direction and kind of memory beside what the link can do, and how the GPUs spent their time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.text import Text

from pinprof.analyze.activity.results import CopyResult, DeviceTime, TransferAnalysis
from pinprof.base import units
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_count
from pinprof.report.data import Explained
from pinprof.report.figures import layout, limit, title
from pinprof.report.names import printable
from pinprof.report.section import ForScripts, Section
from pinprof.report.styles import DIRECTIONS, memory_style
from pinprof.report.terminal.layout import figures_table, sentence, style_colour, titled

_SYMBOLS = {"H2D": "triangle-up", "D2H": "triangle-down-open"}
_SMALLEST_PX, _LARGEST_PX = 11, 26


@dataclass(frozen=True)
class Transfers(Section[Explained]):
    """The copies of the whole recording."""

    key, title = "transfers", "Transfers"
    shows = "copies"

    copies: tuple[CopyResult, ...]
    result: TransferAnalysis | None
    """None when nothing traced the program."""
    figure: dict[str, Any] | None
    """None without timed copies."""
    devices: tuple[str, ...]
    """A sentence for each GPU."""

    @classmethod
    def build(cls, subject: Explained) -> Self:
        """The page's scripts want a list of link rates, if an empty one."""
        if subject.shared.activity is None:
            return cls((), None, None, ())
        copies, result = subject.shared.activity.whole.copies, subject.shared.activity.transfers
        return cls(copies, result, transfer_figure(result, copies), tuple(map(device_sentence, result.devices)))

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """Copies by direction and kind of memory, and how the GPUs spent their time."""
        if not self.copies:
            return
        table = figures_table("memory", "direction", "copies", "bytes", "bandwidth", "of link", "host blocked")
        for copy in self.copies:
            table.add_row(
                Text(copy.memory + (" async" if copy.asynchronous else ""), style_colour(memory_style(copy.memory))),
                copy.direction,
                units.format_count(copy.count),
                units.format_bytes(copy.size_bytes.total),
                Text(units.format_rate(copy.size_bytes.total, copy.busy_ns), "bold"),
                "–" if copy.link_share is None else units.format_share(copy.link_share, 1),
                units.format_ns(copy.host_ns),
            )
        notes = [*self.devices]
        if self.result and (link := self.result.link):
            notes.append(f"{link.name}: {link.source}.")
        yield from titled(self.title, Group(table, *(sentence(printable(note), "dim") for note in notes)))

    def for_scripts(self) -> ForScripts:
        """`links`: per row of the table, the practical rate of its way over the link in bytes per nanosecond."""
        link = self.result.link if self.result else None
        links = [link.rate(copy.direction) if link else None for copy in self.copies]
        return ForScripts({"links": links}, figures={"transfers": self.figure} if self.figure else {})


def device_sentence(device: DeviceTime) -> str:
    """How one GPU spent its time."""
    name = f"GPU {device.device}" if device.device >= 0 else "The GPU"
    sentence = (
        f"{name} worked {units.format_share(device.busy_ns, device.span_ns)} of the {units.format_ns(device.span_ns)} "
        f"between its first work and its last: kernels {units.format_ns(device.kernel_ns)}, "
        f"copies {units.format_ns(device.copy_ns)}"
    )
    if device.kernel_ns and device.copy_ns:
        sentence += (
            f", both at once {units.format_ns(device.overlap_ns)} "
            f"({units.format_share(device.overlap_ns, device.copy_ns)} of the copying)"
            if device.overlap_ns
            else ", never both at once"
        )
    if device.longest_gaps:
        sentence += f"; its longest gap took {units.format_ns(device.longest_gaps[0][1])}"
    return sentence + "."


def transfer_figure(transfers: TransferAnalysis, copies: tuple[CopyResult, ...] = ()) -> dict[str, Any] | None:
    """Size × bandwidth on logarithmic axes, a trace per direction and memory kind; None without timed copies.

    `customdata` of a trace are the rows of `copies` that it shows.
    """
    points = transfers.points
    if not len(points):
        return None
    traces: list[dict[str, Any]] = []
    for number, (direction, memory) in enumerate(points.groups):
        mine = points.group == number
        size, rate, count = points.size_bytes[mine], points.gb_per_s[mine], points.count[mine]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{memory}, {DIRECTIONS[direction]}",
                "meta": memory_style(memory).level,
                "customdata": [
                    row for row, copy in enumerate(copies) if (copy.direction, copy.memory) == (direction, memory)
                ],
                "x": size.tolist(),
                "y": [float(f"{value:.5g}") for value in rate.tolist()],
                "marker": {
                    "symbol": _SYMBOLS.get(direction, "circle"),
                    "size": np.clip(_SMALLEST_PX + 2 * np.log2(count), _SMALLEST_PX, _LARGEST_PX).round(1).tolist(),
                },
                "text": [
                    format_bytes(one) + (f" in the mean of {format_count(many)} copies" if many > 1 else "")
                    for one, many in zip(size.tolist(), count.tolist(), strict=True)
                ],
                "hovertemplate": "%{text}<br><b>%{y:.3g} GB/s</b><extra>%{fullData.name}</extra>",
            }
        )
    traces += _limits(transfers)
    return {"data": traces, "layout": _layout(transfers)}


def _limits(transfers: TransferAnalysis) -> list[dict[str, Any]]:
    """The link's practical rate as a line over all sizes, one line where both directions have nearly the same."""
    link, size = transfers.link, transfers.points.size_bytes
    crossing = {direction for direction, _ in transfers.points.groups} & {"H2D", "D2H"}
    if link is None or not crossing:
        return []
    to_device, to_host = link.to_device_gb_per_s, link.to_host_gb_per_s
    rates = [(f"{link.name}, in practice", max(to_device, to_host))]
    if abs(to_device - to_host) > 0.05 * to_device:
        rates = [(f"{link.name}, to the device", to_device), (f"{link.name}, to the host", to_host)]
    low, high = _decades(int(size.min()), int(size.max()))
    ends = (2.0**low, 2.0**high)
    return [
        limit(f"{name}: {rate:.3g} GB/s", ends, rate, f"<b>{rate:.3g} GB/s</b><extra>{name}</extra>")
        for name, rate in rates
    ]


def _decades(low: int, high: int) -> tuple[float, float]:
    """Powers of two around the sizes, at least four of them."""
    first, last = np.floor(np.log2(low)) - 1, np.ceil(np.log2(high)) + 1
    return float(first), float(max(last, first + 4))


def _layout(transfers: TransferAnalysis) -> dict[str, Any]:
    size = transfers.points.size_bytes
    low, high = _decades(int(size.min()), int(size.max()))
    step = max(round((high - low) / 7), 1)
    ticks = [2**power for power in range(int(low), int(high) + 1, step) if power >= 0]
    x = {
        "type": "log",
        "range": [float(np.log10(2.0**low)), float(np.log10(2.0**high))],
        "tickvals": ticks,
        "ticktext": [format_bytes(tick) for tick in ticks],
    }
    return layout(x | title("size of a copy"), {"rangemode": "tozero"} | title("GB/s"), 290, left=52)
