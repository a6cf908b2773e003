"""`python -m pinprof.bench.calibration_worker [--cuda]`: what memory operations cost here, the most wanted ones first.

One JSON object a line for each rate, as soon as it is measured: whoever reads them may end this process at any time.
CUDA is measured twice, on one half of the processors and then on the other: on an H200 machine a process whose
processor was disturbed measured up to 60 % more for small copies, and 20 % more for large ones, than the next process.
What cannot be measured is left out; `{"note": …}` says so where that is a whole part.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import signal
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np

from pinprof.base.errors import CudaError, PinprofError
from pinprof.bench.measures import TrialSite, trial_of
from pinprof.data.rates import Rate
from pinprof.scenario import Backend

HOST_SIZES, LARGE_SIZES = (1 << 20, 8 << 20), (8 << 20, 32 << 20)
"""Bytes of what is measured. Less than 1 MiB malloc may find among pages that exist; what depends on whether caches
hold it needs more."""
CUDA_SIZES = (64 << 10, 1 << 20, 32 << 20)
SHARE = 4
"""No more than a quarter of the free memory is taken."""
_REFILLS = ("touch.huge", "refill.copy-new", "refill.copy-kept", "refill.add-new", "refill.add-kept")
HOST = (
    (("touch.first", "memcpy.host"), HOST_SIZES),
    (_REFILLS, LARGE_SIZES),
    (("free.pageable", "touch.cow", "file.read", "file.map-touch"), HOST_SIZES),
)
CUDA = (
    "pin.alloc", "h2d.pageable", "h2d.pinned", "d2h.pageable", "d2h.pinned", "h2d.small", "pin.register-touched",
    "prefault.tN", "free.pinned", "free.unregister", "h2d.staged", "kernel.launch-sync",
    "uvm.ondemand", "uvm.prefetch", "uvm.cpu-readback", "uvm.prefetch-back", "uvm.prefetched-kernel", "uvm.first-touch",
)  # fmt: skip
_MOST_THREADS = 8
_LEAST_VALUES, _MOST_VALUES = 3, 9
_ENOUGH_S = 0.015
"""A measure that has taken so long at one size gets no further value."""
_VALUE_S = 0.0005
"""What takes less is repeated for so long for each value."""
_MOST_CALLS = 200
_ALIVE_S = 30
"""After so long the process ends, should nobody else end it."""

_NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE (cuda.h)."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuda", action="store_true")
    options = parser.parse_args()
    signal.alarm(_ALIVE_S)
    # The collector of cyclic garbage would run inside what is timed.
    gc.disable()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        for answer in _answers(cuda=options.cuda):
            print(json.dumps(answer), file=answers, flush=True)


def _answers(*, cuda: bool) -> Iterator[dict[str, Any]]:
    backends: Any = importlib.import_module("pinprof.workloads.backends.host")
    cpus = sorted(os.sched_getaffinity(0))
    with contextlib.closing(backends.HostBackend()) as host:
        for measures, sizes in HOST:
            yield from map(asdict, rates_of(host, measures, sizes, cpus))
    if not cuda:
        return
    driver: Any = importlib.import_module("pinprof.workloads.backends.driver")
    middle = (len(cpus) + 1) // 2
    try:
        with contextlib.closing(driver.DriverBackend(0)) as backend:
            for half in filter(None, (cpus[:middle], cpus[middle:])):
                yield from map(asdict, rates_of(backend, CUDA, CUDA_SIZES, half))
    except (PinprofError, OSError, AttributeError) as error:
        if isinstance(error, CudaError) and error.code == _NO_DEVICE:
            return  # A machine without a GPU lacks nothing.
        yield {"note": error.problem if isinstance(error, PinprofError) else str(error)}


def rates_of(backend: Backend, measures: Sequence[str], sizes: Sequence[int], cpus: Collection[int]) -> Iterator[Rate]:
    """What can be measured of these measures, size by size, on these processors; what takes threads, on all."""
    limits: Any = importlib.import_module("pinprof.workloads.backends.limits")
    allowed = os.sched_getaffinity(0)
    threads = min(len(allowed), _MOST_THREADS)
    for name in measures:
        measure = f"prefault.t{threads}" if name == "prefault.tN" else name
        trial, several = trial_of(measure)
        for size in [0] if trial.one_size else sizes:
            room = limits.free_host_bytes() // SHARE
            if (size < trial.smallest_bytes and size) or len(trial.memory) * size > room:
                continue
            rate = None
            with contextlib.suppress(PinprofError, OSError, MemoryError), _on(cpus if several == 1 else allowed):
                rate = rate_of(backend, measure, size)
            backend.release()
            if rate:
                yield rate


@contextlib.contextmanager
def _on(cpus: Collection[int]) -> Iterator[None]:
    """This thread, and those that it starts, on these processors alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def rate_of(backend: Backend, measure: str, size: int) -> Rate:
    """Median, 10th and 90th percentile of a few values, after a call that warms up."""
    trial, threads = trial_of(measure)
    began = perf_counter()
    timer = trial.prepare(TrialSite(backend, size, threads, 3.0))
    warm_s = timer(1)
    loops = min(max(int(_VALUE_S / max(warm_s, 1e-9)), 1), _MOST_CALLS)
    values: list[float] = []
    while len(values) < _LEAST_VALUES or (len(values) < _MOST_VALUES and perf_counter() - began < _ENOUGH_S):
        values.append(1e9 * timer(loops) / loops)
    low, median, high = (float(value) for value in np.percentile(values, (10, 50, 90)))
    return Rate(measure, size, median, low, high)


if __name__ == "__main__":
    main()
