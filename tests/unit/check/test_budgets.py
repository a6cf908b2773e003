"""What budgets may say, and what none may."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.errors import UsageError
from pinprof.check.budgets import FEWEST_RUNS, LIMITED, BudgetPlace, budgets_of, format_amount, refuse_alike
from pinprof.check.measures import MEASURES


def test_every_measure_can_be_limited_and_taken() -> None:
    assert list(LIMITED) == list(MEASURES)


@pytest.mark.parametrize(
    ("table", "name", "limit", "words"),
    [
        ({"pinned-bytes": "1 GiB"}, "pinned-bytes", 1 << 30, "1 GiB"),
        ({"pinned_bytes": 4096, "range": "load"}, "pinned-bytes in load", 4096, "4 KiB"),
        ({"pageable-bytes": 0}, "pageable-bytes", 0, "0 B"),
        ({"calls": 12, "call": "cudaMalloc"}, "calls of cudaMalloc", 12, "12 calls"),
        ({"calls": "1,200", "size": "2MiB"}, "calls of up to 2 MiB", 1200, "1,200 calls"),
        ({"time": "2.5 ms", "phase": "work"}, "time in work", 2.5e6, "2.5 ms"),
        ({"cause": {"fault": "20 %"}}, "share of fault", 0.2, "20 %"),
        ({"cause": {"fault": 0.2}, "range": "load"}, "share of fault in load", 0.2, "20 %"),
        ({"cause": {"pin": "2 s"}}, "time of pin", 2e9, "2 s"),
        ({"name": "pins", "pairs": 1}, "pins", 1, "1 pair"),
    ],
)
def test_a_table_says_a_limit(table: dict[str, Any], name: str, limit: float, words: str) -> None:
    (one,) = budgets_of(table)
    assert (one.name, one.limit, one.limit_words, one.relative) == (name, limit, words, False)


@pytest.mark.parametrize(
    ("limit", "amount", "growth", "words"),
    [
        ("baseline", 0, 0, "the baseline"),
        ("baseline + 5 %", 0, 0.05, "the baseline + 5.0 %"),
        ("baseline+3", 3, 0, "the baseline + 3 calls"),
    ],
)
def test_a_limit_may_count_from_the_baseline(limit: str, amount: float, growth: float, words: str) -> None:
    (one,) = budgets_of({"calls": limit})
    assert (one.relative, one.limit, one.growth, one.limit_words) == (True, amount, growth, words)


def test_one_table_may_hold_several_budgets_and_filters_are_for_all() -> None:
    found = budgets_of({"range": "load", "pinned-bytes": "1 GiB", "pairs": 0, "cause": {"fault": "20 %", "pin": "1 s"}})
    assert [one.measure for one in found] == ["pinned-bytes", "pairs", "share", "time"]
    assert {one.range for one in found} == {"load"}
    named = budgets_of({"name": "mine", "pairs": 0, "calls": 1})
    assert [one.name for one in named] == ["mine: calls", "mine: pairs"]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({}, "has no limit"),
        ({"range": "load"}, "has no limit"),
        ({"pinned-byte": 1}, "Did you mean 'pinned-bytes'?"),
        ({"pinned-bytes": 1, "pinned_bytes": 2}, "duplicate key"),
        ({"calls": -1}, "no limit -1"),
        ({"calls": True}, "no limit True"),
        ({"calls": 1.5}, "no limit 1.5"),
        ({"calls": math.inf}, "cannot be exceeded"),
        ({"pinned-bytes": math.nan}, "cannot be exceeded"),
        ({"calls": 1 << 70}, "no program reaches"),
        ({"calls": "9" * 5000}, "no limit"),
        ({"pinned-bytes": "9" * 5000}, "fewer digits"),
        ({"cause": {"fault": "100 %"}}, "cannot be exceeded"),
        ({"share": 0.5}, "needs a cause"),
        ({"time": 0}, "time limit of 0"),
        ({"time": 250}, "has no unit"),
        ({"time": "1 s", "runs": 2}, f"{FEWEST_RUNS} or more"),
        ({"calls": 1, "runs": 0}, "can't use 0 runs"),
        ({"calls": 1, "size": "3 MiB"}, "'4 MiB'"),
        ({"findings": 0, "range": "load"}, "cannot be limited by range"),
        ({"calls": 1, "range": "load", "phase": "work"}, "both `range` and `phase`"),
        ({"time": "1 s", "call": "cudaMalloc", "cause": "pin"}, "both `call` and `cause`"),
        ({"calls": 1, "range": ""}, "is not a name"),
        ({"calls": 1, "range": 5}, "is not a name"),
        ({"time": "1 s", "smallest-ms": -1}, "smallest-ms"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(table: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        budgets_of(table, BudgetPlace("pyproject.toml", 12))
    assert str(caught.value).startswith("pyproject.toml:12: ")
    assert told in str(caught.value)


_KEYS = [*LIMITED, "range", "phase", "cause", "call", "kind", "size", "runs", "name", "smallest-ms"]
_VALUES = st.one_of(
    st.text(max_size=8), st.integers(), st.floats(), st.booleans(), st.none(),
    st.sampled_from(["baseline + 5 %", "1 s"]),
    st.dictionaries(st.sampled_from(["fault", "\x00"]), st.one_of(st.text(max_size=5), st.floats()), max_size=2),
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=4))
def test_any_table_gives_budgets_that_can_be_broken_or_a_sentence(table: dict[str, Any]) -> None:
    try:
        found = budgets_of(table)
    except UsageError:
        return
    for one in found:
        assert 0 <= one.limit < math.inf
        assert one.unit != "share" or one.relative or one.limit < 1
        assert format_amount(one.limit, one.unit)


def test_budgets_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="'pairs'"):
        refuse_alike([*budgets_of({"pairs": 0}), *budgets_of({"pairs": 1})])
