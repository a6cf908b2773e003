"""A section of a report: its data, and how JSON, terminal and page show it.

`sections.SECTIONS` lists them. A section's template is `templates/KEY.html.j2`; it sees the section's data as `section`
and everything shared as `report`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pinprof.analyze import Analysis
from pinprof.report.data import ReportData, Shared

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class ForScripts:
    """What a section gives the page's scripts."""

    data: Mapping[str, Any] = field(default_factory=dict)
    """Entries of the page's JSON."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Plotly figures, by the `data-plot` of their place."""
    drawings: Mapping[str, Any] = field(default_factory=dict)
    """What is drawn over time, as columns (`page.drawing`)."""
    packed: Mapping[str, str] = field(default_factory=dict)
    """Id of a script element → packed columns (`flame.pack`)."""
    plots: bool = False
    """Whether a script of the section draws with plotly, besides `figures`."""


@dataclass(frozen=True, slots=True)
class Section(Generic[D]):
    """One section; every function but `build` may be left out."""

    key: str
    """Name of its template, its place on the page and its data in `ReportData.sections`."""
    title: str
    """In the page's navigation; the template of a section without title has no heading, and that is its own affair."""
    build: Callable[[Analysis, Shared], D | None]
    """The section's data; None where it does not apply."""
    on_page: Callable[[D], bool] = lambda _: True
    """Whether the page shows it."""
    to_json: Callable[[D | None, ReportData], Mapping[str, Any]] = lambda _data, _report: {}
    """Its entries of the documented JSON, asked for also where it does not apply: keys stay."""
    to_text: Callable[[D, ReportData, Console], Iterable[RenderableType]] = lambda _data, _report, _console: ()
    """What the terminal prints, one below the other."""
    for_scripts: Callable[[D | None, ReportData], ForScripts] = lambda _data, _report: ForScripts()
    """What the page's scripts read, asked for also where it does not apply."""

    def of(self, report: ReportData) -> D | None:
        """The section's data in a report."""
        data: D | None = report.sections.get(self.key)
        return data

    def shown(self, report: ReportData) -> bool:
        """Whether the page of a report has it."""
        data = self.of(report)
        return data is not None and self.on_page(data)
