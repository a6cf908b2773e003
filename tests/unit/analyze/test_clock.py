"""Joining two recordings of one run: by shared ranges, by UTC, by the system clock; and what must not join."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze.activity.clock import AGREEMENT_NS, join, match_clocks, match_ranges
from pinprof.base.errors import CaptureError
from pinprof.data.model import Capture, RangeTable
from tests.support.activities import MS, SECOND, US, Call, export, kernel, traced
from tests.support.h200 import analysis
from tests.support.stacks import Range, Sample, capture

OFFSET = 75_716_769_000
UTC_OFFSET = 1_795_228_538_866_656_644


def ranges_of(*entries: Range) -> RangeTable:
    return capture([], entries).ranges


def iterations(count: int, period: int = 250 * MS, offset: int = 0, jitter: int = 0) -> list[Range]:
    noise = np.random.default_rng(7).integers(-jitter, jitter + 1, count) if jitter else np.zeros(count, np.int64)
    starts = (np.arange(count) * period + offset + noise).tolist()
    return [Range("iteration", start, start + 100 * MS) for start in starts]


def without_ranges(data: Capture) -> Capture:
    return replace(data, ranges=ranges_of())


@pytest.mark.slow
def test_shared_ranges_give_the_offset_to_microseconds() -> None:
    match = match_clocks(analysis("both").capture, export("both").capture)
    assert match is not None
    assert match.by == "35 shared ranges"
    assert match.uncertainty_ns < 10 * US
    distance = np.sort(analysis("both").capture.ranges.start_ns) - np.sort(export("both").capture.ranges.start_ns)
    assert match.offset_ns == pytest.approx(np.median(distance), abs=US)


def test_utc_gives_the_same_offset_without_any_range() -> None:
    by_ranges = match_clocks(analysis("both").capture, export("both").capture)
    by_utc = match_clocks(without_ranges(analysis("both").capture), without_ranges(export("both").capture))
    assert by_ranges is not None
    assert by_utc is not None
    assert by_utc.by == "UTC"
    assert abs(by_utc.offset_ns - by_ranges.offset_ns) <= by_utc.uncertainty_ns


def test_perf_data_tells_the_utc_of_its_clock() -> None:
    assert analysis("both").capture.utc_offset_ns == UTC_OFFSET


def test_the_joined_capture_has_samples_and_activity_on_one_clock() -> None:
    perf, nsys = analysis("both").capture, export("both").capture
    found = join(perf, nsys)
    assert found.kernel_chains
    assert not nsys.kernel_chains
    assert found.activity is not None
    assert nsys.activity is not None
    offset = found.clock.offset_ns
    assert (found.activity.calls.start_ns == nsys.activity.calls.start_ns + offset).all()
    assert (found.activity.gpu_ops.end_ns == nsys.activity.gpu_ops.end_ns + offset).all()
    assert (found.ranges.start_ns == nsys.ranges.start_ns + offset).all()
    assert found.clock.source == "monotonic, nsys joined by 35 shared ranges"
    assert 0 < found.clock.uncertainty_ns < 10 * US
    inside = (found.samples.time_ns >= found.ranges.start_ns[0]) & (found.samples.time_ns < found.ranges.end_ns[0])
    assert inside.any()


def test_samples_of_the_tools_own_processes_are_left_out_and_counted() -> None:
    perf, nsys = analysis("both").capture, export("both").capture
    assert nsys.activity is not None
    found = join(perf, nsys)
    (pid,) = np.unique(nsys.activity.calls.pid).tolist()
    assert set(found.samples.pid.tolist()) == {pid}
    assert len(found.samples) + found.losses.other_processes == len(perf.samples) + perf.losses.other_processes
    assert "nsys" not in {name for (owner, _), name in found.threads.items() if owner != pid}
    assert found.manifest.command == nsys.manifest.command == ("/tmp/flame", "pinned", "256", "5")


def test_recordings_of_two_runs_do_not_join() -> None:
    nsys = without_ranges(export("pinned").capture)
    with pytest.raises(CaptureError, match="have no common clock") as error:
        join(without_ranges(analysis("both").capture), nsys)
    assert error.value.slug == "clock-join"


def test_a_recording_without_activity_does_not_join() -> None:
    with pytest.raises(CaptureError, match="no CUDA activity"):
        join(analysis("both").capture, analysis("both").capture)


@pytest.mark.parametrize(("moved", "joins"), [(0, True), (10_000 * SECOND, False)])
def test_the_system_clock_counts_where_it_places_activity_in_the_sampled_time(moved: int, joins: bool) -> None:
    perf = capture([Sample(["main@/app"], time_ns=OFFSET + at * MS) for at in range(100)])
    nsys = traced([Call("cudaMalloc", 10 * MS, 20 * MS)])
    assert nsys.activity is not None
    nsys = replace(nsys, activity=replace(nsys.activity, start_system_ns=OFFSET + moved))
    match = match_clocks(perf, nsys)
    assert (match is not None) == joins
    if match:
        assert (match.offset_ns, match.by) == (OFFSET, "the system clock")


def test_missing_ranges_on_either_side_do_no_harm() -> None:
    # No program repeats itself to a tenth of a millisecond; both recorders see the same irregular starts.
    perf, nsys = iterations(20, offset=OFFSET, jitter=2 * MS), iterations(20, jitter=2 * MS)
    match = match_ranges(ranges_of(*perf[3:]), ranges_of(*nsys[:17]))
    assert match is not None
    assert (match.offset_ns, match.by) == (OFFSET, "14 shared ranges")


def test_utc_tells_which_iterations_of_a_regular_program_are_the_same() -> None:
    perf, nsys = ranges_of(*iterations(20, offset=OFFSET)[3:]), ranges_of(*iterations(20)[:17])
    ambiguous = match_ranges(perf, nsys)
    assert ambiguous is not None
    assert ambiguous.offset_ns != OFFSET
    match = match_ranges(perf, nsys, OFFSET + 2 * US)
    assert match is not None
    assert (match.offset_ns, match.by) == (OFFSET, "14 shared ranges")
    assert match_ranges(perf, nsys, OFFSET + 100 * MS) is None


def test_outliers_are_rejected_and_do_not_widen_the_uncertainty() -> None:
    perf = iterations(20, offset=OFFSET)
    late = [replace(perf[5], start_ns=perf[5].start_ns + 10 * AGREEMENT_NS), *perf[:5], *perf[6:]]
    match = match_ranges(ranges_of(*late), ranges_of(*iterations(20)))
    assert match is not None
    assert (match.offset_ns, match.uncertainty_ns, match.by) == (OFFSET, 1, "19 shared ranges")


def test_the_spread_of_starts_and_the_distance_of_ends_are_the_uncertainty() -> None:
    perf = iterations(200, offset=OFFSET, jitter=5 * US)
    match = match_ranges(ranges_of(*perf), ranges_of(*iterations(200)))
    assert match is not None
    assert 4 * US < match.uncertainty_ns <= 5 * US
    ends_late = [replace(entry, end_ns=entry.end_ns + 40 * US) for entry in iterations(20, offset=OFFSET)]
    match = match_ranges(ranges_of(*ends_late), ranges_of(*iterations(20)))
    assert match is not None
    assert match.uncertainty_ns == 40 * US


@pytest.mark.parametrize(
    ("perf", "nsys"),
    [
        ([], []),
        ([Range("a", 0, 10)], [Range("b", 0, 10)]),
        ([Range("a", 0, 10)], [Range("a", 5, 10)]),
        (iterations(1), iterations(1)),
        ([Range("a", at**2 * SECOND, at**2 * SECOND + 1) for at in range(20)], iterations(20)),
        ([Range("iteration", at**3 * SECOND, at**3 * SECOND + 1) for at in range(20)], iterations(20, 7 * SECOND)),
    ],
)
def test_ranges_that_do_not_agree_give_no_clock(perf: list[Range], nsys: list[Range]) -> None:
    assert match_ranges(ranges_of(*perf), ranges_of(*nsys)) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10**12)), min_size=3, max_size=40, unique=True),
       st.integers(-(10**15), 10**15))  # fmt: skip
def test_any_run_shifted_by_any_offset_is_found_again(starts: list[tuple[str, int]], offset: int) -> None:
    nsys = [Range(name, start, start + 10) for name, start in starts]
    perf = [replace(entry, start_ns=entry.start_ns + offset, end_ns=entry.end_ns + offset) for entry in nsys]
    match = match_ranges(ranges_of(*perf), ranges_of(*nsys))
    assert match is not None
    assert abs(match.offset_ns - offset) <= AGREEMENT_NS


def test_shifting_moves_every_time_and_nothing_else() -> None:
    before = export("uvm").capture.activity
    assert before is not None
    after = before.each(lambda table: table.moved(1000))
    for table in ("calls", "gpu_ops", "faults", "memory", "os_calls", "sched", "marks"):
        old, new = getattr(before, table), getattr(after, table)
        for column, values in vars(old).items():
            expected: Any = values + 1000 if column in ("start_ns", "end_ns", "time_ns") else values
            assert np.array_equal(expected, getattr(new, column)), (table, column)


def test_ranges_beside_perf_stay_where_nsys_has_fewer() -> None:
    perf = capture(
        [Sample(["main@/app"], time_ns=OFFSET + at * MS) for at in range(1000)], iterations(10, offset=OFFSET)
    )
    nsys = traced([Call("cudaMalloc", 10 * MS, 20 * MS)], [kernel(30 * MS, 40 * MS)], ranges=iterations(4))
    found = join(perf, nsys)
    assert (len(found.ranges), found.clock.offset_ns) == (10, OFFSET)
    assert found.ranges is perf.ranges
