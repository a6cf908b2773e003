"""`python -m pinprof.bench.calibration_worker MEASURE…`: what memory operations cost here, in this order.

One JSON object a line for each rate, as soon as it is measured: whoever reads them may end this process at any time.
`{"finished": MEASURE}` says that a measure needs no second try: it has all its rates, or cannot be measured here.
CUDA is measured twice, on one half of the processors and then on the other: on an H200 machine a process whose
processor was disturbed measured up to 60 % more for small copies, and 20 % more for large ones, than the next process.
What cannot be measured is left out; `{"note": …}` says so where that is a whole part.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np

from pinprof.base.errors import CudaError, PinprofError
from pinprof.bench.calibration import LARGE, needs_gpu
from pinprof.bench.measures import TrialSite, trial_of
from pinprof.data.rates import Rate
from pinprof.scenario import Backend

HOST_SIZES = (1 << 20, 8 << 20)
"""Bytes of what is measured. Less than 1 MiB malloc may find among pages that exist."""
LARGE_SIZES = (8 << 20, 32 << 20)
"""The same of what depends on whether caches hold it."""
CUDA_SIZES = (64 << 10, 1 << 20, 32 << 20)
SHARE = 4
"""No more than a quarter of the free memory is taken."""
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
    signal.alarm(_ALIVE_S)
    # The collector of cyclic garbage would run inside what is timed.
    gc.disable()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        for answer in answers_to(sys.argv[1:]):
            print(json.dumps(asdict(answer) if isinstance(answer, Rate) else answer), file=answers, flush=True)


def answers_to(measures: Sequence[str]) -> Iterator[Rate | dict[str, str]]:
    """What there is to say of these measures."""
    backends: Any = importlib.import_module("pinprof.workloads.backends.host")
    cpus = sorted(os.sched_getaffinity(0))
    with contextlib.closing(backends.HostBackend()) as host:
        for measure in measures:
            sizes = LARGE_SIZES if measure in LARGE else HOST_SIZES
            if not needs_gpu(measure) and (yield from rates_of(host, measure, sizes, cpus)):
                yield {"finished": measure}
    on_gpu = list(filter(needs_gpu, measures))
    if on_gpu:
        yield from _answers_of_gpu(on_gpu, cpus)


def _answers_of_gpu(measures: Sequence[str], cpus: Sequence[int]) -> Iterator[Rate | dict[str, str]]:
    driver: Any = importlib.import_module("pinprof.workloads.backends.driver")
    middle = (len(cpus) + 1) // 2
    halves = [half for half in (cpus[:middle], cpus[middle:]) if half]
    try:
        with contextlib.closing(driver.DriverBackend(0)) as backend:
            for half in halves:
                for measure in measures:
                    if (yield from rates_of(backend, measure, CUDA_SIZES, half)) and half is halves[-1]:
                        yield {"finished": measure}
    except (PinprofError, OSError, AttributeError) as error:
        if isinstance(error, CudaError) and error.code == _NO_DEVICE:
            # A machine without a GPU lacks nothing.
            yield from ({"finished": measure} for measure in measures)
        else:
            yield {"note": error.problem if isinstance(error, PinprofError) else str(error)}


def rates_of(
    backend: Backend, measure: str, sizes: Sequence[int], cpus: Collection[int]
) -> Generator[Rate, None, bool]:
    """What can be measured, size by size, on these processors; what takes threads, on all.

    Returns whether there was room for all sizes.
    """
    limits: Any = importlib.import_module("pinprof.workloads.backends.limits")
    allowed = os.sched_getaffinity(0)
    trial, several = trial_of(measure)
    whole = True
    for size in [0] if trial.one_size else sizes:
        if size and size < trial.smallest_bytes:
            continue
        if len(trial.memory) * size > limits.free_host_bytes() // SHARE:
            whole = False
            continue
        rate = None
        with contextlib.suppress(PinprofError, OSError, MemoryError), _on(cpus if several == 1 else allowed):
            rate = rate_of(backend, measure, size)
        backend.release()
        if rate:
            yield rate
    return whole


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
