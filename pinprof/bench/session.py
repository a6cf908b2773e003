"""A whole measurement: one process finds how many calls a value needs, several others take the values."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from pinprof.base.errors import ScenarioError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes
from pinprof.bench.measures import SAME, trial_of
from pinprof.bench.plan import BenchRequest, Job, LeftOut, plan, set_values
from pinprof.bench.process import Worker
from pinprof.bench.suite import suite_of

_CALIBRATION_SHARE = 0.45
"""The part of the time allowed; what is not calibrated by then is left out."""
_OVERTIME_SHARE = 0.15
"""By how much of the time allowed it may be exceeded."""
_MOST_QUICK, _MOST = 5, 10
"""Processes that take values: pyperf wants several, because each has its own memory layout."""
_MIN_TIME_QUICK_S, _MIN_TIME_S = 0.005, 0.02
"""How long the calls of one value take at least; pyperf warns below 1 ms."""
_LARGE_BYTES = 64 << 20
"""Beyond it, calibration does without a warm-up: one call is long enough."""
_NO_TIME = "the time was up; give more with --time"


@dataclass(frozen=True)
class Results:
    """What was measured."""

    suite: Any
    """A pyperf.BenchmarkSuite."""
    backend: str
    device_name: str
    emulated: bool
    left_out: tuple[LeftOut, ...]
    processes: int
    """Processes that took values."""
    duration_s: float


def measure(request: BenchRequest, common: dict[str, str], say: Callable[[str], None]) -> Results:
    """Measure what was asked for; `common` is metadata for every run, `say` gets what is being done.

    ScenarioError when an operation fails or gives a wrong result; no process is left behind then.
    """
    return _Session(request, common, say).results()


def emulations(results: Results) -> dict[str, str]:
    """Measure → what the host backend did for it, where that is not what CUDA programs do; empty with a GPU."""
    measured = {one.get_metadata()["measure"] for one in results.suite.get_benchmarks()} if results.emulated else set()
    done = {name: trial_of(name)[0].emulation or "" for name in sorted(measured)}
    return {name: what for name, what in done.items() if what != SAME}


class _Session:
    def __init__(self, request: BenchRequest, common: dict[str, str], say: Callable[[str], None]) -> None:
        self._request, self._common, self._say = request, common, say
        self._started = self._began = monotonic()
        self._min_time_s = _MIN_TIME_QUICK_S if request.quick else _MIN_TIME_S
        self._left_out: list[LeftOut] = []

    def results(self) -> Results:
        """Calibrate, take the values, and gather them."""
        facts, jobs = self._calibrate()
        dropped, fewest = set_values(jobs, self._left_s(), quick=self._request.quick)
        self._left_out += [LeftOut(job.measure, job.size_bytes, _NO_TIME) for job in dropped]
        jobs = [job for job in jobs if job not in dropped]
        processes, longest = 0, 0.0
        most = _MOST_QUICK if self._request.quick else _MOST
        while jobs and processes < most and (processes < fewest or self._left_s() > 1.1 * longest):
            began = monotonic()
            processes += 1
            jobs = self._take_values(jobs, processes)
            longest = max(longest, monotonic() - began)
        if not jobs:
            raise self._nothing()
        return Results(
            suite=suite_of(
                jobs, self._common | {"pinprof_backend": facts["backend"], "pinprof_device": facts["device_name"]}
            ),
            backend=facts["backend"],
            device_name=facts["device_name"],
            emulated=facts["emulated"],
            left_out=tuple(self._left_out),
            processes=processes,
            duration_s=monotonic() - self._started,
        )

    def _nothing(self) -> ScenarioError:
        first = self._left_out[0]
        size = f" at {format_bytes(first.size_bytes)}" if first.size_bytes else ""
        return ScenarioError(
            f"No measurement was possible. {first.measure}{size} was left out: {first.reason}.",
            "Run `pinprof doctor` to see what this machine permits, choose other measures or sizes, or give more "
            "--time.",
            "bench-nothing",
        )

    def _calibrate(self) -> tuple[dict[str, Any], list[Job]]:
        self._say("Starting")
        with Worker(self._request.backend, self._request.device) as worker:
            facts = worker.facts()
            # How long the first start takes says nothing about the machine's memory.
            self._began = monotonic()
            jobs, left_out = plan(self._request, facts)
            self._left_out += left_out
            calibrated: list[Job] = []
            for number, job in enumerate(jobs, 1):
                if calibrated and self._left_s() < (1 - _CALIBRATION_SHARE) * self._request.budget_s:
                    self._left_out.append(LeftOut(job.measure, job.size_bytes, _NO_TIME))
                    continue
                self._say(f"Calibrating {number} of {len(jobs)}: {job.name}")
                job.warmups = int(job.size_bytes <= _LARGE_BYTES)
                answer = self._asked(worker, job, values=1)
                if answer is None:
                    continue
                job.loops = int(answer["run"]["metadata"]["calibrate_loops"])
                job.prepare_s, job.call_s = answer["prepare_s"], answer["call_s"]
                calibrated.append(job)
        return facts, calibrated

    def _take_values(self, jobs: list[Job], process: int) -> list[Job]:
        """One process for all jobs; returns those that it could measure."""
        measured = []
        with Worker(self._request.backend, self._request.device) as worker:
            worker.facts()
            for number, job in enumerate(jobs, 1):
                if self._left_s() < -_OVERTIME_SHARE * self._request.budget_s:
                    # The machine has become slower than it was when the values were planned.
                    if process > 1:
                        measured.append(job)
                    else:
                        self._left_out.append(LeftOut(job.measure, job.size_bytes, _NO_TIME))
                    continue
                self._say(f"Process {process}, {number} of {len(jobs)}: {job.name}")
                if self._asked(worker, job, values=job.values) is not None:
                    measured.append(job)
        return measured

    def _asked(self, worker: Worker, job: Job, *, values: int) -> dict[str, Any] | None:
        """The worker's answer with a run, which the job keeps; None when it was left out."""
        answer = worker.ask(
            {
                "name": job.name,
                "measure": job.measure,
                "size_bytes": job.size_bytes,
                "loops": job.loops,
                "values": values,
                "warmups": job.warmups,
                "min_time_s": self._min_time_s,
            }
        )
        if "left_out" in answer:
            self._left_out.append(LeftOut(job.measure, job.size_bytes, answer["left_out"]))
            return None
        job.runs.append(answer["run"])
        return answer

    def _left_s(self) -> float:
        return self._request.budget_s - (monotonic() - self._began)
