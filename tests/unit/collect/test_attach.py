"""A running process as a program to record: when its recording is over, and that it is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pinprof.base.errors import CollectError
from pinprof.collect import attach
from pinprof.collect.attach import RunningProgram


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_it_is_over_when_the_process_ends(sleeper: subprocess.Popen[bytes]) -> None:
    program = RunningProgram(sleeper.pid, 0)
    program.start()
    assert not program.reap()
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert program.reap()
    assert program.wait_status == 0
    assert program.ended_ns >= program.started_ns


def test_it_is_over_when_the_time_is_up_counted_from_its_start(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 10**9
    monkeypatch.setattr(attach.time, "monotonic_ns", lambda: now)
    program = RunningProgram(sleeper.pid, 2.0)
    now += 5 * 10**9
    assert not program.reap()
    program.start()
    assert program.left_s() == pytest.approx(0.1)
    now += 1_950_000_000
    assert not program.reap()
    assert program.left_s() == pytest.approx(0.05)
    now += 60_000_000
    assert program.reap()
    assert sleeper.poll() is None


def test_a_signal_ends_the_recording_and_not_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    program = RunningProgram(sleeper.pid, 0)
    program.start()
    program.send(signal.SIGKILL)
    assert program.reap()
    assert sleeper.poll() is None


def test_giving_up_leaves_the_process_alone(sleeper: subprocess.Popen[bytes]) -> None:
    program = RunningProgram(sleeper.pid, 0)
    program.abandon()
    assert program.wait_status is not None
    assert sleeper.poll() is None


def test_its_command_line_and_name(sleeper: subprocess.Popen[bytes]) -> None:
    assert attach.command_of(os.getpid())[0] == sys.orig_argv[0]
    assert attach.name_of(os.getpid())


def test_a_process_that_is_not_there_is_named() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(CollectError, match=f"no process {gone.pid}"):
        attach.command_of(gone.pid)
    with pytest.raises(CollectError, match=f"no process {gone.pid}"):
        RunningProgram(gone.pid, 0)
    assert attach.name_of(gone.pid) == ""


def test_where_the_kernel_gives_no_pidfd_the_end_is_seen_too(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(pid: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "pidfd_open", forbidden)
    program = RunningProgram(sleeper.pid, 0)
    program.start()
    assert not program.reap()
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert program.reap()
    sleeper.wait()
    with pytest.raises(CollectError, match="There is no process"):
        RunningProgram(sleeper.pid, 0)
