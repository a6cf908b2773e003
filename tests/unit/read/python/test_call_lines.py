"""Which line of Python a CUDA call was made from: looks, samples with the same native callers, neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pinprof.data.activity import ApiCallTable, Caller
from pinprof.data.model import Capture
from pinprof.read.python.call_lines import with_lines
from pinprof.read.python.stacks import NO_STACK, PythonStacks, Runs
from tests.support.stacks import Sample, capture

MS = 1_000_000
PID = 100
FRAMES = [
    ("step", "/app/train.py", 8),
    ("step", "/app/train.py", 9),
    ("to", "/usr/lib/python3.12/site-packages/torch/tensor.py", 70),
]
STEP_8, STEP_9, TO_BELOW_8 = 0, 1, 2
NATIVE = ("_start@python3", "copy_impl@libtorch.so", "copy_kernel@libtorch.so", "cudaMemcpy@libcudart.so.13")
OTHER = ("_start@python3", "fill@libtorch.so", "fill_kernel@libtorch.so", "cudaMemcpy@libcudart.so.13")
CALLED = ("_start@python3", "PyEval@python3", "work@extension", "cudaMemcpy@libcudart.so.13")
CALLS = ("_start@app", "work@app", "PyEval@python3", "copy@libtorch.so", "cudaMemcpy@libcudart.so.13")


def python(looks: Sequence[tuple[int, int]], tid: int = PID) -> PythonStacks:
    """Stacks that looks saw: (time in ms, number of the stack)."""
    times = np.array([round(time * MS) for time, _ in looks], np.int64)
    stacks = PythonStacks(list(FRAMES), [(NO_STACK, 0), (NO_STACK, 1), (0, 2)], uncertainty_ns=MS // 2)
    stacks.threads[PID, tid] = [Runs(times, times, np.array([stack for _, stack in looks], np.int32), times, times)]
    return stacks


def sites(
    calls: Sequence[tuple[float, float, tuple[str, ...]]],
    stacks: PythonStacks,
    samples: Sequence[tuple[Sample, int]] = (),
    source: str = "",
    names: Sequence[str] = (),
) -> list[str]:
    """The sites of calls: (start and end in ms, stack); `samples` with their Python stacks; `source` is work's file.

    `names` are the functions called, cudaMemcpy without them.
    """
    native: Capture = capture([Sample(stack) for *_, stack in calls])
    symbols = native.stacks.frames.symbol
    frames = replace(native.stacks.frames, source=tuple(source if symbol == "work" else "" for symbol in symbols))
    start, end = (np.array([round(call[side] * MS) for call in calls], np.int64) for side in (0, 1))
    functions = list(dict.fromkeys(names or ["cudaMemcpy"]))
    name = np.array([functions.index(name) for name in names] or [0] * len(calls), np.int32)
    table = ApiCallTable.of(
        len(calls), start_ns=start, end_ns=end, pid=PID, tid=PID, name=name, names=tuple(functions), site=0,
        sites=(Caller("native", "lib"),), stack=native.samples.stack,
    )  # fmt: skip
    sampled = capture([sample for sample, _ in samples] or [Sample(("idle",))])
    seen = np.array([stack for _, stack in samples] or [NO_STACK], np.int32)
    is_loop = [symbol == "PyEval" for symbol in symbols]
    found = with_lines(table, replace(native.stacks, frames=frames), is_loop, sampled, stacks, seen)
    assert found.site is not None
    return [found.sites[site].text for site in found.site.tolist()]


def test_a_look_inside_a_call_says_its_line() -> None:
    assert sites([(10, 20, NATIVE)], python([(9, STEP_9), (12, STEP_8), (21, STEP_9)])) == ["step (train.py:8)"]


def test_the_innermost_line_of_the_programs_own_code_counts() -> None:
    assert sites([(10, 20, NATIVE)], python([(12, TO_BELOW_8)])) == ["step (train.py:8)"]


def test_short_calls_have_the_line_that_looks_saw_such_calls_in() -> None:
    calls = [(10.0, 11.0, NATIVE), (12.0, 12.003, NATIVE), (14.0, 14.003, NATIVE)]
    # Looks right beside the short ones saw another line, which runs longer.
    looks = [(10.5, STEP_8), (11.9, STEP_9), (12.1, STEP_9), (13.9, STEP_9), (14.1, STEP_9)]
    assert sites(calls, python(looks)) == ["step (train.py:8)"] * 3


def test_of_several_lines_the_nearest_counts_and_calls_in_between_are_like_their_neighbours() -> None:
    calls = [
        (10.0, 10.5, NATIVE), (10.6, 10.603, NATIVE), (10.7, 11.2, NATIVE),
        (50.0, 50.5, NATIVE), (50.6, 50.603, NATIVE), (50.7, 51.2, NATIVE),
    ]  # fmt: skip
    looks = [(10.2, STEP_8), (10.9, STEP_8), (50.2, STEP_9), (50.9, STEP_9)]
    assert sites(calls, python(looks)) == ["step (train.py:8)"] * 3 + ["step (train.py:9)"] * 3


def test_long_calls_of_one_function_hide_no_short_ones_of_another() -> None:
    waits = [(float(start), start + 0.9, NATIVE) for start in range(10, 60)]
    copies = [(float(start), start + 0.003, NATIVE) for start in range(60, 90)]
    names = ["cudaDeviceSynchronize"] * len(waits) + ["cudaMemcpy"] * len(copies)
    looks = [(start + 0.4, STEP_8) for start, *_ in waits] + [(start + 0.002, STEP_9) for start, *_ in copies[:3]]
    looks += [(89.5, STEP_9)]
    expected = ["step (train.py:8)"] * len(waits) + ["step (train.py:9)"] * len(copies)
    assert sites([*waits, *copies], python(looks), names=names) == expected


def test_samples_with_the_same_native_callers_tell_where_no_look_did() -> None:
    callers = ("_start@python3", "copy@libtorch.so", "copy_impl@libtorch.so", "copy_kernel@libtorch.so")
    call = (*callers, "cudaMemcpy@libcudart.so.13")
    samples = [(Sample((*callers, "memcpy@libc.so.6")), STEP_9)] * 4
    looks = [(9, STEP_8), (11, STEP_8)]
    assert sites([(10, 10.003, call)], python(looks), samples) == ["step (train.py:9)"]
    # Too few of them decide nothing, and then the looks on both sides do.
    assert sites([(10, 10.003, call)], python(looks), samples[:1]) == ["step (train.py:8)"]


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
