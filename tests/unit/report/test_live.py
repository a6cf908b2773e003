"""The screen of `pinprof top`: its pulse, its views, and that it fits a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pinprof import analyze, read
from pinprof.report.gather import ReportData, live_of
from pinprof.report.sections.pulse import MOMENTS, Beat, Pulse
from pinprof.report.terminal.layout import plain_console
from pinprof.report.terminal.live import VIEWS, screen

RECORDED = sorted(Path("tests/data/cases").glob("*.pinprof*")) or sorted(Path("tests/data").rglob("*.perf.data*"))


@pytest.fixture(scope="module")
def report() -> ReportData:
    return live_of(analyze.analyze(read.read(RECORDED[0])))


def test_bars_are_against_the_highest_moment() -> None:
    assert Beat("CPU", "", (0.0, 1.0, 2.0, 4.0)).bars == "▁▃▅█"
    assert Beat("CPU", "", (0.0, 0.0)).bars == "▁▁"
    assert Beat("CPU", "", ()).bars == ""


def test_the_moments_of_a_pulse_hold_all_of_the_run(report: ReportData) -> None:
    pulse = Pulse.of(report)
    assert pulse is not None
    beat = next(beat for beat in pulse.beats if beat.name == "CPU")
    assert len(beat.moments) == MOMENTS
    event = next(event for event in report.events if event.event.clocks)
    assert sum(beat.moments) == pytest.approx(event.total)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("height", [12, 40])
def test_each_view_fits_its_terminal(report: ReportData, view: str, height: int) -> None:
    lines = screen(report, view, "a title", "keys", plain_console(io.StringIO()), height).split("\n")
    assert len(lines) == height
    assert lines[0] == "a title"
    assert lines[-1] == "keys"
    assert max(map(len, lines)) <= 100


def test_views_differ(report: ReportData) -> None:
    console = plain_console(io.StringIO())
    assert len({screen(report, view, "", "", console, 40) for view in VIEWS}) == len(VIEWS)
