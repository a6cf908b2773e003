"""The JSON Schema of each answer over several runs: what it takes, and what it refuses."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import click
import jsonschema
import pytest
from click.testing import CliRunner

from pinprof.check.selftest import self_test
from pinprof.check.view import Amount
from pinprof.cli.schema import command
from pinprof.ranks.engine import explain
from pinprof.report.check.sections import FORMS as CHECK
from pinprof.report.check.sections import SELF_TEST
from pinprof.report.compare.sections import FORMS as DIFFERENCE
from pinprof.report.export.answers import SCHEMAS
from pinprof.report.ranks.sections import FORMS as RANKS
from pinprof.report.trial.sections import FORMS as TRIAL
from tests.support import checks, differences, trials
from tests.support.checked_runs import budget, run
from tests.support.launches import MS, launch
from tests.support.schemas import problems, written
from tests.unit.ranks.test_engine import noisy


def held_up() -> Any:
    return written(
        RANKS, explain(launch(noisy(3, 30), {(1, step): 10 * MS for step in range(30)}), "a.ranks", {7: "?"})
    )


def even() -> Any:
    return written(RANKS, explain(launch(noisy(2, 5), {}), "a.ranks", {}))


def tried() -> Any:
    cures = (trials.cure_result(), trials.no_difference(), trials.left_out("jemalloc", "It is not installed."))
    return written(TRIAL, trials.trial_result(*cures))


def broken_on_purpose() -> Any:
    one = budget(**{"pinned-bytes": "1 GiB"})
    return written(SELF_TEST, self_test([run(1, {one: Amount(3.0)})], [one]))


DOCUMENTS: Mapping[str, tuple[str, Callable[[], Any]]] = {
    "diff": ("diff", lambda: written(DIFFERENCE, differences.difference())),
    "diff of single runs": ("diff", lambda: written(DIFFERENCE, differences.difference(runs=1))),
    "check": ("check", lambda: written(CHECK, checks.checked())),
    "broken on purpose": ("self-test", broken_on_purpose),
    "held up": ("ranks", held_up),
    "even": ("ranks", even),
    "try": ("try", tried),
}


def test_the_command_prints_every_schema() -> None:
    (argument,) = command.params
    assert isinstance(argument.type, click.Choice)
    assert list(argument.type.choices) == list(SCHEMAS)
    shown = CliRunner().invoke(command, ["try"], catch_exceptions=False)
    assert json.loads(shown.stdout) == SCHEMAS["try"]()


@pytest.mark.parametrize("answer", SCHEMAS)
def test_it_is_a_schema(answer: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[answer]())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_an_answer_has_all_of_its_schema_and_nothing_else(name: str) -> None:
    answer, made = DOCUMENTS[name]
    document = made()
    assert problems(answer, document) == []
    validator = jsonschema.Draft202012Validator(SCHEMAS[answer]())
    assert validator.is_valid(document | {"later": 1}), "newer versions may add keys"
    for key in document:
        assert not validator.is_valid({one: value for one, value in document.items() if one != key}), key
    assert not validator.is_valid(copy.deepcopy(document) | {"schema": 99})
