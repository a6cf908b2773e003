"""What plotly's figures have in common; the page colours them (`meta` is a level of the taxonomy, or `limit`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pinprof.base.errors import ToolMissing
from pinprof.report.palette import level_colour

if TYPE_CHECKING:
    import plotly.graph_objects as go

_LIMIT_COLOUR = "#5f6570"
"""As `--soft` of the page."""


def as_plotly(figures: Mapping[str, Any]) -> dict[str, go.Figure]:
    """The same figures as objects of the package plotly, in the light colours of the page; ToolMissing without it."""
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise ToolMissing("Figures need plotly.", "Install it: pip install 'pinprof[figures]'.", "plotly") from None
    shown = {name: go.Figure(figure) for name, figure in figures.items()}
    for figure in shown.values():
        figure.for_each_trace(_coloured)
    return shown


def _coloured(trace: Any) -> None:
    colour = _LIMIT_COLOUR if trace.meta == "limit" else level_colour(trace.meta, dark=False)
    trace.update(line_color=colour, marker_color=colour)


def layout(x: dict[str, Any], y: dict[str, Any], height: int, left: int = 60, **more: Any) -> dict[str, Any]:
    """A layout of two axes that cannot be zoomed; sizes in pixels, `left` is the margin for the y axis."""
    fixed = {"fixedrange": True, "zeroline": False}
    return {
        "height": height,
        "margin": {"l": left, "r": 12, "t": 8, "b": 44},
        "xaxis": x | fixed,
        "yaxis": y | fixed,
        "legend": {"traceorder": "normal"},
        **more,
        "hovermode": "closest",
        "dragmode": False,
    }


def title(text: str) -> dict[str, Any]:
    """An axis's title."""
    return {"title": {"text": text, "standoff": 8}}


def limit(name: str, ends: tuple[float, float], height: float, hover: str, dash: str = "dash") -> dict[str, Any]:
    """A horizontal line from one end of the x axis to the other."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": "limit",
        "x": list(ends),
        "y": [height, height],
        "line": {"width": 1.5, "dash": dash},
        "hovertemplate": hover,
    }
