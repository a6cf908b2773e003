"""Several recordings in one page: an overview side by side, and each one's own page in a tab.

The pages are those of `html.render`, compressed, and opened in a frame when their tab is. Plotly's script is the same
in each, so it is kept once and put in its place when a page opens. A frame inherits the outer policy, which therefore
admits the scripts of the pages inside it, by hash, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pinprof.analyze.results import RangeResult
from pinprof.report.data import LEVEL_TITLES
from pinprof.report.flame import pack
from pinprof.report.gather import ReportData
from pinprof.report.page import html
from pinprof.report.page.bundle import asset, bundle, script_hash
from pinprof.report.page.design import level_rules

_PLOT_PLACE = "@plot-script@"
_PLOT = re.compile(r'(?<=id="plot-script">)[A-Za-z0-9+/=]+(?=</script>)')
_SCRIPT_HASH = re.compile(r"'sha256-[A-Za-z0-9+/=]+'")
_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')


def write_collection(reports: Sequence[ReportData], path: Path) -> None:
    """Write the page of several reports to `path`; PinprofError if it cannot be written."""
    html.write_whole(render(reports), path)


def render(reports: Sequence[ReportData]) -> str:
    """The page as text."""
    pages = [html.render(data) for data in reports]
    plot = next((match[0] for match in map(_PLOT.search, pages) if match), "")
    script = bundle("collection.js")
    policies = " ".join(match[1] for match in map(_POLICY.search, pages) if match)
    hashes = sorted({script_hash(script), *_SCRIPT_HASH.findall(policies.replace("&#39;", "'"))})
    return html.page(
        "collection.html.j2",
        asset("styles/page.css") + asset("styles/collection.css") + level_rules(),
        script,
        " ".join(hashes),
        "worker-src blob:; frame-src blob:; ",
        reports=reports,
        rows=comparable_ranges(reports),
        level_titles=LEVEL_TITLES,
        plot_packed=plot,
        pages_packed=[pack(_PLOT.sub(_PLOT_PLACE, page).encode("utf-8", "replace")) for page in pages],
    )


def comparable_ranges(reports: Sequence[ReportData]) -> list[tuple[str, int, list[RangeResult | None]]]:
    """(name, depth, the range in each report) for every range name, in the order in which the reports have them.

    A range stands where it stands on average, so that phases of different scenarios interleave.
    """
    places: dict[tuple[str, int], list[float]] = {}
    first: dict[tuple[int, str, int], RangeResult] = {}
    for number, data in enumerate(reports):
        shown = [data.ranges[index] for index in data.shown.index.tolist()]
        for index, entry in enumerate(shown):
            places.setdefault((entry.name, entry.depth), []).append(index / len(shown))
            first.setdefault((number, entry.name, entry.depth), entry)
    rows = sorted(places, key=lambda key: sum(places[key]) / len(places[key]))
    return [(*key, [first.get((number, *key)) for number in range(len(reports))]) for key in rows]
