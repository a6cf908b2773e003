"""Lists and tables in narrow terminals and in pipes."""

from __future__ import annotations

import os
import shutil

import click
import pytest

from pinprof.cli import list as list_command


def test_the_list_wraps_beside_the_names_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    list_command.command.main([], standalone_mode=False)
    whole = capsys.readouterr().out
    assert max(map(len, whole.splitlines())) > 100
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((70, 24)))
    list_command.command.main([], standalone_mode=False)
    wrapped = click.unstyle(capsys.readouterr().out).splitlines()
    listed = wrapped[: wrapped.index("")]
    assert max(map(len, listed)) <= 70
    assert any(line.startswith(" " * 24) for line in listed)
    assert " ".join(" ".join(wrapped).split()) == " ".join(whole.split())
