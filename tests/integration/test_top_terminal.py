"""`pinprof top` in tmux: keys, a narrow terminal, no colours, a reader that goes, and ends of all kinds."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="there is no tmux")
PATIENCE_S = 240
PROGRAM = """
import mmap, sys, time
from pathlib import Path

def fresh():
    with mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for place in range(0, len(block), 4096):
            block[place] = 1

deadline = time.monotonic() + 600
while not Path(sys.argv[1]).exists() and time.monotonic() < deadline:
    fresh()
print("from the program", flush=True)
sys.exit(3)
"""
PATIENT = """
import os, sys, time

output, deadline = f"/proc/{os.getppid()}/fd/1", time.monotonic() + 200
while os.readlink(output) != os.devnull and time.monotonic() < deadline:
    sum(range(10000))  # pinprof has not noticed yet that nobody reads
time.sleep(2)
sys.exit(3)
"""


class Terminal:
    """A shell's command in a terminal of 100 columns and 30 lines."""

    def __init__(self, folder: Path, command: str, **environment: str) -> None:
        # Each has a server of its own: one that is ending still listens.
        self._socket, self.status = Path(tempfile.mkdtemp(dir=folder)) / "tmux", folder / "status"
        given = "".join(f"{name}={shlex.quote(value)} " for name, value in environment.items())
        script = folder / "command.sh"
        script.write_text(f"cd {shlex.quote(str(folder))}; {given}{command}; echo $? > {self.status}; sleep 600\n")
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", f"bash {shlex.quote(str(script))}")

    def press(self, key: str) -> None:
        self._tmux("send-keys", key)

    def resize(self, columns: int) -> None:
        self._tmux("set-option", "-g", "window-size", "manual")
        self._tmux("resize-window", "-x", str(columns), "-y", "30")

    def shown(self, *options: str) -> str:
        return self._tmux("capture-pane", "-p", *options)

    def until(self, holds: Callable[[str], object]) -> str:
        """The screen, once something holds of it."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(screen := self.shown()):
            assert time.monotonic() < deadline, screen
            time.sleep(0.2)
        return screen

    def shows(self, text: str) -> str:
        """The screen, once a text is on it."""
        return self.until(lambda screen: text in screen)

    def has_a_screen_of_its_own(self) -> bool:
        return self._tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def ended(self) -> int:
        self.until(lambda _: self.status.exists() and self.status.read_text().endswith("\n"))
        return int(self.status.read_text())

    def close(self) -> None:
        self._tmux("kill-server", check=False)

    def _tmux(self, *words: str, check: bool = True) -> str:
        command = ["tmux", "-S", str(self._socket), *words]
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "COLUMNS", "LINES")}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "toucher.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def program(tmp_path: Path, script: Path) -> Iterator[int]:
    """A process that touches new memory until the test ends it."""
    with subprocess.Popen([sys.executable, script, tmp_path / "never"]) as process:
        yield process.pid
        assert process.poll() is None, "the program goes on"
        process.kill()


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_one(command: str, **environment: str) -> Terminal:
        opened.append(Terminal(tmp_path, command, **environment))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def top(*words: object) -> str:
    return shlex.join([sys.executable, "-m", "pinprof", "top", "--window", "3s", *map(str, words)])


def test_keys_choose_what_is_shown_and_a_narrow_terminal_is_filled_as_well(
    program: int, terminals: Callable[..., Terminal]
) -> None:
    terminal = terminals(top("--pid", program))
    terminal.until(lambda screen: "cores busy" in screen)
    for key, shown in (("c", "fault."), ("l", "toucher.py:8"), ("m", "resident, peak"), ("g", "nothing of this")):
        terminal.press(key)
        # The pulse stays.
        terminal.until(lambda screen, shown=shown: shown in screen and "page faults" in screen)
    terminal.press("l")
    terminal.press("p")
    terminal.until(lambda screen: "paused" in screen and "toucher.py:8" in screen)
    terminal.press("p")
    terminal.press("+")
    terminal.until(lambda screen: "paused" not in screen and re.search(r"last ([4-9]|\d\d)", screen))
    terminal.resize(60)
    # A screen may be seen half drawn.
    keys = re.compile(r"^a answer .*….* q quit$", re.MULTILINE)
    screen = terminal.until(lambda screen: keys.search(screen) and screen.count("cores busy") == 1)
    assert max(map(len, screen.splitlines())) <= 60
    terminal.press("q")
    assert terminal.ended() == 0
    assert "Traceback" not in terminal.shown()


def test_without_colours_there_are_none(program: int, terminals: Callable[..., Terminal]) -> None:
    for number, colours in enumerate((True, False)):
        terminal = terminals(top("--pid", program), **({} if colours else {"NO_COLOR": "1"}))
        terminal.until(lambda screen: "cores busy" in screen)
        assert bool(re.search(r"\x1b\[(?:\d+;)*3[0-7]m", terminal.shown("-e"))) == colours, number
        terminal.press("q")
        assert terminal.ended() == 0
        terminal.close()
        terminal.status.unlink()


def test_a_program_that_ends_ends_the_view_and_leaves_the_answer_and_its_output(
    tmp_path: Path, script: Path, terminals: Callable[..., Terminal]
) -> None:
    terminal = terminals(top("--", sys.executable, script, tmp_path / "stop"))
    terminal.shows("q quit")
    assert terminal.has_a_screen_of_its_own()
    terminal.press("l")
    screen = terminal.shows("toucher.py:8")
    assert "from the program" not in screen
    (tmp_path / "stop").touch()
    assert terminal.ended() == 3
    screen = terminal.shown()
    assert not terminal.has_a_screen_of_its_own()
    before, said, answer = screen.partition("from the program\n")
    assert (before.strip(), bool(said)) == ("", True), screen
    assert answer.strip(), "the last answer stays"
    assert "q quit" not in screen
    assert "Traceback" not in screen


def test_the_end_of_a_program_that_ran_before_ends_the_view(
    tmp_path: Path, script: Path, terminals: Callable[..., Terminal]
) -> None:
    with subprocess.Popen([sys.executable, script, tmp_path / "stop"], stdout=subprocess.DEVNULL) as process:
        terminal = terminals(top("--pid", process.pid))
        terminal.shows("q quit")
        (tmp_path / "stop").touch()
        assert process.wait() == 3
        assert terminal.ended() == 0
    screen = terminal.shown()
    assert not terminal.has_a_screen_of_its_own()
    assert "q quit" not in screen
    assert "Traceback" not in screen


def test_a_reader_that_goes_ends_the_view_of_a_program_that_ran_before(
    program: int, terminals: Callable[..., Terminal]
) -> None:
    terminal = terminals(f"{top('--pid', program)} | head -n 1; echo status ${{PIPESTATUS[0]}}")
    assert terminal.ended() == 0
    screen = terminal.shown()
    assert re.search(rf"^toucher · {program} · last .*$", screen, re.MULTILINE), screen
    assert re.search(r"^status 141$", screen, re.MULTILINE), screen
    assert "cores busy" not in screen
    assert "Traceback" not in screen


def test_a_program_that_pinprof_started_goes_on_when_the_reader_goes(
    tmp_path: Path, terminals: Callable[..., Terminal]
) -> None:
    script = tmp_path / "patient.py"
    script.write_text(PATIENT)
    terminal = terminals(f"{top('--', sys.executable, script)} | head -n 1; echo status ${{PIPESTATUS[0]}}")
    assert terminal.ended() == 0
    screen = terminal.shown()
    assert re.search(r"^patient · last .*$", screen, re.MULTILINE), screen
    assert re.search(r"^status 3$", screen, re.MULTILINE), screen


@pytest.mark.parametrize("own", [False, True], ids=["a program that ran before", "a program that pinprof started"])
def test_a_terminal_that_goes_leaves_nothing_behind(
    own: bool, tmp_path: Path, script: Path, program: int, terminals: Callable[..., Terminal]
) -> None:
    places = tmp_path / "places"
    places.mkdir()
    words = ("--", sys.executable, script, tmp_path / "stop") if own else ("--pid", program)
    terminal = terminals(top(*words), TMPDIR=str(places))
    terminal.shows("q quit")
    assert processes_with(str(places))
    terminal.close()
    deadline = time.monotonic() + PATIENCE_S
    while left := [*processes_with(str(places)), *places.iterdir()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def processes_with(variable: str) -> list[int]:
    """Processes in whose environment a text is."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if variable.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found
