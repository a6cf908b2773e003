"""Memory of CUDA that is made repeatedly, pages that pins create, pins that hold others up, late contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinprof.analyze.opportunities import allocating, blocking
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.base.units import format_bytes
from pinprof.data.activity import CallOverhead, GivenUp, MemoryKind, MemoryOperation, MemoryUsageTable
from tests.support.scenes import (
    CREATED,
    MAIN,
    MIB,
    MS,
    PINNED,
    Traced,
    prices,
    ran,
    recorded,
    scene,
    to_gpu,
)
from tests.support.stacks import Range

BASE = 1 << 40
WAITS = (
    "main@/app",
    "cudaMemcpy@/usr/lib/libcuda.so.1",
    "__x64_sys_ioctl",
    "rm_ioctl[nvidia]",
    "down_read",
    "schedule",
)


def loop(
    count: int, opens: str = "cudaMallocHost", closes: str = "cudaFreeHost", size: int = 8 * MIB, site: int = 0
) -> list[Traced]:
    """Each taken for 4 ms and given back in 1 ms, one after the other, every 6 ms."""
    return [
        call
        for start in range(0, 6 * count, 6)
        for call in (Traced(opens, start, start + 4, size, site), Traced(closes, start + 4, start + 5, -1, site))
    ]


def pairs(calls: Sequence[Traced], overhead: CallOverhead | None = None, length: int = 100) -> list[Candidate]:
    return list(allocating.pairs(scene(recorded(ran(0, length, PINNED), calls, overhead=overhead))))


@pytest.mark.parametrize(
    ("opens", "closes", "cure"),
    [
        ("cudaMallocHost", "cudaFreeHost", "pool-pinned"),
        ("cuMemHostAlloc", "cuMemFreeHost", "pool-pinned"),
        ("cudaHostRegister", "cudaHostUnregister", "register-once"),
        ("cudaMalloc", "cudaFree", "pool-device"),
        ("cudaMallocManaged", "cudaFree", "pool-managed"),
    ],
)
def test_pool_keeps_what_is_alive_at_once_and_saves_the_rest(opens: str, closes: str, cure: str) -> None:
    (found,) = pairs(loop(10, opens, closes))
    assert found.cure.id == cure
    assert (found.count, found.bytes, found.cost_ns) == (10, 80 * MIB, 50 * MS)
    # One of ten stays: a tenth of 40 ms of taking. A tenth of 50 ms is how much runs differ.
    assert found.remains.ns == pytest.approx(4 * MS)
    assert found.saving.likely_ns == 46 * MS
    assert (found.saving.low_ns, found.saving.high_ns) == (41 * MS, 50 * MS)
    assert found.site.place == "app.cu:11"


def test_pool_of_all_saves_their_freeing_alone() -> None:
    calls = [Traced("cudaMallocHost", 4 * n, 4 * n + 4, MIB) for n in range(5)]
    calls += [Traced("cudaFreeHost", 20 + 2 * n, 22 + 2 * n) for n in range(5)]
    (found,) = pairs(calls)
    assert found.cost_ns == 30 * MS
    assert found.saving.likely_ns == 10 * MS


def test_what_tracing_adds_to_each_call_is_no_cost() -> None:
    (found,) = pairs(loop(10), CallOverhead(MS // 2, MS))
    assert found.cost_ns == 40 * MS


def test_two_pairs_are_no_loop_and_what_is_kept_is_none_either() -> None:
    assert pairs(loop(2)) == []
    assert len(pairs(loop(3))) == 1
    kept = [call for call in loop(10) if call.name == "cudaMallocHost" or call.start < 4 * 6]
    assert pairs(kept) == []


def test_sites_and_sizes_are_loops_of_their_own() -> None:
    other = [replace(call, start=call.start + 60, end=call.end + 60, site=1) for call in loop(5)]
    larger = [
        replace(call, start=call.start + 90, end=call.end + 90, size=call.size * 16 if call.size > 0 else -1)
        for call in loop(5)
    ]
    found = pairs([*loop(5), *other, *larger], length=130)
    assert sorted((one.site.place, one.bytes) for one in found) == [
        ("app.cu:11", 40 * MIB), ("app.cu:11", 640 * MIB), ("app.cu:40", 40 * MIB),
    ]  # fmt: skip


def test_each_free_is_a_cost_of_one_place_also_where_addresses_are_unknown() -> None:
    calls = [
        call
        for at in range(0, 60, 12)
        for call in (
            Traced("cudaMalloc", at, at + 4, 8 * MIB, 0), Traced("cudaMalloc", at + 4, at + 8, 8 * MIB, 1),
            Traced("cudaFree", at + 8, at + 11), Traced("cudaFree", at + 11, at + 12),
        )
    ]  # fmt: skip
    assert {one.site.place: one.cost_ns // MS for one in pairs(calls)} == {"app.cu:11": 25, "app.cu:40": 35}


def creation(size: int, created: int = 40) -> list[Candidate]:
    samples = ran(0, created, CREATED) + ran(created, 40, PINNED) + ran(40, 100)
    return list(allocating.page_creation(scene(recorded(samples, [Traced("cudaMallocHost", 0, 40, size)]))))


def test_large_pin_that_creates_its_pages_is_touched_by_threads_first() -> None:
    (found,) = creation(128 * MIB)
    assert found.cure.id == "touch-then-register"
    # 128 MiB at 100 µs each.
    assert (found.cost_ns, found.remains.ns) == (40 * MS, pytest.approx(12.8 * MS))
    assert found.saving.likely_ns == pytest.approx(27.2 * MS)


def test_small_pins_and_pages_that_exist_are_left_alone() -> None:
    assert creation(allocating.LEAST_PIN_BYTES - 1) == []
    assert len(creation(allocating.LEAST_PIN_BYTES)) == 1
    assert creation(128 * MIB, created=11) == []
    assert len(creation(128 * MIB, created=13)) == 1


@pytest.mark.parametrize(
    ("name", "pages", "created", "found"),
    [
        ("cudaHostRegister", 1.0, 5, True),  # few samples, but each page faults
        ("cudaHostRegister", 0.6, 5, True),
        ("cudaHostRegister", 0.0, 40, False),  # samples of other lines' pages
        ("cudaHostRegister", 0.01, 40, True),  # huge pages
        ("cudaHostRegister", 0.01, 5, False),
        ("cudaMallocHost", 0.0, 40, True),  # the driver's own pages
    ],
)
def test_page_faults_say_whether_a_pin_creates_its_pages(name: str, pages: float, created: int, found: bool) -> None:
    samples = ran(0, created, CREATED) + ran(created, 40, PINNED) + ran(40, 100)
    made = recorded(samples, [Traced(name, 0, 40, 128 * MIB)])
    assert made.activity is not None
    faults = np.array([round(pages * 128 * MIB / 4096)], np.int32)
    known = replace(made.activity.calls, minor_faults=faults, major_faults=0 * faults)
    made = replace(made, activity=replace(made.activity, calls=known))
    claims = list(allocating.page_creation(scene(made)))
    assert len(claims) == found
    if found and pages == 1.0:
        assert "32,768 page faults happen inside these calls." in [each.text for each in claims[0].evidence]


TORCH = (MAIN[0], "at::native::empty@/opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so", *CREATED[1:])


def pinned(size: int, used: int, stack: Sequence[str] = TORCH, first: int = 0, **known: Any) -> list[Candidate]:
    """Memory that is pinned in 100 ms, of which copies reach so many bytes from the first on."""
    calls = [Traced("cudaHostAlloc", 0, 100, size)]
    calls += [to_gpu(110, 111, used // 2, MemoryKind.PINNED, site=1, address=BASE + first)]
    calls += [to_gpu(111, 112, used - used // 2, MemoryKind.PINNED, site=1, address=BASE + first + used // 2)]
    made = recorded(ran(0, 200, stack), calls)
    assert made.activity is not None
    granted = MemoryUsageTable.of(
        1, time_ns=100 * MS, size_bytes=size, address=BASE, memory_kind=MemoryKind.PINNED,
        operation=MemoryOperation.ALLOCATE, device=-1, pid=100, correlation_id=1,
    )  # fmt: skip
    made = replace(made, activity=replace(made.activity, memory=granted, **known))
    return list(allocating.page_creation(scene(made)))


@pytest.mark.parametrize(("size", "used"), [(1024, 640), (2048, 1127), (1024, 900)])
def test_pins_that_pytorch_rounds_up_are_split_into_what_is_used_and_the_rest(size: int, used: int) -> None:
    rest, kept = pinned(size * MIB, used * MIB)
    share = used / size
    assert (rest.cure.id, kept.cure.id) == ("pin-exact", "touch-then-register")
    assert rest.cost_ns == rest.saving.likely_ns == pytest.approx((1 - share) * 100 * MS, rel=1e-6)
    assert kept.cost_ns == pytest.approx(share * 100 * MS, rel=1e-6)
    assert kept.bytes == pytest.approx(used * MIB)
    # Nobody counts a sample for both.
    assert not set(rest.rows) & set(kept.rows)
    assert len(rest.rows) == pytest.approx((1 - share) * 100, abs=1.5)
    assert "rounded up to a power of two" in rest.title
    assert rest.cure.environment.startswith("PYTORCH_ALLOC_CONF=")


@pytest.mark.parametrize(
    ("size", "used", "stack"),
    [
        (1024, 940, TORCH),  # all but a little
        (1024, 400, TORCH),  # half of it would have been enough
        (1000, 640, TORCH),  # as asked for
        (1024, 640, CREATED),  # nobody rounds there
    ],
)
def test_pins_of_which_a_part_is_not_copied_need_not_be_rounded(size: int, used: int, stack: Sequence[str]) -> None:
    assert [one.cure.id for one in pinned(size * MIB, used * MIB, stack)] == ["touch-then-register"]


def test_copies_use_the_memory_that_lives_when_they_begin() -> None:
    size, used = 1000 * MIB, 100 * MIB
    calls = [
        Traced("cudaHostAlloc", 0, 40, size),
        Traced("cudaFreeHost", 50, 51),
        Traced("cudaHostAlloc", 60, 100, size),
    ]
    calls += [to_gpu(110, 112, used, MemoryKind.PINNED, site=1, address=BASE)]
    made = recorded(ran(0, 40, CREATED) + ran(40, 60) + ran(60, 100, CREATED) + ran(100, 200), calls)
    assert made.activity is not None
    taken, given = MemoryOperation.ALLOCATE, MemoryOperation.FREE
    memory = MemoryUsageTable.of(
        3, time_ns=[40 * MS, 50 * MS, 100 * MS], size_bytes=[size] * 3, address=np.full(3, BASE, np.uint64),
        memory_kind=MemoryKind.PINNED, operation=[taken, given, taken], device=-1, pid=100, correlation_id=[1, 2, 3],
    )  # fmt: skip
    made = replace(made, activity=replace(made.activity, memory=memory))
    rest, _ = allocating.page_creation(scene(made))
    assert rest.title.endswith(f"of which copies use {format_bytes(used)}.")
    assert rest.bytes == 2 * size - used


def test_pins_of_which_copies_use_little_are_made_smaller() -> None:
    rest, kept = pinned(1000 * MIB, 100 * MIB, CREATED, first=4096)
    assert (rest.cure.id, kept.cure.id) == ("pin-less", "touch-then-register")
    assert rest.cost_ns == pytest.approx(90 * MS)


@pytest.mark.parametrize(
    "known", [{"given_up": (GivenUp("copies", start_ns=0, end_ns=1, calls=1),)}, {"lost_calls": 1}]
)
def test_pins_are_used_by_copies_that_nobody_saw(known: dict[str, Any]) -> None:
    assert [one.cure.id for one in pinned(1000 * MIB, 100 * MIB, CREATED, first=4096, **known)] == [
        "touch-then-register"
    ]


def test_pins_may_be_used_by_copies_whose_place_is_not_known() -> None:
    assert [one.cure.id for one in pinned(1000 * MIB, 100 * MIB, CREATED, first=-BASE)] == ["touch-then-register"]


def test_machine_without_a_rate_for_touching_gets_no_promise() -> None:
    made = recorded(ran(0, 40, CREATED), [Traced("cudaMallocHost", 0, 40, 128 * MIB)])
    assert list(allocating.page_creation(scene(made, prices(prefault_t8=None)))) == []


def contexts(before: int, named: bool = True) -> list[Candidate]:
    stack = ("main@/app", "cudaFree@/app", "cuInit@/usr/lib/libcuda.so.1", "__x64_sys_ioctl")
    samples = ran(0, before) + ran(before, before + 100, stack) + ran(before + 100, 400)
    ranges = [Range("timed", 0, (before + 200) * MS, pid=100, tid=100)] if named else []
    made = recorded(samples, [Traced("cudaFree", before, before + 100)], ranges=ranges)
    return list(allocating.late_context(scene(made)))


def test_context_that_is_created_within_timed_work_comes_earlier() -> None:
    (found,) = contexts(100)
    assert found.cure.id == "context-early"
    assert found.phase == "context"
    assert found.cost_ns == 100 * MS
    assert (found.saving.low_ns, found.saving.likely_ns) == (80 * MS, 100 * MS)


def test_context_at_the_beginning_or_outside_all_ranges_is_in_its_place() -> None:
    assert contexts(10) == []
    assert contexts(100, named=False) == []


def test_without_calls_nothing_is_searched() -> None:
    alone = scene(recorded(ran(0, 100, CREATED)))
    detectors = (allocating.pairs, allocating.page_creation, blocking.blocking_pins, allocating.late_context)
    assert [found for detector in detectors for found in detector(alone)] == []
