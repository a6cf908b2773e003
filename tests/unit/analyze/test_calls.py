"""Calls: names, sizes, context initialisation, split by cause; against SQL where a real export is at hand."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pinprof.analyze import analyze, intervals
from pinprof.analyze.activity.calls import CONTEXT_INIT_FACTOR, CONTEXT_INIT_NS, prepare_calls
from pinprof.analyze.activity.clock import join
from pinprof.analyze.activity.results import LEAST_SIZED, ActivityAnalysis, CallResult
from pinprof.base.columns import narrowed
from pinprof.data.activity import ApiCallTable
from pinprof.data.gpu_functions import plain_name, purpose_of
from pinprof.data.model import RangeTable
from tests.support.activities import (
    GIB,
    MIB,
    MS,
    SECOND,
    US,
    Call,
    Memory,
    MemoryKind,
    MemoryOperation,
    Range,
    Sample,
    explained,
    export,
    exported,
    kernel,
    sql,
    to_device,
    traced,
)
from tests.support.h200 import analysis

PIN = ["main@/app", "os_lock_user_pages[nvidia]", "pin_user_pages", "__get_user_pages", "handle_mm_fault"]
WALK = ["main@/app", "os_lock_user_pages[nvidia]", "pin_user_pages", "follow_page_pte"]


def by_name(found: ActivityAnalysis) -> dict[str, CallResult]:
    return {call.name: call for call in found.whole.calls}


@cache
def joined(with_ranges: bool) -> ActivityAnalysis:
    """The run that perf and nsys saw at once; without ranges as a program without NVTX would be."""
    perf, nsys = analysis("both").capture, export("both").capture
    if not with_ranges:
        none = RangeTable(**{name: value[:0] for name, value in vars(nsys.ranges).items()})
        perf, nsys = replace(perf, ranges=none), replace(nsys, ranges=none)
    found = analyze(join(perf, nsys)).activity
    assert found is not None
    return found


def test_a_call_without_a_name_has_none_however_many_names_there_are() -> None:
    names = tuple(f"call{number}" for number in range(128))
    rows = narrowed(np.append(np.arange(128), -1))
    table = ApiCallTable.of(129, start_ns=np.arange(129), end_ns=np.arange(129) + 1, name=rows, names=names)
    calls = prepare_calls(replace(export("both").capture.activity, calls=replace(table, name=rows)))
    assert [calls.names[name] for name in calls.name.tolist()] == [*names, "(no name)"]


def test_the_names_of_calls_are_no_wider_than_needed() -> None:
    calls = prepare_calls(export("both").capture.activity)
    assert calls.name.dtype == np.int8


@pytest.mark.parametrize(
    ("name", "plain", "purpose"),
    [
        ("cudaHostAlloc_v3020", "cudaHostAlloc", "alloc pinned"),
        ("cudaMallocHost_v3020", "cudaMallocHost", "alloc pinned"),
        ("cuMemHostRegister_v2", "cuMemHostRegister", "register"),
        ("cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync", "copy"),
        ("cudaMallocManaged", "cudaMallocManaged", "alloc managed"),
        ("cudaMallocAsync_v11020", "cudaMallocAsync", "alloc device"),
        ("cuMemAlloc_v2", "cuMemAlloc", "alloc device"),
        ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync", "copy"),
        ("cudaFreeHost_v3020", "cudaFreeHost", "free pinned"),
        ("cudaFreeAsync_v11020", "cudaFreeAsync", "free device"),
        ("cudaHostUnregister_v4000", "cudaHostUnregister", "unregister"),
        ("cudaMemPrefetchAsync_v12020", "cudaMemPrefetchAsync", "prefetch"),
        ("cudaMemAdvise", "cudaMemAdvise", "advise"),
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel", "launch"),
        ("cudaDeviceSynchronize_v3020", "cudaDeviceSynchronize", "sync"),
        ("cudaStreamWaitEvent", "cudaStreamWaitEvent", "other"),
        ("_v2", "_v2", "other"),
        ("line\nbreak", "line\nbreak", "other"),
    ],
)
def test_names_lose_their_suffix_and_tell_the_purpose(name: str, plain: str, purpose: str) -> None:
    assert (plain_name(name), purpose_of(plain_name(name))) == (plain, purpose)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pageable", "pinned", "uvm", "both"])
def test_counts_and_times_by_name_are_those_of_the_export(name: str) -> None:
    found = exported(name)
    rows = sql(
        name,
        "SELECT s.value, r.end - r.start FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId "
        "ORDER BY r.start",
    )
    expected: dict[str, list[int]] = {}
    for call, duration in rows:
        expected.setdefault(re.sub(r"_v\d+$", "", call), []).append(duration)
    (init,) = found.context_init
    expected[init.name].remove(init.duration_ns)
    assert {
        call.name: (call.count, call.time_ns.total, call.time_ns.least, call.time_ns.most, call.first_ns)
        for call in found.whole.calls
    } == {call: (len(t), sum(t), min(t), max(t), t[0]) for call, t in expected.items()}
    assert init.name == "cudaFree"
    assert init.duration_ns > 100 * MS


@pytest.mark.parametrize("name", ["pageable", "pinned", "uvm"])
def test_bytes_of_allocations_and_copies_are_those_of_the_export(name: str) -> None:
    found = by_name(exported(name))
    allocated = {
        re.sub(r"_v\d+$", "", call): size
        for call, size in sql(
            name,
            "SELECT s.value, sum(m.bytes) FROM CUDA_GPU_MEMORY_USAGE_EVENTS m JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
            "ON r.correlationId = m.correlationId JOIN StringIds s ON s.id = r.nameId GROUP BY r.nameId",
        )
    }
    assert allocated
    assert {call: found[call].size_bytes for call in allocated} == allocated
    copied = sql(name, "SELECT sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind IN (1, 2)")[0][0]
    assert (found["cudaMemcpy"].size_bytes if copied else None) == copied


def test_cost_is_stated_per_gib() -> None:
    found = by_name(exported("pinned"))["cudaHostAlloc"]
    assert found.ns_per_gib == pytest.approx(found.time_ns.total / (3 * 64 * MIB) * GIB)
    assert 300 * MS < found.ns_per_gib < 900 * MS
    small = replace(found, size_bytes=found.count * (LEAST_SIZED - 1))
    assert small.ns_per_gib is None, "what takes the time is the call"
    assert by_name(exported("both"))["cudaHostAlloc"].size_bytes is None
    assert by_name(exported("both"))["cudaHostAlloc"].ns_per_gib is None


@pytest.mark.parametrize(
    ("first", "later", "initial"),
    [
        (CONTEXT_INIT_NS, CONTEXT_INIT_NS // CONTEXT_INIT_FACTOR, True),
        (CONTEXT_INIT_NS - 1, 1 * MS, False),
        (CONTEXT_INIT_NS, CONTEXT_INIT_NS // CONTEXT_INIT_FACTOR + 1, False),
    ],
)
def test_context_initialisation_needs_time_and_a_contrast(first: int, later: int, initial: bool) -> None:
    calls = [Call("cuDriverGetVersion", 0, 2 * US), Call("cudaMalloc", MS, MS + first)]
    calls += [Call("cudaMalloc", n * 1000 * MS, n * 1000 * MS + later) for n in range(1, 4)]
    found = explained(calls)
    assert [entry.duration_ns for entry in found.context_init] == ([first] if initial else [])
    assert by_name(found)["cudaMalloc"].count == (3 if initial else 4)


def test_a_large_first_allocation_is_compared_with_its_own_size() -> None:
    calls = [Call("cudaHostAlloc", 0, 900 * MS, 1), Call("cudaHostAlloc", 1000 * MS, 1001 * MS, 2)]
    memory = [Memory(0, GIB, correlation_id=1), Memory(1000 * MS, MIB, correlation_id=2)]
    same_size = [Call("cudaHostAlloc", 2000 * MS, 2850 * MS, 3)]
    assert len(explained(calls, (), (), memory).context_init) == 1
    known = explained([*calls, *same_size], (), (), [*memory, Memory(2000 * MS, GIB, correlation_id=3)])
    assert not known.context_init


def test_a_single_call_counts_as_initialisation_only_when_it_moves_nothing() -> None:
    assert explained([Call("cudaFree", 0, 90 * MS)]).context_init[0].typical_ns is None
    alone = explained([Call("cudaHostAlloc", 0, 900 * MS, 1)], (), (), [Memory(0, GIB, correlation_id=1)])
    assert not alone.context_init


@pytest.mark.parametrize(("inside", "initial"), [(160, True), (159, False), (40, False)])
def test_call_that_mostly_creates_a_context_inside_is_known_by_that(inside: int, initial: bool) -> None:
    activity = traced([Call("cudaHostAlloc", 0, 200 * MS, 1)], (), (), [Memory(0, GIB, correlation_id=1)]).activity
    assert activity is not None
    calls = replace(activity.calls, context_ns=np.array([inside * MS]))
    assert prepare_calls(replace(activity, calls=calls)).initial.tolist() == [initial]


def test_every_process_has_its_own_context() -> None:
    calls = [Call("cudaFree", 0, 90 * MS, pid=1, tid=1), Call("cudaFree", 10 * MS, 95 * MS, pid=2, tid=2)]
    assert [entry.pid for entry in explained(calls).context_init] == [1, 2]


def test_failed_calls_and_calls_without_name_are_counted() -> None:
    calls = [Call("cudaMalloc", 0, 10, status=2), Call("cudaMalloc", 20, 30), Call(None, 40, 50)]  # type: ignore[arg-type]
    found = by_name(explained(calls))
    assert (found["cudaMalloc"].failures, found["(no name)"].count) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("with_ranges", [True, False])
def test_allocation_calls_split_by_cause_and_the_split_sums_to_the_call(with_ranges: bool) -> None:
    found = by_name(joined(with_ranges))
    assert len(joined(with_ranges).ranges) == (7 if with_ranges else 0)
    for name in ("cudaHostAlloc", "cudaFreeHost"):
        call = found[name]
        assert call.split is not None
        assert call.split.sampled_ns == pytest.approx(call.time_ns.total, rel=0.03)
        assert call.split.sampled_ns + call.split.unsampled_ns == call.time_ns.total
    pinning, freeing = found["cudaHostAlloc"].split, found["cudaFreeHost"].split
    assert pinning is not None
    assert freeing is not None
    assert list(pinning.by_leaf)[:3] == ["pin.faultin", "pin.walk", "dma.map"]
    assert 0.80 < pinning.by_leaf["pin.faultin"] / pinning.sampled_ns < 0.90
    assert list(freeing.by_leaf)[:3] == ["free.shmem", "free.unmap", "unpin"]
    (init,) = joined(with_ranges).context_init
    assert init.split is not None
    assert init.split.sampled_ns == pytest.approx(init.duration_ns, rel=0.03)
    assert "rm.gsp_rpc" in init.split.by_leaf


def test_calls_inside_a_range_have_the_split_of_that_range() -> None:
    entries = {str(entry.path): entry for entry in joined(True).ranges}
    inside = {call.name: call for call in entries["iteration > alloc"].calls}
    assert set(inside) == {"cudaHostAlloc", "cudaMalloc"}
    assert inside["cudaHostAlloc"].split == by_name(joined(True))["cudaHostAlloc"].split


def test_a_split_takes_samples_of_the_calling_thread_inside_the_call_only() -> None:
    calls = [Call("cudaHostAlloc", 10 * MS, 20 * MS), Call("cudaFreeHost", 20 * MS, 25 * MS)]
    samples = [
        Sample(PIN, 7 * MS, time_ns=10 * MS),
        Sample(WALK, 2 * MS, time_ns=19_999_999),
        Sample(WALK, 5 * MS, time_ns=20 * MS),
        Sample(PIN, 100 * MS, time_ns=9_999_999),
        Sample(PIN, 100 * MS, time_ns=15 * MS, tid=101),
        Sample(PIN, 100 * MS, time_ns=25 * MS),
    ]
    found = by_name(explained(calls, samples=samples))
    pinned, freed = found["cudaHostAlloc"].split, found["cudaFreeHost"].split
    assert pinned is not None
    assert freed is not None
    assert dict(pinned.by_leaf) == {"pin.faultin": 7 * MS, "pin.walk": 2 * MS}
    assert (pinned.samples, pinned.unsampled_ns) == (2, 1 * MS)
    assert dict(freed.by_leaf) == {"pin.walk": 5 * MS}


def test_without_samples_of_the_kernel_there_is_no_split() -> None:
    calls = [Call("cudaHostAlloc", 0, 10 * MS)]
    assert by_name(explained(calls))["cudaHostAlloc"].split is None
    user_only = [Sample(["main@/app"], MS, time_ns=MS)]
    assert by_name(explained(calls, samples=user_only))["cudaHostAlloc"].split is None


def test_threads_calls_are_kept_apart() -> None:
    calls = [Call("cudaHostAlloc", 0, 10 * MS, tid=tid) for tid in range(1, 6)]
    calls += [Call("cudaHostAlloc", 20 * MS, 30 * MS, tid=tid) for tid in range(1, 6)]
    samples = [Sample(PIN, tid * MS, time_ns=25 * MS + tid, tid=tid) for tid in (2, 4)]
    split = by_name(explained(calls, samples=samples))["cudaHostAlloc"].split
    assert split is not None
    assert dict(split.by_leaf) == {"pin.faultin": 6 * MS}


def loop(count: int, cost_ns: int, *, sizes: bool = True, per_iteration: int = 0) -> ActivityAnalysis:
    """So many pairs of calls; with `per_iteration`, in the measured iterations of a scenario."""
    calls, memory = [], []
    for number in range(count):
        at = 10 * MS + number * 100 * MS
        calls += [
            Call("cudaHostAlloc", at, at + cost_ns, 2 * number + 1),
            Call("cudaFreeHost", at + 50 * MS, at + 50 * MS + cost_ns, 2 * number + 2),
        ]
        memory += [
            Memory(at, 3 * MIB, correlation_id=2 * number + 1),
            Memory(at + 50 * MS, 3 * MIB, MemoryOperation.FREE, correlation_id=2 * number + 2),
        ]
    if not per_iteration:
        return explained(calls, [kernel(0, 10)], (), memory if sizes else ())
    length = per_iteration * 100 * MS
    ranges = [
        Range("iteration", 5 * MS + start * 100 * MS, 5 * MS + start * 100 * MS + length)
        for start in range(0, count, per_iteration)
    ]
    data = traced(calls, [kernel(0, 10)], (), memory, ranges=ranges)
    found = analyze(replace(data, manifest=replace(data.manifest, scenario={"name": "pinned"}))).activity
    assert found is not None
    return found


@pytest.mark.parametrize("sizes", [True, False])
def test_pairs_after_the_first_kernel_are_counted_by_kind_and_size_class(sizes: bool) -> None:
    (found,) = loop(3, MS, sizes=sizes).loops
    assert (found.what, found.pairs, found.cost_ns) == ("pinned", 3, 6 * MS)
    assert found.up_to_bytes == (4 * MIB if sizes else None)


def test_without_sizes_there_are_pairs_and_no_ledger() -> None:
    calls = [Call(name, at * MS, (at + 1) * MS) for at, name in enumerate(["cudaMalloc", "cudaFree"] * 4, 1)]
    found = analyze(traced(calls, [kernel(0, 10)]))
    assert found.activity is not None
    assert [(loop.what, loop.pairs) for loop in found.activity.loops] == [("device", 4)]
    assert found.allocations is not None
    assert found.ledger is None


def test_giving_back_nothing_to_create_a_context_is_of_no_pair() -> None:
    free, creating = Call("cudaFree", 100 * MS, 101 * MS), Call("cudaFree", 0, 60 * MS)
    assert analyze(traced([creating, free], [kernel(0, 5)])).allocations is not None
    assert analyze(traced([creating], [kernel(0, 5)])).allocations is None


def test_pairs_of_a_scenario_are_those_of_one_measured_iteration() -> None:
    assert not loop(8, MS, per_iteration=1).loops
    assert [found.pairs for found in loop(8, MS, per_iteration=4).loops] == [4]


def registrations(text: str, pid: int = 1) -> list[Call]:
    """`RU`: memory is registered, then unregistered; each call takes 1 ms."""
    names = {"R": "cudaHostRegister", "U": "cudaHostUnregister"}
    return [
        Call(names[letter], (at + 1) * 10 * MS, (at + 1) * 10 * MS + MS, pid=pid, tid=pid)
        for at, letter in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("calls", "pairs", "cost_ms"),
    [
        ("R" * 30 + "U" * 29, 0, 0),
        ("R" * 30 + "U" * 29 + "R", 2, 4),
        ("RU" * 4, 4, 8),
        ("RRRUUU" * 2, 6, 12),
        ("RURU" + "R" * 20, 2, 4),
    ],
)
def test_only_what_is_allocated_again_after_a_free_is_a_loop(calls: str, pairs: int, cost_ms: int) -> None:
    loops = explained(registrations(calls), [kernel(0, 10)]).loops
    assert [(loop.pairs, loop.cost_ns) for loop in loops] == ([(pairs, cost_ms * MS)] if pairs else [])


def test_what_one_process_frees_is_not_what_another_allocates() -> None:
    first = registrations("R" * 5 + "U" * 5)
    second = [replace(call, start_ns=call.start_ns + SECOND, end_ns=call.end_ns + SECOND, pid=2) for call in first]
    assert not explained([*first, *second], [kernel(0, 10)]).loops


def test_pairs_before_the_first_kernel_do_not_count() -> None:
    calls = [Call("cudaHostAlloc", n * 10, n * 10 + 1) for n in range(4)]
    calls += [Call("cudaFreeHost", n * 10 + 5, n * 10 + 6) for n in range(4)]
    assert not explained(calls, [kernel(1000, 1010)]).loops
    assert not explained(calls).loops


def test_freed_managed_memory_belongs_to_managed_pairs() -> None:
    (found,) = exported("uvm").loops
    assert (found.what, found.up_to_bytes, found.pairs) == ("managed", 64 * MIB, 2)


def test_memory_peaks_follow_allocations_and_frees() -> None:
    memory = [
        Memory(0, GIB, address=1), Memory(10, 2 * GIB, address=2), Memory(20, GIB, MemoryOperation.FREE, address=1),
        Memory(30, GIB // 2, address=3), Memory(40, MIB, memory_kind=MemoryKind.MANAGED, address=4),
    ]  # fmt: skip
    found = explained((), (), (), memory).memory
    assert found is not None
    assert (found.pinned_bytes, found.largest_pin_bytes, found.managed_bytes) == (3 * GIB, 2 * GIB, MIB)
    assert exported("both").memory is None


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param([Memory(0, GIB, address=1), Memory(10, GIB, address=1)], id="a free that nobody saw"),
        pytest.param(
            [Memory(0, GIB, MemoryOperation.FREE, address=2), Memory(10, GIB, address=1)],
            id="a free of memory from before",
        ),
    ],
)
def test_peaks_are_those_of_memory_that_lived_at_once(memory: list[Memory]) -> None:
    found = explained((), (), (), memory).memory
    assert found is not None
    assert found.pinned_bytes == GIB


def test_memory_that_a_tracer_reports_without_calls_has_a_history() -> None:
    made = traced((), (), (), [Memory(0, GIB, address=1)])
    assert made.activity is not None
    calls = replace(made.activity.calls, size_bytes=np.zeros(0, np.int64), address=np.zeros(0, np.uint64))
    run = analyze(replace(made, activity=replace(made.activity, calls=calls)))
    assert run.allocations is not None
    assert run.allocations.table.size_bytes.tolist() == [GIB]


def test_work_belongs_to_the_range_of_the_call_that_made_it() -> None:
    ranges = [Range("ask", 0, 100), Range("wait", 100, 1000)]
    calls = [Call("cudaMemcpyAsync", 10, 20, 1), Call("cudaDeviceSynchronize", 110, 900)]
    found = explained(calls, [to_device(200, 800, MIB, correlation_id=1)], ranges=ranges)
    ask, wait = found.ranges
    assert ([copy.count for copy in ask.copies], wait.copies) == ([1], ())
    assert (ask.busy_ns, wait.busy_ns) == (0, 600)
    assert [call.name for call in wait.calls] == ["cudaDeviceSynchronize"]


def test_nested_and_repeated_ranges_count_each_call_once_per_range() -> None:
    ranges = [
        Range("outer", 0, 100), Range("inner", 10, 50, depth=1), Range("inner", 50, 90, depth=1),
        Range("outer", 100, 200, pid=7, tid=7), Range("foreign", 0, 200, pid=555, tid=555),
    ]  # fmt: skip
    calls = [Call("cudaMalloc", at, at + 1) for at in (5, 15, 50, 95, 150)]
    found = {str(entry.path): entry for entry in explained(calls, ranges=ranges).ranges}
    counts = {path: sum(call.count for call in entry.calls) for path, entry in found.items()}
    # A range whose process made no call at all is taken to be in another PID namespace, and counts every call inside.
    assert counts == {"outer": 5, "outer > inner": 2, "foreign": 5}
    assert np.sum([call.count for call in explained(calls, ranges=ranges).whole.calls]) == 5


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_batches_change_nothing(batch_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [replace(entry, path=None) for entry in exported("uvm").ranges]
    monkeypatch.setattr(intervals, "BATCH_ROWS", batch_rows)
    found = analyze(export("uvm").capture).activity
    assert found is not None
    assert [replace(entry, path=None) for entry in found.ranges] == expected


def test_bytes_that_arguments_say_are_not_counted_again_with_the_work_of_the_gpu() -> None:
    made = traced([Call("cudaMemcpyAsync", 0, MS, 5)], [to_device(0, MS, 4096, correlation_id=5)]).activity
    assert made is not None
    for told in (4096, -1):
        calls = replace(made.calls, size_bytes=np.array([told]))
        assert prepare_calls(replace(made, calls=calls)).size_bytes.tolist() == [4096]


def test_a_long_call_after_work_of_the_gpu_is_a_wait_and_creates_nothing() -> None:
    """A trace that begins in mid-run: launches, or work that no recorded call asked for, came before."""
    sync = Call("cudaDeviceSynchronize", 10 * MS, 410 * MS, 50)
    launches = [Call("cudaLaunchKernel", at * MS, at * MS + 5000, at) for at in range(1, 5)]
    assert explained([sync]).context_init
    assert not explained([*launches, sync]).context_init
    assert not explained([sync], [kernel(MS, 2 * MS, correlation_id=3)]).context_init
    asked = [Call("cudaLaunchKernel", 500 * MS, 501 * MS, 60)], kernel(502 * MS, 503 * MS, correlation_id=60)
    unasked = kernel(20 * MS, 400 * MS, correlation_id=3)
    assert not explained([sync, *asked[0]], [unasked, asked[1]]).context_init
    assert explained([sync], [unasked]).context_init
    # What failed, and what asks for versions, needs no context; nor does what the call itself asked the GPU for.
    failed = [Call("cudaMalloc", MS, MS + 5000, 1, status=2), Call("cudaGetDeviceCount", 2 * MS, 2 * MS + 5000, 2)]
    assert explained([*failed, sync]).context_init
    assert explained([Call("cudaMemset", 0, 90 * MS, 1)], [kernel(80 * MS, 89 * MS, correlation_id=1)]).context_init


def test_calls_of_hip_have_purposes_and_loop() -> None:
    names = [("hipMalloc", 0), ("hipMemcpyWithStream", 2), ("hipLaunchKernel", 4), ("hipFree", 6)]
    calls = [Call(name, (10 * at + late) * MS, (10 * at + late + 1) * MS) for at in range(20) for name, late in names]
    found = explained(calls, [kernel(4 * MS, 5 * MS)])
    assert {call.name: call.purpose for call in found.whole.calls} == {
        "hipMalloc": "alloc device",
        "hipMemcpyWithStream": "copy",
        "hipLaunchKernel": "launch",
        "hipFree": "free device",
    }
    assert [(loop.what, loop.pairs >= 18) for loop in found.loops] == [("device", True)]
