"""A page open in Debian's Chromium, offline, with every console message and request on record."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from pinprof.report.data import ReportData
from pinprof.report.page.html import write_html

CHROMIUM = shutil.which("chromium")


@dataclass
class Opened:
    """A page and what it said and asked for beyond its own file."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
        )
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Write a report's page, open it from disk and wait for its flamegraph; all it did is checked afterwards."""
    opened: list[Opened] = []

    def open_report(
        data: ReportData,
        *,
        width: int = 1200,
        scheme: str = "light",
        shared: bool = False,
        motion: str = "reduce",
    ) -> Opened:
        path = tmp_path / "report.html"
        write_html(data, path, tmp_path / "shared" if shared else None)
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion=motion, offline=True
        )
        one = Opened(context.new_page())
        one.page.on("console", lambda message: one.complaints.append(message.text))
        one.page.on("pageerror", lambda error: one.complaints.append(str(error)))
        one.page.on("request", lambda request: one.requests.append(request.url))
        one.page.goto(path.as_uri())
        if data.flame:
            one.page.wait_for_selector("#flame[data-ready]")
        opened.append(one)
        return one

    yield open_report
    for one in opened:
        one.page.context.close()
        assert one.complaints == []
        # blob: is the page's own memory: its worker and its downloads.
        asked = {
            url for url in one.requests if not re.search(r"^blob:|/shared/(plotly\.min|pinprof-[0-9a-f]{12})\.js$", url)
        }
        assert asked <= {one.requests[0]}
