"""Managed memory that is fetched page by page, by the CPU and by the GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pinprof.analyze.opportunities import managed
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.data.activity import MigrationCause
from tests.support.activities import migration, traced
from tests.support.scenes import MIB, MOVED, MS, POLLS, UVM, Traced, prices, ran, recorded, scene
from tests.support.stacks import Sample

ALLOCATED = Traced("cudaMallocManaged", 0, 0.5, 400 * MIB)


def read_back(*samples: list[Sample]) -> list[Candidate]:
    return list(managed.read_back(scene(recorded([one for part in samples for one in part]))))


def test_pages_that_the_cpu_fetches_are_prefetched() -> None:
    (found,) = read_back(ran(0, 64, MOVED), ran(64, 200))
    assert found.cure.id == "prefetch"
    # 64 ms at 200 µs a MiB are 320 MiB, which come back in 9.6 ms by prefetching.
    assert found.bytes == 320 * MIB
    assert found.cost_ns == 64 * MS
    assert found.saving.likely_ns == pytest.approx(54.4 * MS)


def test_way_back_to_the_gpu_counts_as_far_as_the_thread_waits() -> None:
    (found,) = read_back(ran(0, 64, MOVED), ran(64, 84, POLLS), ran(84, 200))
    # By faults 320 MiB go back in 32 ms, of which 20 ms are waited for; prefetched, both ways take 16 ms.
    assert found.cost_ns == 84 * MS
    assert found.saving.likely_ns == pytest.approx(68 * MS)
    (longer,) = read_back(ran(0, 64, MOVED), ran(64, 164, POLLS), ran(164, 200))
    assert longer.cost_ns == 96 * MS


def test_each_place_is_prefetched_and_waits_count_once() -> None:
    other = ("helper@/app", *MOVED[1:])
    found = read_back(ran(0, 64, MOVED), ran(64, 128, other), ran(128, 168, POLLS), ran(168, 300))
    assert sorted(one.site.place for one in found) == ["helper", "main"]
    assert sum(one.cost_ns for one in found) == (128 + 40) * MS


def test_first_touches_move_nothing() -> None:
    assert read_back(ran(0, 64, UVM), ran(64, 200)) == []
    assert read_back(ran(0, 64, UVM), ran(64, 67, MOVED), ran(67, 200)) == []
    assert len(read_back(ran(0, 60, UVM), ran(60, 64, MOVED), ran(64, 200))) == 1


def first_touch(calls: list[Traced], filled: int = 50, waits: int = 40) -> list[Candidate]:
    samples = ran(0, filled, UVM) + ran(filled, filled + waits, POLLS) + ran(filled + waits, 200)
    return list(managed.first_touch_by_gpu(scene(recorded(samples, calls))))


def test_memory_that_the_cpu_fills_is_prefetched_to_the_gpu() -> None:
    (found,) = first_touch([ALLOCATED])
    # 50 ms of first touches are 200 MiB: 20 ms by faults of the GPU, 4 ms prefetched.
    assert found.bytes == 200 * MIB
    assert found.cost_ns == 20 * MS
    assert found.saving.likely_ns == pytest.approx(16 * MS)
    assert found.saving.low_ns < found.saving.likely_ns < found.saving.high_ns


def test_wait_and_allocation_are_the_bounds() -> None:
    (found,) = first_touch([ALLOCATED], waits=12)
    assert found.cost_ns == 12 * MS
    (small,) = first_touch([Traced("cudaMallocManaged", 0, 0.5, 100 * MIB)])
    assert small.bytes == 100 * MIB


def test_what_is_prefetched_or_never_filled_or_never_waited_for_is_well() -> None:
    assert first_touch([ALLOCATED, Traced("cudaMemPrefetchAsync", 51, 52)]) == []
    assert first_touch([ALLOCATED, Traced("cudaMemAdvise", 51, 52)]) == []
    assert first_touch([ALLOCATED], filled=0) == []
    assert first_touch([ALLOCATED], waits=0) == []
    assert first_touch([]) == []


@pytest.mark.parametrize(("fetched", "claimed"), [(0, 0), (100, 100), (400, 200)])
def test_what_the_gpu_was_seen_to_fetch_bounds_what_is_claimed(fetched: int, claimed: int) -> None:
    made = recorded(ran(0, 50, UVM) + ran(50, 90, POLLS) + ran(90, 200), [ALLOCATED])
    moved = traced((), [migration(MS, 2 * MS, fetched * MIB, MigrationCause.FAULT)] if fetched else []).activity
    assert made.activity is not None
    assert moved is not None
    known = replace(made.activity, gpu_ops=moved.gpu_ops, recorded=made.activity.recorded | {"migrations"})
    found = [one.bytes for one in managed.first_touch_by_gpu(scene(replace(made, activity=known)))]
    assert found == ([claimed * MIB] if claimed else [])


def test_machine_without_rates_of_managed_memory_gets_no_promise() -> None:
    samples = ran(0, 64, MOVED) + ran(64, 100, POLLS)
    for missing in ("uvm_cpu_readback", "uvm_prefetch"):
        assert list(managed.read_back(scene(recorded(samples), prices(**{missing: None})))) == []
