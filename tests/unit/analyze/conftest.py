"""What several tests of rules need."""

from __future__ import annotations

import pytest

from pinprof.analyze import evidence


@pytest.fixture
def without_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "LEAST_SHARE", 0)
    monkeypatch.setattr(evidence, "LEAST_NS", 0)
