"""Hostile names are shown as text: nothing runs, nothing is requested (conftest.py), the layout holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import Opened
from tests.support.sample_report import sample_report

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]

NAMES = {
    "script": "</script><script>window.owned = 1</script>",
    "image": "<img src=x onerror='window.owned = 1'>",
    "attribute": "\"' onmouseover=window.owned=1 x='",
    "comment": "<!--<script>",
    "template": "{{ 7 * 7 }}${window.owned = 1}%{x}",
    "link": "<a href='javascript:window.owned=1'>x</a><b>bold</b>",
    "direction": "abc\u202egnp.exe\u202c\u200f",
    "control": "nul\x00bell\x07esc\x1b[31m\r\n",
    "surrogate": "lone\ud800\udfff",
    "emoji": "🚀👩‍👩‍👧‍👦 function",
    "long": "x" * 10_000,
    "empty": "",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_name_is_text_in_every_place(open_page: Open, name: str) -> None:
    page = open_page(sample_report(function=name, text=name), width=900).page
    page.locator("#chart").scroll_into_view_if_needed()
    page.wait_for_selector("#chart[data-ready]")
    page.locator("#flame-canvas").scroll_into_view_if_needed()
    width = page.evaluate("document.getElementById('flame-canvas').clientWidth")
    page.hover("#flame-canvas", position={"x": 0.85 * width, "y": 50})
    page.click("#flame-canvas", position={"x": 0.85 * width, "y": 50})
    page.fill(
        "#flame-search", name[:200].replace("\r", "").replace("\n", "").replace("\ud800", "").replace("\udfff", "")
    )
    assert page.evaluate("window.owned") is None
    assert page.evaluate("document.querySelectorAll('main img, main a, main b b, #chart b, iframe').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_name_is_spelled_as_recorded(open_page: Open) -> None:
    name = NAMES["image"]
    page = open_page(sample_report(function=name, text=name)).page
    page.focus("#flame-canvas")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.inner_text("#flame-detail").startswith(f"{name} — ")
    assert page.locator("table.ranges th bdi", has_text=name).count() >= 1
    page.locator("#chart").scroll_into_view_if_needed()
    page.wait_for_selector("#chart[data-ready]")
    assert "<img src=x" in "".join(page.locator("#chart .annotation-text").all_text_contents())


def test_invisible_and_reordering_characters_are_spelled_out(open_page: Open) -> None:
    page = open_page(sample_report(text=NAMES["direction"])).page
    assert "abc⟨U+202E⟩gnp.exe⟨U+202C⟩⟨U+200F⟩" in page.inner_text("table.ranges")
