"""Plots as plotly figures in plain dictionaries: copies by size and bandwidth beside their limit, memory over time.

Colours are the page's, by the level in `meta`, so that they follow its theme.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pinprof.analyze.activity.results import CopyResult, TransferAnalysis
from pinprof.report.memory_rows import MemoryData
from pinprof.report.styles import DIRECTIONS, memory_style
from pinprof.units import format_bytes, format_count

_SYMBOLS = {"H2D": "triangle-up", "D2H": "triangle-down-open"}
_SMALLEST_PX, _LARGEST_PX = 11, 26


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
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{name}: {rate:.3g} GB/s",
            "meta": "limit",
            "x": [2.0**low, 2.0**high],
            "y": [rate, rate],
            "line": {"width": 1.5, "dash": "dash"},
            "hovertemplate": f"<b>{rate:.3g} GB/s</b><extra>{name}</extra>",
        }
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
    return {
        "height": 290,
        "margin": {"l": 52, "r": 12, "t": 8, "b": 44},
        "xaxis": {
            "type": "log",
            "range": [float(np.log10(2.0**low)), float(np.log10(2.0**high))],
            "tickvals": ticks,
            "ticktext": [format_bytes(tick) for tick in ticks],
            "title": {"text": "size of a copy", "standoff": 8},
            "fixedrange": True,
            "zeroline": False,
        },
        "yaxis": {
            "rangemode": "tozero",
            "title": {"text": "GB/s", "standoff": 8},
            "fixedrange": True,
            "zeroline": False,
        },
        "legend": {"traceorder": "normal"},
        "hovermode": "closest",
        "dragmode": False,
    }


def memory_figure(data: MemoryData) -> dict[str, Any] | None:
    """What the program held over time, a line for each kind of memory; None when nothing was ever held."""
    curves = data.curves()
    if not curves:
        return None
    most = max(int(level.max()) for _, _, _, level in curves)
    power = min(max(most.bit_length() - 1, 0) // 10, 6)
    unit = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")[power]
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "name": style.label,
                "meta": style.level,
                "x": [round(value / 1e9, 3) for value in time.tolist()],
                "y": [float(f"{value / 1024**power:.5g}") for value in level.tolist()],
                "text": [format_bytes(value) for value in level.tolist()],
                "line": {"width": 2, "shape": "hv"},
                "marker": {"symbol": "circle"},
                "hovertemplate": "%{x:.3g} s<br><b>%{text}</b><extra>%{fullData.name}</extra>",
            }
            for _, style, time, level in curves
        ],
        "layout": {
            "height": 250,
            "margin": {"l": 60, "r": 12, "t": 8, "b": 44},
            "xaxis": {"title": {"text": "seconds", "standoff": 8}, "fixedrange": True, "zeroline": False},
            "yaxis": {
                "rangemode": "tozero",
                "title": {"text": unit, "standoff": 8},
                "fixedrange": True,
                "zeroline": False,
            },
            "legend": {"traceorder": "normal"},
            "showlegend": True,
            "hovermode": "closest",
            "dragmode": False,
        },
    }
