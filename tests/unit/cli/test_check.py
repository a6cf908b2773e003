"""The command line of `pinprof check`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pinprof.check import program
from pinprof.check.program import CheckRequest, RecordedSides
from pinprof.cli import check
from pinprof.report.check.sections import FORMS
from tests.support.checked_runs import LOOP, PINNED, measured
from tests.support.command import pinprof

BUDGETS = """[[budget]]
name = "no loops"
pairs = 0

[[budget]]
pinned-bytes = "1 GiB"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pinprof.toml").write_text(BUDGETS)
    return tmp_path


def test_the_forms_of_the_command_are_those_of_the_reports() -> None:
    assert set(check.FORMATS) == set(FORMS.names)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "status"), [(PINNED, 0), (LOOP, 3)])
def test_captures_are_judged_by_the_nearest_budgets(folder: Path, path: Path, status: int) -> None:
    done = pinprof("check", path)
    assert done.returncode == status, done.stderr
    assert ("All 2 budgets hold." if not status else "1 of 2 budgets is broken.") in done.stdout
    if status:
        assert "no loops: 48 pairs, 48 pairs more than the limit of 0 pairs." in done.stdout
        assert "pinprof.toml:1" in done.stdout


@pytest.mark.slow
def test_several_outputs_are_written_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "step.md"))
    forms = [form for form in check.FORMATS if form != "text"]
    done = pinprof("check", LOOP, *(word for form in forms for word in ("--write", f"{form}=out.{form}")))
    assert done.returncode == 3
    assert "48 pairs" in done.stdout
    for form in forms:
        assert "no loops" in (folder / f"out.{form}").read_text(), form
    assert "no loops" in (folder / "step.md").read_text()
    found = json.loads((folder / "out.json").read_text())
    assert (found["status"], found["outcome"], found["verdicts"][0]["per_run"]) == (3, "broken", [48.0])


@pytest.mark.slow
def test_what_cannot_be_judged_fails_unless_that_is_allowed_loudly(folder: Path) -> None:
    (folder / "pinprof.toml").write_text('[[budget]]\nrange = "nowhere"\npairs = 0\n')
    assert pinprof("check", LOOP).returncode == 4
    done = pinprof("check", "--allow-unassessable", LOOP)
    assert done.returncode == 0
    assert "NOT CHECKED" in done.stdout


@pytest.mark.slow
def test_a_baseline_needs_no_file(folder: Path) -> None:
    (folder / "pinprof.toml").unlink()
    done = pinprof("check", LOOP, "--against", PINNED)
    assert done.returncode == 3
    assert "pairs against the baseline: 48 pairs, 48 pairs more" in done.stdout
    assert pinprof("check", PINNED, "--against", PINNED).returncode == 2


@pytest.mark.slow
def test_init_writes_budgets_that_hold_and_notice_and_overwrites_nothing(folder: Path) -> None:
    done = pinprof("check", "init", LOOP)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    done = pinprof("check", "init", LOOP, "-o", "first.toml")
    assert done.returncode == 0, done.stderr
    text = (folder / "first.toml").read_text()
    assert "pairs = 48  # found 48 pairs; margin: none, it is an exact count" in text
    assert pinprof("check", "--budget", "first.toml", LOOP).returncode == 0
    done = pinprof("check", "--self-test", "--budget", "first.toml", LOOP)
    assert done.returncode == 0, done.stdout
    assert "pairs notices an excess of 1 pair or more" in done.stdout
    assert pinprof("check", "init", LOOP, "-o", "-").stdout == text


@pytest.mark.slow
def test_the_self_test_fails_where_a_budget_would_not_notice(folder: Path) -> None:
    (folder / "pinprof.toml").write_text('[[budget]]\ntime = "9 s"\n')
    done = pinprof("check", "--self-test", LOOP, "-o", "out.json")
    assert done.returncode == 4
    assert json.loads((folder / "out.json").read_text())["budgets"][0]["noticed"] is False


def test_a_program_is_recorded_as_its_budgets_need(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[CheckRequest] = []

    def record(request: CheckRequest, *_: object) -> RecordedSides:
        asked.append(request)
        found = measured(PINNED, *request.budgets)
        return RecordedSides([found], [replace(found, identity="another")])

    monkeypatch.setattr(program, "record", record)
    words = ["--time", "2min", "--seed", "7", "--keep", "kept", "--baseline", "old 'a b'", "--", "new", "--check", "-x"]
    done = pinprof("check", "--budget", "pinprof.toml", *words)
    assert done.returncode == 0, done.stderr
    request = asked[0]
    assert (request.command, request.baseline) == (("new", "--check", "-x"), ("old", "a b"))
    assert (request.time_s, request.seed, request.keep) == (120, 7, Path("kept"))


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ([], 2, "Missing argument"),
        (["--"], 2, "no program"),
        (["a", "--", "b"], 2, "both captures and a program"),
        (["--self-test", "--", "b"], 2, "works on captures only"),
        (["a", "--keep", "x"], 2, "needs a program"),
        (["a", "--write", "junit"], 2, "FORM=FILE"),
        (["a", "--write", "pdf=x"], 2, "FORM=FILE"),
        (["--baseline", "'", "--", "b"], 2, "not a valid command line"),
        (["nowhere.pinprof"], 1, "nowhere.pinprof"),
        (["a", "--budget", "none.toml"], 1, "none.toml"),
        (["init"], 2, "Missing argument"),
    ],
)
def test_what_is_not_meant_is_said(folder: Path, words: list[str], status: int, told: str) -> None:
    done = pinprof("check", *words)
    assert done.returncode == status
    assert told in done.stderr


def test_without_budgets_the_message_says_how_to_get_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = pinprof("check", LOOP)
    assert done.returncode == 2
    assert "pinprof check init" in done.stderr
