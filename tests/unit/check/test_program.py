"""How often a program is recorded, and what becomes of runs that fail."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pinprof.base.errors import CollectError, ProgramNotFound, TrialError
from pinprof.check import program
from pinprof.check.budgets import Budget
from pinprof.check.program import CheckRequest, record
from pinprof.check.taken import TakenRun
from pinprof.check.view import Amount
from pinprof.trial import recorded
from pinprof.trial.processes import EndedRun
from pinprof.trial.recorded import RecordedRun
from tests.support.checked_runs import PINNED, analysed, budget, run

ENDED = EndedRun(0, 0, 10**9, 1, b"", "")
TIME, PAIRS = budget(time="1 s", runs=4), budget(pairs=0, runs=2)


def request(*budgets: Budget, baseline: Sequence[str] = (), **changed: object) -> CheckRequest:
    facts: dict[str, object] = {"time_s": 1e6, "seed": 3} | changed
    return CheckRequest((sys.executable, "x"), tuple(baseline), budgets, **facts)  # type: ignore[arg-type]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands in the order in which they were recorded; times vary until the seventh run."""
    commands: list[str] = []

    def play(wanted: CheckRequest, command: Sequence[str], name: str, *_: object) -> TakenRun:
        commands.append(command[1])
        value = 1e9 * (1 + (0.2 * (-1) ** len(commands) if len(commands) < 7 else 0))
        return run(len(commands), {one: Amount(value) for one in wanted.budgets}, name)

    monkeypatch.setattr(program, "_run", play)
    return commands


def test_counts_are_recorded_as_often_as_their_budgets_say(played: list[str]) -> None:
    assert len(record(request(PAIRS), {}, lambda _: None).runs) == 2
    assert played == ["x", "x"]


@pytest.mark.slow
def test_times_are_recorded_until_they_are_known(played: list[str]) -> None:
    assert len(record(request(TIME), {}, lambda _: None).runs) > 8


def test_rounds_end_with_the_time_but_for_those_that_budgets_name(played: list[str]) -> None:
    assert len(record(request(TIME, time_s=0.0), {}, lambda _: None).runs) == 4


def test_a_baseline_runs_in_turns_whose_order_the_seed_decides(played: list[str]) -> None:
    told: list[str] = []
    found = record(request(budget(pairs=0, runs=12), baseline=(sys.executable, "old")), {}, told.append)
    assert len(found.runs) == len(found.against) == 12
    pairs = [tuple(played[at : at + 2]) for at in range(0, len(played), 2)]
    assert set(pairs) == {("x", "old"), ("old", "x")}
    assert "Run 1 of 12 of the baseline" in told


def test_a_recorded_run_is_measured_and_kept_where_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    capture = analysed(PINNED).capture
    monkeypatch.setattr(recorded, "record", lambda *_: RecordedRun(ENDED, capture))
    monkeypatch.setattr(recorded, "explained", lambda _: analysed(PINNED))
    found = record(request(budget(pairs=0)), {}, lambda _: None)
    assert found.runs[0].path == f"run-1 of {sys.executable}"
    assert found.runs[0].amounts[budget(pairs=0)].value == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("recording", "error", "told"),
    [
        (RecordedRun(ENDED, None, "No rights."), CollectError, "cannot be recorded: No rights."),
        (RecordedRun(EndedRun(3, 0, 1, 1, b"", ""), analysed(PINNED).capture), TrialError, "exits with 3"),
        (RecordedRun(EndedRun(1, 0, 1, 1, b"", "", timed_out=True), analysed(PINNED).capture), TrialError, "in time"),
    ],
)
def test_a_run_that_fails_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, recording: RecordedRun, error: type[Exception], told: str
) -> None:
    monkeypatch.setattr(recorded, "record", lambda *_: recording)
    with pytest.raises(error, match=told):
        record(request(budget(pairs=0)), {}, lambda _: None)


def test_a_program_that_is_not_there_is_said_before_anything_runs() -> None:
    with pytest.raises(ProgramNotFound):
        record(CheckRequest(("/nowhere/at/all",), (), (PAIRS,), 1.0), {}, lambda _: None)
