"""The critical thread's wall time by sample; waits for others are charged to what those did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.course.course import course_of
from pinprof.analyze.course.results import WallTable
from pinprof.analyze.idle import idle_apart
from pinprof.data.model import Capture
from tests.support.activities import MS
from tests.support.stacks import CLOCK, OFF_CPU, Sample, capture
from tests.support.work import calls

EVENTS = (CLOCK, OFF_CPU)
WORK = ["main@/app", "compute@/app"]
FAULT = ["fill@/app", "asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_anonymous_page"]
LOCK = ["main@/app", "pthread_join@/libc.so.6", "__x64_sys_futex", "do_futex", "futex_wait", "schedule"]
TAKE = ["pool@/app", "pthread_cond_wait@/libc.so.6", "__x64_sys_futex", "do_futex", "futex_wait", "schedule"]
CHILD = ["main@/app", "wait4@/libc.so.6", "__x64_sys_wait4", "kernel_wait4", "do_wait", "schedule"]
SLEEP = ["main@/app", "usleep@/libc.so.6", "hrtimer_nanosleep", "do_nanosleep", "schedule"]
DISK = ["load@/app", "read@/libc.so.6", "io_schedule", "schedule"]
GPU = ["main@/app", "cuStreamSynchronize@/libcuda.so.1", "poll@/libc.so.6", "__x64_sys_poll", "do_sys_poll", "schedule"]


def ran(start: int, end: int, tid: int = 100, stack: Sequence[str] = WORK, pid: int = 100) -> list[Sample]:
    return [Sample(stack, MS, time * MS, pid, tid) for time in range(start + 1, end + 1)]


def off(start: int, end: int, stack: Sequence[str], tid: int = 100, pid: int = 100) -> list[Sample]:
    return [Sample(stack, (end - start) * MS, start * MS, pid, tid, event=1)]


def table(*parts: Sequence[Sample]) -> tuple[Capture, WallTable, list[str]]:
    """The capture, its wall table, and the cause of every row."""
    made = capture([sample for part in parts for sample in part], events=EVENTS)
    made, attribution = idle_apart(made, attribute(made))
    found = course_of(made, attribution, None)
    assert found is not None
    assert (found.pid, found.tid) == (100, 100)
    return made, found.wall, [CATEGORIES[leaf].name for leaf in attribution.leaf[found.wall.sample]]


def causes(*parts: Sequence[Sample]) -> dict[str, int]:
    """Cause → milliseconds of the critical thread."""
    _, wall, names = table(*parts)
    total: Counter[str] = Counter()
    for name, ns in zip(names, wall.ns.tolist(), strict=True):
        total[name] += ns
    return {name: ns // MS for name, ns in total.items()}


def test_wait_for_a_thread_is_charged_to_what_the_thread_did() -> None:
    worker = [*ran(50, 80, 101, FAULT), *ran(80, 150, 101)]
    made, wall, names = table(ran(0, 50), off(50, 150, LOCK), worker, ran(150, 300))
    wait = int(np.flatnonzero(made.samples.event == 1)[0])
    charged = wall.waiting == wait
    assert int(wall.ns[charged].sum()) == 100 * MS
    assert set(made.samples.tid[wall.sample[charged]].tolist()) == {101}
    assert sum(int(ns) for ns, name in zip(wall.ns, names, strict=True) if name == "fault.anon") == 30 * MS
    assert (wall.waiting[~charged] == -1).all()
    assert (np.diff(wall.time_ns) >= 0).all()


def test_what_nobody_explains_stays_with_the_wait() -> None:
    assert causes(ran(0, 50), off(50, 150, LOCK), ran(60, 120, 101, FAULT), ran(150, 250)) == {
        "user.app": 150, "fault.anon": 60, "wait.lock": 40,
    }  # fmt: skip


@pytest.mark.parametrize(("stack", "leaf"), [(SLEEP, "wait.sleep"), (DISK, "wait.disk"), (GPU, "wait.gpu")])
def test_waits_for_anything_but_threads_stay(stack: list[str], leaf: str) -> None:
    assert causes(ran(0, 200), off(200, 300, stack), ran(200, 300, 101, FAULT), ran(300, 350)) == {
        "user.app": 250, leaf: 100,
    }  # fmt: skip


def test_thread_that_was_busy_at_the_end_was_awaited() -> None:
    early, late = ran(50, 120, 101, FAULT), ran(80, 150, 102, ["render@/libdraw.so"])
    found = causes(ran(0, 50), off(50, 150, LOCK), early, late, ran(150, 250))
    assert found == {"user.app": 150 + 70, "fault.anon": 30}


def test_worker_and_then_the_thread_that_hands_on_its_result_explain_a_wait_together() -> None:
    worker, feeder = ran(50, 110, 101, FAULT), ran(110, 140, 102, ["send@/libqueue.so"])
    assert causes(ran(0, 50), off(50, 150, LOCK), worker, feeder, ran(150, 250)) == {
        "user.app": 150 + 30, "fault.anon": 60, "wait.lock": 10,
    }  # fmt: skip


def test_small_parts_of_several_threads_share() -> None:
    parts = [*ran(50, 70, 101, FAULT), *off(100, 130, DISK, 102)]
    assert causes(ran(0, 50), off(50, 150, LOCK), parts, ran(150, 250)) == {
        "user.app": 150, "fault.anon": 20, "wait.disk": 30, "wait.lock": 50,
    }  # fmt: skip


def test_wait_of_the_awaited_thread_for_a_disk_explains() -> None:
    worker = [*ran(50, 51, 101), *off(51, 149, DISK, 101), *ran(149, 150, 101)]
    assert causes(ran(0, 50), off(50, 150, LOCK), worker, ran(150, 250)) == {"user.app": 152, "wait.disk": 98}


def test_idle_pool_explains_nothing() -> None:
    pool = [sample for tid in (101, 102) for sample in off(0, 300, TAKE, tid)]
    assert causes(ran(0, 50), off(50, 150, LOCK), pool, ran(150, 300)) == {"user.app": 200, "wait.lock": 100}


def test_wait_for_a_child_is_charged_to_a_child_and_no_thread() -> None:
    child, thread = ran(55, 145, 200, FAULT, pid=200), ran(50, 150, 101)
    assert causes(ran(0, 50), off(50, 150, CHILD), child, thread, ran(150, 250)) == {
        "user.app": 150, "fault.anon": 90, "wait.child": 10,
    }  # fmt: skip


def test_thread_that_runs_briefly_between_its_own_waits_explains_by_what_it_was_sampled_in() -> None:
    # 4 of 10 ms each: samples fall where they may, switches say when it ran.
    worker, main = [], ran(0, 50)
    for begin in range(50, 150, 10):
        worker += [*off(begin + 4, begin + 10, TAKE, 101), Sample(FAULT, 4 * MS, begin * MS + 3 * MS, 100, 101)]
        main += [*off(begin, begin + 4, LOCK), *ran(begin + 4, begin + 10)]
    found = causes(main, worker, ran(150, 250))
    assert found["fault.anon"] >= 38
    assert found.get("wait.lock", 0) <= 2


def test_waits_are_cut_where_phases_begin() -> None:
    finalize = ["main@/app", "Py_FinalizeEx@/python3"]
    _, wall, _ = table(ran(0, 100), off(100, 160, LOCK), off(160, 190, finalize), ran(190, 250, stack=finalize))
    assert int(wall.ns[wall.phase == 3].sum()) == 90 * MS


_THREADS = st.lists(
    st.lists(st.tuples(st.sampled_from(["run", "lock", "disk", "gap"]), st.integers(1, 30)), max_size=12), max_size=5
)
_MAIN = st.lists(
    st.tuples(st.sampled_from(["run", "lock", "child", "sleep"]), st.integers(1, 40)), min_size=1, max_size=15
)
_STACKS = {"run": FAULT, "lock": LOCK, "disk": DISK, "child": CHILD, "sleep": SLEEP}


@pytest.mark.slow
@given(_MAIN, _THREADS, st.booleans())
def test_rows_of_a_wait_sum_to_the_wait_and_rows_on_a_processor_keep_their_weight(
    main: list[tuple[str, int]], threads: list[list[tuple[str, int]]], children: bool
) -> None:
    samples = ran(0, 400)
    for number, parts in enumerate([main, *threads]):
        time, tid = 400, 100 + number
        for kind, length in parts:
            pid = tid if children else 100
            if kind == "run":
                samples += ran(time, time + length, tid, FAULT, pid)
            elif kind != "gap":
                samples += off(time, time + length, _STACKS[kind], tid, pid)
            time += length
    made, wall, _ = table(samples)
    own = (made.samples.pid == 100) & (made.samples.tid == 100)
    spans = np.array([event.spans for event in made.events])[made.samples.event]
    for row in np.flatnonzero(own & spans).tolist():
        assert int(wall.ns[wall.waiting == row].sum()) == int(made.samples.weight[row])
    running = wall.waiting < 0
    assert int(wall.ns[running].sum()) == int(made.samples.weight[own & ~spans].sum())
    assert (wall.ns > 0).all()
    strangers = ~own[wall.sample]
    assert (wall.waiting[strangers] >= 0).all()


def test_table_is_made_in_time_linear_in_its_samples() -> None:
    def parts(count: int) -> Capture:
        samples = []
        for begin in range(0, count * 10, 10):
            samples += [*ran(begin, begin + 5), *off(begin + 5, begin + 10, LOCK), *ran(begin + 5, begin + 10, 101)]
        return capture(samples, events=EVENTS)

    def cost(made: Capture) -> int:
        told = attribute(made)
        return calls(lambda: course_of(made, told, None))

    assert cost(parts(200)) < 1.5 * cost(parts(20))
