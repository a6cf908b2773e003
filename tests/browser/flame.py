"""What a reader does with the flamegraph, and what is to be seen of it."""

from __future__ import annotations

import time

from playwright.sync_api import Page

ROW = 20
CANVAS = "#flame-canvas"


def settle(page: Page) -> None:
    """Wait until the view asked for is shown."""
    page.wait_for_selector('#flame[aria-busy="false"]')
    drawn(page)


def drawn(page: Page) -> None:
    """Wait for two frames: after the first, what observes sizes has been told of them."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def resize(page: Page, width: int) -> None:
    """Give the window another width, and wait until the page has it."""
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("width => innerWidth === width", arg=width)
    drawn(page)


def at(page: Page, part: float, row: int, canvas: str = CANVAS) -> dict[str, float]:
    """A position: this part of the width, this row from the top."""
    page.locator(canvas).scroll_into_view_if_needed()
    width = page.evaluate(f"document.querySelector('{canvas}').clientWidth")
    return {"x": part * width, "y": row * ROW + 10}


def click(page: Page, part: float, row: int, canvas: str = CANVAS) -> None:
    page.click(canvas, position=at(page, part, row, canvas))
    settle(page)


def hover(page: Page, part: float, row: int, canvas: str = CANVAS) -> str:
    """The tooltip's text; empty where nothing is drawn."""
    settle(page)
    page.mouse.move(0, 0)
    page.hover(canvas, position=at(page, part, row, canvas))
    return page.inner_text("#flame-tip") if page.is_visible("#flame-tip") else ""


def name_at(page: Page, part: float, row: int, canvas: str = CANVAS) -> str:
    return hover(page, part, row, canvas).split("\n")[0]


def act(page: Page, part: float, row: int, label: str) -> None:
    """Choose from the menu of a node."""
    page.click(CANVAS, position=at(page, part, row), button="right")
    page.locator("#flame-menu").get_by_role("menuitem", name=label, exact=False).first.click()
    settle(page)


def crumbs(page: Page) -> list[str]:
    return [text.removeprefix("› ") for text in page.locator("#flame-path .crumb").all_inner_texts()]


def chips(page: Page) -> list[str]:
    """What can be taken back: filters of the page, then changes of the stacks."""
    shown = page.locator("#filter-chips .chip, #flame-chips .chip").all_inner_texts()
    return [" ".join(text.split()) for text in shown]


def pixel(page: Page, part: float, row: int, canvas: str = CANVAS) -> list[int]:
    """RGBA of the graph, read from a copy: the graph's own canvas is never read back."""
    settle(page)
    return page.evaluate(
        """([selector, part, y]) => { const canvas = document.querySelector(selector);
        const copy = new OffscreenCanvas(1, 1).getContext('2d');
        copy.drawImage(canvas, -Math.round(part * canvas.width), -y * window.devicePixelRatio);
        return [...copy.getImageData(0, 0, 1, 1).data]; }""",
        [canvas, part, row * ROW + 3],
    )


def changed(page: Page, part: float, row: int, before: list[int]) -> list[int]:
    """As `pixel`, once it is drawn in another colour than before."""
    deadline = time.monotonic() + 120
    while (now := pixel(page, part, row)) == before and time.monotonic() < deadline:
        page.wait_for_timeout(20)
    return now


def colour(page: Page, name: str) -> list[int]:
    """RGBA of a custom property."""
    value = page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()")
    return [*(int(value[start : start + 2], 16) for start in (1, 3, 5)), 255]
