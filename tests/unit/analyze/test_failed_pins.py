"""Pins that failed, the copies that stand in for them, and bytes that count nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze import Finding, Run, analyze
from pinprof.data.activity import UNRECORDED, MemoryKind
from tests.support.activities import MIB, MS, Call, Op, to_device, traced

PAGEABLE, PINNED = MemoryKind.PAGEABLE, MemoryKind.PINNED
CALLS = frozenset({"cuda calls", "memory"})


def recorded(*calls: tuple[Call, int, int], ops: Sequence[Op] = ()) -> Run:
    """Calls with their size and their source's memory, as probes record them."""
    seen = traced([call for call, _, _ in calls], ops, recorded=CALLS)
    assert seen.activity is not None
    source = np.array([kind for *_, kind in calls], np.uint8)
    table = replace(
        seen.activity.calls,
        size_bytes=np.array([size for _, size, _ in calls], np.int64),
        source_kind=source,
        target_kind=np.where(source == UNRECORDED, UNRECORDED, MemoryKind.DEVICE).astype(np.uint8),
    )
    return analyze(replace(seen, activity=replace(seen.activity, calls=table)))


def pin(at: int, size: int, status: int = 0, name: str = "cudaHostAlloc") -> tuple[Call, int, int]:
    return Call(name, at * MS, (at + 1) * MS, status=status), size, UNRECORDED


def copy(at: int, size: int, kind: int = PAGEABLE, pid: int = 100) -> tuple[Call, int, int]:
    return Call("cudaMemcpyAsync", at * MS, (at + 2) * MS, pid=pid), size, kind


def found(analysis: Run, rule: str = "failed-pinned") -> Finding:
    (finding,) = [entry for entry in analysis.findings if entry.rule == rule]
    return finding


def test_copies_of_pageable_memory_after_a_failed_pin_are_a_silent_fall_back() -> None:
    analysis = recorded(pin(1, 64 * MIB, status=2), copy(3, 64 * MIB), copy(6, 48 * MIB))
    finding = found(analysis)
    assert finding.severity == "critical"
    assert finding.title == (
        "cudaHostAlloc could not page-lock 64 MiB: cudaErrorMemoryAllocation, "
        "and the program copies pageable memory instead."
    )
    assert "1 call of cudaHostAlloc failed with cudaErrorMemoryAllocation, 64 MiB in total." in finding.evidence
    assert "After that, 2 copies of pageable memory of that size moved 112 MiB in 4 ms." in finding.evidence
    assert "ulimit -l" in finding.advice
    assert found(analysis, "failed-calls").severity == "critical"


@pytest.mark.parametrize(
    "instead",
    [
        pytest.param([copy(3, 64 * MIB, PINNED)], id="pinned"),
        pytest.param([copy(3, 31 * MIB)], id="smaller"),
        pytest.param([copy(3, 65 * MIB)], id="larger"),
        pytest.param([copy(3, 64 * MIB, pid=200)], id="another process"),
        pytest.param([copy(0, 64 * MIB)], id="before"),
        pytest.param([pin(3, 64 * MIB), copy(6, 64 * MIB)], id="a second try worked"),
        pytest.param([], id="none"),
    ],
)
def test_other_copies_are_no_fall_back(instead: Sequence[tuple[Call, int, int]]) -> None:
    rows = sorted([pin(1, 64 * MIB, status=2), *instead], key=lambda row: row[0].start_ns)
    finding = found(recorded(*rows))
    assert finding.severity == "warning"
    assert finding.title == "cudaHostAlloc could not page-lock 64 MiB: cudaErrorMemoryAllocation."


def test_two_failures_do_not_share_a_copy() -> None:
    analysis = recorded(pin(1, 64 * MIB, status=2), pin(2, 64 * MIB, status=2), copy(4, 64 * MIB))
    assert analysis.activity is not None
    (failed,) = analysis.activity.failed_pins
    assert (failed.error.count, failed.asked_bytes, failed.largest_bytes) == (2, 128 * MIB, 64 * MIB)
    assert (failed.copies, failed.copied_bytes) == (1, 64 * MIB)


def test_what_is_registered_already_is_no_failure() -> None:
    finding = found(recorded(pin(1, MIB, status=712, name="cudaHostRegister"), copy(3, MIB)))
    assert finding.status == "clear"


def test_under_confidential_computing_the_advice_is_to_allocate() -> None:
    finding = found(recorded(pin(1, MIB, status=801, name="cudaHostRegister")))
    assert "cudaErrorNotSupported" in finding.title
    assert "confidential computing" in finding.advice


def test_bytes_of_failed_pins_count_nowhere() -> None:
    analysis = recorded(pin(1, 64 * MIB, status=2), pin(3, 16 * MIB))
    assert analysis.activity is not None
    (call,) = analysis.activity.whole.calls
    assert (call.size_bytes, call.count, call.failures) == (16 * MIB, 2, 1)


def test_copies_that_cupti_alone_has_seen_are_a_fall_back_too() -> None:
    copies = [to_device(at * MS, (at + 2) * MS, 64 * MIB, PAGEABLE) for at in (3, 6)]
    analysis = recorded(pin(1, 64 * MIB, status=2), ops=copies)
    assert analysis.activity is not None
    (failed,) = analysis.activity.failed_pins
    assert (failed.copies, failed.copied_bytes, failed.copying_ns) == (2, 128 * MIB, 4 * MS)


def test_without_arguments_the_failure_is_named_and_no_fall_back_claimed() -> None:
    copies: list[Op] = [to_device(3 * MS, 5 * MS, 64 * MIB, PAGEABLE)]
    finding = found(analyze(traced([Call("cudaMallocHost", MS, 2 * MS, status=2)], copies)))
    assert finding.title == "cudaMallocHost could not page-lock memory: cudaErrorMemoryAllocation."
    assert finding.severity == "warning"


def launch(at: int, tid: int = 100) -> tuple[Call, int, int]:
    return Call("cudaLaunchKernel", at * MS, (at + 1) * MS, tid=tid), -1, UNRECORDED


def asks(at: int, name: str = "cudaGetLastError") -> tuple[Call, int, int]:
    return Call(name, at * MS, at * MS + 1), -1, UNRECORDED


def surfaces(*rows: tuple[Call, int, int]) -> list[str]:
    return [text for text in found(recorded(*rows)).evidence if "cudaGetLastError" in text]


def test_error_that_nobody_asks_for_is_the_next_launch_s() -> None:
    (said,) = surfaces(pin(1, MIB, status=2), copy(3, MIB), launch(6), launch(8))
    assert "The thread's next launch is cudaLaunchKernel: a check there reports this error as its own." in said


@pytest.mark.parametrize(
    "after",
    [
        pytest.param([], id="no launch"),
        pytest.param([asks(3), launch(6)], id="asked for"),
        pytest.param([launch(6, tid=200)], id="another thread"),
    ],
)
def test_error_that_was_taken_or_that_no_launch_follows_surfaces_nowhere(after: list[tuple[Call, int, int]]) -> None:
    assert surfaces(pin(1, MIB, status=2), *after) == []


def test_looking_at_an_error_does_not_take_it() -> None:
    assert len(surfaces(pin(1, MIB, status=2), asks(3, "cudaPeekAtLastError"), launch(6))) == 1
