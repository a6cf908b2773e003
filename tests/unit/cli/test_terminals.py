"""Lists and tables in narrow terminals, in pipes and where the locale knows ASCII only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import click
import pytest

from pinprof.cli import list as list_command


def output(*arguments: str, **environment: str) -> str:
    command = [sys.executable, "-m", "pinprof", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True).stdout.decode()


def test_what_ascii_cannot_say_is_spelled_out() -> None:
    text = output("doctor", PYTHONIOENCODING="ascii")
    assert text.isascii()
    assert "\\u" in text


def test_doctor_says_the_fix_below_what_it_found() -> None:
    lines = output("doctor").splitlines()
    assert max(map(len, lines)) <= 100
    assert lines == [line.rstrip() for line in lines]
    assert lines[0].split()[1:3] == ["native", "collector"]


def test_the_list_wraps_beside_the_names_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    list_command.command.main([], standalone_mode=False)
    whole = capsys.readouterr().out
    assert max(map(len, whole.splitlines())) > 100
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((70, 24)))
    list_command.command.main([], standalone_mode=False)
    wrapped = click.unstyle(capsys.readouterr().out).splitlines()
    listed = wrapped[: wrapped.index("")]
    assert max(map(len, listed)) <= 70
    assert any(line.startswith(" " * 24) for line in listed)
    assert " ".join(" ".join(wrapped).split()) == " ".join(whole.split())
