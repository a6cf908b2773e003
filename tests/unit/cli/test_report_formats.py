from __future__ import annotations

from pinprof.cli.report import COLLAPSE_STYLES, FORMATS
from pinprof.report.export.formats import EXPORTS
from pinprof.report.export.plain import STYLES
from pinprof.report.sections import REPORT


def test_every_export_can_be_asked_for() -> None:
    assert FORMATS[5:] == tuple(EXPORTS)
    assert set(FORMATS) - {"folded", *EXPORTS} == set(REPORT.names)


def test_every_style_of_folded_stacks_can_be_asked_for() -> None:
    assert COLLAPSE_STYLES == STYLES
