"""Large memory in the report: lines with exact counts, and what is made again."""

from __future__ import annotations

from dataclasses import replace

from pinprof.analyze import analyze
from pinprof.data.activity import Caller
from pinprof.data.host_memory import HostEvent, HostMemoryTable, HostSite, LargeMemory, Maker
from pinprof.report.gather import ReportData, build
from pinprof.report.sections.blocks import LEAST_SHOWN
from tests.support.sample_report import text_of
from tests.support.stacks import Sample, capture

STEP = HostSite(Caller("step", "train.py", 3, "/home/me/train.py"), ())


def report(size: int) -> ReportData:
    """Of a program that makes ten blocks and gives back nine, one after another, and drops pages once."""
    events = [*[HostEvent.MADE, HostEvent.GIVEN] * 9, HostEvent.MADE, HostEvent.ADVISED]
    count = len(events)
    table = HostMemoryTable.of(
        count,
        time_ns=range(count),
        event=events,
        maker=[Maker.MALLOC] * (count - 1) + [Maker.DONTNEED],
        pid=1,
        count=1,
        size_bytes=size,
        given_at=[0 if event == HostEvent.GIVEN else -1 for event in events],
        lifetime_ns=[50 if event == HostEvent.GIVEN else 0 for event in events],
        took_ns=[20_000_000 if event == HostEvent.GIVEN else 3 for event in events],
    )
    made = replace(capture([Sample(("main@/app",))]), host_memory=LargeMemory(table, (STEP,), 2))
    return build(analyze(made))


def test_json_has_every_figure_of_a_line() -> None:
    found = report(LEAST_SHOWN).to_json()["host_memory"]
    (line,) = found["lines"]
    assert line == {
        "line": "step (train.py:3)", "pid": 1, "grows": False, "made": 10, "made_bytes": 10 * LEAST_SHOWN,
        "again": 9, "again_bytes": 9 * LEAST_SHOWN, "most": 1, "most_bytes": LEAST_SHOWN, "given": 9,
        "given_bytes": 9 * LEAST_SHOWN, "elsewhere": 0, "live": 1, "making_ns": 30, "giving_ns": 180_000_000,
        "lifetime_ns": 50, "returned": True, "given_at": [{"line": "step (train.py:3)", "given": 9}],
    }  # fmt: skip
    assert found["advice"] == [{"call": "MADV_DONTNEED", "line": "step (train.py:3)", "count": 1, "bytes": LEAST_SHOWN}]
    assert found["lost"] == 2
    assert report(1).to_json()["host_memory"]["lines"][0]["made_bytes"] == 10


def test_text_has_the_lines_of_programs_that_make_much() -> None:
    text = " ".join(text_of(report(LEAST_SHOWN)).split())
    assert "The program makes 10 large blocks of memory, 640 MiB in all; 576 MiB of it after" in text
    assert "step (train.py:3)" in text
    assert "Large memory" not in text_of(report(1))


def test_recordings_without_it_say_null() -> None:
    assert build(analyze(capture([Sample(("main@/app",))]))).to_json()["host_memory"] is None
