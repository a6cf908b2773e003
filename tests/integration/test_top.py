"""`pinprof top`: a running program watched, on a pipe and on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pinprof import collect, read
from pinprof.collect import run
from pinprof.collect.pace import NO_LIMITS
from pinprof.collect.trouble import Trouble
from pinprof.portions import following
from pinprof.portions.following import Following

PROGRAM = """
import mmap, sys

def fresh():
    with mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for place in range(0, len(block), 4096):
            block[place] = 1

print("ready", flush=True)
while True:
    fresh()
"""
STARTED = """
import sys, time
from pathlib import Path

print("from the program", sys.stdin.read(), sys.stdin.isatty(), flush=True)
deadline = time.monotonic() + 200
while not Path("seen").exists() and time.monotonic() < deadline:
    sum(range(10000))
sys.exit(3)
"""
PATIENCE_S = 240


@pytest.fixture
def program(tmp_path: Path) -> Iterator[int]:
    """A process that touches new memory, and nothing else, until the test ends it."""
    script = tmp_path / "toucher.py"
    script.write_text(PROGRAM)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        assert process.poll() is None, "the program goes on"
        process.kill()


def test_a_pipe_gets_each_window_once(program: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pinprof", "top", "--pid", str(program), "--window", "4s", "--count", "2"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=PATIENCE_S).stdout
    windows = re.findall(r"^toucher · \d+ · last .+$", told, re.MULTILINE)
    assert len(windows) == 2
    assert "\x1b" not in told
    faults = re.findall(r"^page faults +[▁-█]{30}  ([\d,.k]+) a second", told, re.MULTILINE)
    assert len(faults) == 2
    assert "cores busy" in told
    assert "toucher.py:7" in told
    assert not list(tmp_path.glob("*.pinprof"))


def test_keys_choose_a_view_and_save_a_window(program: int, tmp_path: Path) -> None:
    with Screen(["top", "--pid", str(program), "--window", "3s"], tmp_path) as screen:
        screen.until("cores busy")
        screen.press("l")
        screen.until("toucher.py:7")
        screen.press("m")
        screen.until("Memory")
        screen.press("p")
        screen.until("paused")
        screen.press("s")
        screen.until("Saved: ")
        screen.press("q")
        assert screen.status() == 0
        assert screen.modes() == screen.before, "the terminal is as it was"
    (capture,) = tmp_path.glob("toucher-*.pinprof")
    assert (capture.with_suffix(".html")).stat().st_size > 100_000
    recorded = read.read(capture)
    assert len(recorded.samples) > 50
    assert any(symbol.startswith("fresh") for symbol in recorded.stacks.frames.symbol)


def test_a_program_that_top_starts_prints_after_the_view_and_has_its_own_status(tmp_path: Path) -> None:
    script = tmp_path / "toucher.py"
    script.write_text(STARTED)
    with Screen(["top", "--window", "3s", "--", sys.executable, str(script)], tmp_path) as screen:
        screen.until("cores busy")
        assert "from the program" not in screen.shown
        (tmp_path / "seen").touch()
        screen.until("from the program  False")
        assert screen.status() == 3
        assert screen.modes() == screen.before, "the terminal is as it was"


def test_top_watches_one_program(tmp_path: Path) -> None:
    for options in ([], ["--pid", "1", "--", "touch", "begun"]):
        command = [sys.executable, "-m", "pinprof", "top", *options]
        told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert told.returncode == 2
        assert "watches one program" in told.stderr
    assert not list(tmp_path.iterdir())


def test_a_process_that_is_not_there_is_said(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    command = [sys.executable, "-m", "pinprof", "top", "--pid", str(ended.pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert told.returncode != 0
    assert f"There is no process {ended.pid} here." in told.stderr


def test_what_lies_before_the_longest_window_is_given_back(
    program: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_BLOCK", 4096)
    directory = tmp_path / "recording"
    directory.mkdir()
    watched = Following(directory, ("toucher.py",), longest_s=2)
    request = collect.RecordRequest(
        ("toucher.py",), pid=program, frequency=4999, fault_period=1, cuda_calls=False, gpu="off", limits=NO_LIMITS
    )
    trouble = Trouble(strict=True, raises=True)
    windows: list[Path] = []

    def look(recording: run.CollectorRun) -> float:
        watched.look(recording)
        size, kept = sparse(directory / "perf.data")
        if size - kept > 8 * 4096 and watched.seen_s > 1:
            windows.append(watched.write(tmp_path / "window.pinprof", 1.5))
            os.kill(os.getpid(), signal.SIGINT)
        return 0.5

    run.record(request, directory, trouble, run.RecordingHooks(watch=Every(look).due))
    capture = read.read(windows[0])
    begun, ended = capture.manifest.outcome["recorded_ns"]
    assert len(capture.samples) > 0
    assert capture.losses.corrupt_bytes == capture.losses.unknown_records == 0
    assert begun - 1e9 <= capture.samples.time_ns.min() <= capture.samples.time_ns.max() <= ended + 1e9
    assert any(event.name.startswith("page-faults") for event in capture.events)
    assert not any(event.name.startswith("event-") for event in capture.events), "events have their names"
    assert any("python" in frame.path for frame in capture.stacks.frames.dsos), "mappings from before are kept"


class Every:
    """Calls a function half a second after it has returned."""

    def __init__(self, call: Callable[[run.CollectorRun], float]) -> None:
        self._call, self._next = call, 0.0

    def due(self, recording: run.CollectorRun) -> float:
        if (left := self._next - time.monotonic()) > 0:
            return left
        wait = self._call(recording)
        self._next = time.monotonic() + wait
        return wait


def sparse(path: Path) -> tuple[int, int]:
    """The size of a file, and of what the disk holds of it."""
    if not path.exists():
        return 0, 0
    status = path.stat()
    return status.st_size, status.st_blocks * 512


class Screen:
    """pinprof on a terminal of 100 columns and 40 lines."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        gate, opened = os.pipe()
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.close(opened)
            os.read(gate, 1)  # however late this process looks at the modes of its terminal
            os.chdir(folder)
            environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
            os.execve(sys.executable, [sys.executable, "-m", "pinprof", *arguments], environment)
        self.before = self.modes()
        for end in (gate, opened):
            os.close(end)
        self._shown = ""

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._terminal)

    @property
    def shown(self) -> str:
        """What came since the last key, without commands to the terminal."""
        return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", self._shown)

    def modes(self) -> list[object]:
        return termios.tcgetattr(self._terminal)

    def press(self, key: str) -> None:
        self._shown = ""
        os.write(self._terminal, key.encode())

    def until(self, text: str) -> None:
        """Read until a text is on the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < deadline, self._shown
            self._read()

    def status(self) -> int:
        """Read to the end; how it exited."""
        with_end = time.monotonic() + PATIENCE_S
        while self._read() and time.monotonic() < with_end:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _read(self) -> bool:
        if not select.select([self._terminal], [], [], 1)[0]:
            return True
        try:
            self._shown += (got := os.read(self._terminal, 65536)).decode(errors="replace")
        except OSError:  # EIO: nobody has the other side open any more
            return False
        return bool(got)
