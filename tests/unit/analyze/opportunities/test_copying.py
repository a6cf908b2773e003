"""Staged copies, those to fresh memory, from mapped files, tiny ones, and single values that are read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest

from pinprof.analyze.course.results import Steps
from pinprof.analyze.opportunities import copying
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.analyze.opportunities.copy_groups import TINY_BYTES
from pinprof.analyze.rules.copies import TINY_COPIES
from pinprof.data.activity import CallOverhead, GivenUp, MemoryKind
from pinprof.data.rate_book import RateBook
from tests.support.scenes import (
    MAIN,
    MIB,
    MS,
    POLLS,
    SMALL,
    Traced,
    prices,
    ran,
    recorded,
    scene,
    to_gpu,
    to_host,
)
from tests.support.stacks import Sample

ELSEWHERE = ("other@/app",)
COPIES = (*MAIN, "cuMemcpyHtoD_v2@/usr/lib/libcuda.so.580.1", "__memmove_avx_unaligned_erms@/usr/lib/libc.so.6")
DETECTORS = (copying.read_scalars, copying.tiny, copying.pageable, copying.mapped_files)


def every(step: float, count: int, length: float, make: Any = to_gpu, **other: Any) -> list[Traced]:
    """`count` copies of `length` ms, one each `step` ms."""
    return [make(number * step, number * step + length, **other) for number in range(count)]


def found(
    calls: Sequence[Traced],
    samples: Sequence[Sample] | None = None,
    *,
    book: RateBook | None = None,
    overhead: CallOverhead | None = None,
    steps: Steps | None = None,
) -> list[Candidate]:
    shown = scene(recorded(samples or ran(0, 200, COPIES), calls, overhead=overhead), book, steps)
    return [candidate for detector in DETECTORS for candidate in detector(shown)]


def test_memory_that_is_copied_again_and_again_is_pinned_once() -> None:
    (one,) = found(every(20, 10, 10, size=64 * MIB))
    assert one.cure.id == "pin-source"
    assert (one.count, one.bytes) == (10, 640 * MIB)
    # Staged 6.4 ms each: the other 3.6 ms of a call wait for the GPU.
    assert one.cost_ns == 64 * MS
    # Pinned 1.28 ms each; pinning 64 MiB takes 19.2 ms, of it 12.8 ms pages that have to be made anyway.
    assert one.remains.ns == pytest.approx(12.8 * MS + 6.4 * MS)
    assert one.saving.likely_ns == pytest.approx(44.8 * MS)
    assert one.site.place == "app.cu:11"


def test_memory_that_is_copied_once_is_registered_for_it() -> None:
    (one,) = found(every(20, 10, 10, size=64 * MIB)[:1])
    # Registering 1.92 ms, unregistering 1.28 ms, the copy 1.28 ms.
    assert one.remains.ns == pytest.approx(4.48 * MS)
    assert one.saving.likely_ns == pytest.approx(1.92 * MS)


def test_calls_cost_no_more_than_they_took() -> None:
    (one,) = found(every(20, 10, 5, size=64 * MIB))
    assert one.cost_ns == 50 * MS


def test_fresh_memory_is_replaced_by_a_buffer_for_one_step() -> None:
    samples = [sample for start in range(0, 200, 20) for sample in ran(start, start + 20, SMALL)]
    copies = every(20, 10, 10, to_host, size=64 * MIB)
    (one,) = found(copies, samples, steps=Steps("range", "step", 10, 20 * MS, 20 * MS, 0))
    assert one.cure.id == "pinned-buffer"
    # All of a call, since 5.12 ms of staging and 10 ms of faults are more than its 10 ms.
    assert one.cost_ns == 100 * MS
    assert one.remains.ns == pytest.approx(12.8 * MS + 19.2 * MS)
    assert "fresh" in one.title


@pytest.mark.parametrize(
    ("make", "preposition", "cure"), [(to_gpu, "from", "pin-source"), (to_host, "into", "pinned-buffer")]
)
def test_copies_that_promise_not_to_block_are_called_out(make: Any, preposition: str, cure: str) -> None:
    named = "cuMemcpyHtoDAsync" if make is to_gpu else "cuMemcpyDtoHAsync"
    (one,) = found(every(20, 10, 10, make, size=64 * MIB, name=named))
    assert one.cure.id == cure
    assert f"{preposition} pageable memory, although the copies are meant to be asynchronous." in one.title
    (two,) = found(every(20, 10, 10, make, size=64 * MIB))
    assert "asynchronous" not in two.title


@pytest.mark.parametrize(("gap", "promised"), [(0.005, False), (2, True)])
def test_copies_that_are_waited_for_at_once_promise_nothing_though_the_line_of_the_wait_is_not_known(
    gap: float, promised: bool
) -> None:
    copies = every(20, 10, 10, to_host, size=64 * MIB, name="cuMemcpyDtoHAsync")
    waits = [Traced("cuStreamSynchronize", copy.end + gap, copy.end + gap + 1, -1, -1) for copy in copies]
    (one,) = found([*copies, *waits])
    assert ("asynchronous" in one.title) is promised


@pytest.mark.parametrize("memory", [MemoryKind.PINNED, MemoryKind.MANAGED, MemoryKind.DEVICE, MemoryKind.UNKNOWN])
def test_other_memory_than_pageable_is_not_staged(memory: MemoryKind) -> None:
    assert found(every(20, 10, 10, size=64 * MIB, source=memory)) == []


def test_unknown_price_makes_no_promise() -> None:
    assert found(every(20, 10, 10, size=64 * MIB), book=prices(h2d_pinned=None)) == []
    assert found(every(20, 10, 10, size=64 * MIB, from_file=True), book=prices(file_read=None)) == []


def test_mapped_file_is_read_into_two_buffers_in_turns() -> None:
    (one,) = found(every(20, 10, 15, size=64 * MIB, from_file=True))
    assert one.cost_ns == 150 * MS
    # Reading 640 MiB takes 38.4 ms, longer than to copy it; pinning two buffers 38.4 ms.
    assert one.remains.ns == pytest.approx(76.8 * MS)
    assert one.saving.likely_ns == pytest.approx(73.2 * MS)


def test_cached_file_is_left_where_it_is() -> None:
    (one,) = found(every(20, 10, 5, size=64 * MIB, from_file=True))
    assert one.saving.likely_ns == 0


def test_very_many_small_copies_are_made_at_once() -> None:
    (one,) = found(every(0.1, 1000, 0.04, size=4096, source=MemoryKind.PINNED))
    assert one.cure.id == "batch-copies"
    assert one.cost_ns == 40 * MS
    # One of 3.9 MiB at 20 µs a MiB.
    assert one.remains.ns == pytest.approx(78_125)
    assert one.saving.likely_ns == pytest.approx(40 * MS - 78_125)
    assert one.saving.low_ns == pytest.approx(32 * MS - 1.1 * 78_125)
    assert one.saving.high_ns == 40 * MS


@pytest.mark.parametrize(("measured", "cost"), [(14_000.0, 12), (2_000.0, 10), (None, 10)])
def test_small_copies_cost_between_their_clock_without_tracing_and_one_on_this_machine(
    measured: float | None, cost: int
) -> None:
    copies = every(0.1, 1000, 0.04, size=4096, source=MemoryKind.PINNED)
    (one,) = found(copies, overhead=CallOverhead(30_000, 50_000), book=prices(h2d_small=measured))
    assert one.cost_ns == cost * MS


def test_pageable_rows_are_put_side_by_side_first() -> None:
    (one,) = found(every(0.1, 1000, 0.04, size=4096))
    assert one.remains.ns == pytest.approx(1000 * 4096 / MIB * 150_000)


def test_fewer_or_larger_copies_are_not_tiny() -> None:
    small = {"size": TINY_BYTES, "source": MemoryKind.PINNED}
    assert found(every(0.1, TINY_COPIES - 1, 0.04, **small)) == []
    assert len(found(every(0.1, TINY_COPIES, 0.04, **small))) == 1
    assert found(every(0.1, 1000, 0.04, size=TINY_BYTES + 1, source=MemoryKind.PINNED)) == []


@pytest.mark.parametrize(
    ("extra", "stack", "more"),
    [("cuLaunchKernel", MAIN, True), ("cuStreamSynchronize", MAIN, False), ("cuLaunchKernel", ELSEWHERE, False)],
)
def test_a_loop_of_tiny_copies_costs_also_what_its_line_takes_between_them(
    extra: str, stack: tuple[str, ...], more: bool
) -> None:
    """Not where launches are unknown, which the thread may have made there, nor what another line does there."""
    calls = [Traced(extra, -2, -1), *every(0.1, 1000, 0.04, size=4096, source=MemoryKind.PINNED)]
    places = ((COPIES, 0.02), (stack, 0.07))
    samples = [
        Sample(where, MS, round((time + past) * MS), 100, 100)
        for time, (where, past) in zip(range(100), cycle(places), strict=False)
    ]
    (one,) = copying.tiny(scene(recorded(samples, calls), prices()))
    assert (one.cost_ns > 80 * MS) is more
    assert any("Between one copy and the next" in text for text in one.basis) is more


@pytest.mark.parametrize(("lost", "count"), [(0, "makes 1,000 copies"), (3, "makes at least 1,000 copies")])
def test_counts_of_copies_are_a_least_where_records_of_calls_were_lost(lost: int, count: str) -> None:
    made = recorded(ran(0, 200, COPIES), every(0.1, 1000, 0.04, size=4096, source=MemoryKind.PINNED))
    assert made.activity is not None
    (one,) = copying.tiny(scene(replace(made, activity=replace(made.activity, lost_calls=lost)), prices()))
    assert count in one.title


OTHER = ("other (app.cu:70)@/home/u/app", *COPIES[1:])


@pytest.mark.parametrize(
    ("traced", "small", "calls_told", "work"),
    [
        (copying.LEAST_TRACED, 2000.0, None, ()),
        (copying.LEAST_TRACED, None, None, ()),
        (copying.LEAST_TRACED, 4000.0, 50_000, ("cuda",)),
        (copying.LEAST_TRACED - 1, 2000.0, None, ()),
    ],
)
def test_tiny_copies_that_were_not_traced_are_judged_by_samples(
    traced: int, small: float | None, calls_told: int | None, work: tuple[str, ...]
) -> None:
    """By the time of a copy where that is known, unless the GPU's own work tells how many there were."""
    name = "cuMemcpyHtoDAsync"
    calls = every(0.1, traced, 0.09, size=4096, source=MemoryKind.PINNED, name=name)
    # Traced for 10 ms; then 80 % of the copying is at the same place, and from 110 ms on there is none.
    samples = [*ran(0, 90, COPIES), *ran(90, 110, OTHER), *ran(110, 200)]
    made = recorded(samples, calls)
    assert made.activity is not None
    gap = GivenUp("copies", start_ns=10 * MS, end_ns=200 * MS, calls=calls_told)
    activity = replace(made.activity, given_up=(gap,), recorded=made.activity.recorded | {*work})
    shown = scene(replace(made, activity=activity), book=prices(h2d_small=small))
    tiny = list(copying.tiny(shown))
    if traced < copying.LEAST_TRACED:
        assert tiny == [], "too few say what the others are"
        return
    if small is None:
        assert tiny == [], "nobody knows what one takes"
        return
    (one,) = tiny
    assert one.count == pytest.approx(40_000, rel=0.03)
    assert one.bytes == pytest.approx(40_000 * 4096, rel=0.03)
    assert one.cost_ns == pytest.approx(89 * MS, rel=0.03)
    assert f"about {one.count:,} copies" in one.title
    assert any("not traced" in sentence for sentence in one.basis)


