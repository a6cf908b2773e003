"""What a trial leaves when pinprof is killed: nothing."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pinprof.collect.proc import alive
from pinprof.trial import keeper

pytestmark = pytest.mark.slow
TRIAL = """
import os, sys
from pinprof.trial.session import TrialRequest, trial
trial(TrialRequest((sys.executable, "-c", sys.argv[1]), ("glibc-keep-memory",), record=False), os.environ, print)
"""
PROGRAM = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
with open({note!r} + ".new", "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
os.rename({note!r} + ".new", {note!r})
time.sleep(600)
"""
_LONG_S = 120.0


def until(done: Callable[[], bool]) -> bool:
    """Whether something comes true, however slow the machine is."""
    end = time.monotonic() + _LONG_S
    while not done() and time.monotonic() < end:
        time.sleep(0.02)
    return done()


def test_when_pinprof_is_killed_the_program_ends_and_the_folder_goes(tmp_path: Path) -> None:
    temporary, note = tmp_path / "temporary", tmp_path / "note"
    temporary.mkdir()
    words = [sys.executable, "-c", TRIAL, PROGRAM.format(note=str(note))]
    running = subprocess.Popen(words, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL)
    try:
        assert until(note.exists)
        assert list(temporary.iterdir())
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    started = [int(pid) for pid in note.read_text().split()]
    assert until(lambda: not any(map(alive, started)))
    assert until(lambda: not list(temporary.iterdir()))


def test_what_others_do_in_the_folder_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    other = subprocess.Popen(["sleep", "600"], cwd=folder, start_new_session=True)
    try:
        assert until(lambda: Path(f"/proc/{other.pid}/cwd").readlink() == folder)
        time.sleep(2 / os.sysconf("SC_CLK_TCK"))  # the kernel's clock of starts has such steps
        with keeper.kept(folder):
            own = subprocess.Popen(["sleep", "600"], cwd=folder, start_new_session=True)
        assert own.wait() == -signal.SIGTERM
        assert other.poll() is None
        assert not folder.exists()
    finally:
        other.kill()
        other.wait()


def test_a_shell_that_looks_into_the_folder_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with keeper.kept(folder):
        pid, terminal = pty.fork()
        if not pid:
            os.execvp("sh", ["sh", "-c", f"cd {folder}; echo there; sleep 600"])
        assert os.read(terminal, 5) == b"there"
    try:
        assert alive(pid)
        assert not folder.exists()
    finally:
        os.close(terminal)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
