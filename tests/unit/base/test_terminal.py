"""What is printed is printable, in one place; that nobody reads it stops no work."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from pinprof.base import terminal
from pinprof.base.errors import PinprofError
from pinprof.report.terminal.console import PrintableConsole
from tests.support.command import pinprof
from tests.support.hostile_text import HOSTILE, shows
from tests.support.sources import calls

ROOT = Path(__file__).parents[3]
ALLOWED = {
    "terminal.py": {"write"},
    "report/terminal/console.py": {"Console"},
    # Their standard output is a log or a pipe to pinprof.
    "collect/python_frames/__main__.py": {"print"},
    "collect/uvm/__main__.py": {"print"},
    "collect/py_spy_keeper.py": {"print"},
    "bench/worker.py": {"print"},
    "bench/calibration_worker.py": {"print"},
    # A program that users run, and a copy of which they read.
    "cli/demo_program.py": {"print"},
}


def printing(node: ast.Call) -> str:
    """By which way a call prints past the filter; empty when it does not."""
    if isinstance(node.func, ast.Name):
        return node.func.id if node.func.id in ("print", "Console") else ""
    if not isinstance(node.func, ast.Attribute):
        return ""
    name = node.func.attr
    if name in ("echo", "secho", "style", "echo_via_pager", "prompt", "confirm"):
        return f"click.{name}" if ast.unparse(node.func.value) == "click" else ""
    if name in ("write", "writelines"):
        return "write" if ast.unparse(node.func.value) in ("sys.stdout", "sys.stderr", "console.file") else ""
    return ""


@pytest.mark.slow
def test_printing_happens_in_one_place() -> None:
    ways = {}
    for path in (ROOT / "pinprof").rglob("*.py"):
        name = str(path.relative_to(ROOT / "pinprof"))
        if found := {way for way in map(printing, calls(path)) if way} - ALLOWED.get(name, set()):
            ways[name] = found
    assert ways == {}


@pytest.mark.slow
@given(st.text())
def test_every_text_is_printable_once_it_is_said(text: str) -> None:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        terminal.say(text)
    assert shows(stream.getvalue())
    assert stream.getvalue().count("\n") == text.count("\n") + 1


@given(st.text())
def test_the_console_lets_no_control_character_through(text: str) -> None:
    stream = io.StringIO()
    console = PrintableConsole(file=stream, width=60, no_color=True)
    table = Table(text, box=None)
    table.add_row(Text(text))
    console.print(table)
    console.print(text)
    console.print(Text(text, "bold"), soft_wrap=True)
    assert shows(stream.getvalue())


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", f"no-{HOSTILE}.data"],
        ["report", "{folded}", "--format", "folded", "--event", HOSTILE],
        ["report", "{folded}", "--explain", HOSTILE],
        ["report", "{folded}", "--format", HOSTILE],
        [HOSTILE],
        ["run", HOSTILE],
        ["list", HOSTILE],
        ["record", "--", HOSTILE],
        ["bench", "--only", HOSTILE],
        ["bench", "compare", HOSTILE, HOSTILE],
    ],
)
def test_no_error_brings_an_escape_sequence_to_the_terminal(arguments: list[str], tmp_path: Path) -> None:
    folded = tmp_path / "in.folded"
    folded.write_text(f"a{HOSTILE};b 3\n".replace("\r", ""), "utf-8")
    told = pinprof(*(word.replace("{folded}", str(folded)) for word in arguments))
    assert told.returncode
    assert shows(told.stdout)
    assert shows(told.stderr)
    assert told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.slow
def test_the_sign_of_life_shows_names_as_they_are(tmp_path: Path) -> None:
    controller, line = pty.openpty()
    code = "import sys; from pinprof.cli.progress import working\nwith working(sys.argv[1]): pass"
    try:
        words = [sys.executable, "-c", code, f"[red]\x1b]0;owned\x07{HOSTILE}"]
        subprocess.run(words, stderr=line, check=True, env={**os.environ, "TERM": "xterm"}, cwd=tmp_path)
    finally:
        os.close(line)
    # What was written comes in pieces; the end is an error.
    pieces = []
    with contextlib.suppress(OSError):
        while piece := os.read(controller, 1 << 16):
            pieces.append(piece)
    os.close(controller)
    told = b"".join(pieces).decode()
    assert "[red]" in told
    assert not [part for part in ("\x1b]", "\x07", "\x9b", "\u202e") if part in told]


def test_errors_are_said_with_their_line_ends(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say(PinprofError("a\x1b[1mb.", "c", "slug"), error=True)
    assert capsys.readouterr().err == "a␛[1mb. c\n"
