"""Signals are handled after what they may not break off, and nothing of a recording that never began is left."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinprof import recording
from pinprof.collect import RecordRequest, late
from pinprof.collect.recorder import STOP_SIGNALS
from pinprof.collect.signals import postponed
from pinprof.collect.trouble import Trouble
from pinprof.streams import store

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_is_handled_when_the_block_ends(number: signal.Signals) -> None:
    steps: list[object] = []
    before = signal.signal(number, lambda caught, _: steps.append(caught))
    try:
        with postponed(ENDING):
            signal.raise_signal(number)
            steps.append("whole")
        assert steps == ["whole", number]
        signal.raise_signal(number)
        assert steps == ["whole", number, number]
    finally:
        signal.signal(number, before)


def test_an_error_in_the_block_loses_no_signal() -> None:
    def fail() -> None:
        signal.raise_signal(signal.SIGINT)
        raise ValueError

    with pytest.raises(KeyboardInterrupt), postponed(STOP_SIGNALS):
        fail()


def test_a_signal_without_a_handler_of_python_stays_as_it_was() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with postponed(STOP_SIGNALS):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_may_postpone_what_only_the_main_one_handles() -> None:
    def work() -> None:
        with postponed(STOP_SIGNALS):
            worked.append(signal.getsignal(signal.SIGINT))

    worked: list[object] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert worked == [signal.getsignal(signal.SIGINT)]


def test_an_agent_that_came_in_while_ctrl_c_was_pressed_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def enter(*_: object) -> int:
        signal.raise_signal(signal.SIGINT)
        steps.append("entered")
        return 0

    fake = SimpleNamespace(pinprof_inside_enter=enter, pinprof_inside_leave=lambda: steps.append("left"))
    monkeypatch.setattr(late, "_kept", [fake])
    agent = late.OwnAgent(tmp_path / "inside")
    with pytest.raises(KeyboardInterrupt):
        agent.enter()
    agent.leave()
    agent.leave()
    assert steps == ["entered", "left"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("step", ["_locked", "write_manifest"])
def test_ctrl_c_while_a_capture_is_made_leaves_nothing_of_it(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo = getattr(store, step)

    def interrupted(*arguments: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return todo(*arguments)

    monkeypatch.setattr(store, step, interrupted)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    command = ("true",)
    with pytest.raises(KeyboardInterrupt):
        recording.record(RecordRequest(command), tmp_path / "out.pinprof", command, Trouble(print))
    assert not list(tmp_path.iterdir())
