"""How a command ends that a signal or the system breaks off: one sentence or none, and a status that says which."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from pinprof import cli
from pinprof.cli import interrupts


def status_of(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> int:
    """The exit status of a command in which something happens."""
    monkeypatch.setattr(cli.cli, "main", lambda *_, **__: happens())
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def raising(error: BaseException) -> Callable[[], None]:
    def happens() -> None:
        raise error

    return happens


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_an_exception_and_the_status_names_it(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    tidied = []

    def happens() -> None:
        try:
            signal.raise_signal(number)
        finally:
            tidied.append(number)

    # A run of the tests under nohup, or in a shell's background, ignores some of them, and so would the command.
    before = signal.signal(number, signal.default_int_handler)
    try:
        assert status_of(monkeypatch, happens) == 128 + number
        assert tidied == [number]
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


def test_an_import_that_makes_another_error_of_it_does_not_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def happens() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise ImportError("cannot import name") from error

    assert status_of(monkeypatch, happens) == 143


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert status_of(monkeypatch, lambda: signal.raise_signal(signal.SIGHUP)) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


FORKS = """
import os, signal
from pinprof.cli import interrupts
with interrupts.as_exceptions():
    child = os.fork()
    if child == 0:
        signal.raise_signal(signal.SIGTERM)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_forked_child_ends_as_it_would_without_us() -> None:
    result = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    assert result.stdout == "-15\n"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x.html"), "device. With -o, choose"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "Free some memory"),
        (MemoryError(), "not enough memory"),
        (OSError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"), "TMPDIR"),
    ],
)
def test_what_the_system_refuses_is_one_line_with_a_remedy(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(monkeypatch, raising(error)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pinprof: error: ")
    assert line.endswith("]"), "the word that docs/messages.md explains"
    assert words in line


def test_an_error_of_our_own_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(monkeypatch, raising(FileNotFoundError(errno.ENOENT, "gone\x1b[31m"))) == 1
    told = capsys.readouterr().err
    assert "test_endings.py" in told
    assert told.endswith("gone␛[31m\n")


def test_a_stopped_command_says_what_is_kept() -> None:
    aborted = click.Abort()
    aborted.__cause__ = KeyboardInterrupt(2)
    with pytest.raises(click.Abort) as stopped, interrupts.keeping("The rest is in a."):
        raise aborted
    assert interrupts.said(stopped.value) == "pinprof: stopped. The rest is in a."
    assert interrupts.said(KeyboardInterrupt(2)) == "pinprof: stopped. Nothing was written."
