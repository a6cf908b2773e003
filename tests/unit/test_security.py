"""The threat model names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_test_that_the_threat_model_names_exists() -> None:
    text = (TESTS.parent / "SECURITY.md").read_text("utf-8")
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 6
    for row in rows:
        folder, named = TESTS, re.findall(r"`([\w/.]+)`", row[-1])
        assert named, row[0]
        for name in named:
            # `unit/read/test_a.py`, `test_b.py`: the same folder.
            place = (TESTS if "/" in name or (TESTS / name).exists() else folder) / name
            assert place.exists(), name
            folder = place.parent
