"""What to change, on the page: cards that filter every view, code to copy, and room for it in narrow windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from pinprof.report.gather import ReportData, build
from tests.support.h200 import own_analysis
from tests.support.opportunities import POOL, with_opportunities

pytestmark = pytest.mark.browser
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>' + "x" * 400
FILTERED = "html[data-linked=ready]:has(#causes .part:not([hidden])):has(#flame[aria-busy=false])"
WHOLE = "html[data-linked=ready]:has(#filters[hidden]):has(#flame[aria-busy=false])"


@cache
def report(found: int = 2, text: str = "") -> ReportData:
    return build(with_opportunities(own_analysis("alloc-loop-mistake"), found, text))


def test_a_card_filters_every_view_and_its_chip_takes_it_back(open_page: Callable[..., Any]) -> None:
    page = open_page(report()).page
    before = page.locator("#causes").inner_text()
    flame = page.locator("#flame-canvas").get_attribute("aria-label")
    button = page.locator("[data-opportunity='0']")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    chip = page.locator("#filter-chips .chip")
    assert chip.count() == 1
    assert chip.inner_text().startswith("opportunity")
    assert "alloc_pairs.cu:11 pins" in chip.inner_text()
    page.wait_for_selector(FILTERED)
    assert page.locator("#causes").inner_text() != before
    assert "of all" in str(page.locator("#flame-canvas").get_attribute("aria-label"))
    assert page.locator("#findings .limit").is_visible()
    assert "opportunity=0" in page.url
    chip.click()
    page.wait_for_selector(WHOLE)
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator("#causes").inner_text() == before
    assert page.locator("#flame-canvas").get_attribute("aria-label") == flame


def test_flamegraph_and_causes_agree_on_the_samples_of_a_card(open_page: Callable[..., Any]) -> None:
    data = report()
    assert data.flame is not None
    page = open_page(data).page
    page.locator("[data-opportunity='0']").click()
    page.wait_for_selector(FILTERED)
    total = str(page.locator("#flame-canvas").get_attribute("aria-label")).split(": ")[1].split(",")[0]
    assert page.locator("#causes .causes:not([hidden]) .part").inner_text().startswith(f"This part: {total},")


def test_an_address_names_the_opportunity_and_pressing_again_shows_all(open_page: Callable[..., Any]) -> None:
    page = open_page(report()).page
    page.evaluate("location.hash = '#opportunity=1'")
    button = page.locator("[data-opportunity='1']")
    page.wait_for_selector("[data-opportunity='1'][aria-pressed=true]")
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    page.evaluate("location.hash = '#opportunity=9'")
    assert page.locator("#filters").is_hidden()


def test_code_and_variable_are_copied_with_the_keyboard_and_it_is_said(open_page: Callable[..., Any]) -> None:
    page = open_page(report(), own=True).page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("window.setTimeout = (done, ms) => { window.later = { done, ms }; }")  # however slow the machine
    for name, text in (("Copy the code", POOL), ("Copy the environment variable", "PINPROF_POOL=1")):
        button = page.get_by_role("button", name=name).first
        button.focus()
        page.keyboard.press("Enter")
        page.locator("[role=status]").get_by_text("Copied", exact=True).wait_for()
        assert button.inner_text() == "Copied"
        assert page.evaluate("navigator.clipboard.readText()") == text
        assert page.evaluate("later.ms") == 2000
        page.evaluate("later.done()")
        assert button.inner_text() == "Copy"
        assert page.locator("[role=status]").first.text_content() == ""


def test_where_the_clipboard_is_refused_the_code_is_selected(open_page: Callable[..., Any]) -> None:
    page = open_page(report()).page
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }")
    page.get_by_role("button", name="Copy the code").first.click()
    page.locator("[role=status]").get_by_text("Ctrl+C").wait_for()
    assert page.evaluate("getSelection().toString()") == POOL


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("found", [0, 3])
def test_nothing_scrolls_sideways_in_a_narrow_window(open_page: Callable[..., Any], found: int, scheme: str) -> None:
    page = open_page(report(found, HOSTILE), width=400, scheme=scheme).page
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.locator(".gain").count() == max(found, 1)
    right = "(part) => part.getBoundingClientRect().right"
    assert max(page.evaluate(f"[...document.querySelectorAll('.gain > *')].map({right})")) <= 400


def test_hostile_names_are_text(open_page: Callable[..., Any]) -> None:
    page = open_page(report(2, HOSTILE)).page
    assert page.locator("#opportunities img, #opportunities script").count() == 0
    assert page.locator(".gain h3").first.inner_text().split("\n")[-1].startswith('"><img src=x')
    page.locator("[data-opportunity='0']").click()
    assert "<script>alert(2)" in page.locator("#filter-chips .chip").inner_text()


def test_the_bar_draws_cost_and_saving_to_scale(open_page: Callable[..., Any]) -> None:
    page = open_page(report()).page

    def width(part: str) -> float:
        return float(page.locator(f".gain .saving-{part}").first.evaluate("(e) => e.getBBox().width"))

    assert width("cost") / width("phase") == pytest.approx(1410 / 1800, abs=0.01)
    assert width("likely") / width("phase") == pytest.approx(1300 / 1800, abs=0.01)
    assert width("range") / width("phase") == pytest.approx(300 / 1800, abs=0.01)


def test_phases_stand_in_the_timeline_above_the_threads(open_page: Callable[..., Any]) -> None:
    page = open_page(report()).page
    page.wait_for_selector("#timeline-canvas[data-ready]")
    box = page.locator("#timeline-canvas").bounding_box()
    assert box is not None
    page.locator("#timeline-canvas").hover(position={"x": box["width"] * 0.9, "y": 36})
    tip = page.locator("body > .tip:not([hidden])").last
    assert tip.inner_text().split("\n")[0] == "work"
