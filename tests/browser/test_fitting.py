"""What does not fit: labels, tables and words wider than their place; contrast; legends; the button of the theme."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pinprof.ranks.engine import explain
from pinprof.report.bench.page import render as bench_page
from pinprof.report.compare.sections import FORMS as DIFFERENCE
from pinprof.report.fleet.sections import FORMS as FLEET
from pinprof.report.gather import ReportData, build
from pinprof.report.page import html
from pinprof.report.page.collection import render as collection_page
from pinprof.report.page.html import render as report_page
from pinprof.report.ranks.sections import FORMS as LAUNCH
from pinprof.report.trial.sections import FORMS as TRIAL
from tests.browser.conftest import Opened, Pages
from tests.browser.flame import resize
from tests.browser.test_activity import joined
from tests.browser.test_fleet_page import fleet
from tests.support.activities import export
from tests.support.differences import difference
from tests.support.launches import MS, launch
from tests.support.sample_report import sample_report
from tests.support.trials import cure_result, no_difference, trial_result
from tests.unit.ranks.test_engine import noisy
from tests.unit.report.test_bench_page import report as measured

Open = Callable[..., Opened]
WIDTHS = (400, 768, 1280, 1400, 1920)
LATE = [(1, step) for step in range(30)]
PAGES: dict[str, Callable[[], str]] = {
    "report": lambda: report_page(build(export("uvm"))),
    "collection": lambda: collection_page([sample_report(), sample_report()]),
    "diff": lambda: html.render(DIFFERENCE.of(difference())),
    "try": lambda: html.render(TRIAL.of(trial_result(cure_result(), no_difference()))),
    "bench": lambda: bench_page(measured()),
    "fleet": lambda: html.render(FLEET.of(fleet("train.py", 30))),
    "ranks": lambda: html.render(
        LAUNCH.of(explain(launch(noisy(3, 30), dict.fromkeys(LATE, 10 * MS)), "job.ranks", {}))
    ),
}
TOO_FAINT = """() => {
  const dot = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    dot.clearRect(0, 0, 1, 1);
    dot.fillStyle = colour;
    dot.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = dot.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, ground) => ground.map((one, index) => top[index] * top[3] + one * (1 - top[3]));
  const light = (colour) => {
    const parts = colour.map((one) => (one <= 10 ? one / 3294.6 : ((one / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (node) =>
    node ? over(rgba(getComputedStyle(node).backgroundColor), behind(node.parentElement)) : [255, 255, 255];
  const faint = new Set();
  for (const node of document.querySelectorAll("body *")) {
    const words = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
    if (!words || node.closest("svg, :disabled, script, .off, .sr") || !node.checkVisibility()) continue;
    const ground = behind(node);
    const [first, second] = [over(rgba(getComputedStyle(node).color), ground), ground].map(light);
    const contrast = (Math.max(first, second) + 0.05) / (Math.min(first, second) + 0.05);
    if (contrast < 4.5) faint.add(`${contrast.toFixed(2)} ${node.className} ${node.textContent.slice(0, 40)}`);
  }
  return [...faint];
}"""
THEME = "document.documentElement.dataset.theme"
SCROLLING = """() => [...document.querySelectorAll("h1, h3, p")]
  .filter((one) => getComputedStyle(one).overflowY !== "visible" && one.scrollHeight > one.clientHeight + 2)
  .map((one) => one.textContent)"""
OVERLAPPING = """() => [...document.querySelectorAll("svg")].flatMap((picture) => {
  const boxes = [...picture.querySelectorAll("text")]
    .filter((text) => text.checkVisibility({ visibilityProperty: true }))
    .map((text) => [text.textContent, text.getBoundingClientRect()]).filter(([, box]) => box.width);
  return boxes.flatMap(([name, one], index) => boxes.slice(index + 1)
    .filter(([, other]) => one.left < other.right - 1 && other.left < one.right - 1 &&
      one.top < other.bottom - 4 && other.top < one.bottom - 4)
    .map(([next]) => `${name} over ${next}`));
})"""


@pytest.mark.parametrize("made", [sample_report, lambda: build(export("uvm"))], ids=["samples", "trace"])
def test_no_label_is_cut_and_wide_tables_say_so(open_page: Open, made: Callable[[], ReportData]) -> None:
    page = open_page(made()).page
    for width in WIDTHS:
        resize(page, width)
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


@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_any_window_and_is_legible_in_both_themes(pages: Pages, tmp_path: Path, name: str) -> None:
    page = pages.take(1280, "light", "reduce")
    path = tmp_path / "page.html"
    path.write_text(PAGES[name](), "utf-8", errors="replace")
    page.goto(path.as_uri())
    page.wait_for_selector("#theme:visible")
    for width in WIDTHS:
        resize(page, width)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        assert page.evaluate(OVERLAPPING) == []
        assert page.evaluate(SCROLLING) == []
        assert page.evaluate(
            "[...document.querySelectorAll('.together, .word')].every((one) => one.getClientRects().length <= 1)"
        )
    for theme in ("light", "dark"):
        assert page.evaluate(TOO_FAINT) == []
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(THEME) == "light", "on paper"
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.evaluate(THEME) == theme
        page.click("#theme")
    pages.give_back(page, 1280, "light", "reduce")


def test_numbers_keep_their_units_and_options_their_words(open_page: Open) -> None:
    page = open_page(sample_report()).page
    assert "\u00a0%" in page.inner_text("h1")
    command = page.locator("#command-line")
    assert command.inner_text() == "pinprof run pinned --size 256MiB alloc"
    assert command.locator(".word").all_inner_texts() == command.inner_text().split()
    page.evaluate("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }")
    page.click("[data-copies=command-line]")
    assert page.evaluate("window.copied") == "pinprof run pinned --size 256MiB alloc"


def test_paper_has_no_hints_for_the_pointer(open_page: Open) -> None:
    page = open_page(build(export("uvm")), own=True, width=400).page
    page.emulate_media(media="print")
    page.wait_for_selector(".scroll.wider", state="attached")
    assert page.evaluate("getComputedStyle(document.querySelector('.scroll.wider'), '::before').display") == "none"


def test_the_timeline_names_the_colours_of_causes(open_page: Open) -> None:
    page = open_page(joined()).page
    page.wait_for_selector("#timeline-canvas[data-ready]")
    assert "pin.faultin" in page.inner_text("#timeline-legend")


def test_the_button_says_which_theme_it_brings(open_page: Open) -> None:
    page = open_page(build(export("uvm"))).page
    button = page.locator("#theme")
    first, title = button.inner_text(), button.get_attribute("title")
    assert title == f"Switch to the {'dark' if first == '☾' else 'light'} theme" == button.get_attribute("aria-label")
    button.click()
    assert {first, button.inner_text()} == {"☾", "☀"}
