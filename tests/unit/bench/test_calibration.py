"""A calibration ends when its time is up, costs no recording anything, and says nothing about whose machine it is."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pinprof.workloads.backends.driver import DriverBackend
from pinprof.workloads.backends.host import HostBackend

from pinprof.base.errors import CudaError
from pinprof.bench import calibration_worker
from pinprof.bench.calibration import CUDA, HOST, Calibration, calibration_of, needs_gpu, wanted
from pinprof.collect.proc import alive
from pinprof.data import rates
from pinprof.machine import children
from pinprof.scenario import HostMemory
from tests.support.fake_driver import FakeDriver

RATE = '{"measure": "touch.first", "size_bytes": 1048576, "median_ns": 2.0, "low_ns": 1.0, "high_ns": 3.0}'


def worker(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def measured(
    code: str, measures: Sequence[str] = HOST, machine: Mapping[str, Any] | None = None, limit_s: float = 200.0
) -> Calibration:
    """By a worker that runs this code, however long it takes to begin."""
    return calibration_of(machine or {}, os.environ, measures, limit_s=limit_s, worker=worker(code))


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that a worker makes when it has said all it will: no time passes before, and a second a look after."""
    now, file = [0], tmp_path / "said"

    def monotonic() -> int:
        now[0] += file.exists()
        return now[0]

    monkeypatch.setattr(children, "monotonic", monotonic)
    return file


def test_a_measure_that_hangs_is_ended_and_what_came_before_counts(said: Path) -> None:
    code = (
        f"import os, pathlib, time; file = pathlib.Path({str(said)!r})\n"
        f"print({RATE!r}, flush=True); print('{{\"measure\": \"pin.al', end='', flush=True)\n"
        "file.with_suffix('.new').write_text(str(os.getpid())); file.with_suffix('.new').rename(file); time.sleep(600)"
    )
    found = measured(code, machine={"cpu": "A"}, limit_s=1.5)
    assert found.rates is not None
    assert [rate.measure for rate in found.rates.rates] == ["touch.first"]
    assert (found.rates.measured_by, found.rates.backend) == ("calibration", "host")
    assert not alive(int(said.read_text()))


def test_of_two_measurements_the_faster_counts_with_the_spread_of_both() -> None:
    slower = json.dumps({**json.loads(RATE), "median_ns": 3.0, "low_ns": 2.5, "high_ns": 9.0})
    found = measured(f"print({RATE!r}); print({slower!r})")
    assert found.rates is not None
    (rate,) = found.rates.rates
    assert (rate.median_ns, rate.low_ns, rate.high_ns) == (2.0, 1.0, 9.0)


def test_measures_run_on_the_processors_that_are_named_and_the_process_keeps_its_own() -> None:
    allowed = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    class Watching(HostBackend):
        def pageable(self, size_bytes: int) -> HostMemory:
            seen.append(os.sched_getaffinity(0))
            return super().pageable(size_bytes)

    cpu = min(allowed)
    with closing(Watching()) as backend:
        assert list(calibration_worker.rates_of(backend, "touch.first", (1 << 20,), {cpu}))
    assert seen
    assert all(cpus == {cpu} for cpus in seen)
    assert os.sched_getaffinity(0) == allowed


@pytest.mark.parametrize("code", ["raise SystemExit(1)", "print('nonsense'); print('{}'); print('[1]')", "print(1e9)"])
def test_a_worker_that_fails_is_a_note(code: str) -> None:
    found = measured(code, (*HOST, *CUDA))
    assert found.rates is None
    assert "not calibrated" in found.notes[-1]


def test_a_worker_that_cannot_start_is_a_note() -> None:
    found = calibration_of({}, os.environ, HOST, worker=("/no/such/python",))
    assert found == type(found)(None, ("This machine was not calibrated: No such file or directory.",))


def interrupting(number: int) -> str:
    return f"import os, signal, time; os.kill(os.getppid(), {number}); time.sleep(600)"


