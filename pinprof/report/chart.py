"""The ranges × causes chart as plotly figures, written as plain dictionaries: plotly's Python classes are not imported.

Each figure is horizontal stacked bars, one bar per range in the order of the table, one trace per leaf. Colours are
the page's, by the leaf's slug in `meta`, so that they follow its theme.
"""

from __future__ import annotations

from typing import Any

from pinprof.report.data import EventData, RangeData, ReportData
from pinprof.report.names import shortened
from pinprof.units import format_share, format_weight

MEASURES = {"mean": "per range", "total": "total", "share": "share"}
"""Key → label of what a bar's length can mean."""

_ROW_PX, _FRAME_PX = 34, 64
_NAME_WIDTH = 28
_LEGEND_ROWS = 9
"""The heaviest causes are named beside the chart, all others on hover."""

_SMALLEST_SHARE = 0.002
"""Leaves below this part of every range would be slivers; they are in the table."""

_AXIS_UNIT = {"ns": (1e6, "ms"), "bytes": (2**20, "MiB")}


def figures(data: ReportData, event: EventData) -> dict[str, Any]:
    """One figure per measure; empty when no range holds samples of the event."""
    rows = [(entry, part) for entry in data.ranges if (part := entry.event(event.name)) and part.total]
    if not rows:
        return {}
    leaves = [
        leaf
        for leaf in event.leaves
        if any(part.leaves.get(leaf, 0) >= _SMALLEST_SHARE * part.total for _, part in rows)
    ]
    labels = [plain_text(f"{' ' * entry.depth}{shortened(entry.name, _NAME_WIDTH)}") for entry, _ in rows]
    result = {}
    for measure in MEASURES:
        traces = []
        for rank, leaf in enumerate(leaves):
            weights = [part.leaves.get(leaf, 0) for _, part in rows]
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": leaf,
                    "showlegend": rank < _LEGEND_ROWS,
                    "meta": data.cause(leaf).slug,
                    "y": list(range(len(rows))),
                    "x": [
                        _length(measure, weight, entry, part.total, event)
                        for weight, (entry, part) in zip(weights, rows, strict=True)
                    ],
                    "text": [
                        f"{format_share(weight, part.total)} · {format_weight(weight / entry.count, event.unit)} each"
                        for weight, (entry, part) in zip(weights, rows, strict=True)
                    ],
                    "textposition": "none",
                    "hovertemplate": "<b>%{fullData.name}</b><br>%{text}<extra></extra>",
                }
            )
        result[measure] = {"data": traces, "layout": _layout(measure, labels, event)}
    return result


def plain_text(name: str) -> str:
    """Text that plotly, which reads labels as a small markup language, shows as it is."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")


def _length(measure: str, weight: int, entry: RangeData, total: int, event: EventData) -> float:
    if measure == "share":
        return round(100 * weight / total, 4)
    factor = _AXIS_UNIT.get(event.unit, (1, ""))[0]
    return round(weight / factor / (entry.count if measure == "mean" else 1), 6)


def _layout(measure: str, labels: list[str], event: EventData) -> dict[str, Any]:
    unit = "%" if measure == "share" else _AXIS_UNIT.get(event.unit, (1, event.unit))[1]
    axis: dict[str, Any] = {"title": {"text": unit, "standoff": 8}, "fixedrange": True, "zeroline": False}
    if measure == "share":
        axis["range"] = [0, 100]
    return {
        "barmode": "stack",
        "bargap": 0.32,
        "height": _FRAME_PX + _ROW_PX * len(labels),
        "margin": {"l": 8, "r": 8, "t": 8, "b": 48},
        "xaxis": axis,
        "yaxis": {
            "autorange": "reversed",
            "automargin": True,
            "fixedrange": True,
            "tickvals": list(range(len(labels))),
            "ticktext": labels,
        },
        "legend": {"traceorder": "normal"},
        "hovermode": "closest",
        "dragmode": False,
    }
