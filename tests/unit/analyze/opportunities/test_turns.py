"""Bytes that come straight back to the GPU, and steps of copies and kernels that wait for one another without need."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pinprof.analyze.opportunities import turns
from pinprof.analyze.opportunities.candidate import Candidate
from pinprof.data.activity import MemoryKind
from pinprof.data.rate_book import RateBook
from tests.support.scenes import MIB, MS, Traced, prices, ran, recorded, scene, to_gpu, to_host

PINNED = MemoryKind.PINNED
SIZE = 64 * MIB
"""Copied in 1.28 ms where it is pinned, in 6.4 or 5.12 ms where not; on the host itself in 3.2 ms."""


def found(cure: str, calls: Sequence[Traced], book: RateBook | None = None) -> list[Candidate]:
    shown = scene(recorded(ran(0, 200), calls), book)
    return [candidate for candidate in turns.back_and_forth(shown) if candidate.cure.id == cure]


def trips(calls: Sequence[Traced], book: RateBook | None = None) -> list[Candidate]:
    return found("keep-resident", calls, book)


def in_turns(calls: Sequence[Traced]) -> list[Candidate]:
    return found("use-streams", calls)


def back_and_forth(
    count: int, spare: float = 0.01, memory: int = PINNED, between: Sequence[Traced] = (), there: int = 4096
) -> list[Traced]:
    """`count` kernels of 1 ms with the data brought to the GPU before each and back after it, then `spare` ms."""
    calls = []
    for number in range(count):
        start = number * 8
        calls += [
            to_gpu(start, start + 1.28, SIZE, memory, address=there),
            Traced("cuCtxSynchronize", start + 1.3, start + 2.3),
            to_host(start + 8 - spare - 1.28, start + 8 - spare, SIZE, memory, site=1),
        ]
        calls += [
            Traced(call.name, start + 8 - spare + call.start, start + 8 - spare + call.end, call.size)
            for call in between
        ]
    return calls


def test_data_that_goes_straight_back_stays_on_the_gpu() -> None:
    (one,) = trips(back_and_forth(10))
    assert one.count == 9
    assert one.bytes == 9 * SIZE
    # Nine copies there and nine back; the first upload and the last download are needed.
    assert one.cost_ns == pytest.approx(18 * 1.28 * MS, rel=1e-3)
    assert one.saving.likely_ns == one.cost_ns
    assert one.site.place == "app.cu:11"


def test_host_that_has_time_to_write_its_data_may_have_done_so() -> None:
    # A tenth of 3.2 ms is 0.32 ms.
    assert len(trips(back_and_forth(10, spare=0.3))) == 1
    assert trips(back_and_forth(10, spare=0.4)) == []


def test_time_in_calls_is_not_the_host_s_own() -> None:
    assert len(trips(back_and_forth(10, 2.0, between=[Traced("cuCtxSynchronize", 0.1, 1.9)]))) == 1


def test_data_that_the_gpu_has_no_room_for_comes_back_after_other_work() -> None:
    waits = [Traced("cuCtxSynchronize", 0.1, 0.9), Traced("cuCtxSynchronize", 1.0, 1.9)]
    assert trips(back_and_forth(10, 2.0, between=waits)) == []


def test_memory_that_is_pinned_anew_holds_other_data() -> None:
    anew = [Traced("cuMemFreeHost", 0.1, 0.9), Traced("cuMemHostAlloc", 1.0, 1.9, SIZE)]
    assert trips(back_and_forth(10, 2.0, between=anew)) == []


def test_other_memory_or_another_size_is_no_trip() -> None:
    calls = back_and_forth(10)
    elsewhere = [to_gpu(call.start, call.end, SIZE, PINNED, address=1 << 40) if "HtoD" in call.name else call
                 for call in calls]  # fmt: skip
    assert trips(elsewhere) == []
    part = [to_gpu(call.start, call.end, SIZE // 2, PINNED) if "HtoD" in call.name else call for call in calls]
    assert trips(part) == []


def test_two_trips_are_chance() -> None:
    assert trips(back_and_forth(turns.LEAST_TRIPS)) == []
    assert len(trips(back_and_forth(turns.LEAST_TRIPS + 1))) == 1


def test_several_arrays_make_a_trip_together() -> None:
    calls = []
    for number in range(6):
        start, places = number * 10, (1 << 30, 2 << 30, 3 << 30)
        calls += [to_gpu(start + i, start + i + 1, SIZE, PINNED, address=place) for i, place in enumerate(places)]
        calls += [to_host(start + 7 + i, start + 8 + i, SIZE, PINNED, address=place) for i, place in enumerate(places)]
    (one,) = trips(calls)
    assert one.count == 15


def pieces(
    count: int, kernel: float = 1.28, spare: float = 0.01, memory: int = PINNED, host: float = 0.0, tid: int = 100
) -> list[Traced]:
    """Pieces of one array: each goes to the GPU, is worked on, and comes back; `host` ms later the next one goes."""
    calls = []
    for number in range(count):
        start, place = number * (3.9 + host), (1 << 30) + number * SIZE
        calls += [
            to_gpu(start, start + 1.28, SIZE, memory, address=place, tid=tid),
            Traced("cuCtxSynchronize", start + 1.29, start + 1.29 + kernel, tid=tid),
            to_host(start + 3.9 - spare - 1.28, start + 3.9 - spare, SIZE, memory, address=place, site=1, tid=tid),
        ]
    return calls


def test_pieces_that_wait_for_each_other_overlap_on_streams() -> None:
    one, *_ = in_turns(pieces(25))
    assert one.cure.id == "use-streams"
    assert one.count == 24
    # 24 times 1.28 ms there, in the kernel, and back.
    assert one.cost_ns == pytest.approx(24 * 3.84 * MS, rel=1e-3)
    # The longest remains, and what the first and the last piece cannot overlap with.
    assert one.remains.ns == pytest.approx(24 * 1.28 * MS + 24 * 2.56 * MS / 25, rel=1e-3)
    assert one.remains.low_ns == pytest.approx(24 * 1.28 * MS, rel=1e-3)
    assert one.saving.low_ns == pytest.approx(0.5 * one.saving.likely_ns, rel=1e-2)


def test_long_kernels_leave_little_to_overlap() -> None:
    one, *_ = in_turns(pieces(25, kernel=0.05))
    assert one.saving.likely_ns == pytest.approx(24 * 1.33 * MS * 24 / 25, rel=1e-2)


def test_steps_on_the_same_memory_need_each_other() -> None:
    assert in_turns(back_and_forth(20)) == []


def test_host_that_looks_at_a_result_may_need_it_for_the_next_step() -> None:
    assert in_turns(pieces(25, host=0.5)) == []
    assert in_turns(pieces(25, host=0.2)) != []


def test_what_is_sent_next_cannot_be_made_of_a_small_result_at_once() -> None:
    small = [to_host(c.start, c.end, MIB, PINNED, address=1, site=1) if "DtoH" in c.name else c
             for c in pieces(25, spare=0.25)]  # fmt: skip
    # A tenth of copying 1 MiB is 5 µs, of the 64 MiB that go next 0.32 ms.
    assert in_turns(small) != []


def test_next_input_is_brought_while_the_gpu_works_where_nothing_comes_back() -> None:
    calls = [call for call in pieces(25, host=2.0) if "DtoH" not in call.name]
    (one,) = in_turns(calls)
    assert one.saving.likely_ns == pytest.approx(24 * 1.28 * MS * 24 / 25, rel=1e-2)


@pytest.mark.parametrize("name", ["cuMemcpyHtoDAsync", "cudaMemcpyAsync"])
def test_copies_that_do_not_block_overlap_already(name: str) -> None:
    calls = [
        call
        for number in range(25)
        for call in (
            to_gpu(number * 4, number * 4 + 0.01, SIZE, PINNED, name=name, address=(1 << 30) + number * SIZE),
            Traced("cuStreamSynchronize", number * 4 + 1, number * 4 + 3.8, site=1),
        )
    ]
    assert in_turns(calls) == []


def queued(count: int, streams: int) -> list[Traced]:
    """Steps of 4 ms on streams in turns: there 1.28 ms, a kernel, back 1.28 ms, and a wait for all of it."""
    calls = []
    for number in range(count):
        start, place, stream = number * 4, (1 << 30) + number * SIZE, 7 + number % streams
        calls += [
            to_gpu(start, start + 0.01, SIZE, PINNED, name="cuMemcpyHtoDAsync", address=place, stream=stream),
            to_host(start + 0.02, start + 0.03, SIZE, PINNED, name="cuMemcpyDtoHAsync", address=place, site=1,
                    stream=stream),
            Traced("cuStreamSynchronize", start + 0.04, start + 3.99),
        ]  # fmt: skip
    return calls


def test_copies_on_one_stream_take_turns_though_they_are_asynchronous() -> None:
    one, *_ = in_turns(queued(25, streams=1))
    assert one.cure.id == "use-streams"
    # Of 3.97 ms 2.56 are the copies, the rest kernels; those of one step overlap with nothing.
    assert one.saving.likely_ns == pytest.approx(24 * 2.56 * MS * 24 / 25, rel=2e-2)


def test_copies_on_several_streams_overlap_already() -> None:
    assert in_turns(queued(25, streams=3)) == []


def test_inputs_that_are_queued_alone_are_well() -> None:
    assert in_turns([call for call in queued(25, streams=1) if "DtoH" not in call.name]) == []


def test_copy_with_a_wait_in_its_own_line_blocks() -> None:
    calls = [
        call
        for number in range(25)
        for call in (
            to_gpu(number * 4, number * 4 + 0.01, SIZE, PINNED, name="cudaMemcpyAsync",
                   address=(1 << 30) + number * SIZE),
            Traced("cudaStreamSynchronize", number * 4 + 0.02, number * 4 + 1.29),
            Traced("cudaStreamSynchronize", number * 4 + 1.5, number * 4 + 3.8, site=1),
        )
    ]  # fmt: skip
    (one,) = in_turns(calls)
    assert one.saving.likely_ns == pytest.approx(24 * 1.28 * MS * 24 / 25, rel=2e-2)


def test_copies_of_pageable_memory_are_pinned_first() -> None:
    assert in_turns(pieces(25, memory=MemoryKind.PAGEABLE)) == []


def test_threads_that_copy_by_turns_overlap_already() -> None:
    assert in_turns([*pieces(25), *pieces(25, tid=101)]) == []


def test_memory_that_is_pinned_for_each_step_is_not_there_before_it() -> None:
    calls = [*pieces(25), *(Traced("cuMemHostAlloc", n * 3.9 + 2.575, n * 3.9 + 2.6, SIZE) for n in range(25))]
    assert in_turns(calls) == []


def test_few_steps_and_small_copies_are_no_pattern() -> None:
    assert in_turns(pieces(turns.LEAST_STEPS)) == []
    small = [to_gpu(c.start, c.end, 4096, PINNED, address=c.address) if "HtoD" in c.name else c for c in pieces(25)]
    assert [one for one in in_turns(small) if one.site.place == "app.cu:11"] == []


def test_nobody_promises_without_addresses_or_prices() -> None:
    nowhere = [to_gpu(c.start, c.end, SIZE, PINNED, address=0) for c in back_and_forth(10) if "HtoD" in c.name]
    assert trips(nowhere) == in_turns(nowhere) == []
    assert trips(back_and_forth(10), prices(memcpy_host=None)) == []
