"""What a recording does about Python, and whose perf maps it removes."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pinprof.base.errors import CollectError, ToolMissing, UsageError
from pinprof.collect import py_spy, python
from pinprof.collect.collector import Setup
from pinprof.collect.python_frames import READY, UNKNOWN, beside
from pinprof.collect.recorder import Recorder
from pinprof.collect.request import RecordRequest

AUTO = RecordRequest(command=("python3",), python="auto")


@pytest.fixture(autouse=True)
def _py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(python.VARIABLE, raising=False)
    monkeypatch.setattr(python, "find_py_spy", lambda: "/usr/bin/py-spy")
    monkeypatch.setattr(python, "forbidden", lambda: "")


def asked(way: str) -> RecordRequest:
    return dataclasses.replace(AUTO, python=way)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "variable", "lines", "by_py_spy"),
    [
        ("auto", 0, 1, 0),
        ("lines", 0, 1, 0),
        ("py-spy", 0, 0, 1),
        ("trampoline", 1, 0, 0),
        ("both", 1, 1, 0),
        ("off", 0, 0, 0),
    ],
)
def test_each_way_takes_part_as_asked(way: str, variable: int, lines: int, by_py_spy: int, tmp_path: Path) -> None:
    plan = python.plan(asked(way))
    assert plan.environment == ({"PYTHONPERFSUPPORT": "1"} if variable else {})
    assert (plan.lines, bool(plan.py_spy)) == (bool(lines), bool(by_py_spy))
    assert len(python.COLLECTOR.join(Setup(asked(way), tmp_path, ExitStack(), {}))) == variable + lines + by_py_spy


def test_the_users_own_choice_of_the_trampoline_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(python.VARIABLE, "0")
    plan = python.plan(asked("both"))
    assert plan.environment == {}
    tools = python.COLLECTOR.join(Setup(asked("both"), tmp_path, ExitStack(), {}))
    assert [type(tool) for tool in tools] == [beside.LineRecorder], "so that its maps are not removed either"


def test_without_the_library_that_reads_frames_auto_takes_py_spy_or_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> None:
        raise ToolMissing("There is no library.", "Install it.", "c-library")

    monkeypatch.setattr("pinprof.machine.libraries.Library.find", missing)
    monkeypatch.setattr(python, "find_py_spy", lambda: "/bin/py-spy")
    assert python.plan(AUTO) == python.Plan({}, py_spy="/bin/py-spy")
    monkeypatch.setattr(python, "find_py_spy", lambda: None)
    assert "There is no library. Install it." in python.plan(AUTO).notes[0]
    with pytest.raises(ToolMissing):
        python.plan(dataclasses.replace(AUTO, python="lines"))


def test_scenarios_are_left_alone_unless_asked() -> None:
    scenario = dataclasses.replace(AUTO, region_only=True)
    assert python.plan(scenario) == python.NOTHING
    assert python.plan(dataclasses.replace(scenario, python="lines")).lines


def fake_python(folder: Path, supported: int, frame_pointers: int) -> str:
    """Answers as an interpreter does that is asked how it was built."""
    path = folder / "python3.12"
    path.write_text(f"#!/bin/sh\necho {supported} {frame_pointers}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("supported", "frame_pointers", "call_graph", "on"),
    [(1, 1, "fp", True), (1, 0, "fp", False), (1, 0, "dwarf", True), (0, 1, "fp", False), (0, 1, "dwarf", False)],
)
def test_where_memory_may_not_be_read_auto_takes_the_trampoline_where_chains_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supported: int, frame_pointers: int, call_graph: str, on: bool
) -> None:
    monkeypatch.setattr(python, "forbidden", lambda: "kernel.yama.ptrace_scope is 1")
    command = (fake_python(tmp_path, supported, frame_pointers), "train.py")
    plan = python.plan(dataclasses.replace(AUTO, command=command, call_graph=call_graph))
    assert bool(plan.environment) == on
    assert "ptrace_scope is 1" in plan.notes[0]


def test_a_real_interpreter_answers() -> None:
    assert python._has_trampoline(sys.executable, "dwarf") == (sys.version_info >= (3, 12))


def test_other_programs_need_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "forbidden", lambda: "kernel.yama.ptrace_scope is 1")
    assert python.plan(dataclasses.replace(AUTO, command=("true",))) == python.NOTHING


def test_the_interpreter_of_a_script_is_in_its_first_line(tmp_path: Path) -> None:
    script = tmp_path / "torchrun"
    script.touch(0o755)
    for line, found in (
        (f"#!{sys.executable} -u", sys.executable),
        ("#!/usr/bin/env python3", shutil.which("python3")),
        ("#!/bin/sh", None),
        ("no script", None),
        ("", None),
    ):
        script.write_text(f"{line}\n")
        assert python.interpreter_of(str(script)) == found
    assert python.interpreter_of("/no/such/program") is None


def version_teller(folder: Path, words: str, name: str = "python3") -> str:
    """A program that answers the question for its version."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho {words}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("words", "name", "by_py_spy"),
    [
        ("0 3 9", "python3", True),
        ("0 2 7", "python", True),
        ("1 3 10", "pypy3", False),
        ("0 3 11", "python3", False),
        ("0 3 16", "python3", False),
        ("nothing", "python3", False),
        ("0 3 11", "python3.8", True),
    ],
)
def test_auto_leaves_older_interpreters_to_py_spy(tmp_path: Path, words: str, name: str, by_py_spy: bool) -> None:
    plan = python.plan(dataclasses.replace(AUTO, command=(version_teller(tmp_path, words, name),)))
    assert (bool(plan.py_spy), plan.lines) == (by_py_spy, not by_py_spy)


