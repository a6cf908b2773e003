"""The reports: Analysis → ReportData → page, terminal summary, JSON; Capture → folded stacks.

Every function imports its writer when called, so that folded stacks cost no template engine and no terminal library.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pinprof.analyze import Analysis, Explanation
    from pinprof.report.data import ReportData


def build(analysis: Analysis) -> ReportData:
    """Everything a report shows, as plain data (`data.ReportData`)."""
    from pinprof.report.gather import build as build_data

    return build_data(analysis)


def print_text(data: ReportData, output: Path | None = None) -> None:
    """Print the terminal summary, or write it to a file."""
    from pinprof.report.terminal.text import print_text as write

    write(data, output)


def print_explanation(explanation: Explanation) -> None:
    """Print the top stacks of one cause with the frame that decided."""
    from pinprof.report.terminal.text import print_explanation as write

    write(explanation)


def write_json(data: ReportData, stream: IO[str]) -> None:
    """Write the documented JSON (docs/json.md)."""
    from pinprof.report.export.document import write_json as write

    write(data, stream)


def write_html(data: ReportData, path: Path, shared_assets: Path | None = None) -> None:
    """Write the page, one self-contained file unless `shared_assets` names a folder for the plot script."""
    from pinprof.report.page.html import write_html as write

    write(data, path, shared_assets)


def write_collection(reports: Sequence[ReportData], path: Path) -> None:
    """Write one page of several reports, a tab each and an overview."""
    from pinprof.report.page.collection import write_collection as write

    write(reports, path)
