"""The recorder works ahead while the program runs, without taking anything from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pinprof.collect import idle
from pinprof.collect.idle import Preparation
from pinprof.collect.program import HeldSignals
from pinprof.collect.session import Session


class FakeMachine:
    """One processor, whose time only this test passes."""

    def __init__(self, stat: Path) -> None:
        self.now, self.worked = 1000.0, 0.0
        self.taken: list[str] = []
        self._stat, self._idle = stat, 0
        self.passes(0, idle=True)

    def passes(self, seconds: float, *, idle: bool) -> None:
        self.now += seconds
        self._idle += round(100 * seconds) if idle else 0
        self._stat.write_text(f"cpu  1 2 3 {self._idle} 0 7 8\ncpu0 1 2 3 4\n")

    def step(self, name: str, seconds: float = 0.05) -> Callable[[], None]:
        def take() -> None:
            self.taken.append(name)
            self.worked += seconds
            self.now += seconds

        return take


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    monkeypatch.setattr(idle, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(idle.os, "sysconf", lambda _: 100)
    made = FakeMachine(tmp_path / "stat")
    clock = SimpleNamespace(monotonic=lambda: made.now, thread_time=lambda: made.worked)
    monkeypatch.setattr(idle, "time", clock)
    return made


def test_an_idle_processor_takes_a_step_at_each_look_the_needed_ones_first(machine: FakeMachine) -> None:
    work = Preparation(map(machine.step, "ab"), map(machine.step, "cd"))
    for _ in range(3):
        machine.passes(work.due_s(), idle=True)
        work.look()
    assert machine.taken == ["a", "b", "c"]


def test_no_look_is_taken_before_it_is_due(machine: FakeMachine) -> None:
    work = Preparation(map(machine.step, "ab"))
    machine.passes(work.due_s() / 2, idle=True)
    work.look()
    assert machine.taken == []
    assert work.due_s() > 0


def test_a_busy_machine_gives_a_hundredth_of_a_processor(machine: FakeMachine) -> None:
    work = Preparation(map(machine.step, map(str, range(100))))
    for _ in range(200):
        machine.passes(work.due_s(), idle=False)
        work.look()
    passed = machine.now - 1000
    assert 0.009 * passed < machine.worked <= 0.01 * passed + 0.05


def test_where_idle_time_is_unknown_the_machine_counts_as_busy(
    machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "_STAT", tmp_path / "none")
    work = Preparation(map(machine.step, "abc"))
    for _ in range(5):
        machine.passes(work.due_s(), idle=True)
        work.look()
    assert machine.taken == ["a"]


def test_what_is_needed_is_finished_and_what_is_only_wanted_is_not(machine: FakeMachine) -> None:
    work = Preparation(map(machine.step, "ab"), map(machine.step, "cd"))
    machine.passes(work.due_s(), idle=True)
    work.look()
    work.finish()
    work.finish()
    assert machine.taken == ["a", "b"]


def test_what_is_wanted_is_made_for_as_long_as_others_are_waited_for(machine: FakeMachine) -> None:
    work = Preparation(map(machine.step, "ab"), map(machine.step, "cdef"))
    work.finish(lambda: machine.taken[-1] != "d")
    assert machine.taken == ["a", "b", "c", "d"]


def test_nothing_left_is_never_due(machine: FakeMachine) -> None:
    work = Preparation([machine.step("a")])
    assert work.due_s() <= 1
    work.finish()
    assert work.due_s() == float("inf")
    machine.passes(5, idle=True)
    work.look()
    assert machine.taken == ["a"]


def test_a_session_prepares_while_its_program_runs_and_no_longer(machine: FakeMachine) -> None:
    class Program:
        def left_s(self) -> float:
            return float("inf")

        @property
        def over(self) -> bool:
            return len(machine.taken) == 2

    class Waiting(Session):
        def wait(self, timeout_s: float) -> None:
            machine.passes(timeout_s, idle=True)

    session = Waiting(cast("Any", Program()), [], HeldSignals(frozenset(), (), []))
    session.until_program_ends(Preparation(map(machine.step, "abcd")))
    assert machine.taken == ["a", "b"]
