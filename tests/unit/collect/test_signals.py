"""Signals are handled after what they may not break off, and nothing of a recording that never began is left."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pinprof import recording
from pinprof.collect import RecordRequest
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


def test_a_signal_without_a_handler_of_python_stays_as_it_was() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with postponed(STOP_SIGNALS):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


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
