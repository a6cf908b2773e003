"""One set of filters for the whole page: whatever sets one, every view shows what passes it, or says that it cannot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page

from pinprof.base import units
from pinprof.report.gather import ReportData, build
from tests.browser.conftest import Opened
from tests.browser.flame import hover, settle
from tests.browser.test_activity import drag, joined, timeline
from tests.support.activities import export
from tests.support.sample_report import sample_report

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]
VIEWS = ("#causes", "#ranges", "#calls", "#transfers")


def shown(page: Page) -> None:
    """Wait until every view shows what was asked for."""
    page.wait_for_selector("html[data-linked=ready]")
    if page.locator("#flame").count():
        settle(page)


def choose(page: Page, fragment: str) -> None:
    # The page hears of it first.
    page.evaluate(
        """fragment => new Promise(done => {
          addEventListener("hashchange", () => done(), { once: true });
          location.hash = fragment;
        })""",
        fragment,
    )
    shown(page)


def text(page: Page, selector: str) -> str:
    return " ".join(page.locator(selector).first.inner_text().split())


def filters(page: Page) -> list[str]:
    return [" ".join(chip.split()) for chip in page.locator("#filter-chips .chip").all_inner_texts()]


def row(page: Page, table: str, name: str) -> list[str]:
    """The texts of the cells beside a row's name."""
    line = page.locator(f"table.{table} tbody tr:visible").filter(has=page.locator("th", has_text=name)).first
    return [" ".join(cell.split()) for cell in line.locator("td").all_inner_texts()]


def part(page: Page) -> str:
    return text(page, "#causes .part:visible")


def flame_total(page: Page) -> str:
    return hover(page, 0.01, 0).split("total\n")[1].split("\n")[0]


def limits(page: Page) -> list[str]:
    return page.locator(".limit:visible").all_inner_texts()


def range_number(data: ReportData, name: str) -> int:
    return next(number for number, entry in enumerate(data.ranges) if entry.name == name)


def test_a_cause_of_the_bar_filters_every_view_or_the_view_says_so(open_page: Open) -> None:
    page = open_page(joined()).page
    assert limits(page) == []
    page.locator("#causes svg.big rect[data-title^='pin.faultin']").click()
    shown(page)
    assert filters(page) == ["cause pin.faultin ×"]
    assert part(page) == "Selected, pin.faultin: 644 ms, 35 % of cpu-clock."
    assert row(page, "ranges", "alloc")[-1] == "pin.faultin 84 %"
    assert row(page, "ranges", "alloc")[3] == "128 ms"
    assert row(page, "ranges", "h2d")[3] == "–"
    assert page.locator("table.calls tr", has_text="cudaHostAlloc").locator("rect:not(.off)").count() == 1
    assert flame_total(page) == "644 ms · 35 % of all"
    said = limits(page)
    for sentence in (
        "Not filtered by cause or opportunity: copies have no stack.",
        "Not filtered by cause or opportunity: the table counts whole calls. In the bars, other causes are dimmed.",
        "Not filtered: findings cover all of the program's own time.",
    ):
        assert sentence in said


