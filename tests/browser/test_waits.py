"""The page's filters by range and by span of time, for waits that reach across edges: exact, against the analysis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from pinprof.analyze import Run, analyze
from pinprof.report.flame import FlameData
from pinprof.report.gather import build
from pinprof.report.page.bundle import bundle
from pinprof.report.steps import in_steps
from tests.browser.conftest import page_with
from tests.browser.test_derive import PLAIN
from tests.support.stacks import CLOCK, OFF_CPU, Range, Sample, capture

pytestmark = pytest.mark.browser

ASK = """
window.ask = async ({ packed, layout, facts, queries }) => {
  const model = new Model(await gunzip(Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0))), layout, facts);
  return queries.map((query) => {
    const { total, facets } = derive(model, query);
    const { start } = derive(model, { ...query, order: "time" }).tables.main;
    const { causes, ranges } = survey(model, query);
    return { total, drawn: start.at(-1), by: [...facets.causes], causes: [...causes], ranges: [...ranges] };
  });
};
"""
KERNEL_THREAD = ["ret_from_fork", "kthread", "worker_thread", "schedule"]
STACKS = (
    ["main@/app", "do_syscall_64", "hrtimer_nanosleep", "do_nanosleep", "schedule"],
    ["main@/app", "do_syscall_64", "do_futex", "futex_wait", "schedule"],
)
LONG = 40_000
"""The recording's length in ns."""


@pytest.fixture(scope="module")
def scripted(browser: Browser) -> Iterator[Page]:
    with page_with(browser, bundle("engine/engine.js") + ASK) as page:
        yield page


def recording(seed: int) -> Run:
    """Threads of three processes and of the kernel wait; ranges of two of these, and of an unknown one, overlap."""
    chance = np.random.default_rng(seed)

    def times(count: int, longest: int) -> Iterator[tuple[int, int]]:
        for start in chance.integers(0, LONG, count).tolist():
            yield start, min(start + int(chance.integers(1, longest)), LONG)

    waits = [
        Sample(STACKS[number % 2], end - start, start, pid=100 * (number % 3 + 1), tid=700 + number, event=1)
        for number, (start, end) in enumerate(times(60, 20_000))
    ]
    waits += [Sample(KERNEL_THREAD, end - start, start, 9, 9, event=1) for start, end in times(5, 9_000)]
    ran = [Sample(["main@/app"], 7, start, pid=100, tid=100) for start, _ in times(40, 2)]
    ranges = [
        Range(f"range {number % 5}", start, end, 0, (100, 200, -1)[number % 3], 100)
        for number, (start, end) in enumerate(times(30, 6_000))
    ]
    return analyze(capture([*waits, *ran], ranges, events=(CLOCK, OFF_CPU)))


def asked(page: Page, data: FlameData, causes: int, queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    layout, packed = data.packed
    facts = {
        "causes": causes, "dsos": len(data.dsos), "frames": len(data.frame_name), "threads": len(data.threads),
        "timed": True,
    }  # fmt: skip
    question = {"packed": packed, "layout": layout, "facts": facts, "queries": queries}
    answer: list[dict[str, Any]] = page.evaluate("question => ask(question)", question)
    return answer


@pytest.mark.parametrize("rows", [1_000_000, 95])
@pytest.mark.parametrize("seed", range(4))
def test_waits_are_in_ranges_and_spans_for_as_long_as_they_overlap(scripted: Page, seed: int, rows: int) -> None:
    analysis = recording(seed)
    report = build(analysis)
    assert report.flame is not None
    assert len(report.flame.across.sample) > 40
    data = in_steps(report.flame, rows)
    assert bool(data.step_ns) == (rows < 1_000)
    names = [cause.key for cause in report.causes]
    span = [5.0, 21.0]
    queries = [
        {**PLAIN, "event": 1, "range": number, "span": within, "ranges": len(report.ranges), "opportunity": -1}
        for number in range(len(report.ranges))
        for within in (None, span)
    ]
    found = asked(scripted, data, len(names), queries)
    part = _overlaps(analysis, span, data.start_ns)
    for number, entry in enumerate(report.ranges):
        event = entry.events[1]
        whole, within = found[2 * number : 2 * number + 2]
        assert event.total
        assert whole["total"] == whole["drawn"] == event.total
        assert within["total"] == within["drawn"] == sum(within["causes"]) == part[number]
        for causes in (whole["by"], whole["causes"], _row(whole, number, names)):
            assert {name: weight for name, weight in zip(names, causes, strict=True) if weight} == event.by_leaf
        assert sum(_row(within, number, names)) == part[number]


def _row(answer: dict[str, Any], number: int, names: list[str]) -> list[int]:
    row: list[int] = answer["ranges"][number * len(names) : (number + 1) * len(names)]
    return row


def _overlaps(analysis: Run, span: list[float], start_ns: int) -> list[int]:
    """Per path how much of all waits lies in its ranges and in the span, counted one ns at a time."""
    capture, first, last = analysis.capture, *(start_ns + int(1_000 * edge) for edge in span)
    samples, ranges = capture.samples, capture.ranges
    total = [0] * len(analysis.members.paths)
    for row in np.flatnonzero(samples.event == 1).tolist():
        pid, begin = int(samples.pid[row]), int(samples.time_ns[row])
        inside = np.zeros((len(total), LONG + 1), np.bool_)
        for path, *times, owner in zip(
            analysis.members.path.tolist(), ranges.start_ns.tolist(), ranges.end_ns.tolist(), ranges.pid.tolist(),
            strict=True,
        ):  # fmt: skip
            if pid in (9, owner) or owner < 0:
                inside[path, slice(*times)] = True
        inside[:, : max(begin, first)] = False
        inside[:, min(begin + int(samples.weight[row]), last) :] = False
        total = [known + int(mine.sum()) for known, mine in zip(total, inside, strict=True)]
    return total
