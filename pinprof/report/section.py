"""A section of a report: its data, and how JSON, terminal and page show it.

A section is a frozen dataclass below `Section`; `sections.SECTIONS` lists them. Its template, `templates/KEY.html.j2`,
sees the data as `section` and what sections share as `report`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pinprof.analyze import Run
from pinprof.base.lazy_dataclass import dataclass
from pinprof.report.data import ReportData, Shared

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@dataclass(frozen=True)
class ForScripts:
    """What a section gives the page's scripts."""

    data: Mapping[str, Any] = field(default_factory=dict)
    """Entries of the page's JSON."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Plotly figures, by the `data-plot` of their place."""
    drawings: Mapping[str, Any] = field(default_factory=dict)
    """What is drawn over time, as columns."""
    packed: Mapping[str, str] = field(default_factory=dict)
    """Id of a script element → packed columns (`flame.pack`)."""
    plots: bool = False
    """Whether a script draws with plotly, besides `figures`."""


class Section(ABC):
    """The data of one section. All methods but `build` may be left out."""

    key: ClassVar[str]
    """Name of its template, its place on the page, and of its data in `ReportData.sections`."""
    title: ClassVar[str] = ""
    """In the page's navigation and above the template; without one, there is only the template."""
    absent: ClassVar[tuple[tuple[str, Any], ...]] = ()
    """Its entries of the JSON where it does not apply: keys stay."""

    @classmethod
    @abstractmethod
    def build(cls, analysis: Run, shared: Shared) -> Self | None:
        """The data of one recording; None where the section does not apply."""

    @classmethod
    def of(cls, report: ReportData) -> Self | None:
        """This section's data in a report."""
        data = report.sections.get(cls.key)
        return data if isinstance(data, cls) else None

    def on_page(self) -> bool:
        """Whether there is something for its template to show."""
        return True

    def to_json(self) -> Mapping[str, Any]:
        """Its entries of the documented JSON."""
        return {}

    def to_text(self, report: ReportData, console: Console) -> Iterable[RenderableType]:  # most need one
        """What the terminal prints, one below the other."""
        return ()

    def for_scripts(self, report: ReportData) -> ForScripts:  # as above
        """What the page's scripts read."""
        return ForScripts()


def picked(value: object, names: str) -> dict[str, Any]:
    """Attributes of a value as entries of the JSON; `names` are separated by blanks."""
    return {name: getattr(value, name) for name in names.split()}


def listed(table: object, names: str) -> dict[str, list[Any]]:
    """Columns of a table as lists; `names` are separated by blanks."""
    return {name: values.tolist() for name, values in picked(table, names).items()}
