"""Several recordings in one page: an overview, and each one's page in a tab."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from pinprof.report.gather import ReportData
from pinprof.report.page.collection import comparable_ranges, write_collection
from tests.browser.conftest import new_page
from tests.support.sample_report import sample_report

pytestmark = pytest.mark.browser
HOSTILE = "</script><img src=x onerror=alert(1)>\u202eevil"


def named(name: str) -> ReportData:
    data = sample_report()
    return replace(data, capture=replace(data.capture, path=name), headline=f"{name}: 70 % is pin_user_pages")


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """The page of three recordings; console messages and requests are failures."""
    path = tmp_path / "all.html"
    write_collection([named("first"), named(HOSTILE), named("third")], path)
    opened = new_page(browser, viewport={"width": 1200, "height": 900}, offline=True)
    complaints: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(path.as_uri())
    yield opened
    opened.context.close()
    assert complaints == []
    assert {url for url in asked if not url.startswith("blob:")} == {path.as_uri()}


def test_the_overview_shows_every_recording_as_text(page: Page) -> None:
    assert page.inner_text("h1") == "3 recordings side by side"
    headings = page.locator(".recording h3 bdi").all_inner_texts()
    assert headings[0] == "first"
    assert "<img src=x onerror=alert(1)>" in headings[1]
    assert page.locator(".recording svg.bar").count() == 3
    assert page.locator("table.side tbody tr").count() == len(comparable_ranges([named("first")]))
    assert page.locator("img").count() == 0


def test_a_tab_opens_the_recordings_own_page_with_its_flamegraph(page: Page) -> None:
    page.get_by_role("tab", name="third").click()
    frame = page.frame_locator("#frame-3 iframe")
    frame.locator("#flame[data-ready]").wait_for()
    assert "third" in frame.locator("h1").inner_text()
    assert not page.locator("#overview").is_visible()
    assert page.url.endswith("#3")
    frame.locator("#chart").scroll_into_view_if_needed()
    frame.locator("#chart .main-svg").first.wait_for()


def test_tabs_follow_the_keyboard_and_the_address(page: Page) -> None:
    page.get_by_role("tab", name="Overview").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#tab-1", "aria-selected") == "true"
    page.keyboard.press("ArrowLeft")
    assert page.locator("#overview").is_visible()
    page.evaluate("location.hash = '#2'")
    page.frame_locator("#frame-2 iframe").locator("h1").wait_for()
    assert page.get_attribute("#tab-2", "aria-selected") == "true"


def test_phases_of_different_scenarios_stand_in_the_order_of_the_work() -> None:
    rows = comparable_ranges([named("first"), named("second")])
    assert [name for name, _, _ in rows] == [entry.name for entry in named("first").ranges]
    assert all(len(cells) == 2 and all(cells) for _, _, cells in rows)
