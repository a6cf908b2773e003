"""The flamegraph's views: filters, orders, changes of the stacks, undo and links, asserted on what is shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Opened
from tests.browser.flame import CANVAS, act, at, chips, click, colour, crumbs, hover, name_at, pixel, settle
from tests.support.sample_report import sample_report

pytestmark = pytest.mark.browser
Open = Callable[..., Opened]
CALLERS = "#flame-callers-canvas"


@pytest.fixture
def page(open_page: Open) -> Page:
    return open_page(sample_report()).page


def choose(page: Page, select: str, label: str) -> None:
    page.select_option(f"#flame-{select}", label=label)
    settle(page)


def total(page: Page) -> str:
    return hover(page, 0.01, 0).split("total\n")[1].split("\n")[0]


def test_legend_shows_only_one_cause_and_weights_follow(page: Page) -> None:
    page.locator("#flame-legend").get_by_role("button", name="pin.walk").click()
    settle(page)
    assert name_at(page, 0.5, 4) == "gup_fast"
    assert total(page) == "100 ms · 10 % of all"
    assert chips(page) == ["cause pin.walk ×"]
    page.locator("#flame-legend").get_by_role("button", name="user.app").click()
    settle(page)
    assert total(page) == "400 ms · 40 % of all"
    page.click("#filter-clear")
    settle(page)
    assert total(page) == "1 s · 100 % of all"


def test_bar_of_causes_filters_and_steps_back(page: Page) -> None:
    page.click("#causes svg.big rect >> nth=0")
    settle(page)
    assert total(page) == "600 ms · 60 % of all"
    assert page.locator("#causes svg.big rect.off:visible").count() == 2
    assert page.locator("#causes").get_by_role("button", name="pin.faultin").get_attribute("aria-pressed") == "true"
    page.click("#causes svg.big rect >> nth=0")
    settle(page)
    assert total(page) == "1 s · 100 % of all"


def test_colours_by_module_and_by_mode_with_legends_that_filter(page: Page) -> None:
    choose(page, "colour", "module")
    kernel = pixel(page, 0.3, 4)
    assert kernel == colour(page, "--module-0")
    assert pixel(page, 0.9, 2) == colour(page, "--module-1")
    page.locator("#flame-legend").get_by_role("button", name="[kernel.kallsyms] 70 %").click()
    settle(page)
    assert total(page) == "700 ms · 70 % of all"
    page.click("#flame-undo")
    choose(page, "colour", "user or kernel")
    assert pixel(page, 0.3, 4) == colour(page, "--mode-1") != kernel
    page.locator("#flame-legend").get_by_role("button", name="user code").click()
    settle(page)
    assert total(page) == "300 ms · 30 % of all"


def test_a_range_restricts_weights_and_tells_its_own_share(page: Page) -> None:
    choose(page, "range", "\u00a0\u00a0alloc")
    assert total(page) == "700 ms · 70 % of all"
    tip = hover(page, 0.3, 4)
    assert "600 ms · 60 % of all" in tip
    assert "of alloc\n86 %" in tip
    page.fill("#flame-search", "gup_fast")
    assert page.inner_text("#flame-match") == "14 % of alloc, 100 ms"


def test_threads_split_and_single(page: Page) -> None:
    choose(page, "threads", "split")
    assert (name_at(page, 0.3, 1), name_at(page, 0.9, 1)) == ("main 100", "worker 101")
    assert name_at(page, 0.9, 3) == "compute"
    choose(page, "threads", "worker 101")
    assert name_at(page, 0.5, 2) == "compute"
    assert total(page) == "300 ms · 30 % of all"


def test_leaf_up_puts_innermost_functions_first(page: Page) -> None:
    choose(page, "order", "leaf up")
    assert [name_at(page, 0.3, row) for row in (1, 2, 3, 4)] == [
        "clear_page_erms", "pin_user_pages", "cudaMallocHost", "main",
    ]  # fmt: skip
    assert name_at(page, 0.8, 1) == "compute"
    assert "600 ms" in hover(page, 0.3, 1)


def test_views_one_after_another_keep_their_own_weights(page: Page) -> None:
    """Columns of a view that is left are used again for later ones."""
    for _ in range(2):
        choose(page, "order", "leaf up")
        assert [name_at(page, part, 1) for part in (0.3, 0.8)] == ["clear_page_erms", "compute"]
        choose(page, "order", "heaviest first")
        act(page, 0.3, 3, "Callers and callees")
        assert (total(page), name_at(page, 0.5, 1, CALLERS)) == ("700 ms · 70 % of all", "cudaMallocHost")
        page.locator("#flame-chips .chip").first.click()
        settle(page)
        page.locator("#flame-legend").get_by_role("button", name="pin.walk").click()
        settle(page)
        assert (total(page), name_at(page, 0.5, 4)) == ("100 ms · 10 % of all", "gup_fast")
        page.locator("#filter-chips .chip").first.click()
        settle(page)
        assert [name_at(page, part, row) for part, row in ((0.3, 4), (0.9, 2))] == ["clear_page_erms", "compute"]
        assert total(page) == "1 s · 100 % of all"


def test_order_of_time_keeps_the_order_and_the_weights(page: Page) -> None:
    choose(page, "order", "in order of time")
    assert [name_at(page, part, 2) for part in (0.3, 0.65, 0.9)] == ["cudaMallocHost", "cudaMallocHost", "compute"]
    assert [name_at(page, part, 4) for part in (0.3, 0.65)] == ["clear_page_erms", "gup_fast"]
    assert "700 ms · 70 % of all" in hover(page, 0.3, 3)
    page.fill("#flame-search", "gup")
    assert page.inner_text("#flame-match") == "10 % of cpu-clock/freq=999/, 100 ms"
    click(page, 0.3, 3)
    assert page.inner_text("#flame-match") == "14 % of this zoom, 100 ms"
    assert crumbs(page)[-1] == "pin_user_pages"
    page.click("#flame-undo")
    assert crumbs(page) == ["all"]


def test_flame_grows_from_the_bottom(page: Page) -> None:
    assert name_at(page, 0.3, 4) == "clear_page_erms"
    page.click("#flame-shape")
    assert name_at(page, 0.3, 0) == "clear_page_erms"
    assert name_at(page, 0.3, 3) == "main"
    page.focus(CANVAS)
    page.keyboard.press("ArrowUp")
    assert page.inner_text("#flame-detail").startswith("main — ")


def test_callers_and_callees_of_one_function(page: Page) -> None:
    act(page, 0.3, 3, "Callers and callees")
    assert page.inner_text("#flame-callers-name") == "pin_user_pages"
    assert (name_at(page, 0.3, 0), name_at(page, 0.3, 1)) == ("pin_user_pages", "clear_page_erms")
    assert [name_at(page, 0.5, row, CALLERS) for row in (0, 1, 2)] == ["main", "cudaMallocHost", "pin_user_pages"]
    assert hover(page, 0.5, 3, CALLERS) == ""
    assert crumbs(page) == ["pin_user_pages"]
    assert chips(page) == ["callers and callees of pin_user_pages ×"]
    assert total(page) == "700 ms · 70 % of all"


def test_search_among_callers_and_callees_counts_each_stack_once(page: Page) -> None:
    act(page, 0.3, 3, "Callers and callees")
    for text, share in (
        ("main", "100 % of the stacks through pin_user_pages, 700 ms"),
        ("gup_fast", "14 % of the stacks through pin_user_pages, 100 ms"),
        ("/main|gup_fast/", "100 % of the stacks through pin_user_pages, 700 ms"),
        ("pin_user", "100 % of the stacks through pin_user_pages, 700 ms"),
        ("compute", "no match"),
    ):
        page.fill("#flame-search", text)
        assert page.inner_text("#flame-match") == share
    page.fill("#flame-search", "gup_fast")
    click(page, 0.3, 1)
    assert page.inner_text("#flame-match") == "no match"


def test_focus_hide_collapse_and_drop_can_be_undone_and_redone(page: Page) -> None:
    act(page, 0.3, 2, "Focus")
    assert [name_at(page, 0.3, row) for row in (1, 2)] == ["cudaMallocHost", "pin_user_pages"]
    act(page, 0.3, 2, "Hide")
    assert name_at(page, 0.3, 2) == "clear_page_erms"
    page.click("#flame-undo")
    settle(page)
    assert name_at(page, 0.3, 2) == "pin_user_pages"
    page.click("#flame-undo")
    settle(page)
    assert name_at(page, 0.3, 1) == "main"
    page.keyboard.press("Control+Shift+Z")
    page.keyboard.press("Control+Shift+Z")
    settle(page)
    assert chips(page) == ["focus cudaMallocHost ×", "hidden pin_user_pages ×", "Clear all"]
    page.locator("#flame-chips").get_by_role("button", name="Clear all").click()
    settle(page)
    act(page, 0.3, 3, "Collapse")
    assert hover(page, 0.3, 4) == ""
    assert "self\n700 ms" in hover(page, 0.3, 3)
    page.keyboard.press("Control+z")
    settle(page)
    act(page, 0.9, 2, "Drop")
    assert total(page) == "700 ms · 70 % of all"


def test_collapsing_a_module_makes_its_runs_one(page: Page) -> None:
    act(page, 0.3, 3, "Collapse module")
    assert name_at(page, 0.3, 3) == "[kernel.kallsyms] (module)"
    assert hover(page, 0.3, 4) == ""


def test_a_link_reproduces_the_view(page: Page) -> None:
    act(page, 0.3, 2, "Focus")
    page.locator("#flame-legend").get_by_role("button", name="pin.faultin").click()
    settle(page)
    choose(page, "colour", "module")
    click(page, 0.5, 2)
    page.fill("#flame-search", "clear & <b>")
    shown = crumbs(page), chips(page), total(page), page.input_value("#flame-search")
    address = page.url
    assert "causes=pin.faultin" in address
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#flame[data-ready]")
    settle(page)
    assert (crumbs(page), chips(page), total(page), page.input_value("#flame-search")) == shown
    assert page.input_value("#flame-colour") == "module"


def test_an_address_that_cannot_be_meant_still_shows_something(page: Page) -> None:
    address = page.url
    for fragment in (
        "event=9&zoom=99_-4_x",
        "range=77&causes=nonsense,pin.walk",
        "focus=12345&view=a_b",
        "%%%=1&order=%E0&colour=x",
        "sandwich=1e9",
    ):
        page.goto("about:blank")
        page.goto(f"{address}#{fragment}")
        page.wait_for_selector("#flame[data-ready]")
        settle(page)
        assert crumbs(page)[0] == "all", fragment


def test_undo_covers_zoom_and_the_address_follows(page: Page) -> None:
    click(page, 0.3, 3)
    click(page, 0.5, 4)
    assert crumbs(page)[-1] == "clear_page_erms"
    page.keyboard.press("Control+z")
    assert crumbs(page)[-1] == "pin_user_pages"
    assert "zoom=" in page.url
    page.keyboard.press("Control+z")
    assert crumbs(page) == ["all"]
    page.keyboard.press("Control+Shift+Z")
    assert crumbs(page)[-1] == "pin_user_pages"


def test_wheel_with_control_zooms_where_it_points_and_without_scrolls(page: Page) -> None:
    page.evaluate("() => { let ms = 0; performance.now = () => (ms += 20); }")  # one gesture, however slow the machine
    page.hover(CANVAS, position=at(page, 0.3, 4))
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, 60)
    page.wait_for_function("before => scrollY === before + 60", arg=before)
    assert crumbs(page) == ["all"]
    page.hover(CANVAS, position=at(page, 0.3, 4))
    page.keyboard.down("Control")
    for _ in range(8):
        page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    settle(page)
    assert crumbs(page)[-1] == "clear_page_erms"
    assert name_at(page, 0.02, 4) == name_at(page, 0.98, 4) == "clear_page_erms"
    page.keyboard.press("Control+z")
    settle(page)
    assert crumbs(page) == ["all"]


def test_minimap_chooses_a_part_by_dragging_and_by_keys(page: Page) -> None:
    page.locator("#flame-minimap").scroll_into_view_if_needed()
    box = page.locator("#flame-minimap").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.72 * box["width"], box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.98 * box["width"], box["y"] + 12, steps=4)
    page.mouse.up()
    settle(page)
    assert crumbs(page)[-1] == "compute"
    assert page.get_attribute("#flame-minimap", "aria-valuetext") == "shows 72 % to 98 % of the width"
    page.focus("#flame-minimap")
    page.keyboard.press("PageUp")
    assert page.get_attribute("#flame-minimap", "aria-valuetext") == "shows 46 % to 72 % of the width"


def test_drag_moves_a_zoomed_graph(page: Page) -> None:
    click(page, 0.3, 4)
    spot = at(page, 0.2, 3)
    box = page.locator(CANVAS).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + spot["y"])
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + spot["y"], steps=5)
    page.mouse.up()
    settle(page)
    assert (name_at(page, 0.3, 4), name_at(page, 0.55, 4)) == ("clear_page_erms", "gup_fast")


def test_two_fingers_zoom_on_a_touch_screen(page: Page) -> None:
    spot = at(page, 0.3, 4)
    page.evaluate(
        """([selector, y]) => { const canvas = document.querySelector(selector);
        const box = canvas.getBoundingClientRect();
        const send = (type, pointerId, part) => canvas.dispatchEvent(new PointerEvent(type, { pointerId,
          pointerType: 'touch', bubbles: true, clientX: box.left + part * box.width, clientY: box.top + y }));
        send('pointerdown', 11, 0.25); send('pointerdown', 12, 0.35);
        for (let part = 0; part <= 0.2; part += 0.05) {
          send('pointermove', 11, 0.25 - part); send('pointermove', 12, 0.35 + part);
        }
        send('pointerup', 11, 0.05); send('pointerup', 12, 0.55); }""",
        [CANVAS, spot["y"]],
    )
    settle(page)
    assert crumbs(page)[-1] == "clear_page_erms"


def test_name_and_stack_can_be_copied(page: Page) -> None:
    page.evaluate("document.execCommand = command => { window.copied = document.activeElement.value; return true; }")
    page.evaluate("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }")
    page.evaluate("() => { window.setTimeout = () => {}; }")  # however slow the machine, what was copied stays said
    click(page, 0.65, 4)
    page.keyboard.press("y")
    assert page.evaluate("window.copied") == "gup_fast"
    page.locator("#flame-actions").get_by_role("button", name="Copy stack").click()
    assert page.inner_text("#flame-status") == "Copied the stack."
    assert page.evaluate("window.copied").split("\n") == [
        "gup_fast ([kernel.kallsyms])", "pin_user_pages ([kernel.kallsyms])", "cudaMallocHost (libcuda.so.1)",
        "main (app)",
    ]  # fmt: skip


def test_view_can_be_saved_as_svg_and_png(page: Page, tmp_path: Path) -> None:
    click(page, 0.3, 2)
    for kind, begin in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        page.click("#flame-save summary")
        with page.expect_download() as download:
            page.get_by_role("button", name=f"This view as {kind}").click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        assert file.read_bytes().startswith(begin)
        assert file.name == f"alloc.pinprof-flamegraph.{kind.lower()}"
    text = (tmp_path / "alloc.pinprof-flamegraph.svg").read_text("utf-8")
    assert "clear_page_erms" in text
    assert "compute" not in text
    assert "alloc.pinprof · Flamegraph of cpu-clock/freq=999/ · 1 s" in text


def test_a_picture_says_what_it_is_filtered_to_and_has_the_callers(page: Page, tmp_path: Path) -> None:
    choose(page, "range", "\u00a0\u00a0alloc")
    act(page, 0.3, 3, "Callers and callees")
    page.click("#flame-save summary")
    with page.expect_download() as download:
        page.get_by_role("button", name="This view as SVG").click()
    download.value.save_as(tmp_path / "view.svg")
    text = (tmp_path / "view.svg").read_text("utf-8")
    assert "700 ms, 70 % of all · range alloc · callers and callees of pin_user_pages" in text
    assert "cudaMallocHost" in text
    assert "gup_fast" in text


def test_saved_svg_keeps_hostile_names_as_text(open_page: Open, tmp_path: Path) -> None:
    page = open_page(sample_report(function="</svg><script>window.owned = 1</script>")).page
    page.click("#flame-save summary")
    with page.expect_download() as download:
        page.get_by_role("button", name="This view as SVG").click()
    download.value.save_as(tmp_path / "view.svg")
    text = (tmp_path / "view.svg").read_text("utf-8")
    assert "<script" not in text
    assert "&lt;/svg&gt;" in text


def test_print_shows_every_level_in_the_light_theme(open_page: Open) -> None:
    page = open_page(sample_report(), scheme="dark", own=True).page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert pixel(page, 0.3, 4) == colour(page, "--cause-pin-faultin")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert not page.is_visible("#flame-search")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_every_key_of_the_help_does_what_it_says(page: Page) -> None:
    page.keyboard.press("?")
    assert page.is_visible("#flame-help")
    assert "leaf up" in page.inner_text("#flame-help")
    page.keyboard.press("Escape")
    assert not page.is_visible("#flame-help")
    page.focus(CANVAS)
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "f"):
        page.keyboard.press(key)
    settle(page)
    assert chips(page) == ["focus pin_user_pages ×"]
    page.keyboard.press("Control+z")
    settle(page)
    page.focus(CANVAS)
    page.keyboard.press("i")
    settle(page)
    assert name_at(page, 0.3, 1) == "clear_page_erms"
    page.keyboard.press("i")
    page.keyboard.press("t")
    settle(page)
    assert page.input_value("#flame-order") == "time"
    page.keyboard.press("t")
    page.keyboard.press("o")
    settle(page)
    assert page.get_attribute("#flame-shape", "aria-pressed") == "true"
    page.keyboard.press("o")
    page.keyboard.press("w")
    page.keyboard.press("w")
    settle(page)
    assert "view=" in page.url
    page.keyboard.press("Escape")
    settle(page)
    assert "view=" not in page.url


def test_matches_are_walked_with_n(page: Page) -> None:
    page.fill("#flame-search", "/page/")
    page.keyboard.press("Enter")
    assert page.inner_text("#flame-detail").startswith("pin_user_pages — ")
    page.focus(CANVAS)
    page.keyboard.press("n")
    assert page.inner_text("#flame-detail").startswith("clear_page_erms — ")
    page.keyboard.press("N")
    assert page.inner_text("#flame-detail").startswith("pin_user_pages — ")


def test_filters_that_leave_nothing_say_so(page: Page) -> None:
    page.click("#causes svg.big rect >> nth=0")
    choose(page, "range", "\u00a0\u00a0init")
    assert page.inner_text("#flame-empty") == "No samples match all filters."


def test_focus_order_and_names_are_accessible(page: Page) -> None:
    unnamed = """[...document.querySelectorAll('#flame :is(button, select, input, canvas, summary)')]
      .filter(node => node.checkVisibility()).filter(node => !(node.getAttribute('aria-label') || node.title
        || node.textContent.trim() || node.closest('label'))).map(node => node.id)"""
    assert page.evaluate(unnamed) == []
    page.focus("#flame-search")
    order = []
    for _ in range(12):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    wanted = ["flame-help-open", "flame-order", "flame-colour", "flame-shape", "crumb", "flame-minimap", "flame-canvas"]
    assert [one for one in order if one in wanted] == wanted


def test_the_page_works_without_workers(open_page: Open) -> None:
    page = open_page(sample_report(), own=True).page
    page.add_init_script("window.Worker = class { constructor() { throw new Error('refused'); } };")
    page.reload()
    page.wait_for_selector("#flame[data-ready]")
    settle(page)
    assert "600 ms" in hover(page, 0.3, 4)


def test_the_worker_answers(open_page: Open) -> None:
    page = open_page(sample_report(), own=True).page
    page.add_init_script(
        "window.answers = 0; window.Worker = class extends Worker { constructor(address) { super(address);"
        " this.addEventListener('message', () => { window.answers += 1; }); } };"
    )
    page.reload()
    page.wait_for_selector("#flame[data-ready]")
    settle(page)
    # One for the model, one for the first table.
    assert page.evaluate("window.answers") == 2
