"""What pauses pinprof, or a recorder, changes nothing for the program: signals are told from interrupted waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pinprof.collect.collector import Tool
from pinprof.collect.program import Program
from pinprof.collect.recorder import Recorder
from pinprof.collect.session import Session, signals_held

TIMES = 10

WATCHING = """
import os, sys
from pinprof.collect.idle import Preparation
from pinprof.collect.collector import Tool
from pinprof.collect.idle import Preparation
from pinprof.collect.program import Program
from pinprof.collect.session import Session, signals_held

class Often(Tool):
    def watch(self):
        return 0.02  # so that every wait is over when the pause is

with signals_held() as signals:
    program = Program([sys.executable, "-c", sys.argv[1]], dict(os.environ), signals)
    session = Session(program, [Often()], signals)
    program.start()
    session.until_program_ends(Preparation())
print(session.interruptions, program.wait_status)
"""

PATIENT = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(3))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
print("ready", flush=True)
sys.stdin.readline()
"""
"""A program that says by which signal it was disturbed."""


@contextmanager
def watched_program() -> Iterator[subprocess.Popen[str]]:
    """A pinprof that watches a program, which has begun; a line on its standard input ends the program."""
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHING, PATIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream
            stream.close()


def undisturbed(process: subprocess.Popen[str]) -> bool:
    """Whether the program ended by itself, and nobody counted an interruption."""
    return process.communicate("end\n", timeout=60)[0] == "0 0\n"


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_pinprof_that_is_stopped_ten_times_sends_its_program_no_signal() -> None:
    with watched_program() as process:
        for _ in range(TIMES):
            os.kill(process.pid, signal.SIGSTOP)
            until(lambda: state(process.pid) == "T")
            time.sleep(0.05)
            os.kill(process.pid, signal.SIGCONT)
            until(lambda: state(process.pid) != "T")
            time.sleep(0.03)
        assert undisturbed(process)


FREEZERS = ("unified/{}/cgroup.freeze", "{}/cgroup.freeze", "freezer/{}/freezer.state")
"""Version 2 beside version 1, version 2 alone, version 1. Version 2 interrupts system calls."""


@pytest.fixture(params=FREEZERS, ids=("hybrid", "v2", "v1"))
def freezer(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The switch of a new control group that can be frozen."""
    switch = Path("/sys/fs/cgroup", request.param.format(f"pinprof-test-{os.getpid()}"))
    try:
        switch.parent.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error.strerror}")
    try:
        if not switch.exists():
            pytest.skip("this kind of control group has no freezer")
        yield switch
    finally:
        switch.parent.rmdir()


def freeze(switch: Path, *, frozen: bool) -> None:
    if switch.name == "freezer.state":
        state = "FROZEN" if frozen else "THAWED"
        switch.write_text(state)
        until(lambda: switch.read_text().strip() == state)
    else:
        switch.write_text(str(int(frozen)))
        events = switch.with_name("cgroup.events")
        until(lambda: f"frozen {int(frozen)}" in events.read_text())


def test_a_container_that_is_paused_ten_times_sends_its_program_no_signal(freezer: Path) -> None:
    with watched_program() as process:
        try:
            freezer.with_name("cgroup.procs").write_text(str(process.pid))
        except OSError as error:
            pytest.skip(f"the control group takes no process: {error.strerror}")
        for _ in range(TIMES):
            freeze(freezer, frozen=True)
            time.sleep(0.05)
            freeze(freezer, frozen=False)
            time.sleep(0.03)
        assert undisturbed(process)


IGNORES_SIGINT = "import signal, time; signal.signal(2, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"


class _Started(Tool):
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder


def test_a_recorder_that_somebody_stopped_goes_on_and_finishes(tmp_path: Path) -> None:
    code = "import signal, time; print('ready', flush=True); signal.sigwait([signal.SIGINT]); print('written')"
    code = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n" + code
    log = tmp_path / "log"
    with signals_held() as signals:
        program = Program(["true"], dict(os.environ), signals)
        recorder = Recorder([sys.executable, "-c", code], dict(os.environ), log)
        until(lambda: "ready" in log.read_text())
        os.kill(recorder.pid, signal.SIGSTOP)
        until(lambda: state(recorder.pid) == "T")
        session = Session(program, [_Started(recorder)], signals)
        program.abandon()
        begun = time.monotonic()
        meanwhile: list[bool] = []

        def look(goes_on: Callable[[], bool]) -> None:
            meanwhile.append(goes_on())
            until(lambda: not goes_on())

        session.finish_recorders(look)
    assert meanwhile == [True]
    assert recorder.wait_status == 0
    assert "written" in log.read_text()
    assert time.monotonic() - begun < recorder.finish_timeout_s / 2


def test_a_recorder_that_others_keep_from_running_is_given_time_to_finish(tmp_path: Path) -> None:
    code = "import signal, time; print('ready', flush=True); signal.sigwait([signal.SIGINT]); "
    code = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n" + code
    code += "end = time.process_time() + 0.05\nwhile time.process_time() < end: pass"
    log, cpu = tmp_path / "log", min(os.sched_getaffinity(0))
    with signals_held() as signals:
        program = Program(["true"], dict(os.environ), signals)
        recorder = Recorder([sys.executable, "-c", code], dict(os.environ), log)
        recorder.finish_timeout_s = 0.5
        until(lambda: "ready" in log.read_text())
        os.sched_setaffinity(recorder.pid, {cpu})
        os.setpriority(os.PRIO_PROCESS, recorder.pid, 12)
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            os.sched_setaffinity(other.pid, {cpu})
            session = Session(program, [_Started(recorder)], signals)
            program.abandon()
            session.finish_recorders()
            other.kill()
    assert recorder.wait_status == 0


def test_a_recorder_that_does_not_end_is_ended(tmp_path: Path) -> None:
    with signals_held() as signals:
        program = Program(["true"], dict(os.environ), signals)
        recorder = Recorder([sys.executable, "-c", IGNORES_SIGINT], dict(os.environ), tmp_path / "log")
        recorder.finish_timeout_s = 1.0
        until(lambda: "ready" in (tmp_path / "log").read_text())
        session = Session(program, [_Started(recorder)], signals)
        program.abandon()
        session.finish_recorders()
    assert recorder.wait_status == signal.SIGKILL


def test_a_recorder_that_somebody_ended_is_known_to_have_ended_first_however_late_pinprof_looks(tmp_path: Path) -> None:
    with signals_held() as signals:
        program = Program(["true"], dict(os.environ), signals)
        recorder = Recorder(["sleep", "600"], dict(os.environ), tmp_path / "log")
        session = Session(program, [_Started(recorder)], signals)
        os.kill(recorder.pid, signal.SIGTERM)
        until(lambda: state(recorder.pid) == "Z")
        program.start()
        until(lambda: state(program.pid) == "Z")
        session.until_over()
    assert recorder.ended_well
    assert recorder.died_first
