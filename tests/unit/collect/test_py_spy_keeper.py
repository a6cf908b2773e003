"""When py-spy begins: which processes run Python, and which copy of pinprof is not yet the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinprof.collect import py_spy_keeper
from pinprof.collect.proc import alive
from pinprof.collect.py_spy_keeper import Spy, has_interpreter


def soon(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not has_interpreter(pid):
        time.sleep(0.02)
    return has_interpreter(pid)


def test_other_programs_are_not_looked_at() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        assert alive(process.pid)
        assert not has_interpreter(process.pid)
        process.kill()
        while alive(process.pid):
            time.sleep(0.01)
        assert not has_interpreter(process.pid)
    assert not alive(process.pid)


def test_an_interpreter_below_the_program_is_found() -> None:
    command = ["sh", "-c", f"'{sys.executable}' -c 'import time; time.sleep(600)'; true"]
    with subprocess.Popen(command, start_new_session=True) as process:
        assert soon(process.pid)
        os.killpg(process.pid, signal.SIGKILL)


def test_a_copy_of_pinprof_is_not_the_program_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        assert soon(process.pid)
        monkeypatch.setattr(py_spy_keeper.os, "getppid", lambda: process.pid)
        assert not has_interpreter(process.pid)
        process.kill()


def spy(folder: Path, log: str, utc_offset_ns: int = 0) -> Spy:
    """One that was started when CLOCK_MONOTONIC was a second."""
    (folder / "log").write_text(log)
    process = subprocess.Popen(["true"])
    process.wait()
    return Spy(process, folder, 10**9, utc_offset_ns)


@pytest.mark.parametrize("begun", ["03.500000001", "09.500000001"])
def test_the_traces_clock_begins_with_the_log(begun: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late that is, as on a busy machine."""
    log = f"[1970-01-01T00:00:{begun}Z INFO  py_spy::config] config Config {{\n"
    played = SimpleNamespace(monotonic_ns=lambda: 60 * 10**9, time_ns=lambda: 62_499_000_000)
    monkeypatch.setattr(py_spy_keeper, "time", played)
    after_ns = (int(begun[:2]) - 3) * 10**9
    assert spy(tmp_path, log, 2_499_000_000).clock() == (1_001_000_001 + after_ns, 1_000_000)
    far = spy(tmp_path, log, 1_499_000_000).clock()
    assert far == (10**9, 20_000_000), "the system clock was set meanwhile: the time of the start, less exact"
    assert spy(tmp_path, "").clock() == (10**9, 20_000_000)


def test_a_complaint_is_what_py_spy_says_beside_its_log(tmp_path: Path) -> None:
    log = "[2026-01-01T00:00:00.000000000Z INFO  py_spy::config] config Config {\n        pid: Some(\n}\n"
    made = spy(tmp_path, log + "Error: Permission Denied: Try running again\x1b[0m\n")
    assert made.complaint() == "Error: Permission Denied: Try running again[0m"
    assert not made.harvest(tmp_path / "out", 100)
