"""What one rule says of a recording that a test makes, or of a real one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pinprof.analyze import Finding, analyze
from tests.support.activities import (
    GIB,
    KIB,
    MIB,
    MS,
    Op,
    export,
    kernel,
    migration,
    traced,
)

NO_LINK = {"memory_bytes": 128 * GIB}
WITHOUT_FLOOR = pytest.mark.usefixtures("without_floor")
"""For thresholds of rules, which are tried in a few microseconds of activity."""
PREFETCH, FAULT, SPECULATIVE, EVICTION = 1, 2, 3, 4
BLOCK = 2 * MIB


def verdict(rule: str, *rows: Sequence[Any], **other: Any) -> Finding:
    (finding,) = [found for found in analyze(traced(*rows, **other)).findings if found.rule == rule]
    return finding


def real(name: str, rule: str) -> Finding:
    (finding,) = [found for found in export(name).findings if found.rule == rule]
    return finding


def fires(finding: Finding) -> bool:
    assert finding.status != "not-assessable", finding.missing
    assert finding.evidence
    assert bool(finding.advice) == (finding.status == "fired")
    return finding.status == "fired"


def storm(count: int, copying: float) -> list[Op]:
    step = 10 * MS // count
    moves = [migration(at * step, at * step + int(step * copying), 4 * KIB, FAULT, at * BLOCK) for at in range(count)]
    return [*moves, kernel(0, 10 * MS)]


def bounce(moves: int, size: int = BLOCK) -> list[Op]:
    return [migration(at * 10, at * 10 + 5, size, FAULT, 0x1000_0000, back=bool(at % 2)) for at in range(moves)]
