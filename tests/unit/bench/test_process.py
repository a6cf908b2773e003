"""A process that measures: its answers, its errors, its death; it is never left behind."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from pinprof.base.errors import CudaError, ScenarioError
from pinprof.bench import session
from pinprof.bench.plan import BenchRequest, LeftOut
from pinprof.bench.process import Worker
from pinprof.bench.worker import _Jobs


def job(**changes: Any) -> dict[str, Any]:
    asked = {"name": "memcpy", "measure": "memcpy.host", "size_bytes": 65536, "min_time_s": 1e-4}
    return asked | {"loops": 2, "values": 2, "warmups": 1} | changes


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow
def test_jobs_are_answered_with_runs_that_name_no_host() -> None:
    with Worker("host", 0) as worker:
        facts = worker.facts()
        assert facts["backend"] == "host"
        assert facts["free_host_bytes"] > 0
        answer = worker.ask(job())
        assert len(answer["run"]["values"]) == 2
        assert not {"hostname", "python_executable"} & set(answer["run"]["metadata"])
        calibrated = worker.ask(job(name="again", loops=0, values=1))
        assert calibrated["run"]["metadata"]["calibrate_loops"] >= 1
        left_out = worker.ask(job(name="huge", size_bytes=1 << 60, measure="alloc.malloc"))
        assert "of host memory" in left_out["left_out"]
        pid = worker._process.pid
    assert gone(pid)


@pytest.mark.slow
def test_what_cannot_start_says_why() -> None:
    with pytest.raises(ScenarioError, match="The host backend has no device 3") as caught, Worker("host", 3) as worker:
        worker.facts()
    assert caught.value.slug == "device"


@pytest.mark.slow
def test_a_process_that_dies_is_named() -> None:
    with Worker("host", 0) as worker:
        worker.facts()
        os.kill(worker._process.pid, signal.SIGKILL)
        with pytest.raises(ScenarioError, match=r"ended with status -9 during 'memcpy'") as caught:
            worker.ask(job())
    assert caught.value.slug == "bench-worker"


@pytest.mark.slow
def test_where_nothing_can_be_measured_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = LeftOut("pin.alloc", 1 << 20, "this system does not permit it")
    monkeypatch.setattr(session, "plan", lambda request, facts: ([], [left_out]))
    with pytest.raises(ScenarioError, match=r"pin\.alloc at 1 MiB was left out: this system does not") as caught:
        session.measure(BenchRequest(backend="host"), {}, lambda what: None)
    assert caught.value.slug == "bench-nothing"


def test_an_error_outside_leaves_no_process() -> None:
    worker = Worker("host", 0)
    worker.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert gone(worker._process.pid)


@pytest.mark.parametrize(("code", "lost"), [(719, True), (2, False)])
def test_a_device_that_is_lost_ends_everything_and_one_that_is_full_leaves_one_job_out(
    code: int, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(name: str, device: int) -> None:
        raise CudaError("cudaMallocHost", code, "it says", "Do something.")

    monkeypatch.setattr("pinprof.bench.worker._open", fails)
    jobs = _Jobs.__new__(_Jobs)
    jobs._backend, jobs._device, jobs._number = "cuda", 0, 0
    if lost:
        with pytest.raises(CudaError):
            jobs.done(job())
    else:
        assert jobs.done(job()) == {"left_out": f"cudaMallocHost failed with error {code}: it says"}
