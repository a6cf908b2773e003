"""What several tests of perf.data need."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinprof import read
from pinprof.data.model import Capture
from tests.support.perf_file import Reader


@pytest.fixture
def capture_of(tmp_path: Path) -> Reader:
    def capture(raw: bytes) -> Capture:
        path = tmp_path / "perf.data"
        path.write_bytes(raw)
        return read.read(path)

    return capture
