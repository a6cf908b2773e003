"""Python's functions in the stacks: where they stand, what is left out, and that no cause ever changes."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinprof.analyze.attribution.attribute import attribute
from pinprof.data.model import Capture
from pinprof.read.python.frames import with_frames
from tests.support.stacks import OFF_CPU, Sample, capture

LIB = "@/usr/lib/libpython3.11.so.1.0"
LOOP, CALL = f"_PyEval_EvalFrameDefault{LIB}", f"_PyObject_Vectorcall{LIB}"
START = ["_start@/usr/bin/python3.11", f"Py_BytesMain{LIB}", f"pymain_run_python.constprop.0{LIB}"]
FAULT = ["asm_exc_page_fault", "handle_mm_fault", "do_anonymous_page"]
MEMSET = "memset@/lib/libc.so.6"


def tramp(name: str, file: str = "/app/train.py") -> str:
    return f"py::{name}:{file}@[anon]"


def stacks_file(
    folder: Path, *looks: tuple[int, list[tuple[str, int]]], tid: int = 100, name: str = "MainThread"
) -> Path:
    """What one thread of process 100 was in at each look, in µs; the last one counts on."""
    frames: list[list[Any]] = []
    nodes: list[list[int]] = []
    which = []
    for _, functions in looks:
        node = -1
        for function, line in functions:
            frames.append([function, "/app/train.py", line])
            nodes.append([node, len(frames) - 1])
            node = len(nodes) - 1
        which.append(node)
    times = [time for time, _ in looks]
    steps = [time - before for before, time in zip([0, *times], times, strict=False)]
    thread = {"pid": 100, "tid": tid, "name": name, "times": [1000 * step for step in steps], "stacks": which}
    made = {"start_ns": 0, "end_ns": 100_000, "uncertainty_ns": 5000, "frames": frames, "stacks": nodes}
    made |= {"looks": {"100": steps}, "threads": [thread | {"lasts": [0] * len(which)}], "unnamed_threads": 0}
    path = folder / "python-stacks.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(made).encode() + b"\n"))
    return path


def names(found: Capture) -> list[list[str]]:
    table = found.stacks
    return [
        [table.frames.symbol[table.frame[node]] for node in table.chain(stack)][::-1] for stack in found.samples.stack
    ]


def test_a_capture_without_python_is_left_alone() -> None:
    plain = capture([Sample(["main@/app/a.out", *FAULT])])
    assert with_frames(plain, None) is plain


def test_a_damaged_file_of_stacks_is_said_also_where_nothing_of_it_is_left(tmp_path: Path) -> None:
    file = tmp_path / "stacks"
    file.write_bytes(gzip.compress(b"{}\n"))
    found = with_frames(capture([Sample(["main@/app/a.out", *FAULT])]), file)
    assert found.losses.notes == ("A part of the recorded Python stacks is damaged and left out.",)


def test_python_stands_between_its_callers_and_what_its_innermost_loop_calls(tmp_path: Path) -> None:
    chain = [*START, LOOP, CALL, LOOP, CALL, "alloc@/app/torch.so", MEMSET, *FAULT]
    file = stacks_file(tmp_path, (0, [("<module>", 90), ("train", 88)]))
    plain = capture([Sample(chain)])
    assert names(with_frames(plain, file)) == [
        ["_start", "<module> (train.py:90)", "train (train.py:88)", "alloc", "memset", *FAULT]
    ]
    kept = names(with_frames(plain, file, keep_interpreter=True))[0]
    assert kept[:5] == [
        "_start",
        "Py_BytesMain",
        "pymain_run_python.constprop.0",
        "<module> (train.py:90)",
        "train (train.py:88)",
    ]
    assert kept[5:7] == ["_PyEval_EvalFrameDefault", "_PyObject_Vectorcall"]


def test_a_chain_that_frame_pointers_did_not_finish_hangs_below_the_innermost_line(tmp_path: Path) -> None:
    file = stacks_file(tmp_path, (0, [("<module>", 90), ("train", 88)]))
    found = with_frames(capture([Sample(["[unknown]@[unknown]", MEMSET, *FAULT])]), file)
    assert names(found) == [["<module> (train.py:90)", "train (train.py:88)", "memset", *FAULT]]


def test_a_sample_gets_the_stack_that_the_nearer_look_saw_of_its_thread(tmp_path: Path) -> None:
    file = stacks_file(tmp_path, (10, [("load", 5)]), (20, [("step", 6)]), (30, []))
    times = [Sample([MEMSET], time_ns=1000 * time) for time in (9, 10, 14, 16, 20, 29, 200)]
    found = with_frames(capture([*times, Sample([MEMSET], time_ns=15_000, tid=101)]), file)
    assert [stack[0] for stack in names(found)] == [
        "load (train.py:5)", "load (train.py:5)", "load (train.py:5)", "memset", "step (train.py:6)",
        "step (train.py:6)", "memset", "memset",
    ]  # fmt: skip
    assert any("3 samples (38 %) have no line" in note for note in found.losses.notes)


def test_a_wait_gets_the_line_of_the_look_inside_it(tmp_path: Path) -> None:
    file = stacks_file(tmp_path, (10, [("before", 5)]), (20, [("waits", 6)]), (400, [("after", 7)]))
    waits = capture([Sample([MEMSET], time_ns=18_000, weight=350_000)], events=(OFF_CPU,))
    assert names(with_frames(waits, file))[0][0] == "waits (train.py:6)"


def of_py_spy(folder: Path, *changes: tuple[int, list[tuple[str, int]]]) -> Path:
    """The same without looks: what the thread was in from each time on."""
    file = stacks_file(folder, *changes)
    raw = json.loads(gzip.decompress(file.read_bytes()))
    del raw["looks"], raw["threads"][0]["lasts"]
    file.write_bytes(gzip.compress(json.dumps(raw).encode() + b"\n"))
    return file


def test_with_py_spy_a_sample_gets_the_stack_of_its_thread_and_time(tmp_path: Path) -> None:
    file = of_py_spy(tmp_path, (10, [("load", 5)]), (20, [("step", 6)]), (30, []))
    times = [Sample([MEMSET], time_ns=1000 * time) for time in (9, 10, 19, 20, 30)]
    found = with_frames(capture([*times, Sample([MEMSET], time_ns=15_000, tid=101)]), file)
    assert [stack[0] for stack in names(found)] == [
        "memset", "load (train.py:5)", "memset", "load (train.py:5)", "step (train.py:6)", "memset",
    ]  # fmt: skip
    assert any("3 samples of Python processes (50 %) have no line" in note for note in found.losses.notes)


def test_with_py_spy_a_wait_gets_the_line_of_its_middle(tmp_path: Path) -> None:
    file = of_py_spy(tmp_path, (10, [("before", 5)]), (20, [("waits", 6)]))
    waits = capture([Sample([MEMSET], time_ns=18_000, weight=100_000)], events=(OFF_CPU,))
    assert names(with_frames(waits, file))[0][0] == "waits (train.py:6)"


def test_chains_that_were_cut_hang_below_the_start_of_their_thread(tmp_path: Path) -> None:
    file = stacks_file(tmp_path, (10, [("<module>", 90)]))
    whole = Sample([*START, LOOP, MEMSET], time_ns=10_000)
    cut = Sample(["[unknown]@[unknown]", MEMSET], time_ns=10_000)
    native = Sample([MEMSET], time_ns=900_000)
    other = Sample([MEMSET], time_ns=10_000, tid=101)
    found = names(with_frames(capture([whole, whole, cut, other, native]), file))
    assert found[0][:2] == found[2][:2] == ["_start", "<module> (train.py:90)"]
    assert found[3] == ["memset"], "nothing is known of how this thread began"
    assert (found[4][0], found[4][-1]) == ("_start", "memset")


def test_trampolines_become_functions_without_lines() -> None:
    chain = [*START, LOOP, tramp("<module>"), LOOP, CALL, tramp("Net.forward"), LOOP, "at::add@/app/torch.so"]
    found = with_frames(capture([Sample(chain)]), None)
    assert names(found) == [["_start", "<module> (train.py)", "Net.forward (train.py)", "at::add"]]
    frames = found.stacks.frames
    dso = frames.dsos[frames.dso[frames.symbol.index("Net.forward (train.py)")]]
    assert (dso.path, dso.kind) == ("/app/train.py", "python")
    assert any("has no lines" in note for note in found.losses.notes)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([("<module>", 9), ("forward", 8)], ["<module> (train.py:9)", "Net.forward (train.py:8)"]),
        ([("<module>", 9), ("backward", 8)], ["<module> (train.py:9)", "Net.forward (train.py)"]),
        ([], ["<module> (train.py)", "Net.forward (train.py)"]),
    ],
)
def test_trampolines_say_which_functions_and_looks_add_lines(
    tmp_path: Path, seen: list[tuple[str, int]], expected: list[str]
) -> None:
    chain = [LOOP, tramp("<module>"), LOOP, tramp("Net.forward"), LOOP, "at::add@/app/torch.so"]
    found = with_frames(capture([Sample(chain)]), stacks_file(tmp_path, (0, seen)))
    assert names(found) == [[*expected, "at::add"]]


def test_callers_that_unwinding_did_not_reach_come_from_looks(tmp_path: Path) -> None:
    found = with_frames(
        capture([Sample([tramp("f"), LOOP, MEMSET])]), stacks_file(tmp_path, (0, [("<module>", 9), ("f", 7), ("f", 8)]))
    )
    assert names(found) == [["<module> (train.py:9)", "f (train.py:7)", "f (train.py:8)", "memset"]]


def test_causes_and_weights_stay_what_they_were(tmp_path: Path) -> None:
    """Also where the innermost function is the interpreter's own, an unknown one, or none at all."""
    tails = [[], FAULT, [MEMSET, *FAULT], [CALL], ["[libpython3.11.so.1.0]" + LIB], ["[unknown]@[unknown]"]]
    heads = [
        [],
        START,
        [*START, LOOP],
        [LOOP, tramp("f"), LOOP],
        ["cuMemcpy@/lib/libcuda.so.1", "memcpy@/lib/libc.so.6"],
    ]
    samples = [
        Sample([*head, *tail], weight=1 + index, time_ns=index)
        for index, (head, tail) in enumerate((head, tail) for head in heads for tail in tails)
    ]
    plain = capture(samples)
    file = stacks_file(tmp_path, (0, [("f", 1)]), (13, []), (20, [("g", 2)]))
    for keep in (False, True):
        found = with_frames(plain, file, keep_interpreter=keep)
        assert (attribute(found).leaf == attribute(plain).leaf).all()
        assert (found.samples.weight == plain.samples.weight).all()
        assert ((found.samples.stack == -1) == (plain.samples.stack == -1)).all()


