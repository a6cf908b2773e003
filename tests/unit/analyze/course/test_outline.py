"""What a program builds once, how it warms up and what its work is, by the statements that it goes through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pinprof.data.memory_log import MemoryLog, ProcessMemory
from tests.support.activities import MS, Call
from tests.support.stacks import Sample, capture
from tests.unit.analyze.course.test_phases import EVENTS, IMPORT, INIT, MAIN, course, ran, spans, told

COMPILES = ("compile_inner (convert_frame.py:9)@/x/site-packages/torch/_dynamo/convert_frame.py",)


def at(line: int, *inner: str) -> list[str]:
    """A stack of the program's module at this line."""
    return [*MAIN, f"<module> (train.py:{line})@/app/train.py", *inner]


def step(line: int) -> str:
    return f"step (train.py:{line})@/app/train.py"


LIBRARY = "call (module.py:7)@/x/lib/python3.12/site-packages/torch/module.py"


def copies(start: int, end: int, every: int = 5) -> list[Call]:
    """A short copy each so many milliseconds."""
    return [Call("cudaMemcpy", time * MS, time * MS + 1000) for time in range(start, end, every)]


def phases(*parts: list[Sample], calls: list[Call]) -> dict[str, list[tuple[int, int]]]:
    return spans(course(*parts, calls=calls))


def test_earlier_statement_that_calls_the_same_function_warms_up_and_what_is_before_it_is_built() -> None:
    found = phases(
        ran(0, 50, IMPORT), ran(50, 150, INIT), ran(150, 200, at(4)), ran(200, 240, at(9, step(7))),
        ran(240, 600, at(11, step(7))), calls=[*copies(200, 240), *copies(240, 600)],
    )  # fmt: skip
    assert found == {
        "start-up": [(0, 50)], "context": [(50, 150)], "build": [(150, 200)], "warm-up": [(200, 240)],
        "work": [(240, 600)],
    }  # fmt: skip


def test_statements_of_a_function_are_looked_into_and_what_a_library_does_in_them_counts() -> None:
    main = "main (train.py:40)@/app/train.py"
    inner = [at(50, main.replace("40", str(line)), LIBRARY) for line in (20, 21, 22)]
    found = phases(
        ran(0, 100, INIT), ran(100, 160, inner[0][:-1]), ran(160, 200, inner[1]), ran(200, 500, inner[2]),
        calls=copies(160, 500),
    )  # fmt: skip
    assert found == {"context": [(0, 100)], "build": [(100, 160)], "warm-up": [(160, 200)], "work": [(200, 500)]}


def test_lines_that_come_by_turns_are_one_loop() -> None:
    turns = [ran(start + 30 * part, start + 30 * part + 30, at(20 + part, step(part)))
             for start in range(200, 800, 90) for part in range(3)]  # fmt: skip
    found = phases(ran(0, 100, INIT), ran(100, 200, at(4)), *turns, calls=copies(200, 800))
    assert (found["build"], found["work"]) == ([(100, 200)], [(200, 830)])


def test_work_of_the_same_kind_is_no_warm_up() -> None:
    found = phases(
        ran(0, 100, INIT), ran(100, 140, at(4)), ran(140, 440, at(9, step(7))), ran(440, 840, at(11, step(7))),
        calls=copies(140, 840),
    )  # fmt: skip
    assert (found["build"], found["work"]) == ([(100, 140)], [(140, 840)])


def test_what_a_program_without_a_loop_does_until_its_context_is_there_is_built() -> None:
    found = phases(
        ran(0, 100, [*at(4), *INIT[4:]]), ran(100, 150, at(4)), ran(150, 500, at(8)),
        calls=[Call("cudaFree", 0, 100 * MS), Call("cudaMallocHost", 160 * MS, 400 * MS)],
    )  # fmt: skip
    assert found == {"context": [(0, 100)], "build": [(100, 150)], "work": [(150, 500)]}


@pytest.mark.parametrize("calls", [[], [Call("cudaMemcpy", 450 * MS, 460 * MS)]], ids=["no calls", "a call at the end"])
def test_most_of_a_run_is_not_built(calls: list[Call]) -> None:
    found = phases(ran(0, 400, at(4)), ran(400, 440, [*at(6), *INIT[4:]]), ran(440, 480, at(8)), calls=calls)
    assert set(found) == {"work", "context"}


def test_glimpse_of_another_line_makes_no_statement() -> None:
    """Readers of an interpreter's memory may see the line of a moment ago."""
    found = phases(
        ran(0, 100, INIT), ran(100, 140, at(9, step(7))), ran(140, 300, at(11, step(7))), ran(300, 302, at(9, step(7))),
        ran(302, 600, at(11, step(7))), calls=copies(100, 600),
    )  # fmt: skip
    assert (found["warm-up"], found["work"]) == ([(100, 140)], [(140, 600)])


