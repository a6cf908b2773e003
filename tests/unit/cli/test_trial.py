"""The command line of `pinprof try`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pinprof.trial import session
from pinprof.trial.cures import CURES
from pinprof.trial.session import TrialRequest
from tests.support.command import pinprof
from tests.support.trials import cure_result, trial_result


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[TrialRequest]:
    """What would be tried."""
    found: list[TrialRequest] = []

    def trial(request: TrialRequest, *_: object) -> object:
        found.append(request)
        return trial_result(cure_result())

    monkeypatch.setattr(session, "trial", trial)
    return found


def test_all_options_reach_the_trial(asked: list[TrialRequest], tmp_path: Path) -> None:
    words = "--cure glibc-huge-pages --cure glibc-keep-memory --measure range:load --time 2min --error 0.5% --seed 7"
    words += " --same-output --format json"
    done = pinprof("try", *words.split(), "-o", tmp_path / "x.json", "--", "a", "-b")
    assert done.returncode == 0, done.stderr
    request = asked[0]
    assert request.command == ("a", "-b")
    assert request.cures == ("glibc-huge-pages", "glibc-keep-memory")
    assert (request.measure.text, request.time_s, request.error, request.seed) == ("range:load", 120, 0.005, 7)
    assert request.same_output
    assert json.loads((tmp_path / "x.json").read_text())["cures"][0]["id"] == "glibc-huge-pages"


def test_the_answer_goes_to_standard_output(asked: list[TrialRequest]) -> None:
    done = pinprof("try", "--", "a")
    assert done.stdout.startswith("Huge pages for malloc: wall time goes from 2 s to 1 s")
    assert asked


def test_list_names_every_cure_with_what_it_changes() -> None:
    shown = " ".join(pinprof("try", "--list").stdout.split())
    for cure in CURES.values():
        assert cure.id in shown
        assert cure.changes in shown
        assert cure.source in shown


@pytest.mark.parametrize(
    ("words", "status", "slug"),
    [
        ("", 2, "Missing argument"),
        ("--measure nothing -- true", 2, "[measure]"),
        ("--time 0 -- true", 2, "[duration]"),
        ("--time soon -- true", 2, "[duration]"),
        ("--error 0 -- true", 2, "[duration]"),
        ("--error much -- true", 2, "[share]"),
        ("--cure none -- true", 2, "[cure]"),
        ("--no-record -- true", 2, "[cure]"),
        ("-- /no/such/program", 127, "[program]"),
        ("-- false", 1, "[not-repeatable]"),
    ],
)
def test_a_mistake_is_one_message(words: str, status: int, slug: str) -> None:
    done = pinprof("try", *words.split())
    assert done.returncode == status
    assert slug in done.stderr
    assert "Traceback" not in done.stderr
