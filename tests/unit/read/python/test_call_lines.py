"""Which line of Python a CUDA call was made from: looks inside it, or inside calls like it; else it stays open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinprof.data.activity import ApiCallTable, Caller
from pinprof.data.model import NO_NODE, UNDECIDED_LINE, USER, Capture, Dso
from pinprof.read.assembly import StackBuilder
from pinprof.read.python.call_lines import CallLines, settle_by_sites, settle_samples, with_lines
from pinprof.read.python.matching import CERTAIN, UNDECIDED
from pinprof.read.python.stacks import NO_STACK, PythonStacks, Runs
from tests.support.stacks import Sample, capture

MS = 1_000_000
NATIVE_SITE = Caller("native", "lib")
PID = 100
FRAMES = [
    ("step", "/app/train.py", 8),
    ("step", "/app/train.py", 9),
    ("to", "/usr/lib/python3.12/site-packages/torch/tensor.py", 70),
]
STEP_8, STEP_9, TO_BELOW_8 = 0, 1, 2
ELSEWHERE = 3
NATIVE = ("_start@python3", "copy_impl@libtorch.so", "copy_kernel@libtorch.so", "cudaMemcpy@libcudart.so.13")
OTHER = ("_start@python3", "fill@libtorch.so", "fill_kernel@libtorch.so", "cudaMemcpy@libcudart.so.13")
CALLED = ("_start@python3", "PyEval@python3", "work@extension", "cudaMemcpy@libcudart.so.13")
CALLS = ("_start@app", "work@app", "PyEval@python3", "copy@libtorch.so", "cudaMemcpy@libcudart.so.13")


def python(looks: Sequence[tuple[float, int]], tid: int = PID, before_ns: int = 0, after_ns: int = 0) -> PythonStacks:
    """Stacks that looks saw: (time in ms, number of the stack); each began and ended so long before and after that."""
    times = np.array([round(time * MS) for time, _ in looks], np.int64)
    stacks = PythonStacks(list(FRAMES), [(NO_STACK, 0), (NO_STACK, 1), (0, 2)], uncertainty_ns=MS // 2)
    stack, window = np.array([stack for _, stack in looks], np.int32), (times - before_ns, times, times + after_ns)
    stacks.threads[PID, tid] = [Runs(times, times, stack, times, times, window if after_ns else None)]
    return stacks


def found_lines(
    calls: Sequence[tuple[float, float, tuple[str, ...]]],
    stacks: PythonStacks,
    source: str = "",
    names: Sequence[str] = (),
    sizes: Sequence[int] | None = None,
    site: Caller = NATIVE_SITE,
    kept: Sequence[tuple[float, float]] = (),
) -> CallLines:
    """What is found of calls: (start and end in ms, stack); `source` is work's file.

    `names` are the functions called, cudaMemcpy without them; `kept` are times in ms that others kept the thread from
    running.
    """
    native: Capture = capture([Sample(stack) for *_, stack in calls])
    symbols = native.stacks.frames.symbol
    frames = replace(native.stacks.frames, source=tuple(source if symbol == "work" else "" for symbol in symbols))
    start, end = (np.array([round(call[side] * MS) for call in calls], np.int64) for side in (0, 1))
    functions = list(dict.fromkeys(names or ["cudaMemcpy"]))
    name = np.array([functions.index(name) for name in names] or [0] * len(calls), np.int32)
    table = ApiCallTable.of(
        len(calls), start_ns=start, end_ns=end, pid=PID, tid=PID, name=name, names=tuple(functions), site=0,
        sites=(site,), stack=native.samples.stack,
        size_bytes=None if sizes is None else np.array(sizes, np.int64),
    )  # fmt: skip
    is_loop = [symbol == "PyEval" for symbol in symbols]
    times = [Sample(("off",), pid=PID, tid=PID, time_ns=round(a * MS), weight=round((b - a) * MS)) for a, b in kept]
    off = capture(times).samples if times else None
    return with_lines(table, replace(native.stacks, frames=frames), is_loop, stacks, off)


def sites(*arguments: Any, **more: Any) -> list[str]:
    """The sites of these calls."""
    calls = found_lines(*arguments, **more).calls
    assert calls.site is not None
    return [calls.sites[site].text for site in calls.site.tolist()]


def short(*starts: float) -> list[tuple[float, float, tuple[str, ...]]]:
    """Calls of 3 µs."""
    return [(start, start + 0.003, NATIVE) for start in starts]


def inside(calls: Sequence[tuple[float, float, tuple[str, ...]]], line: int) -> list[tuple[float, int]]:
    """A look in each of them."""
    return [(start + 0.0015, line) for start, *_ in calls]


def test_a_look_inside_a_call_says_its_line() -> None:
    assert sites([(10, 20, NATIVE)], python([(9, STEP_9), (12, STEP_8), (21, STEP_9)])) == ["step (train.py:8)"]


def test_the_innermost_line_of_the_programs_own_code_counts() -> None:
    assert sites([(10, 20, NATIVE)], python([(12, TO_BELOW_8)])) == ["step (train.py:8)"]


def test_a_look_saw_a_call_that_it_read_the_thread_in() -> None:
    line, none = "step (train.py:8)", "native (lib)"
    for time, seen in ((10.002, line), (9.9995, none), (10.0035, none)):
        assert sites([(10.0, 10.004, NATIVE)], python([(time, STEP_8)], after_ns=1000)) == [seen], "a single reading"


def test_a_look_that_saw_a_thread_in_one_place_before_and_after_a_moment_saw_it_then() -> None:
    line, none = "step (train.py:8)", "native (lib)"
    for time, seen in ((10.001, line), (9.999, none), (10.005, none)):
        assert sites([(10.0, 10.004, NATIVE)], python([(time, STEP_8)], before_ns=4000, after_ns=4000)) == [seen]
    # Twenty microseconds are enough to go round a loop that calls every fifteen.
    calls = [(start, start + 0.003, NATIVE) for start in (9.985, 10.0, 10.015)]
    for before, seen in ((4000, line), (16_000, none)):
        assert sites(calls, python([(10.001, STEP_8)], before_ns=before, after_ns=4000)) == [none, seen, none]


def test_looks_that_disagree_within_one_call_say_nothing() -> None:
    # Two calls of which the records between them were lost are taken for one.
    assert sites([(10, 20, NATIVE)], python([(12, STEP_8), (14, STEP_9), (16, STEP_8)])) == ["native (lib)"]


def test_short_calls_have_the_line_that_looks_saw_such_calls_in() -> None:
    seen, others = short(*range(10, 15)), short(*range(15, 30))
    # Looks right beside the others saw another line, which runs longer.
    looks = inside(seen, STEP_8) + [(start - 0.01, STEP_9) for start, *_ in others]
    assert sites([*seen, *others], python(looks)) == ["step (train.py:8)"] * 20
    # Fewer than five tell nothing of the others.
    assert sites([*seen[1:], *others], python(looks)) == ["step (train.py:8)"] * 4 + ["native (lib)"] * 15


def test_a_line_that_runs_before_and_after_a_call_says_nothing_of_it() -> None:
    waits = [(float(start), start + 0.9, CALLED) for start in range(10, 60)]
    copies = [(start + 0.95, start + 0.953, CALLED) for start, *_ in waits]
    names = ["cudaDeviceSynchronize"] * len(waits) + ["cudaMemcpy"] * len(copies)
    expected = ["step (train.py:8)"] * len(waits) + [UNDECIDED_LINE] * len(copies)
    looks = python([(start + 0.4, STEP_8) for start, *_ in waits])
    nameless = Caller("[libffi.so.8]", "libffi.so.8")
    found = found_lines([*waits, *copies], looks, names=names, site=nameless)
    assert found.calls.site is not None
    assert [found.calls.sites[site].text for site in found.calls.site.tolist()] == expected
    assert found.notes == (
        "The Python line of 50 CUDA calls (50 %) is undecided: too few calls like them were seen in Python.",
    )


def test_long_calls_of_one_line_hide_no_short_ones_of_another() -> None:
    long_ones = [(float(start), start + 3.0, NATIVE) for start in range(10, 90, 4)]
    short_ones = short(*(start + 3.5 for start, *_ in long_ones))
    looks = [(start + 1.0, STEP_8) for start, *_ in long_ones]
    expected = ["step (train.py:8)"] * 20 + ["native (lib)"] * 20
    assert sites([*long_ones, *short_ones], python(looks)) == expected


def test_time_in_which_others_kept_a_thread_from_running_makes_no_call_a_long_one() -> None:
    kept = [(start + 0.001, start + 8.001) for start in range(10, 110, 10)]
    calls = [(float(start), start + 8.003, NATIVE) for start in range(10, 110, 10)]
    looks = python([(start + 2.0, STEP_8) for start in range(10, 110, 10)])
    expected = ["step (train.py:8)"] * 10 + ["native (lib)"]
    assert sites([*calls, *short(120)], looks) == expected
    assert sites([*calls, *short(120)], looks, kept=kept) == ["step (train.py:8)"] * 11


def test_lines_that_follow_each_other_have_the_calls_between_those_that_were_seen() -> None:
    first, later = short(*range(10, 40)), short(*range(40, 70))
    looks = inside(first[::2], STEP_8) + inside(later[1::2], STEP_9)
    found = sites([*first, *later], python(looks))
    assert found == ["step (train.py:8)"] * 29 + ["native (lib)"] * 2 + ["step (train.py:9)"] * 29


def test_of_lines_that_take_turns_only_what_was_seen_is_known() -> None:
    calls = short(*range(10, 70))
    looks = inside(calls[0:60:4], STEP_8) + inside(calls[1:60:4], STEP_9)
    found = sites(calls, python(sorted(looks)))
    assert found == ["step (train.py:8)", "step (train.py:9)", "native (lib)", "native (lib)"] * 15


def test_calls_of_a_size_of_their_own_are_not_judged_by_others() -> None:
    large, small = short(*range(10, 40)), short(*range(40, 60))
    sizes = [4096] * len(large) + [8] * len(small)
    assert sites([*large, *small], python(inside(large, STEP_8)), sizes=sizes) == [
        *["step (train.py:8)"] * 30, *["native (lib)"] * 20,
    ]  # fmt: skip
    # Sizes that hardly any two have are one kind.
    assert sites([*large, *small], python(inside(large, STEP_8)), sizes=range(50)) == ["step (train.py:8)"] * 50


def test_long_calls_of_one_function_hide_no_short_ones_of_another() -> None:
    waits = [(float(start), start + 0.9, NATIVE) for start in range(10, 60)]
    copies = short(*range(60, 90))
    names = ["cudaDeviceSynchronize"] * len(waits) + ["cudaMemcpy"] * len(copies)
    looks = [(start + 0.4, STEP_8) for start, *_ in waits] + inside(copies[:5], STEP_9)
    looks += [(89.5, STEP_9)]
    expected = ["step (train.py:8)"] * len(waits) + ["step (train.py:9)"] * len(copies)
    assert sites([*waits, *copies], python(looks), names=names) == expected


def test_samples_inside_calls_are_in_the_lines_of_these() -> None:
    stacks = python([*inside(short(*range(10, 15)), STEP_8), (30.0, STEP_9)])
    found = found_lines([*short(*range(10, 16)), (20.0, 20.003, OTHER)], stacks)
    sampled = capture([Sample(NATIVE, pid=PID, tid=PID, time_ns=round(time * MS)) for time in (15.001, 20.001, 25.0)])
    seen, how = np.full(3, STEP_9, np.int32), np.full(3, CERTAIN, np.uint8)
    settle_samples(found, sampled.samples, stacks, seen, how)
    lines = [stacks.frames[stacks.stacks[stack][1]] for stack in seen.tolist()]
    assert lines == [FRAMES[STEP_8], (UNDECIDED_LINE, "/app/train.py", 0), FRAMES[STEP_9]]
    assert how.tolist() == [CERTAIN, UNDECIDED, CERTAIN]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (STEP_9, [("main", 3), ("step", 8), ("to", 70)]),
        (NO_STACK, [("step", 8), ("to", 70)]),
        (ELSEWHERE, [("step", 8), ("to", 70)]),
    ],
)
def test_samples_inside_calls_that_say_their_own_line_are_there(seen: int, expected: list[tuple[str, int]]) -> None:
    """Whatever looks saw before and after; what they saw says who called the outermost function that the call knows."""
    frames = [*FRAMES, ("main", "/app/train.py", 3), ("load", "/app/data.py", 5)]
    stacks = PythonStacks(frames, [(1, 0), (NO_STACK, 3), (NO_STACK, 4), (1, 1)])
    builder = StackBuilder()
    chain = [
        builder.frame(function, Dso(file, "", "python"), USER, line=line)
        for function, file, line in (FRAMES[0], FRAMES[2])
    ]
    node = builder.stacks([[*chain, builder.frame("copy", Dso("/lib/libtorch.so", "", "file"), USER)], []])
    calls = ApiCallTable.of(
        2, start_ns=np.array([0, 20 * MS]), end_ns=np.array([10 * MS, 30 * MS]), pid=PID, tid=PID, name=0,
        names=("cudaMemcpy",), stack=node,
    )  # fmt: skip
    sampled = capture([Sample(NATIVE, time_ns=time * MS, pid=PID, tid=PID) for time in (5, 15, 25)])
    looked = {STEP_9: 3, NO_STACK: NO_STACK, ELSEWHERE: 2}[seen]
    stack, how = np.full(3, looked, np.int32), np.full(3, UNDECIDED, np.uint8)
    settle_by_sites(calls, builder.table(), sampled.samples, stacks, stack, how)
    found = [stacks.frames[frame] for frame in stacks.chain(int(stack[0]))]
    assert [(function, line) for function, _, line in found] == expected
    assert stack[1:].tolist() == [looked, looked], "outside calls, and in calls of no Python"
    assert how.tolist() == [CERTAIN, UNDECIDED, UNDECIDED]
    assert node[1] == NO_NODE


def test_what_is_not_known_keeps_its_native_caller() -> None:
    calls = [(10, 10.003, NATIVE), (12, 12.003, OTHER)]
    assert sites(calls, python([(9.9, STEP_8), (10.1, STEP_9), (11.9, STEP_8), (12.1, STEP_9)])) == ["native (lib)"] * 2
    assert sites(calls, python([(9.9, STEP_8), (13, STEP_8)], tid=PID + 1)) == ["native (lib)"] * 2
    assert sites(calls, python([])) == ["native (lib)"] * 2


def test_own_code_in_another_language_counts_where_python_called_it() -> None:
    stacks = python([(12, STEP_8)])
    assert sites([(10, 20, CALLED)], stacks, source="/app/extension.cc") == ["native (lib)"]
    assert sites([(10, 20, CALLED)], stacks, source="/usr/include/c++/13/vector") == ["step (train.py:8)"]
    assert sites([(10, 20, CALLS)], stacks, source="/app/main.cc") == ["step (train.py:8)"]


def test_names_of_sites_are_those_that_were_recorded() -> None:
    stacks = python([(12, 0)])
    stacks.frames[0] = ("</script>\x1b[31m", "C:\\x (y).py", 3)
    assert sites([(10, 20, NATIVE)], stacks) == ["</script>\x1b[31m (C:\\x (y).py:3)"]
