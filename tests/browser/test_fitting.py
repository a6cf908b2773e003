"""What does not fit: labels of bars, tables wider than the window; the legend of causes; the button of the theme."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pinprof.report.data import ReportData
from pinprof.report.gather import build
from tests.browser.conftest import Opened
from tests.browser.test_activity import joined
from tests.support.activities import export
from tests.support.sample_report import sample_report

Open = Callable[..., Opened]
WIDTHS = (400, 800, 1400, 1920)


@pytest.mark.parametrize("made", [sample_report, lambda: build(export("uvm"))], ids=["samples", "trace"])
def test_no_label_is_cut_and_wide_tables_say_so(open_page: Open, made: Callable[[], ReportData]) -> None:
    page = open_page(made()).page
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(100)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        assert page.evaluate(
            """[...document.querySelectorAll(".bar .label text")].every((text) => text.style.visibility === "hidden"
              || !text.getComputedTextLength()
              || text.getBoundingClientRect().right <= text.parentElement.closest("svg:not(.label)")
                   .getBoundingClientRect().right)"""
        )
        assert page.evaluate(
            """[...document.querySelectorAll(".scroll")].every((place) => place.closest("details:not([open])") ||
              place.classList.contains("wider") === place.scrollWidth > place.clientWidth + 1)"""
        )


def test_the_timeline_names_the_colours_of_causes(open_page: Open) -> None:
    page = open_page(joined()).page
    page.wait_for_selector("#timeline-canvas[data-ready]")
    assert "pin.faultin" in page.inner_text("#timeline-legend")


def test_the_button_says_which_theme_it_brings(open_page: Open) -> None:
    page = open_page(build(export("uvm"))).page
    button = page.locator("#theme")
    first, title = button.inner_text(), button.get_attribute("title")
    assert title == f"Switch to the {first.lower()}" == button.get_attribute("aria-label")
    button.click()
    assert {first, button.inner_text()} == {"Dark theme", "Light theme"}
