"""What detectors ask a run: framework, phases, calls' costs and rows, who held whom up, ranges."""

from __future__ import annotations

import numpy as np
import pytest

from pinprof.data.activity import CallOverhead
from tests.support.scenes import CREATED, FREE, MAIN, MS, POLLS, SMALL, Traced, preempted, ran, recorded, scene, waited
from tests.support.stacks import Range

VENV = "/opt/venv/lib/python3.12/site-packages"
LIBRARIES = {
    "pytorch": f"{VENV}/torch/lib/libtorch_cpu.so",
    "cupy": f"{VENV}/cupy/_core/core.cpython-312-x86_64-linux-gnu.so",
    "jax": f"{VENV}/jaxlib/xla_extension.so",
    "numpy": f"{VENV}/numpy/_core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so",
}
PYTHON = "step (train.py:20)@/w/train.py"
ALL = np.arange


@pytest.mark.parametrize("name", ["pytorch", "numpy", "cupy", "jax"])
def test_framework_is_what_the_work_has_on_its_stacks(name: str) -> None:
    assert scene(recorded(ran(0, 50, (PYTHON, f"add@{LIBRARIES[name]}")))).framework == name


def test_python_and_c_have_no_framework() -> None:
    assert scene(recorded(ran(0, 50, (PYTHON,)))).framework == "python"
    assert scene(recorded(ran(0, 50))).framework == ""


def test_pytorch_counts_before_the_numpy_that_it_uses() -> None:
    both = ran(0, 50, (PYTHON, f"f@{LIBRARIES['numpy']}")) + ran(50, 60, (PYTHON, f"g@{LIBRARIES['pytorch']}"))
    assert scene(recorded(both)).framework == "pytorch"


def test_rows_lie_inside_calls_of_their_own_thread() -> None:
    samples = ran(0, 50) + ran(0, 50, ("other@/app",), tid=101)
    shown = scene(recorded(samples, [Traced("cudaMalloc", 10, 20), Traced("cudaMalloc", 30, 35, tid=101)]))
    rows = shown.rows_inside(ALL(2))
    # Samples at 10 to 19 ms: those of the other thread are not on the critical thread's wall.
    assert shown.ns(rows) == 10 * MS
    assert len(shown.rows_inside(ALL(0))) == 0


def test_cost_of_calls_is_their_clock_without_tracing() -> None:
    made = recorded(ran(0, 50), [Traced("cudaMalloc", 10, 20), Traced("cudaMalloc", 30, 31)])
    shown = scene(made)
    assert shown.cost_of_calls(ALL(2), shown.rows_inside(ALL(2))) == 11 * MS
    calls = [Traced("cudaMalloc", 10, 20), Traced("cudaMalloc", 30, 31)]
    less = scene(recorded(ran(0, 50), calls, overhead=CallOverhead(2 * MS, 3 * MS)))
    assert (less.overhead_ns, less.around_ns) == (2 * MS, 3 * MS)
    # Neither call costs less than nothing.
    assert less.cost_of_calls(ALL(2), less.rows_inside(ALL(2))) == 8 * MS


def test_call_that_waits_counts_once() -> None:
    wait = (*MAIN, "cudaMalloc@/usr/lib/libcuda.so.1", "__x64_sys_ioctl", "down_read", "schedule")
    made = recorded(ran(0, 10) + waited(10, 60, wait) + ran(60, 100), [Traced("cudaMalloc", 10, 60)])
    shown = scene(made)
    assert shown.cost_of_calls(ALL(1), shown.rows_inside(ALL(1))) == 50 * MS


def test_time_in_which_the_machine_ran_something_else_is_no_cost_of_a_call() -> None:
    off = (*MAIN, "asm_sysvec_apic_timer_interrupt", "irqentry_exit_to_user_mode", "schedule")
    made = recorded(ran(0, 10) + waited(10, 60, off) + ran(60, 100, FREE), [Traced("cudaFree", 5, 80)])
    shown = scene(preempted(made))
    rows = shown.rows_inside(ALL(1))
    assert shown.cost_of_calls(ALL(1), rows) == 25 * MS
    assert (shown.ns(rows), shown.causes(rows)) == (25 * MS, {"free.unmap": 19 * MS, "user.app": 6 * MS})