@pytest.mark.parametrize("name", ["alloc", "h2d"])
def test_a_range_shows_in_every_view_what_the_analysis_says_of_it(open_page: Open, name: str) -> None:
    data = joined()
    number = range_number(data, name)
    entry = data.ranges[number]
    assert data.activity is not None
    scope = data.activity.ranges[number]
    event = entry.events[0]
    whole = data.events[0].total
    page = open_page(data).page
    page.locator("table.ranges").get_by_role("button", name=name, exact=True).dispatch_event("click")
    shown(page)
    assert filters(page) == [f"range {name} ×"]
    share = units.format_share(event.total, whole)
    assert part(page) == f"This part: {units.format_ns(event.total)}, {share} of cpu-clock."
    for leaf, weight in list(event.by_leaf.items())[:3]:
        line = page.locator("#causes li[data-leaf]", has=page.get_by_text(leaf, exact=True))
        assert line.locator(".weight").text_content() == units.format_ns(weight)
        assert line.locator(".share").text_content() == units.format_share(weight, event.total)
    assert flame_total(page) == f"{units.format_ns(event.total)} · {share} of all"
    page.get_by_text("Launches, waits and other calls").click()
    for call in scope.calls:
        cells = row(page, "calls", call.name)
        assert cells[0] == units.format_count(call.count)
        assert cells[2] == units.format_ns(call.time_ns.total)
        assert cells[4] == units.format_ns(call.time_ns.median)
        assert cells[5] == units.format_ns(call.first_ns)
        if call.split:
            leaf, ns = next(iter(call.split.by_leaf.items()))
            assert f"{leaf} {units.format_ns(ns)}" in cells[7]
    copies = {copy.direction: copy for copy in scope.copies}
    for direction, words in (("H2D", "host to device"), ("D2H", "device to host")):
        line = page.locator("table.copies tbody tr", has_text=words)
        cells = [" ".join(cell.split()) for cell in line.locator("td").all_inner_texts()]
        copy = copies.get(direction)
        assert cells[1] == (units.format_count(copy.count) if copy else "0")
        if copy:
            assert cells[2] == units.format_bytes(copy.size_bytes.total)
            assert cells[3] == units.format_rate(copy.size_bytes.total, copy.busy_ns)
            assert cells[6] == units.format_ns(copy.host_ns)
    assert "Of range" in text(page, "table.calls thead")


def test_a_brushed_span_shows_in_every_view_what_was_recorded_in_it(open_page: Open) -> None:
    data = joined()
    assert data.flame is not None
    assert data.activity is not None
    page = open_page(data).page
    drag(page, timeline(page), (0.42, 0.49))
    shown(page)
    low, high = (float(end) for end in page.url.split("span=")[1].split("&")[0].split("_"))
    time = data.flame.time_ns // 1000
    inside = (data.flame.event == 0) & (time >= low) & (time < high)
    total = int(data.flame.weight[inside].sum())
    assert (
        part(page)
        == f"This part: {units.format_ns(total)}, {units.format_share(total, data.events[0].total)} of cpu-clock."
    )
    assert flame_total(page).startswith(units.format_ns(total))
    assert data.instances is not None
    start = data.instances.calls.start_ns
    begun = (start >= low * 1000 + data.instances.samples_start_ns) & (
        start < high * 1000 + data.instances.samples_start_ns
    )
    for number, call in enumerate(data.activity.whole.calls[:3]):
        mine = begun & (data.instances.calls.group == number)
        assert row(page, "calls", call.name)[0] == str(int(np.count_nonzero(mine)))
    assert "Of span" in text(page, "table.calls thead")
    assert row(page, "ranges", "alloc")[0] == "1"
    assert row(page, "ranges", "alloc")[2] == "one call"
    assert page.locator("#timeline-causes").count() == 0
    assert filters(page)[0].startswith("time 1")


def test_a_thread_restricts_causes_ranges_and_stacks(open_page: Open) -> None:
    page = open_page(sample_report()).page
    page.select_option("#flame-threads", label="worker 101")
    shown(page)
    assert filters(page) == ["thread worker 101 ×"]
    assert part(page) == "This part: 300 ms, 30 % of cpu-clock/freq=999/."
    assert row(page, "ranges", "iteration")[3:] == ["150 ms", "", "user.app 100 %"]
    assert row(page, "ranges", "alloc")[3:] == ["–", "", ""]
    assert flame_total(page) == "300 ms · 30 % of all"
    assert "Counts and wall times are not filtered by thread." in limits(page)


