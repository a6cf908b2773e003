"""The sections of the page, in order. A section without data does not appear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pinprof.report.data import ReportData


@dataclass(frozen=True, slots=True)
class Panel:
    """A section: `templates/panel_KEY.html.j2` draws it when `applies`."""

    key: str
    title: str
    applies: Callable[[ReportData], bool]


PANELS: tuple[Panel, ...] = (
    Panel("causes", "Causes", lambda data: any(event.total for event in data.events)),
    Panel("pinning", "Time to pinned memory", lambda data: data.pinning is not None),
    Panel("findings", "Findings", lambda data: bool(data.findings)),
    Panel("counterfactual", "In other kinds of memory", lambda data: data.counterfactual is not None),
    Panel("ranges", "Ranges", lambda data: bool(data.ranges)),
    Panel("python", "Python", lambda data: bool(data.python)),
    Panel("timeline", "Timeline", lambda data: data.timeline is not None),
    Panel("calls", "CUDA calls", lambda data: bool(data.activity and data.activity.analysis.whole.calls)),
    Panel("transfers", "Transfers", lambda data: bool(data.activity and data.activity.analysis.whole.copies)),
    Panel("uvm", "Managed memory", lambda data: bool(data.activity and data.activity.analysis.uvm)),
    Panel("memory", "Memory", lambda data: data.memory is not None),
    Panel("flame", "Flamegraph", lambda data: data.flame is not None and len(data.flame.depth) > 0),
    Panel("quality", "Data quality", lambda data: bool(data.events or data.activity)),
    Panel("machine", "Machine", lambda data: bool(data.capture.host)),
    Panel("reproduce", "How to reproduce", lambda data: bool(data.capture.command or data.capture.collectors)),
)


def panels_for(data: ReportData) -> list[Panel]:
    """The sections that have something to show."""
    return [panel for panel in PANELS if panel.applies(data)]
