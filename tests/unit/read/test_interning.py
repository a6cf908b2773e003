from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.read.interning import Interner
from tests.support.examples import examples


@examples(60)
@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=300), max_size=6))
def test_numbers_stand_for_equal_keys_only(batches: list[list[int]]) -> None:
    interner = Interner()
    seen: dict[int, int] = {}
    for batch in batches:
        numbers = interner.ids(np.array(batch, np.uint64)).tolist()
        for key, number in zip(batch, numbers, strict=True):
            assert seen.setdefault(key, number) == number
            assert int(interner.keys[number]) == key
    assert len(interner) == len(seen)


@pytest.mark.slow
def test_growing_over_many_batches_keeps_every_number() -> None:
    interner = Interner()
    keys = np.random.default_rng(1).integers(0, 2**63, 300_000).astype(np.uint64)
    first = interner.ids(keys)
    assert len(interner) == len(np.unique(keys))
    assert (interner.ids(keys[::-1])[::-1] == first).all()
    assert (interner.keys[first] == keys).all()


def test_keys_that_share_their_low_bits_are_told_apart() -> None:
    interner = Interner()
    keys = np.arange(100_000, dtype=np.uint64) << np.uint64(44)
    assert sorted(interner.ids(keys).tolist()) == list(range(100_000))
