"""The page's table of lines: shown for the chosen event, and a way into the flamegraph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pinprof.analyze.lines import SourceLine
from pinprof.report.gather import ReportData
from pinprof.report.sections.lines import LinesSection, LineTable
from tests.support.sample_report import sample_report

pytestmark = pytest.mark.browser


def report(place: str = "app/train.py", function: str = "train") -> ReportData:
    leaves = {"pin.faultin": 500_000_000, "user.app": 100_000_000}
    line = SourceLine(
        place,
        88,
        function,
        False,
        600,
        600_000_000,
        leaves,
        "torch/_tensor.py:530",
        400_000_000,
        {"pt_data_pin": 600_000_000},
    )
    table = LineTable("cpu-clock/freq=999/", "ns", 1_000_000_000, 700_000_000, 0, True, (line,), 3, 100_000_000)
    data = sample_report("train (train.py:88)")
    return replace(data, sections={**data.sections, "lines": LinesSection((table,))})


def test_a_line_is_found_in_the_flamegraph(open_page: Callable[..., Any]) -> None:
    page = open_page(report()).page
    row = page.locator("#lines tbody tr").first
    assert row.inner_text().split("\n")[0].startswith("app/train.py:88")
    for text in ("train", "in torch/_tensor.py:530", "pt_data_pin", "600 ms", "60 %", "pin.faultin 83 %"):
        assert text in row.inner_text()
    assert "30 %" in page.locator("#lines tbody tr").last.inner_text(), "without a line"
    button = page.get_by_role("button", name="app/train.py:88")
    button.click()
    assert page.locator("#flame-search").input_value() == "(train.py:88)"
    assert button.get_attribute("aria-pressed") == "true"
    page.wait_for_function("document.getElementById('flame-match').textContent.includes('%')")
    button.click()
    assert page.locator("#flame-search").input_value() == ""
    assert button.get_attribute("aria-pressed") == "false"


def test_another_event_shows_its_own_table(open_page: Callable[..., Any]) -> None:
    page = open_page(report()).page
    page.locator("#events [role=tab]").nth(1).click()
    assert page.get_by_role("button", name="app/train.py:88").is_hidden()
    assert page.locator("#lines").get_by_text("No samples of page-faults/period=1/ with a known line.").is_visible()


def test_names_of_files_and_functions_are_only_text(open_page: Callable[..., Any]) -> None:
    page = open_page(report('"><img src=x onerror=alert(1)>.py', "<script>alert(2)</script>")).page
    assert page.locator("#lines img, #lines script").count() == 0
    assert "<script>alert(2)</script>" in page.locator("#lines tbody tr").first.inner_text()
