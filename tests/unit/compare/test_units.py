"""What times are divided by."""

from __future__ import annotations

import pytest

from pinprof.base.errors import UsageError
from pinprof.compare.units import chosen

STEPS = {"run": 1.0, "range:step": 20.0, "step step": 20.0, "GiB copied": 1.5}


def test_runs_of_equal_work_are_compared_as_they_are() -> None:
    key, unit = chosen([STEPS, STEPS], [STEPS], None)
    assert (key, unit.name) == ("run", "run")


def test_steps_count_where_runs_do_more_of_them() -> None:
    key, unit = chosen([STEPS], [STEPS | {"step step": 40.0}], None)
    assert (key, unit.name) == ("step step", "step")
    assert "20 before, 40 after" in unit.how


def test_iterations_of_a_scenario_come_first() -> None:
    work = STEPS | {"iteration": 5.0}
    assert chosen([work], [work], None)[0] == "iteration"


@pytest.mark.parametrize(
    ("asked", "key"),
    [("step", "step step"), ("range:step", "range:step"), ("gib", "GiB copied"), ("run", "run"), ("GiB", "GiB copied")],
)
def test_a_unit_can_be_asked_for(asked: str, key: str) -> None:
    assert chosen([STEPS], [STEPS], asked)[0] == key


def test_what_a_run_lacks_cannot_be_a_unit() -> None:
    with pytest.raises(UsageError, match="--per iteration: not every recording has this unit") as refused:
        chosen([STEPS], [{"run": 1.0}], "iteration")
    assert refused.value.remedy == "Choose from: run."
