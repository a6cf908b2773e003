"""What a recording does about Python, and whose perf maps it removes."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pinprof.collect import python
from pinprof.collect.base import Recorder, RecordRequest
from pinprof.errors import CollectError, UsageError

AUTO = RecordRequest(command=("python3",), python="auto")


@pytest.fixture(autouse=True)
def _permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(python.VARIABLE, raising=False)
    monkeypatch.setattr(python, "forbidden", lambda: "")


def asked(way: str) -> RecordRequest:
    return dataclasses.replace(AUTO, python=way)


@pytest.mark.parametrize(
    ("way", "variable", "lines"),
    [("auto", 0, 1), ("trampoline", 1, 0), ("lines", 0, 1), ("both", 1, 1), ("off", 0, 0)],
)
def test_each_way_takes_part_as_asked(way: str, variable: int, lines: int) -> None:
    plan = python.plan(["perf"], asked(way))
    assert plan.environment == ({"PYTHONPERFSUPPORT": "1"} if variable else {})
    assert plan.lines == bool(lines)
    assert len(plan.results()) == variable


def test_the_users_own_choice_of_the_trampoline_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(python.VARIABLE, "0")
    plan = python.plan(["perf"], asked("both"))
    assert plan.environment == {}
    assert plan.results() == [], "so that its maps are not removed either"


def test_scenarios_are_left_alone_unless_asked() -> None:
    scenario = dataclasses.replace(AUTO, region_only=True)
    assert python.plan(["perf"], scenario) == python.NOTHING
    assert python.plan(["perf"], dataclasses.replace(scenario, python="lines")).lines


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
    plan = python.plan(["perf"], dataclasses.replace(AUTO, command=command, call_graph=call_graph))
    assert bool(plan.environment) == on
    assert "ptrace_scope is 1" in plan.notes[0]


def test_a_real_interpreter_answers() -> None:
    assert python._has_trampoline(sys.executable, "dwarf") == (sys.version_info >= (3, 12))


def test_other_programs_need_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "forbidden", lambda: "kernel.yama.ptrace_scope is 1")
    assert python.plan(["perf"], dataclasses.replace(AUTO, command=("true",))) == python.NOTHING


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


def test_where_memory_may_not_be_read_auto_notes_it_and_lines_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python, "forbidden", lambda: "kernel.yama.ptrace_scope is 1")
    plan = python.plan(["perf"], dataclasses.replace(AUTO, command=(fake_python(tmp_path, 0, 0),)))
    assert not plan.lines
    assert "ptrace_scope is 1" in plan.notes[0]
    with pytest.raises(CollectError, match=r"sysctl kernel\.yama\.ptrace_scope=0"):
        python.plan(["perf"], asked("lines"))


@pytest.mark.parametrize("change", [{"python": "pyspy"}, {"python_rate": 0}, {"python_rate": 1001}])
def test_requests_that_cannot_be_meant(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        python.plan(["perf"], dataclasses.replace(AUTO, **change))  # type: ignore[arg-type]


def test_nsys_alone_has_no_stacks_for_python() -> None:
    assert python.plan(["nsys"], AUTO) == python.NOTHING
    with pytest.raises(UsageError, match="sampler"):
        python.plan(["nsys"], asked("lines"))


def test_a_program_that_runs_already_can_be_looked_at_but_not_told_anything() -> None:
    running = dataclasses.replace(AUTO, command=(), pid=os.getpid())
    assert python.plan(["perf"], running).lines
    assert not python.plan(["perf"], running).environment
    for way in ("trampoline", "both"):
        with pytest.raises(UsageError, match="runs already"):
            python.plan(["perf"], dataclasses.replace(running, python=way))


def test_only_collectors_that_sample_stacks_are_served() -> None:
    assert python.served_by(["perf", "nsys"])
    assert python.served_by(["native"])
    assert not python.served_by(["nsys"])


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
def test_a_reader_that_was_asked_to_finish_before_it_could_listen_is_no_loss(
    died_first: bool, notes: int, tmp_path: Path
) -> None:
    beside = python.Beside.__new__(python.Beside)
    beside._rate = 100
    beside._log, beside._output = tmp_path / "collector.log", tmp_path / "none"
    beside.recorder = cast("Recorder", SimpleNamespace(ended_well=True, died_first=died_first))
    assert len(beside.result().notes) == notes
