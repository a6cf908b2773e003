"""Each rule about activity on both sides of its threshold, and what it says when it cannot judge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pinprof.analyze import Finding, analyze, evidence
from pinprof.analyze.activity.calls import CONTEXT_INIT_NS
from pinprof.analyze.rules.needs import CALLS, CUDA
from pinprof.analyze.rules.pinning import FAILING_PIN_BYTES, GIANT_PIN_BYTES
from pinprof.analyze.rules.rule import TRIFLE
from pinprof.analyze.rules.rules import RULES
from pinprof.data.activity import GivenUp
from tests.support.activities import (
    ALL,
    GIB,
    H200,
    KIB,
    MIB,
    MS,
    SECOND,
    US,
    Call,
    Memory,
    MemoryKind,
    MemoryOperation,
    Op,
    OpKind,
    explained,
    export,
    kernel,
    migration,
    to_device,
    to_host,
    traced,
)
from tests.support.stacks import Sample, capture
from tests.support.verdicts import (
    BLOCK,
    EVICTION,
    FAULT,
    NO_LINK,
    WITHOUT_FLOOR,
    bounce,
    fires,
    real,
    storm,
    verdict,
)


def test_without_activity_no_rule_makes_a_claim() -> None:
    found = {entry.rule: entry for entry in analyze(capture([Sample(["main@/app"])])).findings}
    about_activity = [rule for rule in RULES if {CUDA, CALLS} & set(rule.needs) and not rule.otherwise]
    assert len(about_activity) == 15
    for rule in about_activity:
        assert found[rule.name].status == "not-assessable"
        assert "nsys" in found[rule.name].missing
        assert found[rule.name].title.endswith("can't be judged.")


def test_without_samples_rules_about_samples_make_no_claim_and_the_others_judge() -> None:
    found = {entry.rule: entry.status for entry in export("both").findings}
    assert found["first-touch"] == found["sampling-gap"] == "not-assessable"
    assert found["alloc-loop"] == "fired"
    assert found["slow-link"] == "clear"


def test_samples_of_nsys_are_not_taken_for_samples_of_the_kernel() -> None:
    found = {entry.rule: entry for entry in export("pageable").findings}
    assert len(export("pageable").capture.samples) > 0
    for rule in ("first-touch", "freeing", "first-touch-in-pin", "managed-cpu-faults"):
        assert found[rule].status == "not-assessable"
        assert "perf" in found[rule].missing
    # Copies tell what samples cannot.
    assert "synchronous copies of pageable memory" in found["staging-copies"].evidence[0]


def test_nothing_recorded_gives_no_verdict_that_sounds_fine() -> None:
    found = analyze(traced(recorded=frozenset({"nvtx", "os_calls"}))).findings
    assert found
    assert all(entry.status == "not-assessable" for entry in found)


@pytest.mark.parametrize(("duration", "fired"), [(CONTEXT_INIT_NS, True), (CONTEXT_INIT_NS - 1, False)])
def test_context_init(duration: int, fired: bool) -> None:
    finding = verdict("context-init", [Call("cudaFree", 0, duration), Call("cudaFree", 100 * MS, 101 * MS)])
    assert fires(finding) == fired
    assert finding.severity in ("info", "ok")
    assert verdict("context-init", (), [kernel(0, 1)]).status == "not-assessable"


def pairs(count: int, cost_ns: int, wall_ns: int) -> Finding:
    calls, memory = [Call("cudaLaunchKernel", 0, 10), Call("cudaLaunchKernel", wall_ns - 10, wall_ns)], []
    for number in range(count):
        at = MS + number * 100 * MS
        calls += [Call("cudaMallocHost", at, at + cost_ns // 2, 2 * number + 1)]
        calls += [Call("cudaFreeHost", at + 50 * MS, at + 50 * MS + cost_ns // 2, 2 * number + 2)]
        memory += [Memory(at, MIB, correlation_id=2 * number + 1)]
        memory += [Memory(at + 50 * MS, MIB, MemoryOperation.FREE, correlation_id=2 * number + 2)]
    return verdict("alloc-loop", calls, [kernel(5, 20)], (), memory)


@pytest.mark.parametrize(
    ("count", "cost_ns", "wall_ns", "fired"),
    [
        (3, 4 * MS, 1200 * MS, True),
        (2, 40 * MS, 1200 * MS, False),
        (3, 4 * MS, 1201 * MS, False),
        (5, 2 * MS, 600 * MS, True),
        (5, 2 * MS - 2, 600 * MS, False),
    ],
)
def test_alloc_loop(count: int, cost_ns: int, wall_ns: int, fired: bool) -> None:
    assert fires(pairs(count, cost_ns, wall_ns)) == fired


@pytest.mark.parametrize(("copied_at", "fired"), [(15 * MS, True), (115 * MS, False), (None, False)])
def test_alloc_loop_of_calls_alone_counts_from_the_first_copy(copied_at: int | None, fired: bool) -> None:
    calls = [] if copied_at is None else [Call("cudaMemcpy", copied_at, copied_at + 1)]
    for at in range(20, 320, 100):
        calls += [Call("cudaMallocHost", at * MS, (at + 20) * MS), Call("cudaFreeHost", (at + 50) * MS, (at + 70) * MS)]
    calls.sort(key=lambda call: call.start_ns)
    recorded = frozenset({"cuda calls", "memory"})
    assert fires(verdict("alloc-loop", calls, recorded=recorded)) == fired


def contexts(first_ns: int) -> list[Call]:
    """Two processes that create their contexts at once, in 500 ms each, and pin and free four times in 1 ms."""
    calls = [Call("cudaFree", 0, 500 * MS, pid=pid) for pid in (1, 2)]
    for at in range(8):
        start = first_ns + at * 100 * US
        calls.append(Call("cudaFreeHost" if at % 2 else "cudaHostAlloc", start, start + 50 * US, pid=1))
    return calls


@WITHOUT_FLOOR
def test_contexts_that_are_created_at_once_take_their_time_once() -> None:
    found = verdict("alloc-loop", contexts(500 * MS), [kernel(0, 10, pid=1)])
    assert fires(found)
    assert "Together 400 µs, 53 % of 750 µs" in found.evidence[-1]


def test_a_loop_beside_the_creation_of_contexts_is_no_share_of_nothing() -> None:
    found = verdict("alloc-loop", contexts(100 * MS), [kernel(0, 10, pid=1)])
    assert not fires(found)
    assert "Together 400 µs." in found.evidence


def test_a_program_without_cuda_calls_is_not_judged_by_them() -> None:
    for rule in ("alloc-loop", "over-pinned", "giant-pin", "context-init"):
        assert verdict(rule, recorded=frozenset({"cuda calls", "memory"})).status == "not-assessable"


def test_alloc_loop_says_when_sizes_are_unknown() -> None:
    assert "Sizes" in real("both", "alloc-loop").missing
    assert real("pinned", "alloc-loop").missing == ""


@pytest.mark.parametrize(("blocked", "fired"), [(10 * MS, True), (10 * MS - 1, False)])
def test_async_from_pageable(blocked: int, fired: bool) -> None:
    calls = [Call("cudaMemcpyAsync", 0, blocked, 1), Call("cudaFree", 999 * MS, 1000 * MS)]
    copy = to_device(0, blocked, MIB, MemoryKind.PAGEABLE, correlation_id=1)
    assert fires(verdict("async-from-pageable", calls, [copy])) == fired
    pinned = to_device(0, blocked, MIB, MemoryKind.PINNED, correlation_id=1)
    assert not fires(verdict("async-from-pageable", calls, [pinned]))


def staged(size: int, rate: float, wall_ns: int, **other: Any) -> Finding:
    took = int(size / rate)
    calls = [Call("cudaMemcpy", 0, took, 1), Call("cudaFree", wall_ns - 10, wall_ns)]
    return verdict("staging-copies", calls, [to_device(0, took, size, MemoryKind.PAGEABLE, correlation_id=1)], **other)


@pytest.mark.parametrize(
    ("rate", "wall_ns", "host", "fired"),
    [
        (3.3, SECOND, H200, True),
        (3.3, 10 * SECOND, H200, False),
        (3.3, SECOND, NO_LINK, True),
        (40.0, 200 * MS, H200, False),
    ],
)
def test_synchronous_copies_of_pageable_memory_want_pinned_buffers(
    rate: float, wall_ns: int, host: dict[str, Any], fired: bool
) -> None:
    found = staged(GIB, rate, wall_ns, host=host)
    assert fires(found) == fired
    assert "pinned buffers" in found.advice or not fired


def test_copies_of_pageable_memory_get_no_advice_about_streams() -> None:
    calls = [Call("cudaMemcpy", 0, 300 * MS, 1), Call("cudaFree", 999 * MS, SECOND)]
    ops = [to_device(0, 300 * MS, GIB, MemoryKind.PAGEABLE, correlation_id=1), kernel(300 * MS, 600 * MS)]
    assert not fires(verdict("sync-serialisation", calls, ops))
    assert fires(verdict("sync-serialisation", calls, [replace(ops[0], src_kind=MemoryKind.PINNED), ops[1]]))


def test_samples_of_the_kernel_judge_staging_before_copies_do() -> None:
    samples = [Sample(["main@/app", "do_syscall_64"], MS, time_ns=at * MS) for at in range(100)]
    assert "copy.staging is" in " ".join(staged(GIB, 3.3, SECOND, samples=samples).evidence)


LAUNCH = Call("cudaLaunchKernel", 0, 10, 1)


COPY = Call("cudaMemcpy", 20, 30, 2)


ALL_BLIND = {"tiny-copies", "transfer-dominates", "prefetch-missing", "ping-pong"}


@pytest.mark.parametrize(
    ("calls", "ops", "blind"),
    [
        ([LAUNCH, COPY], [], ALL_BLIND),
        ([COPY], [kernel(0, 10)], ALL_BLIND),
        ([LAUNCH], [to_device(20, 30, KIB)], {"transfer-dominates", "prefetch-missing"}),
        ([replace(LAUNCH, status=98), replace(COPY, status=1)], [], ALL_BLIND),
        ([replace(LAUNCH, status=98), replace(COPY, status=1)], [kernel(0, 10)], set()),
        ([replace(LAUNCH, name="cudaLaunchHostFunc")], [to_device(20, 30, KIB)], set()),
        ([LAUNCH, COPY], [kernel(0, 10), to_device(20, 30, KIB)], set()),
    ],
)
def test_gpu_work_that_calls_asked_for_and_the_recording_lacks_is_not_judged(
    calls: list[Call], ops: list[Op], blind: set[str]
) -> None:
    found = analyze(traced(calls, ops)).findings
    assert {entry.rule for entry in found if entry.rule in ALL_BLIND and entry.status == "not-assessable"} == blind


def tiny(count: int, size: int, duration: int, **other: Any) -> Finding:
    return verdict("tiny-copies", (), [to_device(at * MS, at * MS + duration, size) for at in range(count)], **other)


@WITHOUT_FLOOR
@pytest.mark.parametrize(
    ("count", "size", "duration", "fired"),
    [
        (1000, 8 * KIB, 800, True),
        (999, 8 * KIB, 800, False),
        (1000, 16 * KIB, 8000, False),
        (1000, 16 * KIB - 1, 8000, True),
        # 20 % of 55.6 GB/s is 11.12 bytes a nanosecond.
        (1000, 11_121, 1000, False),
        (1000, 11_119, 1000, True),
    ],
)
def test_tiny_copies(count: int, size: int, duration: int, fired: bool) -> None:
    assert fires(tiny(count, size, duration)) == fired


def test_tiny_copies_on_an_unknown_link() -> None:
    assert tiny(1000, KIB, 800, host=NO_LINK).status == "not-assessable"
    assert tiny(999, KIB, 800, host=NO_LINK).status == "clear"


@WITHOUT_FLOOR
@pytest.mark.parametrize(
    ("copy_ns", "overlap_ns", "fired"),
    [(100 * US, 0, True), (100 * US - 1, 0, False), (200 * US, 10 * US, False), (200 * US, 10 * US - 1, True)],
)
def test_sync_serialisation(copy_ns: int, overlap_ns: int, fired: bool) -> None:
    ops = [
        to_device(0, copy_ns, MIB, correlation_id=1), kernel(copy_ns - overlap_ns, copy_ns + 1),
        Op(OpKind.MEMSET, 999 * US, 1000 * US, KIB),
    ]  # fmt: skip
    assert fires(verdict("sync-serialisation", [Call("cudaMemcpy", 0, copy_ns, 1)], ops)) == fired


def test_sync_serialisation_on_real_runs() -> None:
    assert not fires(real("pageable", "sync-serialisation"))
    assert fires(real("pageable", "staging-copies"))
    assert not fires(real("pinned", "sync-serialisation"))
    assert verdict("sync-serialisation", [Call("cudaFree", 0, 1)]).status == "not-assessable"


@WITHOUT_FLOOR
@pytest.mark.parametrize(("share", "fired"), [(0.699, True), (0.701, False)])
def test_slow_link(share: float, fired: bool) -> None:
    size = 64 * MIB
    slow = to_host(0, round(size / 55.3 / share), size)
    fast = to_device(10 * MS, 10 * MS + round(size / 55.6), size)
    assert fires(verdict("slow-link", (), [fast, slow])) == fired


def test_slow_link_needs_large_pinned_copies_and_a_known_link() -> None:
    large = [to_device(0, 10 * MS, 64 * MIB)]
    assert verdict("slow-link", (), large, host=NO_LINK).status == "not-assessable"
    assert verdict("slow-link", (), [to_device(0, MS, MIB)]).status == "not-assessable"
    assert verdict("slow-link", (), [to_device(0, MS, 64 * MIB, MemoryKind.PAGEABLE)]).status == "not-assessable"
    assert not fires(real("pinned", "slow-link"))


OK = Call("cudaMalloc", 0, 10)


@pytest.mark.parametrize(
    ("call", "severity", "said"),
    [
        (Call("cudaMalloc", 20, 30, status=2), "critical", "failed: cudaErrorMemoryAllocation (2) in 1 of 2 calls."),
        (Call("cuMemAlloc", 20, 30, status=2), "critical", "failed: CUDA_ERROR_OUT_OF_MEMORY (2) in 1 of 1 call."),
        (Call("cudaStreamSynchronize", 20, 30, status=700), "critical", "cudaErrorIllegalAddress (700)"),
        (Call("cudaMemcpy", 20, 30, status=12345), "critical", "cudaMemcpy failed: error 12345 in 1 of 1 call."),
        (Call("cudaHostRegister", 20, 30, status=712), "warning", "cudaErrorHostMemoryAlreadyRegistered (712)"),
        (Call("cuModuleLoadData", 20, 30, status=209), "warning", "CUDA_ERROR_NO_BINARY_FOR_GPU (209)"),
        (Call("cuGetProcAddress", 20, 30, status=500), "ok", "No CUDA call failed."),
        (Call("cudaGetLastError", 20, 30, status=2), "ok", "No CUDA call failed."),
        (Call("cuInit", 20, 30, status=100), "ok", "No CUDA call failed."),
        (Call("cudaEventQuery", 20, 30, status=600), "ok", "No CUDA call failed."),
        (Call("cudaFree", 20, 30, status=4), "ok", "No CUDA call failed."),
    ],
)  # fmt: skip
def test_a_failed_call_is_named_with_its_error(call: Call, severity: str, said: str) -> None:
    found = verdict("failed-calls", [OK, call])
    assert (found.severity, said in found.title) == (severity, True)


def test_a_failure_is_the_first_thing_to_say() -> None:
    calls = [OK, Call("cudaMalloc", 20, 30, status=2), Call("cudaFreeHost", 40, 90 * MS)]
    found = analyze(traced(calls, storm(100, 0.1), recorded=ALL - {"gpu_faults"}))
    assert found.answer.startswith("cudaMalloc failed: cudaErrorMemoryAllocation (2) in 1 of 2 calls. ")
    assert found.findings[0].rule == "failed-calls"
    assert "failed" not in analyze(traced([OK, Call("cudaEventQuery", 20, 30, status=600)])).answer


def test_bytes_of_failed_calls_count_nowhere() -> None:
    calls = [Call("cudaMalloc", at * 100, at * 100 + 10, at, status=at % 2 * 2) for at in (1, 2, 3)]
    memory = [Memory(at * 100, GIB, correlation_id=at, memory_kind=MemoryKind.DEVICE) for at in (1, 2, 3)]
    (call,) = explained(calls, (), (), memory).whole.calls
    assert (call.size_bytes, call.count, call.failures) == (GIB, 3, 2)
    assert [(error.name, error.count) for error in call.errors] == [("cudaErrorMemoryAllocation", 2)]


@WITHOUT_FLOOR
@pytest.mark.parametrize(("kernel_ns", "fired"), [(99, True), (100, False)])
def test_transfer_dominates(kernel_ns: int, fired: bool) -> None:
    ops = [to_device(0, 50, KIB), migration(60, 110, KIB, FAULT), kernel(200, 200 + kernel_ns)]
    assert fires(verdict("transfer-dominates", (), ops)) == fired
    assert verdict("transfer-dominates", [Call("cudaFree", 0, 1)]).status == "not-assessable"


TRIFLES = {
    "async-from-pageable": (
        [Call("cudaMemcpyAsync", 0, 9 * MS, 1)],
        [to_device(0, 9 * MS, MIB, MemoryKind.PAGEABLE, correlation_id=1)],
    ),
    "tiny-copies": ((), [to_device(at * 2 * US, at * 2 * US + US, KIB) for at in range(1000)]),
    "sync-serialisation": ([Call("cudaMemcpy", 0, 9 * MS, 1)], [to_device(0, 9 * MS, MIB, correlation_id=1)]),
    "slow-link": ((), [to_device(0, 9 * MS, 64 * MIB)]),
    "transfer-dominates": ((), [to_device(0, 39 * US, KIB), kernel(40 * US, 58 * US)]),
    "gpu-fault-storm": ((), storm(100, 0.1)),
    "prefetch-missing": ((), [kernel(0, 100 * US), migration(US, 2 * US, KIB, FAULT)]),
    "ping-pong": ((), bounce(4)),
    "eviction": ((), [migration(at, at + 1, KIB, EVICTION, back=True) for at in range(5)]),
    "cpu-fault-drain": ((), [migration(0, 9 * MS, BLOCK, FAULT, back=True), kernel(10 * MS, 20 * MS)]),
}


@pytest.mark.parametrize("rule", TRIFLES)
def test_no_rule_gives_advice_on_a_trifle(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdict(rule, *TRIFLES[rule], recorded=ALL - {"gpu_faults"})
    assert not fires(found)
    assert found.title == TRIFLE
    assert found.evidence[-1].endswith("there is no advice below 1 % and 10 ms.")
    monkeypatch.setattr(evidence, "LEAST_NS", 0)
    assert fires(verdict(rule, *TRIFLES[rule], recorded=ALL - {"gpu_faults"}))


def test_less_than_a_hundredth_of_the_run_is_a_trifle_however_long_it_is() -> None:
    calls, copy = [Call("cudaMemcpy", 0, 20 * MS, 1)], to_device(0, 20 * MS, MIB, correlation_id=1)
    rest = to_device(1981 * MS, 2001 * MS, 2000 * MIB)
    assert fires(verdict("transfer-dominates", calls, [copy, rest]))
    alone = [copy, kernel(0, MS), Op(OpKind.MEMSET, 2000 * MS, 2001 * MS, KIB)]
    assert verdict("transfer-dominates", calls, alone).title == TRIFLE


@pytest.mark.parametrize(
    ("gpu", "pinned", "severity"),
    [
        ("NVIDIA H200", 64 * GIB, "ok"),
        ("NVIDIA H200", 64 * GIB + 1, "warning"),
        ("NVIDIA GeForce RTX 4090", 32 * GIB, "ok"),
        ("NVIDIA GeForce RTX 4090", 32 * GIB + 1, "warning"),
        ("NVIDIA H200", 104 * GIB, "critical"),
    ],
)
def test_over_pinned(gpu: str, pinned: int, severity: str) -> None:
    host = {**H200, "gpus": [{"name": gpu}]}
    assert verdict("over-pinned", (), (), (), [Memory(0, pinned)], host=host).severity == severity


def test_over_pinned_needs_allocations_and_the_machines_memory() -> None:
    assert verdict("over-pinned", recorded=frozenset({"cuda"})).status == "not-assessable"
    assert verdict("over-pinned", (), (), (), [Memory(0, GIB)], host={}).status == "not-assessable"
    assert (
        verdict("over-pinned", (), (), (), [Memory(0, GIB)], host={"memory_bytes": "much"}).status == "not-assessable"
    )


@pytest.mark.parametrize(
    ("size", "severity"),
    [
        (GIANT_PIN_BYTES - 1, "ok"), (GIANT_PIN_BYTES, "warning"), (FAILING_PIN_BYTES - 1, "warning"),
        (FAILING_PIN_BYTES, "critical"),
    ],
)  # fmt: skip
def test_giant_pin(size: int, severity: str) -> None:
    assert verdict("giant-pin", (), (), (), [Memory(0, size)]).severity == severity
    assert verdict("giant-pin", recorded=frozenset({"cuda"})).status == "not-assessable"


def test_hostile_host_facts_do_not_break_a_verdict() -> None:
    for gpus in ("text", [None], [{"memory_bytes": "x", "name": 5}], {"a": 1}):
        findings = analyze(traced((), [migration(0, 1, KIB, FAULT)], host={"gpus": gpus})).findings
        assert len(findings) == len({entry.rule for entry in findings})


@pytest.mark.slow
def test_a_recording_of_nsys_alone_has_a_headline_about_calls() -> None:
    assert export("pinned").headline.startswith("cudaHostAlloc takes 32 % of the run: 100 ms in 3 calls for 192 MiB;")
    assert export("uvm").headline == (
        "53 % of the kernels' time is lost to 319 GPU fault groups; 192 MiB migrated on demand in 6,915 pieces."
    )
    assert analyze(traced()).headline.startswith(
        "This recording cannot show host-memory costs, because it has neither samples nor CUDA calls; record with"
    )


def test_what_rests_on_calls_that_were_not_traced_is_not_assessable() -> None:
    made = traced([Call("cudaMallocHost", 0, 10 * MS), Call("cudaFreeHost", 20 * MS, 30 * MS)])
    assert made.activity is not None
    whole = {finding.rule: finding for finding in analyze(made).findings}
    of_all = {"failed-calls", "idle-context"}
    of_memory = {*of_all, "failed-pinned", "giant-pin", "over-pinned"}
    lacking: tuple[tuple[dict[str, Any], set[str]], ...] = (
        ({"given_up": (GivenUp("memory", 5 * MS, 15 * MS),)}, of_memory),
        ({"given_up": (GivenUp("copies", 5 * MS, 15 * MS),)}, of_all),
        ({"lost_calls": 3}, of_all),
        ({"lost_calls": 3, "lost_memory": True}, of_memory),
    )
    for change, blind in lacking:
        less = replace(made.activity, **change)
        found = {finding.rule: finding for finding in analyze(replace(made, activity=less)).findings}
        changed = {rule for rule in found if found[rule].status != whole[rule].status}
        # Repeated allocation is judged by ranges then, of which there are none.
        assert changed - {"alloc-loop"} == blind
        assert all("--probe-budget" in found[rule].missing for rule in blind)
