from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.errors import UsageError
from pinprof.base.units import (
    format_bytes,
    format_count,
    format_ns,
    format_ns_about,
    format_ns_range,
    format_rate,
    format_share,
    format_weight,
    parse_bytes,
    parse_duration_ns,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("4096", 4096),
        ("256MiB", 256 << 20),
        ("256M", 256 << 20),
        ("256 mb", 256_000_000),
        ("1.5GiB", 3 << 29),
        ("0.1KB", 100),
        ("10EiB", 10 << 60),
    ],
)
def test_sizes_are_read_in_binary_and_decimal_units(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "0", "0MiB", "-1", "1.5.5M", "12 parsecs", "MiB", "0.1", "1e9"])
def test_sizes_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_bytes(text)
    assert caught.value.remedy


@given(st.text())
def test_any_text_is_a_positive_size_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_bytes(text) >= 1


@pytest.mark.parametrize(("text", "value"), [("250ms", 250_000_000), ("2", 2_000_000_000), ("1.5min", 90_000_000_000)])
def test_durations_are_nanoseconds(text: str, value: int) -> None:
    assert parse_duration_ns(text) == value


@pytest.mark.parametrize("text", ["9" * 20 + "s", "9" * 400, "1." + "9" * 5000 + "s"])
def test_durations_that_no_clock_shows_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration_ns(text)


@pytest.mark.parametrize("text", ["9" * 400, "9" * 5000, "1." + "9" * 5000])
def test_sizes_that_no_memory_has_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bytes(text)


def test_a_duration_without_a_number_is_refused() -> None:
    with pytest.raises(UsageError):
        parse_duration_ns("soon")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ns"),
        (350, "350 ns"),
        (98_240_000, "98.2 ms"),
        (1_236_000_000, "1.24 s"),
        (12_345_000_000_000, "12,345 s"),
    ],
)
def test_times_keep_three_digits(value: int, text: str) -> None:
    assert format_ns(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (256 << 20, "256 MiB"), (3 << 29, "1.5 GiB"), (1 << 63, "8 EiB")]
)
def test_bytes_are_binary(value: int, text: str) -> None:
    assert format_bytes(value) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 0, "–"),
        (0, 5, "0.0 %"),
        (1, 10_000, "<0.1 %"),
        (94, 1000, "9.4 %"),
        (936, 1000, "94 %"),
        (1, 1, "100 %"),
        (-7, 1000, "−0.7 %"),
    ],
)
def test_shares_never_round_a_presence_to_nothing(part: int, whole: int, text: str) -> None:
    assert format_share(part, whole) == text


def test_weights_carry_their_events_unit() -> None:
    assert format_weight(98_240_000, "ns") == "98.2 ms"
    assert format_weight(65536, "faults") == "65,536 faults"
    assert format_weight(65536, "bytes") == "64 KiB"
    assert format_count(262951) == "262,951"


def test_rates_are_decimal_gigabytes_per_second() -> None:
    assert format_rate(256 << 20, 4_846_000) == "55.4 GB/s"
    assert format_rate(1, 0) == "–"


@pytest.mark.parametrize(
    ("ns", "words"),
    [(2_684_000_000, "2.7 s"), (995_500_000, "1 s"), (251_900_000, "250 ms"), (32_100_000, "32 ms"), (0, "0 ns")],
)
def test_predicted_times_have_two_digits(ns: int, words: str) -> None:
    assert format_ns_about(ns) == words


def test_ends_of_a_prediction_share_their_unit() -> None:
    assert format_ns_range(571_000_000, 1_184_000_000, format_ns_about) == "570 ms–1.2 s"
    assert format_ns_range(1_520_000_000, 1_690_000_000, format_ns_about) == "1.5–1.7 s"
