from __future__ import annotations

from pinprof.cli.report import FORMATS
from pinprof.report.export.formats import EXPORTS


def test_every_export_can_be_asked_for() -> None:
    assert FORMATS[4:] == tuple(EXPORTS)
