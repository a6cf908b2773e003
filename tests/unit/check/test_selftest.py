"""Budgets broken on purpose: every measure notices, and what would not notice is named."""

from __future__ import annotations

from typing import Any

import pytest

from pinprof.check.budgets import LIMITED
from pinprof.check.selftest import self_test
from pinprof.check.view import Unassessable
from tests.support.checked_runs import ASYNC, LOOP, budget, measured, run, runs

TABLES: list[dict[str, Any]] = [
    {"calls": 1000},
    {"pinned-bytes": "1 GiB"},
    {"pairs": 100},
    {"pageable-bytes": "8 GiB"},
    {"pageable-async-calls": 80},
    {"page-faults": 1_000_000},
    {"page-faults": 100_000, "phase": "work"},
    {"findings": 10},
    {"cause": {"copy": "99 %"}},
]


def test_every_measure_has_its_budget_here() -> None:
    assert {budget(**table).measure for table in TABLES} | {"time", "cpu-time", "opportunities"} == set(LIMITED)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_every_measure_of_a_real_run_notices(table: dict[str, Any]) -> None:
    one = budget(**table)
    (found,) = self_test([measured(ASYNC, one)], [one])
    assert found.noticed, found.words
    assert found.more is not None
    assert found.more > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "table", [{"time": "150 ms"}, {"cpu-time": "150 ms"}, {"time": "baseline + 5 %"}, {"time": "baseline"}]
)
def test_times_notice(table: dict[str, Any]) -> None:
    one = budget(**table)
    values = [1.00e8, 1.01e8, 0.99e8, 1.00e8, 1.005e8]
    (found,) = self_test(runs(one, values), [one], runs(one, values[::-1], "base"))
    assert found.noticed, found.words
    assert found.more
    assert found.more < 1e8


def test_counts_notice_the_first_one_too_many() -> None:
    one = budget(pairs=48)
    (found,) = self_test([measured(LOOP, one)], [one])
    assert (found.more, found.loose) == (1, False)
    assert found.words == "notices an excess of 1 pair or more (2.1 % of the measured value)."


def test_a_limit_of_twice_what_is_found_is_loose_and_a_broken_one_said_to_be() -> None:
    loose, broken = budget(pairs=100), budget(pairs=1, name="broken")
    found = self_test([measured(LOOP, loose, broken)], [loose, broken])
    assert [one.loose for one in found] == [True, False]
    assert found[1].words.startswith("is already broken")


def test_what_cannot_be_judged_would_not_notice() -> None:
    one = budget(pairs=1)
    (found,) = self_test([run(1, {one: Unassessable("No CUDA calls were traced.")})], [one])
    assert not found.noticed
    assert "No CUDA calls" in found.words
    single = budget(time="1 s")
    assert not self_test(runs(single, [1e8]), [single])[0].noticed
