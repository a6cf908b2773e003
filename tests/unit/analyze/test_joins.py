"""Waits that end with a thread: the thread that ends is the one that was waited for, not another that is busy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.blame.results import BlameResult, HolderKind
from pinprof.analyze.blame.table import blame_of
from pinprof.analyze.sites import Sites
from pinprof.data.model import BY_THREAD, CONTINUED, Capture, ExitTable, WakeupTable
from tests.support.stacks import CLOCK, OFF_CPU, Sample, capture

MS = 1_000_000
FUTEX = ("__x64_sys_futex", "do_futex", "futex_wait", "schedule")
MAIN, SHORT, LONG = 100, 101, 102


def joining(function: str = "__pthread_clockjoin_ex", wakeups: WakeupTable | None = None) -> Capture:
    """The main thread joins one that ends after 80 ms; another one works for 200 ms, and a third ended before."""
    waits = Sample(["main@/app", f"{function}@/usr/lib/libc.so.6", *FUTEX], 85 * MS, 0, MAIN, MAIN, 1)
    working = [
        Sample([f"{name}@/app"], 10 * MS, time * MS, MAIN, tid)
        for name, tid, last in (("short", SHORT, 80), ("long", LONG, 200))
        for time in range(10, last + 1, 10)
    ]
    exits = ExitTable.of(3, time_ns=[20 * MS, 80 * MS, 200 * MS], pid=MAIN, tid=[103, SHORT, LONG])
    return replace(capture([waits, *working], events=(CLOCK, OFF_CPU)), exits=exits, wakeups=wakeups)


def blamed(made: Capture) -> BlameResult:
    found = blame_of(made, attribute(made), Sites(made))
    assert found is not None
    return found


@pytest.mark.parametrize("wakeups", [None, WakeupTable.empty()], ids=["not recorded", "recorded"])
@pytest.mark.parametrize("function", ["__pthread_clockjoin_ex", "pthread_join", "thrd_join", "std::thread::join()"])
def test_a_join_is_for_the_thread_that_ends(wakeups: WakeupTable | None, function: str) -> None:
    found = blamed(joining(function, wakeups))
    assert [(row.holder.tid, row.ns, row.certain) for row in found.rows] == [(SHORT, 80 * MS, "joined thread ends")]
    assert found.late_ns == 5 * MS
    assert found.recorded == (wakeups is not None)


def test_a_recorded_wake_up_comes_first() -> None:
    woken = WakeupTable.of(1, time_ns=60 * MS, pid=MAIN, tid=LONG, woken=MAIN, context=BY_THREAD, stack=0)
    found = blamed(joining(wakeups=woken))
    assert {(row.holder.tid, row.certain) for row in found.rows} == {(LONG, "waker recorded")}


def test_ends_of_threads_end_no_other_waits() -> None:
    found = blamed(joining("pthread_mutex_lock"))
    assert {row.holder.tid for row in found.rows if row.holder.kind is HolderKind.THREAD} <= {SHORT, LONG}
    assert "joined thread ends" not in {row.certain for row in found.rows}


def test_a_wait_that_ranges_cut_is_one() -> None:
    made = joining()
    row = int(np.flatnonzero(made.samples.event == 1)[0])
    pieces = made.samples.take(np.array([row, row]))
    pieces = replace(
        pieces,
        time_ns=np.array([0, 30 * MS]),
        weight=np.array([30 * MS, 55 * MS]),
        wait=np.array([0, CONTINUED], np.uint8),
    )
    rest = made.samples.take(made.samples.event == 0)
    rest = replace(rest, wait=np.zeros(len(rest), np.uint8))
    samples = pieces.joined(rest)
    found = blamed(replace(made, samples=samples.take(np.argsort(samples.time_ns, kind="stable"))))
    assert {row.holder.tid for row in found.rows} == {SHORT}
    assert sum(row.ns for row in found.rows) == 80 * MS


def test_ends_of_unknown_processes_and_forged_times_are_survived() -> None:
    made = joining()
    exits = ExitTable.of(3, time_ns=[-5, 80 * MS, 1 << 62], pid=[MAIN, 7, MAIN], tid=[SHORT, SHORT, LONG])
    assert "joined thread ends" not in {row.certain for row in blamed(replace(made, exits=exits)).rows}