def scalars(count: int = 250, size: int = 4, wait: int = 1) -> list[Candidate]:
    samples = [*ran(0, count * wait, POLLS), *ran(count * wait, count * wait + 100)]
    return [one for one in found(every(wait, count, wait, to_host, size=size), samples) if one.cure.id == "sync-less"]


def test_values_that_are_read_one_by_one_are_read_less_often() -> None:
    (one,) = scalars()
    assert one.cost_ns == 250 * MS
    assert (one.saving.low_ns, one.saving.likely_ns, one.saving.high_ns) == (25 * MS, 125 * MS, 200 * MS)
    assert all(len(sentence) > 10 for sentence in one.basis)


@pytest.mark.parametrize(("launch", "likely"), [(1.8, 202.5), (1.05, 15.0)])
def test_a_wait_for_work_overlaps_with_what_the_thread_does_before_its_next_launch(
    launch: float, likely: float
) -> None:
    """Of each wait of 1 ms, besides the 10 µs that any answer takes."""
    calls = [
        *every(2, 250, 1, to_host, size=4),
        *(Traced("cuLaunchKernel", 2 * n + launch, 2 * n + 1.9) for n in range(250)),
    ]
    samples = [Sample(POLLS, MS, round((2 * n + 0.5) * MS), 100, 100) for n in range(250)]
    (one,) = (one for one in found(calls, samples) if one.cure.id == "sync-less")
    assert one.cost_ns == 250 * MS
    assert one.saving.likely_ns == pytest.approx(likely * MS)
    assert one.saving.low_ns == 0


def test_few_values_long_waits_and_arrays_are_no_scalars() -> None:
    assert scalars(count=copying.SCALARS - 1) == []
    assert scalars(wait=2) == []
    assert scalars(size=copying.SCALAR_BYTES + 1) == []


@pytest.mark.parametrize(
    ("package", "found_ones"), [("transformers/generation/utils.py", 0), ("torch/_tensor.py", 1), ("", 1)]
)
def test_how_often_a_library_reads_is_no_decision_of_the_program(package: str, found_ones: int) -> None:
    path = f"/venv/lib/python3.12/site-packages/{package}"
    within = (f"check ({path}:7)@{path}",) if package else ()
    stack = ("step (/app/train.py:3)@/app/train.py", *within, *POLLS[1:])
    samples = [*ran(0, 250, stack), *ran(250, 350)]
    named = [one for one in found(every(1, 250, 1, to_host, size=4), samples) if one.cure.id == "sync-less"]
    assert len(named) == found_ones


def test_copies_of_two_places_are_apart() -> None:
    both = [*every(20, 10, 10, size=64 * MIB), *every(20, 5, 3, to_gpu, size=MIB, site=1)]
    assert sorted(one.site.place for one in found(both)) == ["app.cu:11", "app.cu:40"]
