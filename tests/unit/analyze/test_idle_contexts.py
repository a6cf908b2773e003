"""Contexts that give the GPU no work, and what refutes that."""

from __future__ import annotations

import pytest

from pinprof.analyze import Finding, analyze
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
        "warning", "1 process creates a CUDA context and gives the GPU no work.",
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
