"""A long page shows at most twelve screens; what is cut is counted, stays on the page and opens when asked for."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from pinprof.analyze import analyze
from pinprof.report.gather import ReportData, build
from tests.browser.conftest import Opened
from tests.support.sample_report import sample_report
from tests.support.stacks import Range, Sample, capture

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]
MOST = 12 * 900
ROWS = 300


def long_report(depth: int = 1) -> ReportData:
    """A report with a row for each of 300 ranges, which lie inside each other where the depth says so."""
    ranges = [Range(f"step {n}", 1000 * n, 1000 * n + 900) for n in range(ROWS - depth)]
    ranges += [Range(f"level {n}", n, 10**6 - n, pid=9, tid=9, depth=n) for n in range(depth)]
    samples = [Sample(["work@/app"], 200, time_ns=1000 * n + 10) for n in range(ROWS)]
    return build(analyze(capture(samples, ranges)))


def height(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollHeight"))


def test_a_long_page_has_twelve_screens_and_the_rest_on_request(open_page: Open) -> None:
    page = open_page(long_report(), width=1280).page
    page.wait_for_selector("#ranges.cut")
    page.wait_for_function(f"document.documentElement.scrollHeight <= {MOST}")
    button = page.locator("#ranges > .uncut")
    said = re.fullmatch(r"Show the rest: (\d+) rows", button.inner_text())
    assert said
    assert 0 < int(said[1]) < ROWS
    button.click()
    page.wait_for_function(f"document.documentElement.scrollHeight > {MOST}")
    assert page.locator(".uncut").count() == 0


def test_what_the_keyboard_or_a_search_leads_to_is_opened(open_page: Open) -> None:
    page = open_page(long_report(), width=1280).page
    page.wait_for_selector("#ranges.cut")
    page.locator("#ranges table.ranges [data-range-filter]").last.focus()
    page.wait_for_selector("#ranges:not(.cut)")
    assert page.evaluate("document.querySelector('#ranges').scrollTop") == 0


def test_ranges_inside_each_other_make_the_timeline_no_higher_than_a_screen(open_page: Open) -> None:
    page = open_page(long_report(ROWS - 1), width=1280).page
    page.wait_for_selector("#timeline-canvas[data-ready]")
    page.wait_for_function("document.querySelector('#timeline-canvas').offsetHeight < 900")
    assert "275 ranges lie too deep inside others to be drawn" in page.inner_text("#timeline")


def test_a_page_that_is_no_longer_is_not_cut(open_page: Open) -> None:
    page = open_page(sample_report(), width=1280).page
    assert page.locator(".cut, .uncut").count() == 0
    assert height(page) <= MOST
