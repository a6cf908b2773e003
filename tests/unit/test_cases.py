"""The programs with known problems, and the healthy ones, keep the form that measuring them relies on."""

from __future__ import annotations

import pytest

from tests.cases.measure import Measured, Promise, Time, tables
from tests.cases.programs import FOLDER, Program, programs, seconds

ALL = programs([])


@pytest.mark.parametrize("program", ALL, ids=lambda program: program.name)
def test_cases_mark_their_lines_and_healthy_programs_none(program: Program) -> None:
    assert bool(program.guilty()) is not program.healthy
    assert "seconds" in program.path.read_text()


def test_the_list_names_every_case() -> None:
    text = (FOLDER / "README.md").read_text()
    assert [p.name for p in ALL if not p.healthy and f"`{p.name}`" not in text] == []


def test_programs_are_found_with_and_without_their_suffix() -> None:
    assert programs(["sieve"]) == programs(["sieve.c"]) == programs(["healthy/sieve.c"]) != []
    with pytest.raises(SystemExit, match="nothing_like_it"):
        programs(["nothing_like_it"])


def test_of_several_ranks_the_slowest_counts() -> None:
    assert seconds("seconds 1.5\nnoise\nseconds 2.25 7\n") == 2.25


def test_a_promise_is_compared_with_what_was_saved() -> None:
    case = programs(["fresh_buffers"])[0]
    line = min(case.guilty())
    promise = Promise(
        "",
        [
            {
                "site": {"file": case.path.name, "line": line},
                "saving_ns": {"low": 1e9, "likely": 1.5e9, "high": 2e9},
                "cure": {"id": "reuse-memory"},
            }
        ],
        2.0,
    )
    text = tables([Measured(case, Time(2.5, 2.4), promise, Time(0.5, 0.5), Promise("", [], 0.5))], {"a.cu": "no GPU"})
    assert "| 2.00 | 1.90 | 1.00 – 1.50 – 2.00 | -25% |" in text
    assert f"{case.path.name}:{line} right | reuse-memory | –" in text
    assert "| `a.cu` | no GPU |" in text
