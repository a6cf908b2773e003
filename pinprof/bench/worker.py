"""A process that measures what it is asked for: one JSON object a line comes in, one goes out for each.

First it says what it found: `{"facts": …}`. Then each job is answered with a run of pyperf, with why it was left out,
or with the error that ends the process. It ends when its input does, so that it never outlives who started it. Standard
output carries nothing but answers: whatever else prints there goes to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import signal
import sys
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import pyperf

from pinprof.base.errors import CudaError, PinprofError, ScenarioError
from pinprof.base.units import format_bytes
from pinprof.bench.measures import TrialSite, trial_of
from pinprof.scenario import Backend

_PRIVATE = ("hostname", "python_executable", "boot_time", "uptime", "runnable_threads", "load_avg_1min")
"""Metadata that pyperf collects and that says more about the machine's owner and others on it than about a result."""
_OUT_OF_MEMORY = 2
"""cudaErrorMemoryAllocation: the only CUDA error after which the device works on."""
_FATAL = ("wrong-result", "no-gpu", "cuda-python", "libcuda", "device")


def main() -> None:
    """Answer jobs until there are no more."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", required=True)
    parser.add_argument("--device", type=int, required=True)
    options = parser.parse_args()
    # Ctrl-C reaches every process of the terminal; the one that started this one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)

        def answer(**content: Any) -> None:
            print(json.dumps(content), file=answers, flush=True)

        try:
            with contextlib.closing(_open(options.backend, options.device)) as backend:
                answer(facts=_facts(backend))
            jobs = _Jobs(options.backend, options.device)
            for line in sys.stdin:
                answer(**jobs.done(json.loads(line)))
        except PinprofError as error:
            answer(error={"problem": error.problem, "remedy": error.remedy, "slug": error.slug})


class _Jobs:
    """pyperf's runner in its role as a worker; there may be one in a process."""

    def __init__(self, backend: str, device: int) -> None:
        self._backend, self._device = backend, device
        self._runner = pyperf.Runner(program_args=("-m", "pinprof.bench.worker"))
        self._runner.parse_args(["--worker", "--loops=1", "--warmups=1", "--values=1", "--quiet"])
        self._number = 0

    def done(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a job: `run`, or `left_out`."""
        self._number += 1
        try:
            with contextlib.closing(_open(self._backend, self._device)) as backend:
                return self._measured(backend, job)
        except MemoryError:
            return {"left_out": f"there is not enough memory for {format_bytes(job['size_bytes'])}"}
        except OSError as error:
            return {"left_out": f"the system refuses it: {error.strerror}"}
        except ScenarioError as error:
            # What this system does not permit, or has no room for, is no reason to lose all the other results.
            lost = isinstance(error, CudaError) and error.code != _OUT_OF_MEMORY
            if lost or error.slug in _FATAL:
                raise
            return {"left_out": error.problem.rstrip(".")}

    def _measured(self, backend: Backend, job: Mapping[str, Any]) -> dict[str, Any]:
        trial, threads = trial_of(job["measure"])
        backend.prepare(trial.memory, max(job["size_bytes"], 4))
        started = perf_counter()
        timer = trial.prepare(TrialSite(backend, job["size_bytes"], threads, float(self._number)))
        prepared = perf_counter()
        calls = 0

        def counted(loops: int) -> float:
            nonlocal calls
            calls += loops
            return timer(loops)

        arguments = self._runner.args
        arguments.calibrate_loops = not job["loops"]
        arguments.loops, arguments.values, arguments.warmups = job["loops"], job["values"], job["warmups"]
        arguments.min_time = job["min_time_s"]
        facts = {"measure": job["measure"], "size_bytes": job["size_bytes"]}
        # The runner prints every result; it is shown with all others in the end.
        with contextlib.redirect_stdout(io.StringIO()):
            benchmark = self._runner.bench_time_func(job["name"], counted, metadata=facts)
        (run,) = benchmark.get_runs()
        metadata = {key: value for key, value in run.get_metadata().items() if key not in _PRIVATE}
        return {
            "run": {"values": run.values, "warmups": run.warmups, "metadata": metadata},
            "prepare_s": prepared - started,
            "call_s": (perf_counter() - prepared) / calls,
        }


def _open(name: str, device: int) -> Backend:
    backends: Any = importlib.import_module("pinprof.workloads.backends")
    backend: Backend = backends.open_backend(name, device)
    return backend


def _facts(backend: Backend) -> dict[str, Any]:
    limits: Any = importlib.import_module("pinprof.workloads.backends.limits")
    free_device: Any = None if backend.emulated else getattr(backend, "free_bytes", lambda: None)()
    return {
        "backend": backend.name,
        "device_name": backend.device_name,
        "emulated": backend.emulated,
        "free_host_bytes": limits.free_host_bytes(),
        "free_device_bytes": free_device,
    }


if __name__ == "__main__":
    main()
