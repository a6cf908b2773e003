"""The critical thread drives the GPU, or is the main thread of the process that works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pinprof.analyze.activity.calls import prepare_calls
from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.course.critical import critical_of
from pinprof.data.model import Capture
from tests.support.activities import MS, Call, activity
from tests.support.stacks import CLOCK, FAULTS, OFF_CPU, Range, Sample, capture

EVENTS = (CLOCK, OFF_CPU)
EXEC = ["__x64_sys_execve", "begin_new_exec"]
WORK = ["main@/app", "compute@/app"]
CHILD = ["main@/sh", "wait4@/libc.so.6", "__x64_sys_wait4", "kernel_wait4", "do_wait", "schedule"]
PIPE = ["main@/app", "read@/libc.so.6", "pipe_read", "schedule"]
EPOLL = ["main@/uv", "epoll_wait@/libc.so.6", "__x64_sys_epoll_wait", "do_epoll_wait", "schedule"]


def ran(start: int, end: int, pid: int = 100, tid: int = 0, stack: Sequence[str] = WORK) -> list[Sample]:
    """A sample for each millisecond of [start, end) ms."""
    return [Sample(stack, MS, time * MS, pid, tid or pid) for time in range(start + 1, end + 1)]


def waited(start: int, end: int, stack: Sequence[str], pid: int = 100, tid: int = 0) -> Sample:
    return Sample(stack, (end - start) * MS, start * MS, pid, tid or pid, event=1)


def thread(made: Capture, calls: Sequence[Call] = ()) -> tuple[int, int] | None:
    if calls:
        made = replace(made, activity=activity(calls))
    prepared = prepare_calls(made.activity) if made.activity is not None else None
    found = critical_of(made, attribute(made), prepared)
    return None if found is None else (found.pid, found.tid)


def made(*parts: Sequence[Sample], names: Mapping[tuple[int, int], str] | None = None) -> Capture:
    return capture([sample for part in parts for sample in part], events=EVENTS, threads=names)


def test_nothing_that_weighs_time_has_no_critical_thread() -> None:
    assert thread(capture([Sample(WORK)], events=(FAULTS,))) is None
    assert thread(capture([])) is None


def test_idle_processors_and_kernel_threads_are_never_critical() -> None:
    idle = ran(0, 900, pid=0, stack=["cpu_startup_entry", "do_idle"])
    kernel = ran(0, 900, pid=7, stack=["ret_from_fork_asm", "kthread", "worker_thread"])
    assert thread(made(idle, kernel)) is None
    assert thread(made(idle, kernel, ran(0, 5))) == (100, 100)


def test_main_thread_that_makes_a_fair_part_of_the_calls_drives_the_gpu() -> None:
    calls = [Call("cudaMemcpy", 0, 30 * MS), Call("cudaMemcpy", 0, 70 * MS, tid=101)]
    assert thread(made(ran(0, 100), ran(0, 100, tid=101)), calls) == (100, 100)


def test_thread_that_makes_nearly_all_calls_drives_the_gpu() -> None:
    calls = [Call("cudaMemcpy", 0, 3 * MS), Call("cudaMemcpy", 0, 90 * MS, tid=101)]
    assert thread(made(ran(0, 100), ran(0, 100, tid=101)), calls) == (100, 101)


def test_creating_a_context_is_no_driving() -> None:
    calls = [Call("cuInit", 0, 500 * MS), Call("cudaMemcpy", 510 * MS, 520 * MS, pid=200, tid=200)]
    assert thread(made(ran(0, 600), ran(0, 600, pid=200)), calls) == (200, 200)


def test_program_that_only_creates_a_context_is_found_by_it() -> None:
    calls = [Call("cuInit", 0, 200 * MS, pid=200, tid=200)]
    assert thread(made(ran(0, 600), ran(0, 300, pid=200)), calls) == (200, 200)


@pytest.mark.parametrize("stack", [CHILD, EPOLL], ids=["shell", "runner"])
def test_launcher_is_not_the_program(stack: list[str]) -> None:
    shell = [*ran(0, 4), waited(4, 900, stack)]
    program = [*ran(5, 6, pid=200, stack=EXEC), *ran(6, 890, pid=200)]
    assert thread(made(shell, program)) == (200, 200)
    program = ran(5, 890, pid=200)
    assert thread(made(shell, program, names={(100, 100): "sh", (200, 200): "train"})) == (200, 200)
    rooted = [replace(sample, stack=["_start@/bin/sh", *sample.stack]) for sample in shell]
    program = ran(5, 890, pid=200, stack=["_start@/opt/train", *WORK])
    assert thread(made(rooted, program)) == (200, 200)


def test_parent_that_waits_for_forked_workers_is_the_program() -> None:
    parent = [*ran(0, 30), waited(30, 900, PIPE)]
    workers = [sample for pid in (200, 201, 202) for sample in ran(40, 880, pid=pid)]
    assert thread(made(parent, workers)) == (100, 100)


def test_name_of_a_forked_worker_makes_it_no_other_program() -> None:
    own = ["_start@/python3", *WORK]
    parent = [*ran(0, 30, stack=own), waited(30, 900, ["_start@/python3", *PIPE])]
    names = {(100, 100): "python3", (200, 200): "Worker-1"}
    assert thread(made(parent, ran(40, 880, pid=200, stack=own), names=names)) == (100, 100)


def test_parent_of_several_spawned_workers_is_the_program() -> None:
    parent = [*ran(0, 30), waited(30, 900, PIPE)]
    workers = [sample for pid in (200, 201) for sample in (*ran(39, 40, pid=pid, stack=EXEC), *ran(40, 880, pid=pid))]
    assert thread(made(parent, workers)) == (100, 100)
    assert thread(made(parent, [sample for sample in workers if sample.pid == 200])) == (200, 200)


def test_busy_worker_threads_do_not_replace_the_main_thread() -> None:
    assert thread(made(ran(0, 50), ran(0, 900, tid=101), ran(0, 900, tid=102))) == (100, 100)


def test_process_without_its_main_thread_is_told_by_the_busiest() -> None:
    assert thread(made(ran(0, 50, tid=101), ran(0, 90, tid=102))) == (100, 102)


def test_other_peoples_processes_in_a_system_wide_recording_are_not_the_program() -> None:
    idle = ran(0, 10, pid=0, stack=["cpu_startup_entry", "do_idle"])
    daemon = [*ran(0, 200, pid=300), waited(200, 900, EPOLL, pid=300)]
    recorded = made(idle, daemon, ran(0, 100))
    ranges = capture([], [Range("step", 0, 90 * MS, pid=100, tid=100)]).ranges
    assert thread(replace(recorded, ranges=ranges)) == (100, 100)


def test_without_a_word_on_the_program_the_busiest_process_counts_and_no_waiting_daemon() -> None:
    idle = ran(0, 10, pid=0, stack=["cpu_startup_entry", "do_idle"])
    daemon = [*ran(0, 20, pid=300), waited(20, 900, EPOLL, pid=300)]
    names = {(0, 0): "swapper", (300, 300): "daemon", (100, 100): "train"}
    assert thread(made(idle, daemon, ran(0, 100), names=names)) == (100, 100)
