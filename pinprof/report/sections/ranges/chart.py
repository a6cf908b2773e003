"""The ranges × causes chart: what its bars can mean, how its rows are named; `assets/chart.js` draws it."""

from __future__ import annotations

from pinprof.report.data import RangeData
from pinprof.report.names import shortened

MEASURES = {"mean": "per range", "total": "total", "share": "share"}
"""Key → label of what a bar's length and a cell of the table can mean."""

_NAME_WIDTH = 28


def label(entry: RangeData) -> str:
    """A range's name beside its bar, indented by its depth."""
    return plain_text("\u00a0" * (3 * entry.depth) + shortened(entry.name, _NAME_WIDTH))


def plain_text(name: str) -> str:
    """Text that plotly, which reads labels as a small markup language, shows as it is."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
