"""CUDA activity as a reader sees it: tables, plots, the timeline and its brush, the field of migrations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Page

from pinprof.analyze import analyze
from pinprof.analyze.activity.clock import join
from pinprof.data.activity import MigrationCause
from pinprof.read import ReadOptions, read
from pinprof.report.gather import ReportData, build
from tests.browser.conftest import Opened
from tests.browser.flame import drawn
from tests.browser.test_hostile import NAMES
from tests.support.activities import MIB, MS, US, Call, Op, export, kernel, migration, to_device, traced
from tests.support.h200 import analysis
from tests.support.nsys_file import real
from tests.support.stacks import Range

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]

HAS_COLOUR = """([canvas, property]) => {
  const node = document.getElementById(canvas);
  const copy = document.createElement("canvas");
  copy.width = node.width;
  copy.height = node.height;
  const probe = copy.getContext("2d", { willReadFrequently: true });
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(property).trim();
  probe.fillRect(0, 0, 1, 1);
  const wanted = probe.getImageData(0, 0, 1, 1).data;
  probe.clearRect(0, 0, 1, 1);
  probe.drawImage(node, 0, 0);
  const { data } = probe.getImageData(0, 0, node.width, node.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    count += data[at] === wanted[0] && data[at + 1] === wanted[1] && data[at + 2] === wanted[2] && data[at + 3] === 255;
  }
  return count;
}"""
"""Pixels of a canvas that have exactly a custom property's colour."""


@cache
def joined() -> ReportData:
    return build(analyze(join(analysis("both").capture, read(real("both.sqlite"), ReadOptions()))))


def prefetched() -> ReportData:
    """Three times 64 MiB moved in 2 MiB pieces before a kernel of 400 µs."""
    ops: list[Op] = []
    start = MS
    for _ in range(3):
        moves = range(32)
        ops += [
            migration(start + n * 42 * US, start + n * 42 * US + 40 * US, 2 * MIB, MigrationCause.PREFETCH, n * 2 * MIB)
            for n in moves
        ]
        ops.append(kernel(start + 2 * MS, start + 2 * MS + 400 * US))
        start += 10 * MS
    return build(analyze(traced((), ops)))


def pixels(page: Page, canvas: str, colour: str) -> int:
    found = page.evaluate(HAS_COLOUR, [canvas, colour])
    assert isinstance(found, int)
    return found


def timeline(page: Page) -> dict[str, float]:
    page.wait_for_selector("#timeline-canvas[data-ready]")
    page.locator("#timeline-canvas").scroll_into_view_if_needed()
    drawn(page)
    box = page.locator("#timeline-canvas").bounding_box()
    assert box is not None
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}


def drag(page: Page, box: dict[str, float], parts: Sequence[float]) -> None:
    """Drag over the lanes from one part of the canvas's width to another."""
    left, right = (box["x"] + part * box["width"] for part in parts)
    page.mouse.move(left, box["y"] + 83)
    page.mouse.down()
    page.mouse.move((left + right) / 2, box["y"] + 83)
    page.mouse.move(right, box["y"] + 83)
    page.mouse.up()


def test_calls_show_their_figures_and_where_their_time_went(open_page: Open) -> None:
    page = open_page(joined()).page
    row = page.locator("table.calls tr", has_text="cudaHostAlloc").first
    text = row.inner_text()
    assert "allocate pinned" in text
    assert "758 ms" in text
    assert "53 %" in text
    assert "pin.faultin 640 ms" in text
    row.locator("rect[data-cause]").first.hover()
    assert page.inner_text("#hint").startswith("pin.faultin · 640 ms")
    assert "it created the CUDA context" in page.inner_text("#calls")


def test_a_cause_inside_a_call_filters_the_page(open_page: Open) -> None:
    page = open_page(joined()).page
    page.locator("table.calls rect[data-cause]").first.click()
    assert "causes=pin.faultin" in page.url
    assert page.locator("#filter-chips .chip", has_text="pin.faultin").count() == 1


def test_other_calls_unfold(open_page: Open) -> None:
    page = open_page(build(export("pinned"))).page
    launch = page.locator("#calls th", has_text="cudaLaunchKernel").first
    assert not launch.is_visible()
    page.get_by_text("Launches, waits and other calls").click()
    assert launch.is_visible()


def test_ranges_tell_what_the_gpu_did_in_them(open_page: Open) -> None:
    page = open_page(build(export("uvm"))).page
    row = page.locator("table.range-activity tbody tr", has_text="kernel").first.inner_text()
    assert "15.3 ms" in row
    assert "53 %" in row
    assert "cudaDeviceSynchronize" in row


