"""Two clocks read together."""

from __future__ import annotations

from itertools import chain, repeat
from types import SimpleNamespace

import pytest

from pinprof.collect import clocks

AHEAD_NS = 10**18


def test_clocks_are_those_of_one_moment_though_the_machine_stands_still_between_two_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000]
    # The machine stands still in the first and in the second reading, at another place each time.
    takes = chain([20, 20, 400_000_000, 20, 300_000_000, 20], repeat(20))

    def look() -> int:
        now[0] += next(takes)
        return now[0]

    monkeypatch.setattr(clocks, "time", SimpleNamespace(monotonic_ns=look, time_ns=lambda: look() + AHEAD_NS))
    assert clocks.utc_offset_ns() == AHEAD_NS