def test_an_older_interpreter_without_py_spy_is_said_to_have_no_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python, "find_py_spy", lambda: None)
    plan = python.plan(dataclasses.replace(AUTO, command=(version_teller(tmp_path, "0 3 9"),)))
    assert (plan.lines, plan.py_spy) == (False, "")
    assert "Python 3.9" in plan.notes[0]
    assert "pip install py-spy" in plan.notes[0]


def test_py_spy_that_is_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "find_py_spy", lambda: None)
    with pytest.raises(ToolMissing, match="pip install"):
        python.plan(asked("py-spy"))
    assert python.plan(asked("both")).lines


@pytest.mark.parametrize("way", ["lines", "py-spy", "both"])
def test_where_memory_may_not_be_read_auto_notes_it_and_others_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(python, "forbidden", lambda: "kernel.yama.ptrace_scope is 1")
    plan = python.plan(dataclasses.replace(AUTO, command=(fake_python(tmp_path, 0, 0),)))
    assert (plan.lines, plan.py_spy) == (False, "")
    assert "ptrace_scope is 1" in plan.notes[0]
    with pytest.raises(CollectError, match=r"sysctl kernel\.yama\.ptrace_scope=0"):
        python.plan(asked(way))


def test_a_process_that_records_itself_lets_the_reader_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "forbidden", lambda: "kernel.yama.ptrace_scope is 1")
    assert python.plan(dataclasses.replace(AUTO, own_process=True)).lines


@pytest.mark.parametrize("change", [{"python": "pyspy"}, {"python_rate": 0}, {"python_rate": 1001}])
def test_requests_that_cannot_be_meant(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        python.plan(dataclasses.replace(AUTO, **change))  # type: ignore[arg-type]


def test_nsys_alone_has_no_stacks_for_python() -> None:
    alone = dataclasses.replace(AUTO, collectors=("nsys",))
    assert python.plan(alone) == python.NOTHING
    with pytest.raises(UsageError, match="another recorder"):
        python.plan(dataclasses.replace(alone, python="lines"))
    assert python.plan(dataclasses.replace(alone, collectors=("nsys", "perf"))).lines


def test_a_program_that_runs_already_can_be_looked_at_but_not_told_anything() -> None:
    running = dataclasses.replace(AUTO, command=(), pid=os.getpid())
    assert python.plan(running).lines
    assert not python.plan(running).environment
    for way in ("trampoline", "both"):
        with pytest.raises(UsageError, match="running program"):
            python.plan(dataclasses.replace(running, python=way))


def test_only_the_trampolines_maps_of_the_programs_processes_are_removed() -> None:
    first = 4_190_000  # above the largest pid that Linux gives by default
    kinds = {0: b"7f00 b py::main:/a.py\n", 1: b"7f00 b LazyCompile:~main\n", 2: b"", 3: b"7f00 b py::main:/a.py\n"}
    paths = {number: Path(f"/tmp/perf-{first + os.getpid() % 1000 + 5 * number}.map") for number in kinds}
    try:
        for number, text in kinds.items():
            paths[number].write_bytes(text)
        pids = [int(path.stem.removeprefix("perf-")) for number, path in paths.items() if number != 3]
        python.remove_maps([*pids, first - 1])
        assert [path.exists() for path in paths.values()] == [False, True, True, True]
    finally:
        for path in paths.values():
            path.unlink(missing_ok=True)


@pytest.mark.parametrize(("died_first", "notes"), [(False, 0), (True, 1)])
@pytest.mark.parametrize("way", [beside.LineRecorder, lambda setup: py_spy.PySpy("no-py-spy", setup)])
def test_a_reader_that_was_asked_to_finish_before_it_could_listen_is_no_loss(
    way: Callable[[Setup], beside.LineRecorder | py_spy.PySpy], died_first: bool, notes: int, tmp_path: Path
) -> None:
    tool = way(Setup(AUTO, tmp_path, ExitStack(), {}))
    tool.recorder = cast("Recorder", SimpleNamespace(ended_well=True, died_first=died_first))
    assert len(tool.result().notes) == notes


def test_each_reader_looks_as_often_as_it_is_made_for_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    for rate, expected in ((None, (1000, 100)), (250, (250, 250))):
        setup = Setup(dataclasses.replace(AUTO, python_rate=rate), tmp_path, ExitStack(), {})
        tools = beside.LineRecorder(setup), py_spy.PySpy("py-spy", setup)
        for tool in tools:
            tool.recorder = cast("Recorder", SimpleNamespace(ended_well=True, died_first=False))
        assert tuple(tool.result().facts["options"]["rate"] for tool in tools) == expected


def test_interpreters_that_the_reader_does_not_know_are_named(tmp_path: Path) -> None:
    tool = beside.LineRecorder(Setup(AUTO, tmp_path, ExitStack(), {}))
    tool.recorder = cast("Recorder", SimpleNamespace(ended_well=True, died_first=False))
    (tmp_path / "collector.log").write_text(f"{READY}\n{UNKNOWN}python3.9\n{UNKNOWN}pypy3.10\n")
    (note,) = tool.result().notes
    assert "for pypy3.10, python3.9." in note
