"""The public JSON of `pinprof report --format json`, documented in docs/json.md.

Stacks stay out of it (folded stacks carry them), and so do single intervals.

Schema history: 1 — first version.
"""

from __future__ import annotations

import json
from typing import IO, Any

from pinprof.report.data import ReportData
from pinprof.report.sections import JSON_ORDER, ordered

SCHEMA = 1


def to_json(report: ReportData) -> dict[str, Any]:
    """The entries of every section."""
    document: dict[str, Any] = {"schema": SCHEMA}
    for section in ordered(JSON_ORDER):
        document |= dict(section.absent) if (data := section.of(report)) is None else data.to_json()
    return document


def write_json(report: ReportData, stream: IO[str]) -> None:
    """Write the report as JSON: ASCII only, so that any byte a name may hold survives the way."""
    json.dump(to_json(report), stream, indent=1, ensure_ascii=True)
    stream.write("\n")