def test_a_threads_name_on_the_timeline_chooses_it(open_page: Open) -> None:
    page = open_page(joined()).page
    timeline(page)
    page.click("#timeline-canvas", position={"x": 30, "y": 63})
    shown(page)
    assert filters(page) == ["thread flame 499 ×"]
    page.click("#timeline-canvas", position={"x": 30, "y": 63})
    shown(page)
    assert filters(page) == []


def test_filters_join_and_each_is_taken_back_with_the_keyboard(open_page: Open) -> None:
    page = open_page(joined()).page
    page.locator("table.ranges").get_by_role("button", name="alloc", exact=True).click()
    page.locator("#flame-legend").get_by_role("button", name="pin.walk").click()
    shown(page)
    assert filters(page) == ["range alloc ×", "cause pin.walk ×"]
    assert part(page).endswith("Selected, pin.walk: 79 ms, 10 % of this part.")
    page.focus("#filter-chips .chip")
    page.keyboard.press("Enter")
    shown(page)
    assert filters(page) == ["cause pin.walk ×"]
    assert page.evaluate("document.activeElement.textContent") == "causepin.walk×"
    page.keyboard.press("Enter")
    assert page.is_hidden("#filters")
    assert page.evaluate("document.activeElement.tagName") == "MAIN"
    page.keyboard.press("Control+z")
    shown(page)
    assert filters(page) == ["cause pin.walk ×"]
    page.click("#filter-undo")
    shown(page)
    assert filters(page) == ["range alloc ×", "cause pin.walk ×"]
    page.click("#filter-clear")
    assert page.is_hidden("#filters")


def test_without_filters_the_page_is_again_as_it_came(open_page: Open) -> None:
    page = open_page(joined()).page
    shown(page)
    before = [page.inner_text(view) for view in VIEWS]
    choose(page, "causes=pin.faultin&range=2&span=700000_1000000&threads=0")
    assert [page.inner_text(view) for view in VIEWS] != before
    page.click("#filter-clear")
    shown(page)
    assert [page.inner_text(view) for view in VIEWS] == before
    assert limits(page) == []


def test_a_link_with_filters_opens_filtered(open_page: Open) -> None:
    page = open_page(joined()).page
    choose(page, "causes=pin.faultin&range=1&span=700000_1000000")
    told = [text(page, view) for view in VIEWS], filters(page)
    page.reload()
    shown(page)
    assert ([text(page, view) for view in VIEWS], filters(page)) == told


def test_the_zoom_of_the_timeline_is_in_the_address_and_can_be_undone(open_page: Open) -> None:
    page = open_page(joined()).page
    timeline(page)
    page.click("#timeline-in")
    assert page.inner_text("#timeline-span") == "926 ms of 1.85 s"
    assert "time=" in page.url
    page.reload()
    timeline(page)
    assert page.inner_text("#timeline-span") == "926 ms of 1.85 s"
    page.click("#timeline-in")
    assert page.inner_text("#timeline-span") == "463 ms of 1.85 s"
    page.click("#timeline-whole")
    assert "time=" not in page.url
    page.keyboard.press("Control+z")
    assert " of 1.85 s" in page.inner_text("#timeline-span")


def test_bars_and_full_table_in_time_and_in_percent(open_page: Open) -> None:
    page = open_page(joined()).page
    page.get_by_text("Full table").click()
    table = page.locator("table.matrix")
    cell = table.locator("tr", has_text="alloc").locator("td").first
    assert cell.inner_text() == "128 ms"
    page.get_by_role("button", name="share", exact=True).click()
    assert cell.inner_text() == "84 %"
    page.get_by_role("button", name="total").click()
    assert cell.inner_text() == "640 ms"
    choose(page, "causes=pin.walk")
    assert table.locator("th:visible[data-leaf]").all_inner_texts() == [" pin.walk"]
    page.locator("#chart").scroll_into_view_if_needed()
    page.wait_for_selector("#chart[data-ready]")
    assert page.locator("#chart .bars").count() == 1