def test_imports_and_compilation_during_the_work_are_phases_of_their_own() -> None:
    late, compiled = [*at(5), *IMPORT[4:]], [*at(11), step(7), *COMPILES]
    found = phases(
        ran(0, 50, IMPORT), ran(50, 150, INIT), ran(150, 180, at(5)), ran(180, 330, late), ran(330, 360, at(5)),
        ran(360, 460, compiled), ran(460, 900, at(11, step(7))),
        calls=[Call("cudaMemcpy", 179 * MS, 179 * MS + 1000), *copies(460, 900)],
    )  # fmt: skip
    assert found["imports"] == [(180, 330)]
    assert found["compile"] == [(360, 460)]
    assert found["work"] == [(460, 900)]


def held(*parts: list[Sample], mib: Sequence[tuple[int, float]]) -> dict[str, list[tuple[int, int]]]:
    """The phases of a program without CUDA whose memory is so large at these times in ms."""
    time = np.array([at for at, _ in mib], np.int64) * MS
    size = np.array([size for _, size in mib]) * (1 << 20)
    log = MemoryLog(time, {}, (ProcessMemory(100, "app", time, {"rss": size.astype(np.int64)}),))
    made = capture([sample for part in parts for sample in part], events=EVENTS)
    return spans(told(replace(made, memory=log)))


def test_what_a_program_without_cuda_makes_and_keeps_before_its_longest_statement_is_built() -> None:
    parts = ran(0, 100, IMPORT), ran(100, 300, at(4)), ran(300, 340, at(8, step(7))), ran(340, 800, at(11, step(7)))
    found = held(*parts, mib=[(0, 20), (100, 30), (300, 300), (800, 310)])
    assert found == {"start-up": [(0, 100)], "build": [(100, 300)], "warm-up": [(300, 340)], "work": [(340, 800)]}


@pytest.mark.parametrize(
    "mib",
    [[(0, 20), (100, 30), (300, 100), (800, 200)], [(0, 20), (800, 20)]],
    ids=["it grows on", "nothing is made"],
)
def test_without_memory_that_is_made_first_and_kept_everything_is_work(mib: list[tuple[int, float]]) -> None:
    parts = ran(0, 100, IMPORT), ran(100, 300, at(4)), ran(300, 800, at(11, step(7)))
    assert held(*parts, mib=mib) == {"start-up": [(0, 100)], "work": [(100, 800)]}


def test_statements_of_a_loop_are_no_stages_though_each_is_short() -> None:
    loop = [ran(start, start + 4, at(20 + start // 4 % 2, step(7))) for start in range(200, 600, 4)]
    found = held(ran(0, 100, IMPORT), ran(100, 200, at(4)), *loop, mib=[(0, 20), (100, 30), (200, 90), (600, 90)])
    assert (found["build"], found["work"]) == ([(100, 200)], [(200, 600)])


def test_a_line_that_is_come_back_to_is_not_the_longest_statement() -> None:
    parts = ran(0, 100, IMPORT), ran(100, 200, at(4)), ran(200, 320, at(5)), ran(320, 420, at(4)), ran(420, 900, at(5))
    assert held(*parts, mib=[(0, 20), (100, 30), (200, 90), (900, 90)])["work"] == [(100, 900)]


def test_the_work_may_be_shorter_than_what_is_built_for_it() -> None:
    parts = ran(0, 100, IMPORT), ran(100, 500, at(4)), ran(500, 700, at(11, step(7)))
    found = held(*parts, mib=[(0, 20), (100, 30), (500, 400), (700, 400)])
    assert (found["build"], found["work"]) == ([(100, 500)], [(500, 700)])


def test_a_loop_that_makes_memory_is_work_whatever_comes_after_it() -> None:
    loop = [ran(start, start + 30, at(20 + start // 30 % 2, step(7))) for start in range(100, 520, 30)]
    found = held(ran(0, 100, IMPORT), *loop, ran(520, 700, at(30)), mib=[(0, 20), (100, 30), (520, 400), (700, 400)])
    assert found["work"] == [(100, 700)]


def test_comprehensions_of_two_lines_are_not_the_same_function() -> None:
    inner = "main.<locals>.<listcomp> (train.py:{})@/app/train.py"
    parts = ran(0, 100, IMPORT), ran(100, 300, at(4, inner.format(4))), ran(300, 600, at(11, inner.format(11)))
    found = held(*parts, mib=[(0, 20), (100, 30), (300, 400), (600, 400)])
    assert (found["build"], found["work"]) == ([(100, 300)], [(300, 600)])
