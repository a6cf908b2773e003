"""Where pages lie, as the terminal, the page and the JSON say it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from pinprof.analyze import Run, analyze
from pinprof.analyze.ledger.results import Pages
from pinprof.read import read
from pinprof.report.gather import ReportData, build
from pinprof.report.page import html
from tests.support.facts import with_facts
from tests.support.sample_report import text_of

GIB = 1 << 30
CASE = Path(__file__).parents[2] / "data/cases/long_pin_blocks.pinprof.tar.xz"


@cache
def analyzed() -> Run:
    """A capture from before pages were recorded."""
    return analyze(read(CASE))


def report(pages: Pages | None) -> ReportData:
    """Of that capture, with the pages of the line that holds most."""
    analysis = analyzed()
    assert analysis.ledger is not None
    first, *others = analysis.ledger.sites
    assert first.pages is None
    sites = (replace(first, pages=pages), *others)
    return build(with_facts(analysis, ledger=replace(analysis.ledger, sites=sites)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pages", "text"),
    [
        (Pages(0, {0: 3 * GIB, 1: GIB}, 0, 0, 0.8, 64), "node 0: 3 GiB, node 1: 1 GiB; huge 80 %"),
        (Pages(0, {1: GIB}, GIB, 2 * GIB, None, 64), "node 1: 1 GiB, no page: 1 GiB, unknown: 2 GiB"),
        (Pages(0, {}, 4 * GIB, 0, None, 64), "no page: 4 GiB"),
    ],
)
def test_every_output_says_where_pages_lie(pages: Pages, text: str) -> None:
    made = report(pages)
    assert f"{text}." in text_of(made, 200)
    page = html.render(made).replace("\u00a0", " ")
    assert f"{text}</span>" in page
    assert "estimated from 64 pages" in page
    shown = made.to_json()["ledger"]["sites"]
    assert shown[0]["pages"]["nodes"] == {str(node): size for node, size in pages.nodes.items()}
    assert shown[0]["pages"]["huge_share"] == pages.huge_share
    assert [site["pages"] for site in shown[1:]] == [None] * len(shown[1:])


@pytest.mark.slow
def test_a_recording_that_knows_no_pages_has_no_column() -> None:
    made = report(None)
    assert "Pages of" not in text_of(made, 200)
    assert "<th>Pages</th>" not in html.render(made)
    assert "<th>Pages</th>" in html.render(report(Pages(0, {0: GIB}, 0, 0, 0.0, 8)))