def test_spread_of_the_iterations_is_told_and_drawn(open_page: Open) -> None:
    page = open_page(joined()).page
    assert row(page, "ranges", "alloc")[2] == "148 ms · 149 ms · 165 ms"
    line = page.locator("table.ranges tr", has_text="kernel")
    assert line.locator(".spread-median").count() == 1
    assert line.locator(".spread-end").count() == 2


@pytest.mark.parametrize("width", [1280, 480])
def test_nested_ranges_stand_in_under_the_one_around_them(open_page: Open, width: int) -> None:
    page = open_page(joined(), width=width).page
    page.get_by_text("Full table").click()
    page.locator("#chart").scroll_into_view_if_needed()
    page.wait_for_selector("#chart[data-ready]")
    left = "node => node.getBoundingClientRect().left"
    for place in ("table.ranges", "table.range-activity", "table.matrix", "#quality table"):
        outer, inner = (page.locator(f"{place} tbody th bdi", has_text=name).first for name in ("iteration", "alloc"))
        assert inner.evaluate(left) > outer.evaluate(left) + 8, place
    labels = page.locator("#chart .annotation-text")
    widths = [labels.nth(at).text_content() or "" for at in (0, 1)]
    assert (widths[0], widths[1].strip("\u00a0")) == ("iteration", "alloc")
    assert widths[1].startswith("\u00a0")


def test_managed_memory_follows_ranges_and_tells_blocks_that_went_back_and_forth(open_page: Open) -> None:
    data = build(export("uvm"))
    assert data.activity is not None
    number = range_number(data, "kernel")
    page = open_page(data).page
    page.wait_for_selector("#blocks[data-ready]")
    assert page.inner_text("#blocks-detail") == "32 of 32 blocks changed direction, at most 3 times."
    page.locator("#blocks").hover(position={"x": 90, "y": 60})
    assert page.inner_text("#blocks-detail").startswith("0 B into memory · 3 direction changes · 6 MiB to the device")
    choose(page, f"range={number}")
    scope = data.activity.ranges[number]
    for moved in scope.migrations:
        words = {"fault": "a page was accessed", "speculative": "pages near an accessed page"}[moved.cause]
        way = {"H2D": "host to device", "D2H": "device to host"}[moved.direction]
        cells = page.locator("table.migrations tbody tr", has_text=words).filter(has_text=way).locator("td")
        assert cells.nth(1).inner_text() == units.format_count(moved.count)
        assert cells.nth(2).inner_text() == units.format_bytes(moved.size_bytes.total)
        assert cells.nth(3).inner_text() == units.format_bytes(moved.size_bytes.median)
        assert cells.nth(7).inner_text() == units.format_share(moved.in_kernel_count, moved.count)
    assert page.locator("table.migrations tr.empty").count() == 4 - len(scope.migrations)
    tiles = page.locator("#uvm .tile").all_inner_texts()
    assert tiles[0].startswith(units.format_share(scope.lost_ns, scope.kernel_ns))
    assert tiles[1].startswith(units.format_count(scope.gpu_fault_groups))
    assert [tile for tile in tiles if tile.endswith("moved to the host")] == ["0 B\nmoved to the host"]


def test_a_recording_without_samples_is_filtered_by_time_and_range(open_page: Open) -> None:
    data = build(export("both"))
    number = range_number(data, "d2h")
    assert data.activity is not None
    page = open_page(data).page
    page.locator("table.range-activity").get_by_role("button", name="d2h", exact=True).click()
    shown(page)
    (call,) = [call for call in data.activity.ranges[number].calls if call.name == "cudaMemcpy"]
    assert row(page, "calls", "cudaMemcpy")[0] == str(call.count)
    assert row(page, "calls", "cudaHostAlloc")[0] == "0"
    page.click("#filter-clear")
    drag(page, timeline(page), (0.4, 0.6))
    shown(page)
    assert filters(page)[0].startswith("time 333 ms")
    assert row(page, "calls", "cudaMemcpy")[0] != "10"