def test_a_recording_without_samples_shows_its_activity(open_page: Open) -> None:
    page = open_page(build(export("both"))).page
    timeline(page)
    assert page.inner_text("h1").startswith("cudaHostAlloc takes 53\u00a0% of the run")
    assert page.inner_text(".facts").split("\n") == ["49 CUDA calls", "5 kernels", "10 copies"]
    assert "GPU page faults were not recorded." in page.inner_text("#quality")
    assert page.locator("#flame, #causes, .fold:has-text('Full table')").count() == 0
    box = timeline(page)
    drag(page, box, (0.4, 0.6))
    assert page.inner_text("#timeline-span").startswith("selected 333 ms")


def test_without_kernel_samples_the_page_says_how_to_get_the_split(open_page: Open) -> None:
    page = open_page(build(analyze(traced([Call("cudaMalloc", 0, MS)])))).page
    assert "record with --record perf,nsys" in page.inner_text("#calls")


def test_transfers_show_bandwidth_against_the_link(open_page: Open) -> None:
    page = open_page(build(export("pageable"))).page
    row = page.locator("table.copies tbody tr").first.inner_text()
    assert "pageable" in row
    assert "6.76 GB/s" in row
    assert "12 %" in row
    page.locator("[data-plot=transfers]").scroll_into_view_if_needed()
    page.wait_for_selector("[data-plot=transfers][data-ready]")
    assert page.locator("[data-plot=transfers] .point").count() == 6
    assert "PCIe 5.0 x16, in practice: 55.6 GB/s" in (page.text_content("[data-plot=transfers] .legend") or "")
    assert page.locator("[data-plot=transfers] .scatterlayer .js-line").count() == 1


def test_both_plots_start_from_one_script(open_page: Open) -> None:
    page = open_page(joined()).page
    for plot in ("#chart", "[data-plot=transfers]"):
        page.locator(plot).scroll_into_view_if_needed()
        page.wait_for_selector(f"{plot}[data-ready]")
    assert page.evaluate("document.head.querySelectorAll('script').length") == 1


def test_plots_follow_the_theme(open_page: Open) -> None:
    page = open_page(build(export("pinned"))).page
    page.locator("[data-plot=transfers]").scroll_into_view_if_needed()
    page.wait_for_selector("[data-plot=transfers][data-ready]")
    fill = "getComputedStyle(document.querySelector('[data-plot=transfers] .xtick text')).fill"
    before = page.evaluate(fill)
    page.click("#theme")
    page.wait_for_function(f"{fill} !== {before!r}")


def test_a_fault_storm_and_a_prefetched_run_look_different(open_page: Open) -> None:
    storm, calm = (open_page(data).page for data in (build(export("uvm")), prefetched()))
    for page in (storm, calm):
        page.wait_for_selector("#field[data-ready]")
    assert pixels(storm, "field", "--level-fault") > 1_000
    assert pixels(storm, "field", "--level-uvm") == 0
    assert pixels(calm, "field", "--level-fault") == 0
    assert pixels(calm, "field", "--level-uvm") > 1_000
    assert "of kernel time lost to faults" in storm.inner_text("#uvm .tiles")
    assert "53 %" in storm.inner_text("#uvm .tile.warn")
    assert calm.locator("#uvm .tile.warn").count() == 0


def test_field_shows_places_when_asked_and_details_on_hover(open_page: Open) -> None:
    page = open_page(prefetched()).page
    page.wait_for_selector("#field[data-ready]")
    before = pixels(page, "field", "--level-uvm")
    page.get_by_role("button", name="by address").click()
    assert page.get_by_role("button", name="by address").get_attribute("aria-pressed") == "true"
    assert pixels(page, "field", "--level-uvm") != before
    page.hover("#field", position={"x": 75, "y": 20})
    detail = page.inner_text("#field-detail")
    assert detail.startswith("2 MiB to the device · prefetch: requested by the program · 40 µs at 0 ns")


def test_timeline_of_perf_alone_shows_ranges_and_causes(open_page: Open) -> None:
    page = open_page(build(analysis("pinned"))).page
    box = timeline(page)
    assert pixels(page, "timeline-canvas", "--cause-pin-faultin") > 1_000
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 90)
    assert page.locator(".tip:not([hidden]) strong").inner_text() == "iteration"
    assert page.locator("#calls").count() == 0


