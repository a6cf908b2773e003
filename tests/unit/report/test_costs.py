"""Costs on the page and in the terminal: the same words, every figure from the analysis, hostile names escaped."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from pinprof.analyze.costs.results import Counterfactual, Estimate, PinningCurve, PinningTime
from pinprof.report.data import ReportData
from pinprof.report.export.document import to_json
from pinprof.report.page import html
from pinprof.report.section import Section
from pinprof.report.sections.counterfactual import OtherMemory
from pinprof.report.sections.pinning import Pinning
from pinprof.report.terminal.layout import tidy
from tests.support.sample_report import sample_report

MS = 1_000_000
UTC = "2026-01-02T03:04:05+00:00"
MODELLED = Estimate("pinned", "cudaMallocHost memory", 90 * MS, 110 * MS, 120 * MS, 0, "")
POOLED = Estimate("pooled", "pinned memory that is reused", 20 * MS, 30 * MS, 40 * MS, 50 * MS, "")
PAGEABLE = Estimate("pageable", "pageable memory", 80 * MS, 125 * MS, 160 * MS, 0, "It is warm.")
LACKING = (("staged memory", ("h2d.staged",)),)
TOLD = Counterfactual("pinned", "cudaMallocHost memory", 100 * MS, MODELLED, (POOLED, PAGEABLE), LACKING, 0.75, UTC)
CURVE = PinningCurve(
    1 << 29,
    (PinningTime(1, 5, 80 * MS, 75 * MS, 90 * MS), PinningTime(8, 5, 20 * MS, 19 * MS, 30 * MS)),
    PinningTime(0, 5, 200 * MS, 190 * MS, 220 * MS),
    "cudaMallocHost",
)


def costs(told: Counterfactual | None, curve: PinningCurve | None) -> dict[str, Section]:
    made = (Pinning(curve) if curve else None, OtherMemory(told) if told else None)
    return {section.key: section for section in made if section}


def report(told: Counterfactual | None = TOLD, curve: PinningCurve | None = CURVE) -> ReportData:
    data = sample_report()
    return replace(data, sections={**data.sections, **costs(told, curve)})


def text(told: Counterfactual | None = TOLD, curve: PinningCurve | None = CURVE) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=100, no_color=True, highlight=False, markup=False)
    with tidy(console):
        for section in costs(told, curve).values():
            for part in section.to_text(sample_report(), console):
                console.print(part)
    return stream.getvalue()


def test_the_largest_saving_is_named_with_its_error_and_what_is_paid_once() -> None:
    sentence = OtherMemory(TOLD).saving
    assert sentence == (
        "With pinned memory that is reused, an iteration would take 30 ms (20 ms to 40 ms) instead of 100 ms: "
        "70 ms less, after 50 ms once."
    )
    assert html.prose(sentence) in html.render(report())
    assert " ".join(sentence.split()) in " ".join(text().split())


def test_a_saving_within_its_error_is_none() -> None:
    close = replace(TOLD, estimates=(replace(POOLED, high_ns=101 * MS),))
    assert OtherMemory(close).saving.startswith("No other memory type would save more than the error")


def test_without_rates_one_line_says_how_to_get_them() -> None:
    bare = Counterfactual("pinned", "cudaMallocHost memory", 100 * MS, None, (), (), 1.0, "")
    page, shown = html.render(report(bare, None)), text(bare, None)
    assert "<code>pinprof bench</code>" in page
    assert "`pinprof bench`" in shown
    assert 'class="modes"' not in page
    assert OtherMemory(bare).notes == []


def test_the_measured_run_stands_among_its_alternatives_in_the_order_of_cost() -> None:
    rows = OtherMemory(TOLD).rows
    assert [row.estimate.title for row in rows] == [POOLED.title, TOLD.title, PAGEABLE.title]
    assert [row.measured for row in rows] == [False, True, False]
    assert rows[0].bar == pytest.approx(100 * 30 / 160)
    assert rows[0].whisker == (pytest.approx(100 * 20 / 160), pytest.approx(100 * 20 / 160))
    assert OtherMemory(TOLD).difference(rows[0]) == "−70 ms (70 % less)"
    assert OtherMemory(TOLD).difference(rows[2]) == "+25 ms (25 % more)"


def test_notes_say_what_the_figures_rest_on() -> None:
    notes = "\n".join(OtherMemory(TOLD).notes)
    for told in (
        "2026-01-02 03:04 UTC",
        "110 ms",
        "0.75 times",
        "Pageable memory: It is warm.",
        "Estimates need measurements of h2d.staged: staged memory.",
    ):
        assert told in notes


def test_without_a_single_estimate_nothing_is_claimed_of_other_kinds() -> None:
    bare = replace(TOLD, estimates=(), lacking=(("one", ("a.b",)), ("two", ("a.b",)), ("three", ("c.d",))))
    assert "do not cover other memory types" in OtherMemory(bare).saving
    assert OtherMemory(bare).notes[-2:] == [
        "Estimates need measurements of a.b: one; two.",
        "Estimates need measurements of c.d: three.",
    ]
    assert "one iteration" not in str(text(bare))


def test_the_curve_says_how_much_faster_and_draws_every_point() -> None:
    assert CURVE.sentence() == (
        "prefault with 8 threads on huge pages: 40 ms/GiB from the first call to usable pinned memory; cudaMallocHost: "
        "400 ms/GiB, 10.0 times as long."
    )
    drawn = Pinning(CURVE).drawing
    assert [mark.label for mark in drawn.marks] == ["1", "8"]
    assert drawn.marks[0].y > drawn.baseline_y, "less time is further down"
    assert drawn.ticks[-1][1] == "1 s" or float(drawn.ticks[-1][1].split()[0]) >= 440
    page = html.render(report(None))
    assert page.count("<circle") == 2
    assert CURVE.sentence() in " ".join(text(None).split())


def test_names_from_a_capture_are_escaped() -> None:
    hostile = replace(CURVE, call="<script>alert(1)</script>\x1b[31m")
    page = html.render(report(replace(TOLD, title="<img src=x>"), hostile))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\x1b" not in page
    assert "\x1b" not in text(curve=hostile)


def test_json_has_the_figures_and_null_where_there_are_none() -> None:
    data = to_json(report())
    assert data["counterfactual"]["estimates"][0]["likely_ns"] == 30 * MS
    assert data["counterfactual"]["rates_measured_utc"] == UTC
    assert data["pinning"]["points"][1]["threads"] == 8
    bare = to_json(report(None, None))
    assert (bare["counterfactual"], bare["pinning"]) == (None, None)
