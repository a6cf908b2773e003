"""Python lines against programs that time their own steps (tests/truth)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pinprof.collect import permission
from pinprof.collect.python import forbidden
from tests.truth.measure import record

pytestmark = [
    pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel"),
    pytest.mark.skipif(bool(forbidden()), reason="other processes' memory may not be read"),
]

MOST_POINTS = 8
"""Three, and what four seconds on a busy machine add; `python -m tests.truth.measure` measures for longer."""
MOST_WRONG_WAITS = 4
"""Percent of the waiting: two, and what four seconds on a busy machine add. A line that is taken to wait has 68."""


@pytest.mark.parametrize("step_ms", [5, 20])
@pytest.mark.parametrize("shape", ["sleeping", "polling"])
def test_each_line_has_its_share_and_none_waits_for_another(shape: str, step_ms: float, tmp_path: Path) -> None:
    compared = record(sys.executable, shape, step_ms, 4, tmp_path)
    assert len(compared.lines) >= 3
    assert compared.worst <= MOST_POINTS, compared.lines
    assert compared.wrong_waits <= MOST_WRONG_WAITS
