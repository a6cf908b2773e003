"""Wall time of ranges as a table in the terminal, a bar on the page and JSON."""

from __future__ import annotations

import pytest

from pinprof.analyze import analyze
from pinprof.analyze.results import RangeWall
from pinprof.report import gather
from pinprof.report.gather import ReportData
from pinprof.report.page import html
from pinprof.report.sections.ranges.walls import REMAINDER, Wall
from tests.support.sample_report import text_of
from tests.support.stacks import CLOCK, OFF_CPU, Range, Sample, capture

SLEEP = ["main@/app", "do_syscall_64", "hrtimer_nanosleep", "do_nanosleep", "schedule"]
BLOCK = ["main@/app", "cuCtxSynchronize@/libcuda.so.1", "poll@/libc.so.6", "do_syscall_64", "do_sys_poll", "schedule"]
MS = 1_000_000


@pytest.fixture(scope="module")
def data() -> ReportData:
    samples = [
        *(Sample(["main@/app"], MS, (5 + number) * MS) for number in range(20)),
        Sample(SLEEP, 50 * MS, 30 * MS, event=1),
        Sample(BLOCK, 20 * MS, 80 * MS, event=1),
    ]
    return gather.build(analyze(capture(samples, [Range("step", 0, 100 * MS, 0, 100, 100)], events=(CLOCK, OFF_CPU))))


def test_the_terminal_says_how_much_of_a_range_ran_waited_or_neither(data: ReportData) -> None:
    lines = text_of(data, 100).splitlines()
    (row,) = [line for line in lines if line.strip().startswith("step") and "20 %" in line and "70 %" in line]
    assert row.split()[:11] == ["step", "100", "ms", "20", "%", "20", "%", "70", "%", "10", "%"]
    assert "wait.sleep 50 %" in row
    # The table of the event itself would say the same again.
    assert not any(line.startswith("Ranges · off-cpu") for line in lines)
    assert any("2 waits" in line for line in lines)


def test_the_json_has_the_parts_and_they_sum_to_the_clock(data: ReportData) -> None:
    report = data.to_json()
    wall = report["ranges"][0]["wall"]
    assert wall["on_cpu"] == {"user.app": 20 * MS}
    assert wall["off_cpu"] == {"wait.sleep": 50 * MS, "wait.gpu": 20 * MS}
    assert wall["gpu_ns"] == 20 * MS
    assert wall["on_cpu_ns"] + wall["off_cpu_ns"] + wall["remainder_ns"] == wall["wall_ns"] == 100 * MS
    assert [(event["name"], event["spans"], event["samples"]) for event in report["events"]] == [
        ("cpu-clock", False, 20), ("off-cpu", True, 2),
    ]  # fmt: skip


def test_the_page_shows_a_bar_of_all_parts(data: ReportData) -> None:
    page = html.render(data)
    assert "Wall time of the threads that opened the ranges" in page
    assert 'data-title="wait.sleep · 50 % · 50 ms"' in page
    assert f'data-title="{REMAINDER} · 10 % · 10 ms"' in page


def wall(on: dict[str, int], off: dict[str, int], wall_ns: int) -> Wall:
    ran, waited = sum(on.values()), sum(off.values())
    return Wall(RangeWall(wall_ns, on, off, wall_ns - ran - waited, 0))


def test_small_parts_are_drawn_together_and_shares_sum_to_one() -> None:
    parts = wall({"user.app": 9000, "sys.irq": 1}, {"wait.lock": 2}, 10_000).parts()
    assert [(part.label, part.ns) for part in parts] == [("user.app", 9000), ("others", 3), (REMAINDER, 997)]
    assert sum(part.share for part in parts) == pytest.approx(1)


def test_more_than_the_clock_leaves_no_remainder_to_draw() -> None:
    found = wall({"user.app": 9000}, {"wait.lock": 2000}, 10_000)
    assert found.result.remainder_ns == -1000
    assert [part.label for part in found.parts()] == ["user.app", "wait.lock"]
    assert sum(part.share for part in found.parts()) == pytest.approx(1)
    assert wall({}, {}, 0).parts() == []
