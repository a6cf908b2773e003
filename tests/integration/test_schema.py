"""The JSON Schema of reports: that of every committed capture is valid, and has no key that the schema lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pinprof.analyze import Run
from pinprof.report.export.schema import schema
from pinprof.report.gather import build
from tests.cases.recorded import DATA as CASES
from tests.cases.recorded import SUFFIX, analysed
from tests.support.h200 import DATA as H200
from tests.support.h200 import own_analysis


def closed(part: Any) -> Any:
    """A schema whose records have no other keys than those that it names."""
    if isinstance(part, list):
        return [closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    made = {name: closed(one) for name, one in part.items()}
    return made | ({"additionalProperties": False} if "required" in part else {})


VALIDATOR = jsonschema.Draft202012Validator(closed(schema()))


def problems(run: Run) -> list[str]:
    document = json.loads(json.dumps(build(run, "json").to_json()))
    return [f"{error.json_path}: {error.message[:200]}" for error in VALIDATOR.iter_errors(document)]


def names(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


@pytest.mark.parametrize("name", names(H200))
def test_reports_of_scenarios_fit_the_schema(name: str) -> None:
    assert problems(own_analysis.__wrapped__(name)) == []


@pytest.mark.parametrize("name", names(CASES))
def test_reports_of_programs_fit_the_schema(name: str) -> None:
    assert problems(analysed.__wrapped__(name)) == []
