"""The control FIFOs: commands in order, and never a hang when the recorder is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinprof.scenario import measured, recorder


@pytest.fixture
def fifos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    paths = str(tmp_path / "ctl"), str(tmp_path / "ack")
    for path in paths:
        os.mkfifo(path)
    monkeypatch.setenv("PINPROF_CONTROL", ",".join(paths))
    return paths


@pytest.fixture(autouse=True)
def waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for an answer that does not come waits until the test is given up."""
    monkeypatch.setattr(recorder, "ACK_TIMEOUT_S", float("inf"))


@pytest.fixture
def answering(fifos: tuple[str, str]) -> Iterator[list[bytes]]:
    """A recorder that answers as perf does (both FIFOs open for reading and writing, `ack\\n\\0`)."""
    ctl, ack = (os.open(path, os.O_RDWR) for path in fifos)
    heard: list[bytes] = []

    def listen() -> None:
        while not heard or heard[-1] != b"disable\n":
            heard.append(os.read(ctl, 64))
            os.write(ack, b"ack\n\0")

    thread = threading.Thread(target=listen)
    thread.start()
    yield heard
    thread.join()
    os.close(ctl)
    os.close(ack)


def test_sampling_is_on_exactly_inside(answering: list[bytes]) -> None:
    with measured():
        assert answering == [b"enable\n"]
    assert answering == [b"enable\n", b"disable\n"]


def test_sampling_ends_when_the_program_fails(answering: list[bytes]) -> None:
    with pytest.raises(ZeroDivisionError), measured():
        raise ZeroDivisionError
    assert answering == [b"enable\n", b"disable\n"]


def test_without_a_recorder_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PINPROF_CONTROL", raising=False)
    with measured():
        pass
    assert capsys.readouterr().err == ""


def test_recorder_that_was_never_there_is_said_and_not_waited_for(
    fifos: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with measured():
        pass
    assert capsys.readouterr().err.count("recorder does not answer") == 1


def test_recorder_that_dies_before_answering_is_not_waited_for(
    fifos: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import os, sys\nc = os.open(sys.argv[1], 2); a = os.open(sys.argv[2], 2)\nprint(flush=True)\nos.read(c, 64)"
    with subprocess.Popen([sys.executable, "-c", code, *fifos], stdout=subprocess.PIPE) as dying:
        assert dying.stdout
        dying.stdout.readline()
        with measured():
            pass
    assert "it has ended" in capsys.readouterr().err


def test_recorder_that_dies_during_the_run_is_said(fifos: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import os, sys\nc = os.open(sys.argv[1], 2); a = os.open(sys.argv[2], 2)\nprint(flush=True)\n"
        "os.read(c, 64); os.write(a, b'ack\\n'); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code, *fifos], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as dying:
        assert dying.stdout
        assert dying.stdin
        dying.stdout.readline()
        with measured():
            dying.stdin.close()
            dying.wait()
    assert capsys.readouterr().err.count("recorder does not answer") == 1


def test_silent_recorder_is_given_up_after_the_deadline(
    fifos: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorder, "ACK_TIMEOUT_S", 0.3)
    held = [os.open(path, os.O_RDWR) for path in fifos]
    with measured():
        pass
    for file in held:
        os.close(file)
    assert capsys.readouterr().err.count("no answer to 'enable'") == 1
