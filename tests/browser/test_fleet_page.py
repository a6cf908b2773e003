"""The page of `pinprof fleet` in a browser: captures are found and ordered, and hostile ones are text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from pinprof.fleet.results import Answer, Because, CauseSpread, Change, FleetSaving, Member, Outlier, Series
from pinprof.report.fleet.sections import FORMS
from pinprof.report.page import html
from tests.browser.conftest import Pages
from tests.browser.flame import resize
from tests.browser.test_hostile import NAMES

pytestmark = pytest.mark.browser


@pytest.fixture
def opened(pages: Pages) -> Iterator[Page]:
    """An empty page; what it complained of and asked for is checked afterwards."""
    page = pages.take(1200, "light", "reduce")
    said: list[str] = []
    asked: list[str] = []
    listeners = {
        "console": lambda message: said.append(message.text),
        "pageerror": lambda error: said.append(str(error)),
        "request": lambda request: asked.append(request.url),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    yield page
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    pages.give_back(page, 1200, "light", "reduce")
    assert said == []
    assert {url.partition("#")[0] for url in asked} <= {asked[0]}


def fleet(name: str, count: int = 250) -> Answer:
    """An answer whose every text is `name`."""
    members = tuple(
        Member(
            f"{name}{number}", name, "read" if number else "unreadable", name, f"2026-11-{1 + number % 28:02}T00:00:00",
            10**9 + number, 1e9, name, {"host": f"h{number % 5}", name: name}, (("fault.anon", 0.5), (name, 0.25)),
        )
        for number in range(count)
    )  # fmt: skip
    because = (Because(f"fault.anon at {name}", 2e9, 1e9),)
    change = Change(name, "2026-11-14T00:00:00", count // 2, count - count // 2, 1.25, 0.001)
    return Answer(
        headline=name,
        captures=count,
        compared=count - 1,
        unreadable=members[:1],
        copies=1,
        programs=((name, count, name),),
        outliers=(
            Outlier(name, name, "", "work", "ratio", 1.3, 1.0, 1.0, 0.001, 50, (name,), because, ((name, name),)),
            Outlier("capture", "", f"{name}7", "work", "ns", 2e9, 1e9, 1e9, 0.001, 1, (name,), because),
        ),
        tests=100,
        untested=(name,),
        savings=(FleetSaving(name, name, name, name, name, 3, 10**9, 10**9, 10**8, 10**10, 10**11, f"{name}7"),),
        spreads=(CauseSpread("fault.anon", 10**9, 20, 0.0, 0.1, 0.2, 0.3, 0.4, 0.9, f"{name}7"),),
        series=(
            Series(
                name, tuple(one.started for one in members), tuple(1 + n / 1000 for n in range(count)), ("",), (change,)
            ),
        ),
        members=members,
    )


def show(page: Page, answer: Answer, folder: Path) -> None:
    path = folder / "page.html"
    path.write_text(html.render(FORMS.of(answer)), "utf-8", errors="replace")
    page.goto(path.as_uri())
    page.wait_for_selector("#members[data-ready]", state="attached")


def test_captures_are_searched_ordered_and_shown_in_parts(opened: Page, tmp_path: Path) -> None:
    page = opened
    show(page, fleet("train.py"), tmp_path)
    rows = page.locator("#members tr")
    assert rows.count() == 100
    assert "train.py0" in rows.nth(0).inner_text()
    page.click("#member-next")
    assert rows.count() == 200
    page.fill("#member-search", "host h3")
    assert page.inner_text("#member-count") == "50 of 250"
    page.select_option("#member-order", "work")
    assert "train.py248" in rows.nth(0).inner_text()
    page.fill("#member-search", "")
    page.click("#outliers button[data-fact]")
    assert page.input_value("#member-search") == "train.py train.py"
    assert page.inner_text("#member-count") == "250 of 250"


@pytest.mark.parametrize(
    "name", [NAMES[key] for key in ("script", "attribute", "link", "direction", "surrogate", "long")]
)
def test_hostile_names_are_text_and_the_layout_holds(opened: Page, tmp_path: Path, name: str) -> None:
    page = opened
    show(page, fleet(name, 12), tmp_path)
    assert page.evaluate("window.owned") is None
    assert page.evaluate("document.querySelectorAll('main img, main script, main b').length") == 0
    assert page.evaluate("[...document.links].every(link => !link.href.startsWith('javascript:'))")
    for width in (400, 1200):
        resize(page, width)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