def test_wait_for_another_thread_s_call_inside_a_call_of_its_own_counts_once() -> None:
    held = (*MAIN, "pthread_mutex_lock@/libc.so.6", "__x64_sys_futex", "do_futex", "futex_wait", "schedule")
    samples = ran(0, 10) + waited(10, 60, held) + ran(60, 100) + ran(10, 60, FREE, tid=101)
    calls = [Traced("cudaFree", 10, 60), Traced("cudaFree", 9, 60, tid=101)]
    shown = scene(recorded([*samples, *ran(100, 200)], [*calls, Traced("cuMemcpyHtoD", 100, 190)]))
    assert shown.calls is not None
    both = np.flatnonzero(shown.calls.is_for("free device"))
    rows = shown.rows_inside(both)
    # The wait is charged to the thread that freed meanwhile.
    assert shown.causes(rows)["free.unmap"] == pytest.approx(50 * MS, abs=MS)
    assert shown.cost_of_calls(both, rows) == 50 * MS
    # Where only the other's calls are asked for, the wait is their cost.
    other = both[shown.calls.table.tid[both] == 101]
    assert shown.cost_of_calls(other, shown.rows_inside(other)) == pytest.approx(50 * MS, abs=MS)


def test_wait_while_another_thread_pins_is_not_the_call_s_own() -> None:
    wait = (*MAIN, "cudaMalloc@/usr/lib/libcuda.so.1", "__x64_sys_ioctl", "rm_ioctl[nvidia]", "down_read", "schedule")
    samples = ran(0, 10) + waited(10, 60, wait) + ran(60, 100) + ran(10, 60, CREATED, tid=101)
    calls = [Traced("cudaMalloc", 10, 60), Traced("cuLaunchKernel", 70, 71),
             Traced("cudaMallocHost", 10, 60, 1 << 30, 1, tid=101)]  # fmt: skip
    shown = scene(recorded(samples, calls))
    assert shown.calls is not None
    mine = np.flatnonzero(shown.calls.table.tid == 100)[:1]
    assert shown.ns(np.flatnonzero(shown.blocked)) == 50 * MS
    assert shown.cost_of_calls(mine, shown.rows_inside(mine)) == 0


def test_causes_and_phase_are_those_of_most_time() -> None:
    shown = scene(recorded(ran(0, 30, SMALL) + ran(30, 50, FREE) + ran(50, 100)))
    rows = np.flatnonzero(shown.caused_by("fault.anon", "free.unmap"))
    assert list(shown.causes(rows).items()) == [("fault.anon", 30 * MS), ("free.unmap", 20 * MS)]
    assert shown.phase_of(rows) == "work"
    assert shown.phase_of(rows[:0]) == "work"
    assert shown.phase_ns("work") == 100 * MS
    assert shown.phase_ns("context") == 0


def test_places_come_by_weight_and_those_without_one_last() -> None:
    nowhere = ("kthread", "clear_page")
    samples = ran(0, 10, ("a@/app",)) + ran(10, 30, ("b@/app",)) + ran(30, 90, nowhere)
    shown = scene(recorded(samples))
    groups = list(shown.by_place(ALL(len(shown.course.wall))))
    assert [shown.site_of(group).place for group in groups] == ["b", "a", ""]
    assert [shown.ns(group) // MS for group in groups] == [20, 10, 60]


def test_innermost_range_around_most_of_the_time_names_the_site() -> None:
    ranges = [Range("epoch", 0, 90 * MS, pid=100, tid=100), Range("load", 10 * MS, 40 * MS, 1, 100, 100),
              Range("rest", 40 * MS, 80 * MS, 1, 100, 100)]  # fmt: skip
    shown = scene(recorded(ran(0, 100), ranges=ranges))
    assert shown.range_of(ALL(12, 38)) == "load"
    assert shown.range_of(ALL(0, 100)) == ""
    assert shown.range_of(ALL(0)) == ""
    assert shown.site_of(ALL(12, 38)).range == "load"


def test_calls_without_sites_are_grouped_by_samples_inside_them() -> None:
    samples = ran(0, 20, ("a@/app",)) + ran(20, 40, ("b@/app",)) + ran(40, 60)
    calls = [Traced("cudaMalloc", start, start + 9, site=-1) for start in (0, 10, 20, 30)]
    shown = scene(recorded(samples, calls))
    groups = [group.tolist() for group in shown.call_groups(ALL(4))]
    assert sorted(groups) == [[0, 1], [2, 3]]
    assert [group.tolist() for group in shown.call_groups(ALL(0))] == []


def test_thread_of_most_time_is_named() -> None:
    made = recorded(ran(0, 40, POLLS), threads={(100, 100): "main"})
    shown = scene(made)
    assert shown.thread_of(ALL(10)) == "main"
    assert shown.thread_of(ALL(0)) == "main"
