"""What threads are called: by the kernel, by Python and by NVTX, also when that changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.data.model import Capture
from pinprof.read.perf.records import CommRecord, ForkRecord
from pinprof.read.python.stacks import PythonStacks, Runs
from pinprof.read.thread_names import kernel_names, with_nvtx_names, with_python_names
from tests.support.stacks import Sample, capture

MAIN, WORKER, CHILD = (7, 7), (7, 8), (9, 9)
BEGIN = (0, CommRecord(7, 7, "python", exec=True))
LIBRARY = "/usr/lib/python3.11/"


def thread(tid: int) -> tuple[int, ForkRecord]:
    return 1, ForkRecord(7, 7, tid, 7, clones=True)


def named(pid: int, tid: int, name: str) -> tuple[int, CommRecord]:
    return 2, CommRecord(pid, tid, name, exec=False)


def of(threads: dict[tuple[int, int], str], inherited: set[tuple[int, int]]) -> Capture:
    return replace(capture([Sample(["main@/app"])], threads=threads), inherited=frozenset(inherited))


def python(names: dict[tuple[int, int], str], *frames: tuple[str, str]) -> PythonStacks:
    """Each thread in one stack of (function, file), outermost first."""
    chain = [(number - 1, number) for number in range(len(frames))]
    stack, none = np.array([len(frames) - 1], np.int32), np.zeros(1, np.int64)
    return PythonStacks(
        frames=[(name, file, 1) for name, file in frames],
        stacks=chain,
        threads={thread: [Runs(none, none, stack, none, none)] for thread in names},
        names=names,
    )


def test_thread_inherits_the_name_until_it_gets_its_own() -> None:
    assert kernel_names([BEGIN, thread(8)], [MAIN, WORKER]) == (
        {MAIN: "python", WORKER: "python"},
        frozenset({MAIN, WORKER}),
    )
    assert kernel_names([BEGIN, thread(8), named(7, 8, "a"), named(7, 8, "b")], [MAIN, WORKER]) == (
        {MAIN: "python", WORKER: "b"},
        frozenset({MAIN}),
    )


def test_forked_process_has_its_parents_name_until_it_sets_its_own() -> None:
    forked = (1, ForkRecord(9, 7, 9, 7, clones=True))
    assert kernel_names([BEGIN, forked], [CHILD]) == ({CHILD: "python"}, frozenset({CHILD}))
    assert kernel_names([BEGIN, forked, named(9, 9, "loader0")], [CHILD]) == ({CHILD: "loader0"}, frozenset())


def test_numbers_of_threads_are_used_again() -> None:
    again = (3, ForkRecord(9, 9, 8, 9, clones=True))
    tasks = [BEGIN, thread(8), named(7, 8, "io"), (2, CommRecord(9, 9, "other", exec=True)), again]
    assert kernel_names(tasks, [WORKER, (9, 8)])[0] == {WORKER: "io", (9, 8): "other"}


def test_thread_that_ran_before_the_recording_has_a_name_of_its_own_if_it_differs() -> None:
    tasks = [named(7, 7, "python"), named(7, 8, "python"), named(7, 10, "cuda-EvtHandlr")]
    assert kernel_names(tasks, [WORKER, (7, 10)])[1] == {WORKER}


def test_python_names_threads_that_nobody_named_even_after_the_process_was_renamed() -> None:
    made = of({MAIN: "trainer", WORKER: "python"}, {WORKER})
    assert with_python_names(made, python({MAIN: "MainThread", WORKER: "loader"})) == {
        MAIN: "trainer",
        WORKER: "loader",
    }


def test_names_given_to_the_kernel_win_unless_it_cut_them() -> None:
    made = of({MAIN: "python", WORKER: "pt_data_pin"}, {MAIN})
    assert with_python_names(made, python({WORKER: "Thread-1"}))[WORKER] == "pt_data_pin"
    made = of({MAIN: "python", WORKER: "my-worker-with-"}, {MAIN})
    assert with_python_names(made, python({WORKER: "my-worker-with-a-name"}))[WORKER] == "my-worker-with-a-name"


def test_thread_of_unknown_name_is_known_by_what_it_was_started_for() -> None:
    started = [(f"Thread.{name}", f"{LIBRARY}threading.py") for name in ("_bootstrap", "_bootstrap_inner", "run")]
    made = of({MAIN: "python", WORKER: "python"}, {MAIN, WORKER})
    stacks = python({WORKER: ""}, *started, ("Server.serve", "/app.py"), ("recv", "/app.py"))
    assert with_python_names(made, stacks)[WORKER] == "Thread-? (serve)"
    stacks = python({WORKER: ""}, *started[:2], ("Pump.run", "/app.py"))
    assert with_python_names(made, stacks)[WORKER] == "Thread-? (Pump.run)"


def test_process_that_python_started_is_known_by_what_it_was_started_for() -> None:
    file = f"{LIBRARY}multiprocessing/process.py"
    forked = [("<module>", "/app.py"), ("BaseProcess.start", file), ("Popen._launch", "/popen_fork.py")]
    inside = [("BaseProcess._bootstrap", file), ("BaseProcess.run", file), ("load", "/app.py")]
    made = of({MAIN: "python", CHILD: "python"}, {MAIN, CHILD})
    assert with_python_names(made, python({CHILD: "MainThread"}, *forked, *inside))[CHILD] == "Process-? (load)"
    assert with_python_names(made, python({MAIN: "MainThread"}, *forked))[MAIN] == "python"


def test_names_of_nvtx_win() -> None:
    made = with_nvtx_names(of({MAIN: "python", WORKER: "python"}, {MAIN, WORKER}), {WORKER: "copies", (7, 99): "gone"})
    assert with_python_names(made, python({WORKER: "Thread-1"})) == {MAIN: "python", WORKER: "copies"}