@pytest.fixture
def no_collection() -> Iterator[None]:
    """No exception of a signal's handler is lost in a callback of the garbage collector, such as Hypothesis has."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_ctrl_c_skips_it() -> None:
    found = measured(interrupting(signal.SIGINT))
    assert found.rates is None
    assert "Ctrl-C" in found.notes[0]


@pytest.mark.usefixtures("no_collection")
def test_any_other_end_is_the_callers() -> None:
    def ended(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    before = signal.signal(signal.SIGTERM, ended)
    try:
        with pytest.raises(KeyboardInterrupt):
            measured(interrupting(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "notes"),
    [
        (CudaError("cuInit", 100, "no device", ""), []),
        (CudaError("cuInit", 3, "not ready", ""), ["cuInit failed with error 3: not ready."]),
        (OSError("no libcuda"), ["no libcuda"]),
    ],
)
def test_without_cuda_the_host_is_measured_and_a_note_says_why_unless_there_is_no_gpu(
    error: Exception, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_: int) -> DriverBackend:
        raise error

    monkeypatch.setattr("pinprof.workloads.backends.driver.DriverBackend", refuses)
    measures = wanted(cuda=True)
    answers = list(calibration_worker.answers_to(measures))
    assert {answer.measure for answer in answers if isinstance(answer, rates.Rate)} >= {"touch.first", "memcpy.host"}
    told = [answer for answer in answers if isinstance(answer, dict)]
    assert [answer["note"] for answer in told if "note" in answer] == notes
    # What an environment without a GPU lacks is not tried again.
    finished = [answer["finished"] for answer in told if "finished" in answer]
    assert finished == [measure for measure in measures if not (notes and needs_gpu(measure))]


@pytest.mark.parametrize(
    ("then", "why"),
    [
        ("", []),
        ("said.touch(); time.sleep(600)", ["Calibration: CUDA was not measured, because the time was up."]),
        ("os._exit(9)", ["Calibration: CUDA was not measured, because the process that measures ended with status 9."]),
    ],
)
def test_a_note_says_why_there_are_rates_of_the_host_alone(then: str, why: list[str], said: Path) -> None:
    code = f"import os, pathlib, time; said = pathlib.Path({str(said)!r}); print({RATE!r}, flush=True); {then}"
    found = measured(code, (*HOST, *CUDA), limit_s=1.5)
    assert found.rates is not None
    assert list(found.notes) == why


def test_a_note_says_that_the_process_ended_with_nothing_measured() -> None:
    found = measured("import os; os._exit(9)")
    assert found.rates is None
    assert found.notes == ("This machine was not calibrated: the process that measures ended with status 9.",)


def test_a_machine_without_room_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from pinprof.workloads.backends import limits

    monkeypatch.setattr(limits, "free_host_bytes", lambda: 16 << 20)
    answers = list(calibration_worker.answers_to(["touch.first"]))
    assert [answer.size_bytes for answer in answers if isinstance(answer, rates.Rate)] == [1 << 20]
    assert len(answers) == 1, "what lacked room is tried again"


@pytest.mark.slow
def test_the_driver_alone_is_enough_for_every_measure() -> None:
    fake = FakeDriver()
    with closing(DriverBackend(0, fake)) as backend:
        measures = filter(needs_gpu, wanted(cuda=True))
        found = [
            rate for one in measures for rate in calibration_worker.rates_of(backend, one, (64 << 10, 2 << 20), {0})
        ]
    measured = {"prefault.tN" if rates.prefault_threads(rate.measure) else rate.measure for rate in found}
    assert measured == set(CUDA)
    assert fake.alive == {}


def test_a_driver_that_fails_names_its_call() -> None:
    with pytest.raises(CudaError, match="cuDevicePrimaryCtxRetain"):
        DriverBackend(0, FakeDriver(failing="cuDevicePrimaryCtxRetain"))


def test_nothing_private_is_in_the_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    found = measured(f"print({RATE!r})", machine={"cpu": "A"})
    assert found.rates is not None
    text = rates.to_json(found.rates)
    assert "hunter2" not in text
    assert set(json.loads(text)) == {"schema_version", "machine", "backend", "measured_utc", "rates", "measured_by"}
