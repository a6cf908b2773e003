"""The pages of `pinprof diff` and `pinprof try` in a browser: weights of both sides, colours, marks, hostile names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from pinprof.report.compare.sections import FORMS as DIFFERENCE
from pinprof.report.page import html
from pinprof.report.trial.sections import FORMS as TRIAL
from tests.browser.conftest import Pages
from tests.browser.flame import colour, hover, name_at, pixel, resize, settle
from tests.support.differences import difference
from tests.support.trials import cure_result, left_out, no_difference, trial_result

pytestmark = pytest.mark.browser


@pytest.fixture
def opened(pages: Pages, tmp_path: Path) -> Iterator[Page]:
    """An empty page; what it complained of and asked for is checked afterwards."""
    page = pages.take(1200, "light", "reduce")
    said: list[str] = []
    listeners = {
        "console": lambda message: said.append(message.text),
        "pageerror": lambda error: said.append(str(error)),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    yield page
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    pages.give_back(page, 1200, "light", "reduce")
    assert said == []


def show(page: Page, text: str, folder: Path, ready: str) -> None:
    path = folder / "page.html"
    path.write_text(text, "utf-8", errors="replace")
    page.goto(path.as_uri())
    page.wait_for_selector(ready)


def facts(page: Page, part: float, row: int) -> dict[str, str]:
    lines = hover(page, part, row).split("\n")
    return {"name": lines[0]} | dict(zip(lines[1::2], lines[2::2], strict=False))


def test_both_weights_of_what_is_shown_and_whether_chance_parts_them(opened: Page, tmp_path: Path) -> None:
    page = opened
    show(page, html.render(DIFFERENCE.of(difference())), tmp_path, "#flame[data-ready]")
    settle(page)
    # Laid out by the weights before: 200 ms of filling, 100 ms of computing, 25 ms of what is gone.
    filling = facts(page, 0.3, 2)
    assert filling["name"] == "fill.isra.0"
    assert filling["before"].startswith("200 ms per iteration")
    assert filling["after"].startswith("50.3 ms per iteration")
    assert filling["difference"] == "−150 ms (−75 %)"
    assert filling["significant"] == "yes"
    assert pixel(page, 0.3, 2) == colour(page, "--less-3")
    computing = facts(page, 0.7, 2)
    assert (computing["name"], computing["significant"]) == ("compute", "no: runs on one side differ as much")
    assert pixel(page, 0.7, 2) == colour(page, "--mixed")
    gone = facts(page, 0.97, 2)
    assert (gone["name"], gone["after"], gone["significant"]) == ("log", "absent", "yes")
    assert page.inner_text("#flame-hidden") == (
        "Not drawn: 30 ms per iteration in stacks that exist only after. Show the widths after"
    )
    # Leaf up, the same weights.
    page.select_option("#flame-order", label="leaf up")
    settle(page)
    assert facts(page, 0.3, 1)["after"].startswith("50.3 ms")
    page.select_option("#flame-order", label="heaviest first")
    page.click("#flame-hidden button")
    settle(page)
    assert name_at(page, 0.1, 2) == "compute"
    new = [facts(page, part, 2) for part in (0.75, 0.9) if name_at(page, part, 2) == "publish"]
    assert [one["before"] for one in new] == ["absent"]
    assert "log" in page.inner_text("#flame-hidden") or "25 ms" in page.inner_text("#flame-hidden")
    page.click("#flame-sides button[data-side=both]")
    settle(page)
    assert not page.is_visible("#flame-hidden")
    # A cause in the table filters the graph; the address holds it.
    page.locator("#changes").get_by_role("button", name="user.app").click()
    settle(page)
    assert "user.app" in page.inner_text("#filter-chips")
    assert page.locator("#filter-chips .chip").count() == 1
    page.click("#filter-clear")
    settle(page)
    page.fill("#flame-search", "clear_page")
    assert "%" in page.inner_text("#flame-match")
    assert re.search(r"side=both", page.url)
    page.locator("#changes button.more").click()
    assert page.locator("#changes").get_by_text("call 11", exact=True).is_visible()
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    resize(page, 400)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_one_run_of_a_side_has_no_colour_unless_asked_for_and_names_stay_text(opened: Page, tmp_path: Path) -> None:
    page = opened
    name = "<img src=x onerror='window.owned = 1'>" + "x" * 400
    show(page, html.render(DIFFERENCE.of(difference(name, runs=1))), tmp_path, "#flame[data-ready]")
    settle(page)
    assert facts(page, 0.3, 2)["significant"] == "not tested: a test needs two runs on each side"
    assert pixel(page, 0.3, 2) == colour(page, "--mixed")
    page.select_option("#flame-colour", label="difference, tested or not")
    settle(page)
    assert pixel(page, 0.3, 2) == colour(page, "--less-3")
    assert facts(page, 0.97, 2)["name"] == name
    assert page.evaluate("window.owned") is None
    assert page.evaluate("document.querySelectorAll('main img').length") == 0
    resize(page, 400)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_page_of_a_trial_fits_and_copies(opened: Page, tmp_path: Path) -> None:
    page = opened
    bad = "<img src=x onerror='window.owned = 1'>" + "x" * 400
    result = trial_result(cure_result(permanent=bad), no_difference(), left_out("bad", bad, "failed"), notes=(bad,))
    show(page, html.render(TRIAL.of(result)), tmp_path, "#theme:visible")
    page.evaluate("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }")
    page.click("button[data-copies=keep-1]")
    assert page.evaluate("window.copied") == bad
    assert page.evaluate("window.owned") is None
    for width in (400, 1200):
        resize(page, width)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
