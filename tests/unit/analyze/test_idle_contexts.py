"""Contexts that give the GPU no work, and what refutes that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze import Finding, analyze
from pinprof.data.activity import CopyKind
from tests.support.activities import MS, SECOND, Call, Op, kernel, traced

WORKER = 200
CONTEXT = Call("cuInit", 0, 120 * MS, pid=WORKER, tid=WORKER)
PINS = Call("cuMemHostAlloc", 130 * MS, 131 * MS, pid=WORKER, tid=WORKER)
WORKS = (Call("cuInit", 0, 120 * MS), Call("cuLaunchKernel", 2 * SECOND, 2 * SECOND + MS))


def found(*calls: Call, ops: tuple[Op, ...] = ()) -> Finding:
    ordered = sorted(calls, key=lambda call: call.start_ns)
    (finding,) = [one for one in analyze(traced(ordered, ops)).findings if one.rule == "idle-context"]
    return finding


def test_context_of_a_process_that_only_pins_is_idle() -> None:
    finding = found(CONTEXT, PINS, *WORKS)
    assert (finding.severity, finding.title) == (
        "warning", "1 CUDA context gives its GPU no work.",
    )  # fmt: skip
    assert finding.evidence[0] == "Process 200 creates its context in cuInit, which takes 120 ms."


def by_worker(name: str, status: int = 0) -> Call:
    return Call(name, 140 * MS, 141 * MS, pid=WORKER, tid=WORKER, status=status)


@pytest.mark.parametrize(
    "also",
    [by_worker(name) for name in ("cuLaunchKernel", "cuMemcpyHtoD", "cuMemAlloc", "cuMemAllocManaged", "cuMemsetD8")],
    ids=lambda call: call.name,
)
def test_context_that_gives_the_gpu_work_is_not(also: Call) -> None:
    assert found(CONTEXT, also, *WORKS).severity == "ok"


def test_work_that_failed_is_none() -> None:
    assert found(CONTEXT, by_worker("cuMemAlloc", status=2), *WORKS).severity == "warning"


def test_work_of_the_gpu_counts_where_no_call_of_it_was_recorded() -> None:
    assert found(CONTEXT, *WORKS, ops=(kernel(3 * SECOND, 3 * SECOND + MS, pid=WORKER),)).severity == "ok"
    assert found(CONTEXT, *WORKS, ops=(kernel(3 * SECOND, 3 * SECOND + MS, pid=-1),)).severity == "ok"


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param((CONTEXT, PINS), id="nobody works"),
        pytest.param((*WORKS, Call("cuInit", 1900 * MS, 1990 * MS, pid=WORKER, tid=WORKER)), id="just created"),
        pytest.param(WORKS, id="one process"),
    ],
)
def test_context_is_not_judged_without_the_evidence(calls: tuple[Call, ...]) -> None:
    assert found(*calls).severity != "warning"


RANK = (
    Call("cuDevicePrimaryCtxRetain", 0, 300 * MS),
    Call("cuDevicePrimaryCtxRetain", 400 * MS, 650 * MS),
    Call("cuLaunchKernel", 3 * SECOND, 3 * SECOND + MS),
)


def on_gpus(calls: tuple[Call, ...], devices: list[int], work: list[Op]) -> Finding:
    """`devices`: of each call, -1 for those that name none."""
    made = traced(calls, work)
    assert made.activity is not None
    table = replace(made.activity.calls, device=np.array(devices, np.int32))
    (finding,) = [
        one
        for one in analyze(replace(made, activity=replace(made.activity, calls=table))).findings
        if one.rule == "idle-context"
    ]
    return finding


def worked(count: int, device: int, **other: int) -> list[Op]:
    at = SECOND
    return [kernel(at + number * MS, at + number * MS + 1000, device=device, **other) for number in range(count)]


def test_rank_that_works_on_its_own_gpu_keeps_no_context_on_another() -> None:
    finding = on_gpus(RANK, [0, 3, -1], worked(100, 3))
    assert finding.severity == "warning"
    assert finding.evidence[0] == (
        "Process 100 creates a context on GPU 0 in cuDevicePrimaryCtxRetain, which takes 300 ms, and all 100 kernels"
        " and copies of it that were recorded run on other GPUs."
    )


RELEASED = Call("cuDevicePrimaryCtxRelease", 700 * MS, 710 * MS)


@pytest.mark.parametrize(
    ("calls", "devices", "work"),
    [
        pytest.param(RANK, [0, 3, -1], [*worked(100, 3), *worked(1, 0)], id="it works there"),
        pytest.param(RANK, [0, 3, -1], worked(99, 3), id="little is known of its work"),
        pytest.param(RANK, [0, 3, -1], worked(200, 3, pid=300), id="another process works"),
        pytest.param(RANK, [3, 3, -1], worked(100, 3), id="one GPU"),
        pytest.param(
            RANK, [0, 3, -1], [*worked(100, 3), replace(worked(1, 3)[0], copy_kind=CopyKind.PEER_TO_PEER)],
            id="copies between GPUs",
        ),
        pytest.param((*RANK[:2], RELEASED, *RANK[2:]), [0, 3, 0, -1], worked(100, 3), id="soon released"),
    ],
)  # fmt: skip
def test_context_of_another_gpu_is_not_judged_without_the_evidence(
    calls: tuple[Call, ...], devices: list[int], work: list[Op]
) -> None:
    assert on_gpus(calls, devices, work).severity != "warning"


def test_context_that_is_taken_twice_and_let_go_of_once_lives_on() -> None:
    calls = (*RANK[:2], RELEASED, Call("cuDevicePrimaryCtxRetain", 720 * MS, 721 * MS), *RANK[2:])
    assert on_gpus(calls, [0, 3, 0, 0, -1], worked(100, 3)).severity == "warning"
