"""Whatever a program does, nothing is said of a place that is not true of it; and what is true is found."""

from __future__ import annotations

import pytest

from tests.support.structures import COPIES_BESIDE, PARTS, alone, claims

SEEDS = 40
"""`python -m tests.truth.claims` takes thousands."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_false_is_said_of_random_programs(seed: int) -> None:
    assert [claim for claim in claims(seed) if claim.false] == []


@pytest.mark.parametrize("does", PARTS)
def test_what_a_place_does_is_found_where_it_has_a_cure(does: str) -> None:
    said = alone(does)
    assert [claim for claim in said if claim.false] == []
    # What waits has to be there.
    assert bool(said) == bool(PARTS[does].true and does != COPIES_BESIDE), said
