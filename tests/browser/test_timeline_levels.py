"""The timeline's levels of detail: every level has the sums of the finest, and a page says where it has no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from pinprof.analyze import analyze
from pinprof.data.activity import OpKind
from pinprof.report.gather import build
from pinprof.report.page.bundle import bundle
from pinprof.report.thinning import Spans
from tests.browser.conftest import Opened, page_with
from tests.unit.report.test_activity import many

pytestmark = pytest.mark.browser

ASK = """
const plain = (level) =>
  Object.fromEntries(Object.entries(level).map(([key, value]) => [key, value?.length ? [...value] : value]));
window.densities = ([columns, step, wanted]) => {
  const levels = new DensityLevels(columns, step);
  return wanted.map((least) => plain(levels.at(least)));
};
window.intervals = ([columns, whole, wanted]) => {
  const levels = new SpanLevels(unpackSpans(columns), whole);
  return wanted.map((most) => plain(levels.at(most)));
};
"""
STEPS = [1, 3, 10, 100, 1_000, 10_000, 100_000, 1_000_000]


@pytest.fixture(scope="module")
def scripted(browser: Browser) -> Iterator[Page]:
    with page_with(browser, bundle("timeline/rows.js") + ASK) as page:
        yield page


def sums(keys: list[int], values: list[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for key, value in zip(keys, values, strict=True):
        found[key] = found.get(key, 0) + value
    return found


def test_every_level_of_a_density_has_the_same_weights(scripted: Page) -> None:
    chance = np.random.default_rng(5)
    moment, cause = np.sort(chance.integers(0, 100_000, 5_000)), chance.integers(0, 4, 5_000)
    cells = np.unique(moment * 4 + cause)
    weight = chance.integers(1, 1 << 40, len(cells))
    columns = {
        "bin": np.diff(cells // 4, prepend=0).tolist(), "cause": (cells % 4).tolist(), "weight": weight.tolist()
    }  # fmt: skip
    levels = scripted.evaluate("densities", [columns, 10, STEPS])
    before = len(cells) + 1
    for least, level in zip(STEPS, levels, strict=True):
        step = level["step"]
        assert step >= min(least, 1_000_000)
        assert step in {10 << power for power in range(20)}
        wanted = sums(((cells // 4 * 10 // step) * 4 + cells % 4).tolist(), weight.tolist())
        assert (
            sums([at * 4 + one for at, one in zip(level["bin"], level["cause"], strict=True)], level["weight"])
            == wanted
        )
        assert len(level["bin"]) == len(wanted) <= before
        assert level["bin"] == sorted(level["bin"])
        before = len(wanted)


def test_every_level_of_intervals_has_the_same_sums_and_its_longest(scripted: Page) -> None:
    chance = np.random.default_rng(6)
    size, whole = 4_000, 1 << 24
    start = np.sort(chance.integers(0, whole, size))
    length = np.minimum(chance.exponential(2_000, size).astype(np.int64), whole - start)
    style = chance.integers(0, 3, size).astype(np.int32)
    spans = Spans.single(start, start + length, style, style, chance.integers(0, 2, size).astype(np.int32), length * 3)
    previous = size + 1
    for most, level in zip(STEPS, scripted.evaluate("intervals", [spans.columns(), whole, STEPS]), strict=True):
        assert sum(level["count"]) == size
        kinds = [depth * 3 + one for depth, one in zip(level["depth"], level["style"], strict=True)]
        for name, values in (("busy", length), ("size", length * 3)):
            assert sums(kinds, level[name]) == sums((spans.depth * 3 + spans.style).tolist(), values.tolist())
        assert level["start"] == sorted(level["start"])
        ends = [begin + long for begin, long in zip(level["start"], level["length"], strict=True)]
        assert level["reach"] == np.maximum.accumulate(ends).tolist()
        assert {int(long) for long in length[length >= most]} <= set(level["length"]) or most > whole
        assert len(level["start"]) <= previous
        previous = len(level["start"])
    assert previous < size / 20


def test_a_page_that_joins_neighbours_names_the_command_for_all_of_them(open_page: Callable[..., Opened]) -> None:
    def command(page: Page) -> Any:
        return page.evaluate(
            "document.getElementById('timeline-more').hidden || document.getElementById('timeline-command').textContent"
        )

    page = open_page(build(analyze(many(OpKind.COPY, 1_000_000)))).page
    page.wait_for_selector("#timeline-canvas[data-ready]")
    assert command(page) is True
    page.evaluate("location.hash = 'time=500000_500400'")
    page.wait_for_selector("#timeline-more:not([hidden])")
    assert command(page).endswith("--after 0.5s --until 0.5004s")
