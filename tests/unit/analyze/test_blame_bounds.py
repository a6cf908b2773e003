"""A hundred thousand waits: the report's table, its arrows and the memory of the analysis stay bounded."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.blame.table import MOST_ARROWS, MOST_ROWS, blame_of
from pinprof.analyze.sites import Sites
from pinprof.data.model import BY_THREAD, Capture, WakeupTable
from tests.support.stacks import CLOCK, OFF_CPU, Sample, capture

WAITS, PLACES, THREADS = 100_000, 400, 4
FUTEX = ("__x64_sys_futex", "do_futex", "futex_wait", "schedule")
PERIOD = 10_000


def waiting() -> Capture:
    """Threads that wait at many places, each time until another thread, which works, wakes them."""
    stacks = [
        Sample([f"serve{place}@/app", "pthread_mutex_lock@/usr/lib/libc.so.6", *FUTEX], 1, place, 100, 101, 1)
        for place in range(PLACES)
    ]
    made = capture([*stacks, Sample(["work@/app"], 1, PLACES, 100, 100)], events=(CLOCK, OFF_CPU))
    number = np.arange(WAITS)
    waits = made.samples.take(number % PLACES)
    waits = replace(
        waits,
        time_ns=PERIOD * number,
        weight=np.full(WAITS, PERIOD - 1000),
        tid=(101 + number % THREADS).astype(np.int32),
    )
    works = made.samples.take(np.full(WAITS, PLACES))
    works = replace(works, time_ns=PERIOD * number + PERIOD // 2, weight=np.full(WAITS, PERIOD // 2))
    both = waits.joined(works)
    both = both.take(np.argsort(both.time_ns, kind="stable"))
    woken = WakeupTable.of(
        WAITS, time_ns=PERIOD * number + PERIOD - 1000, pid=100, tid=100, woken=101 + number % THREADS,
        context=BY_THREAD, stack=made.samples.stack[PLACES],
    )  # fmt: skip
    return replace(made, samples=both, wakeups=woken)


@pytest.mark.slow
def test_a_hundred_thousand_waits_stay_bounded() -> None:
    made = waiting()
    attribution = attribute(made)
    tracemalloc.start()
    found = blame_of(made, attribution, Sites(made))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert found.waited_ns == WAITS * (PERIOD - 1000)
    assert len(found.rows) == MOST_ROWS
    assert found.rest == PLACES - MOST_ROWS
    assert sum(row.ns for row in found.rows) + found.rest_ns + found.late_ns == found.waited_ns
    assert len(found.arrows) <= MOST_ARROWS
    assert {row.holder.tid for row in found.rows} == {100}
    assert most < 300e6
