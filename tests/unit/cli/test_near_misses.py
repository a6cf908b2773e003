"""What somebody types in the first hour, nearly right: the answer is the command, name or file that was meant."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.base.errors import ProgramNotFound, UsageError
from pinprof.cli import demo
from pinprof.cli.naming import refuse_page
from pinprof.collect.program import find_program
from tests.support.command import pinprof


def test_a_capture_is_found_by_the_beginning_of_its_name(tmp_path: Path) -> None:
    for time, name in enumerate(["train-20260101-100000", "train-20260102-100000", "other-20260103-100000"]):
        (tmp_path / f"{name}.pinprof").mkdir()
        os.utime(tmp_path / f"{name}.pinprof", (time, time))
    for typed in ("train.pinprof", "train"):
        failed = pinprof("report", typed, cwd=tmp_path)
        assert failed.returncode == 1
        assert f"{typed} does not exist. Did you mean train-20260102-100000.pinprof? [no-capture]" in failed.stderr
    assert "Did you mean" not in pinprof("report", "eval.pinprof", cwd=tmp_path).stderr


def test_a_folder_of_captures_names_the_newest(tmp_path: Path) -> None:
    for time, name in enumerate(["a.pinprof", "b.pinprof.tar.xz"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time, time))
    failed = pinprof("report", tmp_path)
    assert f"{tmp_path} has 2 captures in it. Report on the newest: `pinprof report" in failed.stderr
    assert f"{tmp_path}/b.pinprof.tar.xz`. Compare all: `pinprof fleet {tmp_path}`. [not-a-capture]" in failed.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("record", "--frequency", "often"), "Invalid value for '--frequency': 'often' is not a whole number."),
        (("report",), "Missing argument 'PATH...'."),
        (("doctor", "now"), "'now' is one argument too many."),
        (("run", "pinned", "a", "b"), "'a b' are too many arguments."),
        (("record", "--probe-budget", "0"), "Invalid value for '--probe-budget': 0 is not above 0 and at most 100."),
        (("report", "--port", "99999"), "Invalid value for '--port': 99999 is not between 0 and 65535."),
        (("record", "--pid", "0"), "Invalid value for '--pid': 0 is less than 1."),
    ],
)
def test_what_no_command_takes_is_an_error_like_others(words: tuple[str, ...], said: str) -> None:
    failed = pinprof(*words)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == f"pinprof: error: {said} See `pinprof {words[0]} --help`. [usage]\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x.html", "Give -o x; the page is then x.html."),
        ("run.v2.json", "Give -o run.v2; the page is then run.v2.html."),
        ("--", "-o is followed by --, not by a name."),
    ],
)
def test_a_capture_is_not_called_like_a_page_or_an_option(name: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        refuse_page(Path(name))
    assert said in str(refused.value)
    refuse_page(Path("run.pinprof"))


def test_a_folder_that_cannot_be_listed_names_no_capture(tmp_path: Path) -> None:
    failed = pinprof("report", tmp_path / "nowhere" / "train.pinprof")
    assert "does not exist. Give a capture directory" in failed.stderr


def test_names_below_a_word_are_listed_in_their_order() -> None:
    failed = pinprof("explain", "fault")
    names = ["anon", "file", "shared", "cow", "zero", "swap", "numa", "reclaim", "compact", "uffd"]
    assert f"Did you mean {', '.join(f'fault.{name}' for name in names)}?" in failed.stderr


def test_a_program_in_the_place_of_a_command_is_answered_with_record() -> None:
    failed = pinprof("sh", "run.sh")
    assert failed.returncode == 2
    assert "There is no command 'sh'. Did you mean `pinprof record -- sh …`?" in failed.stderr


@pytest.mark.parametrize(
    ("name", "mode", "meant"),
    [
        ("train.py", 0o644, "Did you mean `python train.py`?"),
        ("a.out", 0o755, "Did you mean `./a.out`?"),
        ("./a.out", 0o644, "Make it executable: chmod +x ./a.out"),
        ("notes.txt", 0o644, "Give the command after --, as you would type it."),
    ],
)
def test_a_file_that_is_not_on_the_path_is_answered_with_how_to_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: int, meant: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).touch(mode)
    with pytest.raises(ProgramNotFound) as failed:
        find_program(name)
    assert failed.value.remedy == meant
    Path(name).unlink()
    with pytest.raises(ProgramNotFound) as failed:
        find_program(name)
    assert failed.value.remedy == "Give the command after --, as you would type it."


@pytest.mark.slow
def test_the_demo_is_a_copy_that_stays_as_it_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert demo.command() == (sys.executable, demo.NAME)
    copy = tmp_path / demo.NAME
    done = subprocess.run([sys.executable, copy], capture_output=True, text=True, check=True)
    cured = subprocess.run([sys.executable, copy, "reuse"], capture_output=True, text=True, check=True)
    assert done.stdout.split("; ")[1] == cured.stdout.split("; ")[1] == "the result is 2,750.\n"
    copy.write_text("print('changed')")
    demo.command()
    assert copy.read_text() == "print('changed')"
    refused = pinprof("record", "--demo", "--", "true", cwd=tmp_path)
    assert (refused.returncode, "records a program of its own" in refused.stderr) == (2, True)
