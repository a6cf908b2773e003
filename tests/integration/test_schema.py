"""The JSON Schema of reports: that of every committed capture is valid, and has no key that the schema lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pinprof.analyze import Run
from pinprof.report.gather import build
from tests.cases.recorded import DATA as CASES
from tests.cases.recorded import SUFFIX, analysed
from tests.support.h200 import DATA as H200
from tests.support.h200 import own_analysis
from tests.support.schemas import problems


def unfit(run: Run) -> list[str]:
    return problems("report", json.loads(json.dumps(build(run, "json").to_json())))


def names(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


@pytest.mark.parametrize("name", names(H200))
def test_reports_of_scenarios_fit_the_schema(name: str) -> None:
    assert unfit(own_analysis.__wrapped__(name)) == []


@pytest.mark.parametrize("name", names(CASES))
def test_reports_of_programs_fit_the_schema(name: str) -> None:
    assert unfit(analysed.__wrapped__(name)) == []
