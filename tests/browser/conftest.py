"""A page open in Debian's Chromium, offline, with every console message and request on record."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from pinprof.report.gather import ReportData
from pinprof.report.page.html import write_html
from tests.browser.flame import resize

CHROMIUM = shutil.which("chromium")
PATIENCE_MS = 120_000
"""What a busy machine takes for what must come."""
HEARD = """
  window.heard = [];
  window.missed = false;
  let pressed = null;
  addEventListener("pointerdown", ({ target }) => (pressed = target), true);
  addEventListener("click", ({ target, detail }) => (window.missed = detail > 0 && target !== pressed), true);
  for (const kind of ["pointerdown", "pointerup", "click"]) {
    const keep = ({ target, timeStamp }) => {
      window.heard.push(`${kind} at ${Math.round(timeStamp)} ms: ${(target.outerHTML ?? "document").slice(0, 120)}`);
    };
    addEventListener(kind, keep, true);
  }
"""
"""The page keeps what it hears of the pointer, before anything that stands on it does, and whether the last click
missed what was pressed: it had moved, or was made anew, when the button was released."""
UP_TO_DATE = "html:not([data-linked=busy], :has(#flame[aria-busy=true]))"
"""Every view of the page shows what was asked for."""


@dataclass
class Opened:
    """A page and what it said and asked for beyond its own file."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def giving_way(program: str, folder: Path) -> str:
    """A program that cannot raise its priority: as root, Chromium would, and run before recordings."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        return program
    path = folder / Path(program).name
    path.write_text(f'#!/bin/sh\nexec {setpriv} --bounding-set=-sys_nice {shlex.quote(program)} "$@"\n')
    path.chmod(0o755)
    return str(path)


def new_page(browser: Browser, **options: Any) -> Page:
    """A page in a context of its own, which keeps what it hears."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(HEARD)
    return context.new_page()


@contextmanager
def page_with(browser: Browser, script: str) -> Iterator[Page]:
    """An empty page that runs a script."""
    page = new_page(browser)
    page.add_script_tag(content=script)
    yield page
    page.context.close()


def heard(page: Page) -> list[str] | None:
    """What the page has heard of the pointer; None where it does not keep that."""
    kept: list[str] | None = page.evaluate("window.heard ?? null")
    return kept


def missed(page: Page) -> bool:
    """Whether what a click pressed was no longer there at its release."""
    return bool(page.evaluate("window.missed ?? false"))


def until_heard(click: Callable[..., None]) -> Callable[..., None]:
    """A click waits for the views, then one that the browser has lost, or that misses, is made again.

    What moves or is made anew between the press and the release of a button takes the button away: the page is still
    being laid out. A machine with more work than time loses one click in thousands before any script hears of it. A
    click that hits is never repeated.
    """

    def pressed(self: Page | Locator, *arguments: Any, **options: Any) -> None:
        page = self if isinstance(self, Page) else self.page
        page.wait_for_selector(UP_TO_DATE, state="attached")
        before = heard(page)
        click(self, *arguments, **options)
        if before is not None and (heard(page) == before or missed(page)):
            click(self, *arguments, **options)

    return pressed


@pytest.fixture(scope="session", autouse=True)
def clicks_that_are_heard() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Page, Locator):
            patch.setattr(kind, "click", until_heard(kind.click))
        yield


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=giving_way(CHROMIUM, tmp_path_factory.mktemp("chromium")),
            args=["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
        )
        yield chromium
        chromium.close()


@dataclass
class Pages:
    """Pages of the browser that are empty and free, by what they were made for.

    A page that is used again costs a quarter of the CPU time of a new one.
    """

    browser: Browser
    free: dict[tuple[int, str, str], list[Page]] = field(default_factory=lambda: defaultdict(list))

    def take(self, width: int, scheme: str, motion: str) -> Page:
        """An empty page."""
        if self.free[width, scheme, motion]:
            return self.free[width, scheme, motion].pop()
        viewport = {"width": width, "height": 900}
        return new_page(self.browser, viewport=viewport, color_scheme=scheme, reduced_motion=motion, offline=True)

    def give_back(self, page: Page, width: int, scheme: str, motion: str) -> None:
        """Leave nothing of a report: neither the theme that was chosen, where the pointer is, nor another width."""
        page.mouse.move(0, 0)
        page.evaluate("localStorage.clear()")
        page.goto("about:blank")
        resize(page, width)
        self.free[width, scheme, motion].append(page)


@pytest.fixture(scope="session")
def pages(browser: Browser) -> Pages:
    return Pages(browser)


@pytest.fixture
def open_page(pages: Pages, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Write a report's page, open it from disk and wait for its drawings; all it did is checked afterwards.

    `own` is for tests that change more than what the page shows: its scripts, its medium, its permissions.
    """
    opened: list[tuple[Opened, Callable[[], None]]] = []

    def open_report(
        data: ReportData,
        *,
        width: int = 1200,
        scheme: str = "light",
        shared: bool = False,
        motion: str = "reduce",
        own: bool = False,
    ) -> Opened:
        path = tmp_path / "report.html"
        write_html(data, path, tmp_path / "shared" if shared else None)
        one = Opened(pages.take(width, scheme, motion))
        listeners: dict[str, Callable[[Any], None]] = {
            "console": lambda message: one.complaints.append(message.text),
            "pageerror": lambda error: one.complaints.append(str(error)),
            "request": lambda request: one.requests.append(request.url),
        }
        for event, listener in listeners.items():
            one.page.on(event, listener)

        def leave() -> None:
            if own:
                one.page.context.close()
                return
            pages.give_back(one.page, width, scheme, motion)
            for event, listener in listeners.items():
                one.page.remove_listener(event, listener)

        opened.append((one, leave))
        one.page.goto(path.as_uri())
        if data.flame:
            one.page.wait_for_selector("#flame[data-ready]")
        # Its canvas becomes hundreds of pixels higher, and what lies below moves.
        one.page.wait_for_selector("html:not(:has(#timeline-canvas:not([data-ready])))", state="attached")
        return one

    yield open_report
    for one, leave in opened:
        # Shown where the test has failed.
        print(*(heard(one.page) or []), sep="\n")
        leave()
        assert one.complaints == []
        # blob: is the page's own memory: its worker and its downloads.
        asked = {
            url for url in one.requests if not re.search(r"^blob:|/shared/(plotly\.min|pinprof-[0-9a-f]{12})\.js$", url)
        }
        assert asked <= {one.requests[0]}
