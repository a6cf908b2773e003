"""The public JSON of `pinprof try --format json`, documented in docs/try.md.

Schema history: 1 — first version.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pinprof.report.trial.words import headline
from pinprof.trial.result import CureResult, TrialResult

SCHEMA = 1


def to_json(result: TrialResult) -> dict[str, Any]:
    """All of a result."""
    facts = {name: value for name, value in asdict(result).items() if name != "cures"}
    cures = [_cure(cure) for cure in result.cures]
    return {"schema": SCHEMA, "kind": "trial", "headline": headline(result), **facts, "cures": cures}


def _cure(cure: CureResult) -> dict[str, Any]:
    return asdict(cure) | {"off": cure.off, "no_larger_than": cure.no_larger_than}
