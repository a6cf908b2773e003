"""Start-up, context, work and exit cover a run, whatever it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze.activity.calls import prepare_calls
from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.course.course import course_of
from pinprof.analyze.course.results import PHASE_NAMES, Course
from pinprof.data.model import Capture
from tests.support.activities import MS, Call, activity
from tests.support.stacks import CLOCK, OFF_CPU, Range, Sample, capture

EVENTS = (CLOCK, OFF_CPU)
EXEC = ["__x64_sys_execve", "load_elf_binary", "begin_new_exec", "exit_mmap"]
LOADER = ["[ld-linux-x86-64.so.2]@/lib/ld-linux-x86-64.so.2", "asm_exc_page_fault"]
MAIN = ["_start@/app", "__libc_start_main@/libc.so.6", "[libc.so.6]@/libc.so.6", "main@/app"]
IMPORT = [*MAIN, "PyImport_ImportModuleLevelObject@/python3", "PyEval_EvalCode@/python3"]
INIT = [*MAIN, "cudaMalloc@/app", "cuInit@/libcuda.so.1", "ioctl@/libc.so.6", "__x64_sys_ioctl"]
FINALIZE = [*MAIN, "Py_FinalizeEx@/python3", "PyGC_Collect@/python3"]
HANDLERS = ["_start@/app", "__libc_start_main@/libc.so.6", *["[libc.so.6]@/libc.so.6"] * 3, "~Pool@/app"]
SHUTDOWN = [*FINALIZE, "wait_for_thread_shutdown@/python3", "do_futex", "futex_wait", "schedule"]
POLL = [*MAIN, "poll@/libc.so.6", "__x64_sys_poll", "do_sys_poll", "schedule"]
STACKS = (EXEC, LOADER, MAIN, IMPORT, INIT, FINALIZE, HANDLERS, POLL, ["clear_page"], [])


def ran(start: int, end: int, stack: Sequence[str] = MAIN) -> list[Sample]:
    """A sample for each millisecond of [start, end) ms."""
    return [Sample(stack, MS, time * MS) for time in range(start + 1, end + 1)]


def waited(start: int, end: int, stack: Sequence[str] = POLL) -> list[Sample]:
    return [Sample(stack, (end - start) * MS, start * MS, event=1)]


def course(*parts: Sequence[Sample], calls: Sequence[Call] = (), ranges: Sequence[Range] = ()) -> Course:
    made = capture([sample for part in parts for sample in part], ranges, events=EVENTS)
    return told(replace(made, activity=activity(calls)) if calls else made)


def told(made: Capture) -> Course:
    calls = prepare_calls(made.activity) if made.activity is not None else None
    found = course_of(made, attribute(made), calls)
    assert found is not None
    return found


def spans(found: Course) -> dict[str, list[tuple[int, int]]]:
    """Phase → its intervals in milliseconds of the course."""
    return {
        phase.name: [
            ((span.start_ns - found.start_ns) // MS, (span.end_ns - found.start_ns) // MS) for span in phase.intervals
        ]
        for phase in found.phases
    }


def test_program_in_c_starts_with_exec_and_loader_and_ends_with_its_exit_handlers() -> None:
    found = course(ran(0, 1, EXEC), ran(1, 4, LOADER), ran(4, 100), ran(100, 120, HANDLERS))
    assert spans(found) == {"start-up": [(0, 4)], "work": [(4, 100)], "exit": [(100, 120)]}


def test_imports_are_start_up_with_the_little_that_lies_between_them() -> None:
    found = course(ran(0, 60, IMPORT), ran(60, 64), ran(64, 90, IMPORT), ran(90, 200), ran(200, 230, FINALIZE))
    assert spans(found) == {"start-up": [(0, 90)], "work": [(90, 200)], "exit": [(200, 230)]}


def test_late_import_is_start_up_where_it_is_long() -> None:
    found = course(ran(0, 50, IMPORT), ran(50, 150), ran(150, 190, IMPORT), ran(190, 250), ran(250, 254, IMPORT))
    assert spans(found) == {"start-up": [(0, 50), (150, 190)], "work": [(50, 150), (190, 254)]}


def test_import_in_which_the_program_copies_is_work() -> None:
    calls = [Call("cudaMemcpy", 160 * MS, 170 * MS)]
    found = course(ran(0, 50, IMPORT), ran(50, 150), ran(150, 190, IMPORT), ran(190, 200), calls=calls)
    assert spans(found) == {"start-up": [(0, 50)], "work": [(50, 200)]}


@pytest.mark.parametrize("stack", [IMPORT, FINALIZE, INIT], ids=["import", "finalize", "context"])
def test_odd_sample_makes_no_phase(stack: list[str]) -> None:
    assert spans(course(ran(0, 50), ran(50, 51, stack), ran(51, 100))) == {"work": [(0, 100)]}


def test_context_is_known_by_stacks_alone() -> None:
    found = course(ran(0, 3, LOADER), ran(3, 203, INIT), ran(203, 300))
    assert spans(found) == {"start-up": [(0, 3)], "context": [(3, 203)], "work": [(203, 300)]}


def test_call_that_creates_a_context_and_does_its_own_work_counts_as_both() -> None:
    calls = [
        Call("cudaHostAlloc", 3 * MS, 300 * MS),
        *(Call("cudaHostAlloc", t * MS, (t + 9) * MS) for t in (300, 310)),
    ]
    found = course(ran(0, 3, LOADER), ran(3, 203, INIT), ran(203, 400), calls=calls)
    assert spans(found)["context"] == [(3, 203)]
    unsampled = course(ran(0, 3, LOADER), ran(3, 400), calls=calls)
    assert spans(unsampled)["context"] == [(3, 291)]


def test_time_before_the_first_sample_is_start_up_apart_from_the_context() -> None:
    calls = [Call("cuInit", 0, 100 * MS), Call("cudaMemcpy", 150 * MS, 160 * MS)]
    found = course(ran(200, 300), calls=calls)
    assert spans(found) == {"start-up": [(100, 200)], "context": [(0, 100)], "work": [(200, 300)]}


def test_recording_that_began_later_has_no_start_up_and_no_exit() -> None:
    assert spans(course(ran(0, 100))) == {"work": [(0, 100)]}


def test_waiting_for_threads_at_the_end_of_an_interpreter_is_work() -> None:
    found = course(ran(0, 50), waited(50, 150, SHUTDOWN), ran(150, 160, FINALIZE))
    assert spans(found) == {"work": [(0, 150)], "exit": [(150, 160)]}


def test_wait_for_the_recorder_after_the_last_range_is_no_work() -> None:
    parts = (ran(0, 100), waited(100, 400))
    step = Range("step", 0, 90 * MS, pid=100, tid=100)
    assert spans(course(*parts, ranges=[step])) == {"work": [(0, 100)], "exit": [(100, 400)]}
    assert spans(course(*parts)) == {"work": [(0, 400)]}


def test_range_that_never_ends_says_nothing() -> None:
    endless = Range("ncclCommInitRankConfig", 20 * MS, 200 * MS, pid=100, tid=100, domain="NCCL")
    parts = (ran(0, 60, IMPORT), ran(60, 200))
    assert spans(course(*parts, ranges=[endless])) == spans(course(*parts))


def test_range_is_work_though_a_module_is_imported_in_it() -> None:
    step = Range("step", 70 * MS, 150 * MS, pid=100, tid=100)
    found = course(ran(0, 60, IMPORT), ran(60, 90), ran(90, 110, IMPORT), ran(110, 200), ranges=[step])
    assert spans(found) == {"start-up": [(0, 60)], "work": [(60, 200)]}


@pytest.mark.parametrize("odd", [Sample(MAIN, MS, 1 << 62), Sample(MAIN, (1 << 63) - 1, MS), Sample(MAIN, 0, MS)])
def test_recording_with_times_that_cannot_be_has_no_course(odd: Sample) -> None:
    made = capture([odd], events=EVENTS)
    assert course_of(made, attribute(made), None) is None


_PIECES = st.lists(
    st.tuples(st.sampled_from(STACKS), st.integers(1, 40), st.booleans(), st.integers(0, 20)), min_size=1, max_size=30
)
_CALLS = st.lists(
    st.tuples(st.sampled_from(["cuInit", "cudaMalloc", "cudaMemcpy"]), st.integers(-300, 600), st.integers(0, 200)),
    max_size=5,
)


@pytest.mark.slow
@given(_PIECES, _CALLS)
def test_phases_cover_the_life_without_overlap_and_wall_time_fits_in(
    pieces: list[tuple[list[str], int, bool, int]], calls: list[tuple[str, int, int]]
) -> None:
    samples, time = [], 0
    for stack, length, off, gap in pieces:
        samples += waited(time, time + length, stack) if off else ran(time, time + length, stack)
        time += length + gap
    found = course(samples, calls=[Call(name, at * MS, (at + length) * MS) for name, at, length in calls])
    intervals = sorted((span.start_ns, span.end_ns) for phase in found.phases for span in phase.intervals)
    assert intervals[0][0] == found.start_ns
    assert intervals[-1][1] == found.end_ns
    assert all(before[1] == after[0] for before, after in pairwise(intervals))
    assert all(start < end for start, end in intervals)
    assert sum(phase.wall_ns for phase in found.phases) == found.end_ns - found.start_ns
    for number, name in enumerate(PHASE_NAMES):
        phase = found.phase(name)
        rows = int(found.wall.ns[found.wall.phase == number].sum())
        # A sample may stand at each edge of each interval, by half of its period.
        assert rows <= (phase.wall_ns + MS * len(phase.intervals) if phase else 0)


@pytest.mark.parametrize(
    "outside",
    [["__do_global_dtors_aux@/app"], ["[unknown]@[anon]", "exit@/app"], ["_GLOBAL__sub_I_main@/app"]],
)
def test_what_stands_outside_of_main_decides_no_phase(outside: list[str]) -> None:
    """Frame pointers lead to functions that never called the program: in a static one, to the first of its code."""
    stack = [*outside, "__libc_start_call_main@/app", "main@/app", "memset@/app"]
    assert spans(course(ran(0, 100, stack))) == {"work": [(0, 100)]}
    assert spans(course(ran(0, 100, [*outside, "main@/app"]))) == {"work": [(0, 100)]}


def test_a_destructor_is_the_end_where_the_program_ends() -> None:
    ending = [*MAIN[:3], "exit@/libc.so.6", "_dl_fini@/ld.so", "__do_global_dtors_aux@/app", "flush@/app"]
    assert spans(course(ran(0, 100), ran(100, 200, ending))) == {"work": [(0, 100)], "exit": [(100, 200)]}
    # Without what calls it, its name may be that of anything.
    lone = ["__do_global_dtors_aux@/app", "step@/app"]
    assert spans(course(ran(0, 100, lone))) == {"work": [(0, 100)]}


def test_a_python_function_called_main_begins_no_program() -> None:
    ending = [*FINALIZE, "main (job.py:3)@/job.py"]
    assert spans(course(ran(0, 100), ran(100, 200, ending)))["exit"] == [(100, 200)]