def test_a_thread_is_called_what_it_called_itself_or_what_python_calls_it(tmp_path: Path) -> None:
    samples = [Sample([MEMSET], tid=100), Sample([MEMSET], tid=101)]
    for comm, expected in (("python3", "Thread-1 (pin)"), ("pt_data_pin", "pt_data_pin")):
        file = stacks_file(tmp_path, (0, [("f", 1)]), tid=101, name="Thread-1 (pin)")
        found = with_frames(capture(samples, threads={(100, 100): "python3", (100, 101): comm}), file)
        assert found.threads[100, 101] == expected


def test_frames_without_a_symbol_that_are_left_out_do_not_count_as_unresolved(tmp_path: Path) -> None:
    plain = capture([Sample(["[unknown]@[unknown]", MEMSET])] * 3)
    plain = replace(plain, losses=replace(plain.losses, unresolved_frames=3))
    assert with_frames(plain, stacks_file(tmp_path, (0, [("f", 1)]))).losses.unresolved_frames == 0


def test_lines_on_another_clock_are_not_used(tmp_path: Path) -> None:
    plain = capture([Sample([MEMSET])])
    other = replace(plain, clock=replace(plain.clock, source="perf"))
    found = with_frames(other, stacks_file(tmp_path, (0, [("f", 1)])))
    assert names(found) == [["memset"]]
    assert np.array_equal(found.samples.stack, plain.samples.stack)
    assert "a different clock" in found.losses.notes[-1]
