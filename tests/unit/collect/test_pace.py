"""In which steps a recording is thinned: decisions on sizes and times alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pinprof.collect.pace import STEPS, STOPPED, Pace, SizeLimits

SECOND = 10**9
MINUTE = 60 * SECOND
DRAIN = SECOND // 2


def run(pace: Pace, rate: float, seconds: float, written: int = 0, start_ns: int = 0) -> Iterator[tuple[int, int, int]]:
    """Time, step and bytes written, while there are `rate` bytes a second and what a step leaves is written."""
    for now in range(start_ns + DRAIN, start_ns + round(seconds * SECOND) + 1, DRAIN):
        arriving = round(rate * DRAIN / SECOND)
        step = pace.looked(now, written, arriving)
        written += 0 if step >= STOPPED else arriving >> step
        yield now, step, written


def test_without_a_limit_everything_is_kept() -> None:
    assert {step for _, step, _ in run(Pace(SizeLimits(), 0), 1e9, 60)} == {0}
    assert Pace(SizeLimits(), 0).room(MINUTE) is None


def test_half_of_a_size_is_filled_with_everything() -> None:
    steps = {step for _, step, written in run(Pace(SizeLimits(total=10_000_000), 0), 10_000, 499)}
    assert steps == {0}


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e3, 1e5, 1e7, 1e9])
@pytest.mark.parametrize("seconds", [10, 10_000])
def test_a_size_is_never_exceeded_and_steps_never_fall(rate: float, seconds: float) -> None:
    pace, total = Pace(SizeLimits(total=1_000_000), 0), 1_000_000
    *_, (_, _, written) = looked = list(run(pace, rate, seconds))
    assert written <= total
    by_size = [step for _, step, size in looked if size * 4 < total]
    assert rate > 1e5 or set(by_size) <= {0}
    assert not pace.full or written > 0.9 * total


@pytest.mark.slow
def test_a_long_recording_still_has_room_when_it_ends() -> None:
    pace = Pace(SizeLimits(total=2 << 30), 0)
    # A megabyte a second fills two GiB in 34 minutes; this is a day.
    last = 0
    for _, step, size in run(pace, 1e6, 86_400):
        assert step >= last
        last = step
        assert size < 2 << 30
    assert 0 < last < STEPS


@pytest.mark.parametrize("rate", [5_000, 20_000, 100_000, 3_000_000])
def test_a_size_a_minute_is_kept_at_the_end_of_every_minute(rate: float) -> None:
    pace = Pace(SizeLimits(per_minute=600_000), 0)
    for now, _, written in run(pace, rate, 600):
        assert written <= max(600_000, 600_000 * now / MINUTE)
    assert written >= min(rate * 600, 6_000_000) * 0.4, "and used"


def test_what_was_thinned_comes_back_when_the_program_is_quiet() -> None:
    pace = Pace(SizeLimits(per_minute=600_000), 0)
    *_, (now, step, written) = run(pace, 200_000, 120)
    assert step >= 3
    *_, (_, step, _) = run(pace, 1_000, 240, written, now)
    assert step == 0


def test_a_flood_finds_its_step_at_once() -> None:
    pace = Pace(SizeLimits(total=300_000), 0)
    step = pace.looked(DRAIN, 0, 20_000_000)
    assert 20_000_000 >> step < 300_000 / 2
    assert pace.looked(2 * DRAIN, 300_000, 1000) == STOPPED
    assert pace.full


def test_a_share_is_a_part_of_either_limit() -> None:
    assert SizeLimits(1000, 100).share(0.9) == SizeLimits(900, 90)
    assert SizeLimits().share(0.5).allowed(MINUTE) is None
