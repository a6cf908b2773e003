"""Costs of any size come from the first source that knows, exact where they were measured, and never fall with size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.bench.measures import SAME, TRIALS
from pinprof.data import rate_book
from pinprof.data.rate_book import RateBook, RateSource, interpolated
from pinprof.data.rates import NEED_NO_GPU, MeasuredBy, Rate, Rates
from tests.support.small_capture import small_capture

MIB, GIB = 1 << 20, 1 << 30
CAPTURE = small_capture([], [], [])


def flat(measure: str, size: int, ns: float) -> Rate:
    return Rate(measure, size, ns, ns, ns)


def rates_of(*rows: Rate, measured_by: MeasuredBy = "bench", backend: str = "cuda") -> Rates:
    return Rates({}, backend, "2026-01-02T03:04:05+00:00", rows, measured_by)


@st.composite
def growing(draw: st.DrawFn) -> list[tuple[int, float]]:
    """Sizes and times that both ascend."""
    sizes = draw(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=6, unique=True))
    times = draw(st.lists(st.floats(0, 1e15), min_size=len(sizes), max_size=len(sizes)))
    return list(zip(sorted(sizes), sorted(times), strict=True))


@given(growing(), st.lists(st.integers(0, 1 << 42), min_size=2, max_size=2))
def test_costs_do_not_fall_with_size_and_are_never_negative(points: list[tuple[int, float]], sizes: list[int]) -> None:
    small, large = (interpolated(points, size) for size in sorted(sizes))
    assert 0 <= small <= large * (1 + 1e-9) + 1e-9


@given(growing())
def test_costs_are_exact_where_they_were_measured(points: list[tuple[int, float]]) -> None:
    assert [interpolated(points, size) for size, _ in points] == pytest.approx([ns for _, ns in points], rel=1e-9)


def test_a_fixed_part_remains_below_and_a_price_per_byte_counts_above() -> None:
    points = [(MIB, 30_000.0), (2 * MIB, 50_000.0)]
    assert interpolated(points, 0) == pytest.approx(10_000)
    assert interpolated(points, 4 * MIB) == pytest.approx(90_000)


def test_between_sizes_the_line_is_straight_on_logarithmic_axes() -> None:
    assert interpolated([(100, 10.0), (10_000, 1_000.0)], 1_000) == pytest.approx(100)


def test_sources_answer_in_their_order() -> None:
    run = [flat("pin.alloc", MIB, 2.0)]
    bench = replace(CAPTURE, rates=rates_of(flat("pin.alloc", MIB, 1.0)))
    calibrated = replace(CAPTURE, rates=rates_of(flat("pin.alloc", MIB, 3.0), measured_by="calibration"))
    asked = [
        RateBook.of(capture, shown).cost("pin.alloc", MIB)
        for capture, shown in ((bench, run), (calibrated, run), (calibrated, []), (CAPTURE, []))
    ]
    assert [answer.source for answer in asked if answer] == [
        rate_book.BENCH, rate_book.RUN, rate_book.CALIBRATION, rate_book.REFERENCE
    ]  # fmt: skip


def test_a_run_is_asked_near_its_sizes_only() -> None:
    book = RateBook(
        [
            RateSource("run", (flat("h2d.pinned", MIB, 1.0),), 0.2, 4.0),
            RateSource("other", (flat("h2d.pinned", 64, 1.0),), 0.5),
        ]
    )
    found = [book.cost("h2d.pinned", size) for size in (MIB // 8, MIB // 4, 4 * MIB, 5 * MIB)]
    assert [answer.source for answer in found if answer] == ["other", "run", "run", "other"]
    alone = RateBook([RateSource("run", (flat("h2d.pinned", MIB, 1.0),), 0.2, 4.0)])
    assert (answer := alone.cost("h2d.pinned", GIB))
    assert answer.ns == 1024


@pytest.mark.parametrize(("spread", "low", "high"), [(0.0, 80, 120), (0.5, 50, 150)])
def test_the_error_is_that_of_the_source_at_least(spread: float, low: float, high: float) -> None:
    rate = Rate("pin.alloc", MIB, 100.0, 100 * (1 - spread), 100 * (1 + spread))
    answer = RateSource("calibration", (rate,), 0.2).estimate("pin.alloc", MIB)
    assert answer is not None
    assert (answer.low_ns, answer.ns, answer.high_ns) == pytest.approx((low, 100, high))


def test_the_cheapest_number_of_threads_answers_for_all() -> None:
    book = RateBook([RateSource("x", (flat("prefault.t2", MIB, 5.0), flat("prefault.t8", MIB, 3.0)), 0.1)])
    assert (answer := book.cost("prefault.tN", MIB))
    assert (answer.measure, answer.ns) == ("prefault.t8", 3.0)


def test_a_fault_costs_its_share_of_what_they_create() -> None:
    book = RateBook([RateSource("x", (flat("touch.first", MIB, 2560.0), flat("touch.huge", 4 * MIB, 100.0)), 0.1)])
    found = [book.cost("fault.4k", MIB), book.cost("fault.4k", 0), book.cost("fault.huge", 4 * MIB)]
    assert [answer.ns for answer in found if answer] == pytest.approx([10, 10, 50])


def test_what_has_one_size_costs_the_same_at_any() -> None:
    book = RateBook([RateSource("x", (flat("h2d.small", 0, 7.0),), 0.1)])
    assert [answer.ns for size in (0, 4096, GIB) if (answer := book.cost("h2d.small", size))] == [7.0, 7.0, 7.0]


def test_what_the_host_backend_emulates_is_not_taken_for_cuda() -> None:
    found = rates_of(flat("pin.alloc", MIB, 1.0), flat("touch.first", MIB, 1.0), backend="host")
    book = RateBook.of(replace(CAPTURE, rates=found))
    answers = [book.cost(measure, MIB) for measure in ("pin.alloc", "touch.first")]
    assert [answer.source for answer in answers if answer] == [rate_book.REFERENCE, rate_book.BENCH]
    assert {name for name, trial in TRIALS.items() if trial.emulation == SAME} == NEED_NO_GPU


def test_nobody_knows_a_measure_that_there_is_not() -> None:
    assert RateBook.of(CAPTURE).cost("no.such", MIB) is None
    assert RateBook([]).cost("prefault.tN", MIB) is None


def test_the_reference_says_where_it_comes_from() -> None:
    found = rate_book.reference()
    assert found.backend == "cuda"
    assert "H200" in str(found.machine)
    assert RateBook.of(CAPTURE).cost("pin.alloc", GIB) is not None


def test_a_size_that_is_there_twice_has_its_last_rate_and_one_that_took_no_time_costs_nothing() -> None:
    twice = rates_of(flat("h2d.pinned", MIB, 5), flat("h2d.pinned", MIB, 7), flat("d2h.pinned", MIB, 0))
    book = RateBook.of(replace(CAPTURE, rates=twice))
    for size in (1, MIB, GIB):
        cost, nothing = book.cost("h2d.pinned", size), book.cost("d2h.pinned", size)
        assert cost is not None
        assert cost.ns == pytest.approx(7 * size / MIB)
        assert nothing is not None
        assert nothing.ns == nothing.low_ns == nothing.high_ns == 0
