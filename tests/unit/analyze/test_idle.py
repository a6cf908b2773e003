"""Waits of threads without work are an event of their own; waits of threads that have some stay what they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze import analyze
from pinprof.data.model import READY, Capture
from tests.support.activities import Call, activity
from tests.support.stacks import CLOCK, OFF_CPU, Range, Sample, capture

EVENTS = (CLOCK, OFF_CPU)
FUTEX = ["__x64_sys_futex", "do_futex", "futex_wait", "schedule"]
CONDITION = ["start@/app", "next_task@/app", "pthread_cond_wait@/libc.so.6", *FUTEX]
MUTEX = ["start@/app", "step@/app", "pthread_mutex_lock@/libc.so.6", *FUTEX]
POLL = ["start@/app", "poll@/libc.so.6", "__x64_sys_poll", "do_sys_poll", "schedule"]
SLEEP = ["start@/app", "usleep@/libc.so.6", "hrtimer_nanosleep", "do_nanosleep", "schedule"]
DISK = ["start@/app", "read@/libc.so.6", "io_schedule", "schedule"]


def off(time: int, weight: int, stack: list[str], tid: int = 101) -> Sample:
    return Sample(stack, weight, time, tid=tid, event=1)


def on(time: int, weight: int, tid: int = 100) -> Sample:
    return Sample(["main@/app"], weight, time, tid=tid)


def python(made: Capture) -> Capture:
    """The capture with files of Python as such."""
    kinds = tuple(replace(dso, kind="python") if dso.path.endswith(".py") else dso for dso in made.stacks.frames.dsos)
    return replace(made, stacks=replace(made.stacks, frames=replace(made.stacks.frames, dsos=kinds)))


def by_event(made: Capture) -> dict[str, dict[str, int]]:
    return {result.event.name: dict(result.by_leaf) for result in analyze(made).events[1:]}


def test_pool_that_waits_for_work_is_no_wait_of_the_program() -> None:
    pool = [off(start, 490, CONDITION, tid) for tid in range(101, 105) for start in (0, 500)]
    worker = [on(0, 400), off(400, 600, SLEEP, 100)]
    assert by_event(capture([*pool, *worker], events=EVENTS)) == {
        "off-cpu": {"wait.sleep": 600},
        "idle-threads": {"wait.idle": 8 * 490},
    }


@pytest.mark.parametrize(
    ("stack", "leaf"), [(MUTEX, "wait.lock"), (SLEEP, "wait.sleep"), (DISK, "wait.disk")], ids=["lock", "sleep", "disk"]
)
def test_waits_for_what_others_hold_stay_waits(stack: list[str], leaf: str) -> None:
    assert by_event(capture([on(0, 900), off(0, 1000, stack)], events=EVENTS)) == {"off-cpu": {leaf: 1000}}


def test_main_threads_are_never_idle() -> None:
    child = Sample(CONDITION, 1000, 0, pid=200, tid=200, event=1)
    made = capture([off(0, 1000, CONDITION, 100), child], events=EVENTS)
    assert by_event(made) == {"off-cpu": {"wait.lock": 2000}}


def test_threads_that_opened_ranges_or_called_cuda_are_not_idle() -> None:
    made = capture([on(0, 900), off(0, 1000, POLL)], [Range("load", 0, 1000, pid=100, tid=101)], events=EVENTS)
    assert by_event(made) == {"off-cpu": {"wait.poll": 1000}}
    called = capture([on(0, 900), off(0, 1000, POLL)], events=EVENTS)
    calls = activity([Call("cudaMemcpy", 10, 20, pid=100, tid=101)])
    assert by_event(replace(called, activity=calls)) == {"off-cpu": {"wait.poll": 1000}}


def test_thread_that_works_for_a_tenth_of_its_life_is_not_idle() -> None:
    made = capture([on(0, 900), off(0, 450, CONDITION), on(450, 100, 101), off(550, 450, CONDITION)], events=EVENTS)
    assert by_event(made) == {"off-cpu": {"wait.lock": 900}}


def test_thread_that_waits_here_and_there_is_not_idle() -> None:
    made = capture([on(0, 900), off(0, 500, CONDITION), off(500, 500, POLL)], events=EVENTS)
    assert by_event(made) == {"off-cpu": {"wait.lock": 500, "wait.poll": 500}}


def test_short_lived_thread_waits_for_its_own_request() -> None:
    made = capture([on(0, 900), on(900, 100), off(100, 200, POLL)], events=EVENTS)
    assert by_event(made) == {"off-cpu": {"wait.poll": 200}}


def test_other_waits_of_an_idle_thread_keep_their_causes() -> None:
    made = capture([on(0, 900), off(0, 970, CONDITION), off(970, 20, DISK), off(990, 10, CONDITION)], events=EVENTS)
    made = replace(made, samples=replace(made.samples, wait=np.array([0, 0, 0, READY], np.uint8)))
    assert by_event(made) == {
        "off-cpu": {"wait.disk": 20, "wait.runnable": 10},
        "idle-threads": {"wait.idle": 970},
    }


def test_line_of_python_that_takes_a_lock_waits_for_it() -> None:
    acquire = ["lock_acquire@/python3", "sem_wait@/libc.so.6", *FUTEX]
    in_program = ["_worker (thread.py:83)@/lib/concurrent/futures/thread.py", "step (app.py:9)@/app.py", *acquire]
    in_pool = ["_worker (thread.py:81)@/lib/concurrent/futures/thread.py", *acquire]
    made = python(capture([on(0, 900), off(0, 1000, in_program), off(0, 1000, in_pool, 102)], events=EVENTS))
    assert by_event(made) == {"off-cpu": {"wait.lock": 1000}, "idle-threads": {"wait.idle": 1000}}


def test_analysing_twice_says_the_same() -> None:
    once = analyze(capture([on(0, 900), off(0, 1000, CONDITION)], events=EVENTS))
    twice = analyze(once.capture)
    assert [(result.event.name, dict(result.by_leaf)) for result in twice.events] == [
        (result.event.name, dict(result.by_leaf)) for result in once.events
    ]
