"""What a reader sees and can do; console messages and requests fail every test (conftest.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser

from pinprof.base import units
from pinprof.report.page.bundle import bundle
from tests.browser.conftest import Opened, new_page
from tests.support.sample_report import sample_report

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]


def test_headline_badge_and_causes_are_shown(open_page: Open) -> None:
    page = open_page(sample_report()).page
    assert page.inner_text("h1") == "70\u00a0% of cudaMallocHost is pin_user_pages; 60\u00a0% is creating the pages"
    assert page.inner_text(".badge") == "host emulation"
    assert "70 %" in page.inner_text("#causes details:first-of-type summary")


def test_one_event_is_shown_at_a_time_in_its_own_unit(open_page: Open) -> None:
    page = open_page(sample_report()).page
    assert "600 ms" in page.inner_text("#causes")
    assert "faults" not in page.inner_text("#causes")
    page.get_by_role("tab", name="page faults").click()
    page.wait_for_selector('#flame[data-ready="1"]')
    assert "100 faults" in page.inner_text("#causes")
    assert " ms" not in page.inner_text("#causes")
    assert "100 faults" in (page.get_attribute("#flame-canvas", "aria-label") or "")


def test_hovering_a_segment_tells_meaning_and_remedy(open_page: Open) -> None:
    page = open_page(sample_report()).page
    page.hover("#causes svg.big rect >> nth=0")
    assert (
        page.inner_text("#hint")
        == "pin.faultin · 60 % · 600 ms\n\npages created while being pinned\n\nTouch the memory first."
    )


def test_chart_starts_when_scrolled_into_view_and_follows_the_event(open_page: Open) -> None:
    page = open_page(sample_report()).page
    page.locator("#chart").scroll_into_view_if_needed()
    page.wait_for_selector('#chart[data-ready="0 mean"]')
    assert page.locator("#chart .bars path").count() == 9
    page.get_by_role("button", name="share").click()
    page.wait_for_selector('#chart[data-ready="0 share"]')
    assert page.text_content("#chart .xtitle") == "%"
    page.get_by_role("tab", name="page faults").click()
    page.wait_for_selector('#chart[data-ready="1 share"]')
    assert page.locator("#chart .bars path").count() == 1


def test_chart_works_from_a_shared_script(open_page: Open) -> None:
    opened = open_page(sample_report(), shared=True)
    opened.page.locator("#chart").scroll_into_view_if_needed()
    opened.page.wait_for_selector("#chart[data-ready]")
    assert any(url.endswith("/shared/plotly.min.js") for url in opened.requests)


def test_flamegraph_and_its_worker_work_from_a_shared_script(open_page: Open) -> None:
    opened = open_page(sample_report(), shared=True)
    own = open_page(sample_report())
    assert any("/shared/pinprof-" in url for url in opened.requests)
    for page in (opened.page, own.page):
        page.locator(".leaves button.filter").first.click()
        page.wait_for_function("document.querySelectorAll('.leaves .filter[aria-pressed=true]').length === 1")
    texts = [page.text_content("#flame-detail") for page in (opened.page, own.page)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_theme_follows_the_system_until_toggled(open_page: Open, scheme: str) -> None:
    page = open_page(sample_report(), scheme=scheme).page
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    page.click("#theme")
    assert page.evaluate(ground) != before
    page.reload()
    page.wait_for_selector("#flame[data-ready]")
    assert page.evaluate("document.documentElement.dataset.theme") != scheme


@pytest.mark.parametrize("width", [400, 800, 1900])
def test_page_never_scrolls_sideways(open_page: Open, width: int) -> None:
    page = open_page(sample_report(text="a" * 10_000, function="b" * 10_000), width=width).page
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_names_of_ten_kilobytes_do_not_push_the_page_apart(open_page: Open) -> None:
    height = "document.documentElement.scrollHeight"
    usual = open_page(sample_report()).page.evaluate(height)
    assert open_page(sample_report(text="a" * 10_000, function="b" * 10_000)).page.evaluate(height) < usual + 1500


def test_quantities_read_as_in_the_terminal(browser: Browser) -> None:
    page = new_page(browser)
    page.add_script_tag(content=bundle("core/format.js"))
    weights = [
        (value, unit)
        for unit in ("ns", "bytes", "faults")
        for value in (0, 7, 950, 12_345, 1_240_000, 98_249_999, 5 << 30, 10**15)
    ]
    assert page.evaluate("all => all.map(([value, unit]) => formatWeight(value, unit))", weights) == [
        units.format_weight(value, unit) for value, unit in weights
    ]
    shares = [(0, 0), (0, 5), (1, 3), (1, 10_000), (9_949, 100_000), (995, 10_000), (2, 3), (5, 5)]
    assert page.evaluate("all => all.map(([part, whole]) => formatShare(part, whole))", shares) == [
        units.format_share(part, whole) for part, whole in shares
    ]
    page.context.close()
