"""The page of `pinprof bench`: one self-contained file with curves, break-even counts and the decision tree.

It is made as the reports' pages are (html.py): nothing is requested from anywhere, and the policy admits the page's own
scripts only.
"""

from __future__ import annotations

from pathlib import Path

from pinprof.data.rates import MEASURES
from pinprof.report.bench.data import BenchReport, speed
from pinprof.report.bench.plots import figures
from pinprof.report.page import html
from pinprof.report.page.bundle import asset, bundle, packed_plot_script, plot_script, script_hash
from pinprof.report.page.design import level_rules


def write_page(report: BenchReport, path: Path) -> None:
    """Write the page to `path`; PinprofError if it cannot be written."""
    html.write_whole(render(report), path)


def render(report: BenchReport) -> str:
    """The page as text."""
    script, plots = bundle("bench.js"), figures(report.study)
    plot = plot_script() if plots else b""
    hashes = " ".join(script_hash(one) for one in (script, plot) if one)
    sheets = "".join(map(asset, ("styles/page.css", "styles/activity.css", "styles/bench.css")))
    return html.page(
        "bench.html.j2",
        sheets + level_rules(),
        script,
        hashes,
        report=report,
        study=report.study,
        plots=plots,
        page_data=html.embed_json({"plots": plots}),
        plot_packed=packed_plot_script() if plot else "",
        meaning=_meaning,
        speed=speed,
    )


def _meaning(measure: str) -> str:
    return MEASURES.get(measure) or MEASURES["prefault.tN"]