def test_brushing_a_span_restricts_the_page_and_its_bar_of_causes(open_page: Open) -> None:
    page = open_page(joined()).page
    box = timeline(page)
    assert page.locator("#timeline-zoom").is_disabled()
    drag(page, box, (0.42, 0.49))
    assert page.inner_text("#timeline-span").startswith("selected 1")
    assert "span=" in page.url
    assert page.locator("#filter-chips .chip", has_text="time").count() == 1
    page.wait_for_selector("#causes .part:visible")
    page.locator("#causes svg.big rect").first.hover()
    assert page.inner_text("#hint").startswith("pin.faultin · ")
    page.click("#timeline-zoom")
    page.click("#timeline-clear")
    assert "span=" not in page.url
    page.wait_for_selector("#filters", state="hidden")
    assert page.inner_text("#timeline-span").endswith(" of 1.85 s")
    page.click("#timeline-whole")
    assert page.inner_text("#timeline-span") == "1.85 s"


def test_a_span_in_the_address_is_shown_selected(open_page: Open) -> None:
    page = open_page(joined()).page
    box = timeline(page)
    drag(page, box, (0.42, 0.49))
    told = page.inner_text("#timeline-span")
    page.reload()
    timeline(page)
    assert page.inner_text("#timeline-span") == told


def test_timeline_works_from_the_keyboard(open_page: Open) -> None:
    page = open_page(joined()).page
    timeline(page)
    page.focus("#timeline-canvas")
    page.keyboard.press("+")
    assert page.inner_text("#timeline-span") == "1.3 s of 1.85 s"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert page.inner_text("#timeline-span").startswith("selected 130 ms")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.inner_text("#timeline-span") == "130 ms of 1.85 s"
    page.keyboard.press("0")
    assert page.inner_text("#timeline-span") == "1.85 s"


def test_wheel_scrolls_the_page_and_zooms_with_control(open_page: Open) -> None:
    page = open_page(joined()).page
    box = timeline(page)
    page.mouse.move(box["x"] + 500, box["y"] + 83)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function("document.getElementById('timeline-span').textContent.includes(' of ')")
    before = page.inner_text("#timeline-span")
    page.mouse.wheel(0, 200)
    page.wait_for_function("scrollY > 0")
    assert page.inner_text("#timeline-span") == before


def test_double_click_zooms_to_what_it_hits(open_page: Open) -> None:
    page = open_page(joined()).page
    box = timeline(page)
    page.mouse.dblclick(box["x"] + 0.46 * box["width"], box["y"] + 175)
    assert page.inner_text("#timeline-span") == "197 ms of 1.85 s"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_timeline_follows_the_theme(open_page: Open, scheme: str) -> None:
    page = open_page(joined(), scheme=scheme).page
    timeline(page)
    assert pixels(page, "timeline-canvas", "--cause-pin-faultin") > 500
    page.click("#theme")
    assert pixels(page, "timeline-canvas", "--cause-pin-faultin") > 500


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names_are_text(open_page: Open, name: str) -> None:
    capture = traced(
        [Call("cudaMemcpy", 0, 3 * MS, 1), Call(name, 4 * MS, 5 * MS)],
        [to_device(MS, 2 * MS, MIB, correlation_id=1), kernel(4 * MS, 5 * MS, name=name)],
        ranges=[Range(name, 0, 6 * MS)],
    )
    page = open_page(build(analyze(replace(capture, path=name or "x"))), width=700).page
    box = timeline(page)
    for row in (67, 100, 130, 160):
        page.mouse.click(box["x"] + 0.72 * box["width"], box["y"] + row)
    for summary in page.locator("#calls summary").all():
        summary.click()
    assert page.evaluate("window.owned") is None
    assert page.evaluate("document.querySelectorAll('main img, main a, .tip img, .tip a, iframe').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("width", [420, 800, 1900])
@pytest.mark.parametrize("name", ["uvm", "pinned"])
def test_activity_never_makes_the_page_scroll_sideways(open_page: Open, name: str, width: int) -> None:
    page = open_page(build(export(name)), width=width).page
    timeline(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    canvas = page.evaluate("document.getElementById('timeline-canvas').getBoundingClientRect().right")
    assert canvas <= width


def test_the_ledger_draws_a_curve_for_each_site(open_page: Open) -> None:
    path = Path(__file__).parents[1] / "data/cases/long_pin_blocks.pinprof.tar.xz"
    page = open_page(build(analyze(read(path, ReadOptions())))).page
    page.locator("#ledger").scroll_into_view_if_needed()
    page.wait_for_selector("#ledger .js-plotly-plot .scatterlayer .trace")
    assert page.locator("#ledger .scatterlayer .trace").count() == 3
    legend = page.locator("#ledger .legendtext").all_text_contents()
    assert legend[0] == "pinned: pin (long_pin_blocks.py:16)"
