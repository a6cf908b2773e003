"""What the sample report looks like as JSON and as text; `PINPROF_GOLD=write pytest tests/gold` renews the files."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tests.support.sample_report import sample_report, text_of

HERE = Path(__file__).parent


def as_json() -> str:
    stream = io.StringIO()
    sample_report().write("json", stream)
    return stream.getvalue()


def as_text() -> str:
    return text_of(sample_report(), 100)


@pytest.mark.parametrize(("name", "make"), [("report.json", as_json), ("report.txt", as_text)])
def test_output_is_as_agreed(name: str, make: object) -> None:
    assert callable(make)
    made, path = make(), HERE / name
    if os.environ.get("PINPROF_GOLD") == "write":
        path.write_text(made, "utf-8")
    assert made == path.read_text("utf-8")


def json_keys() -> set[str]:
    """Names of the fields of the JSON's own objects; the capture's facts and the weights are open-ended."""
    data = sample_report().to_json()
    rows = [data, data["capture"], data["events"][0], data["ranges"][0], data["losses"], data["findings"][0]]
    return {key for row in rows for key in row}


def test_every_key_of_the_json_is_documented() -> None:
    documented = (HERE.parents[1] / "docs" / "json.md").read_text("utf-8")
    assert {key for key in json_keys() if f"`{key}`" not in documented and f'"{key}"' not in documented} == set()
