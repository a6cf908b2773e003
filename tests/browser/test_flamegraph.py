"""The flamegraph: zoom, search, legend, tooltip and keyboard, asserted on what is shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import Opened
from tests.browser.flame import changed, click, colour, crumbs, hover, pixel
from tests.support.sample_report import sample_report

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]


def test_tooltip_tells_weight_shares_module_cause_and_deciding_function(open_page: Open) -> None:
    tip = hover(open_page(sample_report()).page, 0.3, 4)
    for part in (
        "clear_page_erms", "600 ms · 60 % of all", "[kernel.kallsyms]",
        "pin.faultin: pages created while being pinned", "pin_user_pages",
    ):  # fmt: skip
        assert part in tip


def test_mixed_functions_say_how_much_their_leading_cause_makes_up(open_page: Open) -> None:
    assert "85 % cause" in hover(open_page(sample_report()).page, 0.3, 2)


def test_click_zooms_and_breadcrumbs_lead_back(open_page: Open) -> None:
    page = open_page(sample_report()).page
    click(page, 0.3, 3)
    assert crumbs(page) == ["all", "main", "cudaMallocHost", "pin_user_pages"]
    assert "86 %" in hover(page, 0.5, 4)
    page.get_by_role("button", name="main").click()
    assert crumbs(page) == ["all", "main"]
    page.get_by_role("button", name="Reset zoom").click()
    assert crumbs(page) == ["all"]
    assert page.is_disabled("#flame-reset")


def test_search_share_counts_nested_matches_once_and_stays_right_inside_a_zoom(open_page: Open) -> None:
    page = open_page(sample_report()).page
    page.fill("#flame-search", "page")
    assert page.inner_text("#flame-match") == "70 % of cpu-clock/freq=999/, 700 ms"
    page.fill("#flame-search", "CLEAR")
    assert page.inner_text("#flame-match") == "60 % of cpu-clock/freq=999/, 600 ms"
    click(page, 0.3, 2)
    assert page.inner_text("#flame-match") == "86 % of this zoom, 600 ms"
    page.fill("#flame-search", "/^gup_/")
    assert page.inner_text("#flame-match") == "14 % of this zoom, 100 ms"
    page.fill("#flame-search", "compute")
    assert page.inner_text("#flame-match") == "no match"
    page.fill("#flame-search", "/(/")
    assert "Unterminated group" in page.inner_text("#flame-match")


def test_a_match_above_the_zoom_covers_all_of_it(open_page: Open) -> None:
    page = open_page(sample_report()).page
    click(page, 0.3, 4)
    page.fill("#flame-search", "cudaMallocHost")
    assert page.inner_text("#flame-match") == "100 % of this zoom, 600 ms"


def test_nodes_have_the_colour_of_their_cause_and_matches_the_search_colour(open_page: Open) -> None:
    page = open_page(sample_report()).page
    before = pixel(page, 0.3, 4)
    assert before == colour(page, "--cause-pin-faultin")
    assert pixel(page, 0.65, 4) == colour(page, "--cause-pin-walk")
    page.fill("#flame-search", "clear_page")
    assert changed(page, 0.3, 4, before) == colour(page, "--match")


def test_colours_change_with_the_theme(open_page: Open) -> None:
    page = open_page(sample_report()).page
    before = pixel(page, 0.3, 4)
    page.click("#theme")
    assert changed(page, 0.3, 4, before) == colour(page, "--cause-pin-faultin")


def test_graph_can_be_walked_with_the_keyboard(open_page: Open) -> None:
    page = open_page(sample_report()).page
    page.focus("#flame-canvas")
    for key, name in (
        ("ArrowDown", "main"), ("ArrowDown", "cudaMallocHost"), ("ArrowRight", "compute"),
        ("ArrowLeft", "cudaMallocHost"), ("ArrowUp", "main"), ("Home", "all"),
    ):  # fmt: skip
        page.keyboard.press(key)
        assert page.inner_text("#flame-detail").startswith(f"{name} — ")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert crumbs(page) == ["all", "main", "cudaMallocHost"]
    page.keyboard.press("Escape")
    assert crumbs(page) == ["all"]
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "flame-search"


def test_canvas_is_as_sharp_as_the_screen(open_page: Open) -> None:
    page = open_page(sample_report()).page
    assert page.evaluate("document.getElementById('flame-canvas').width") == page.evaluate(
        "Math.round(document.getElementById('flame-canvas').clientWidth * devicePixelRatio)"
    )
