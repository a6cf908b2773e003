"""What the sample report looks like as JSON and as text; `PINPROF_GOLD=write pytest tests/gold` renews the files."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pinprof.report.export.schema import schema
from tests.support.sample_report import sample_report, text_of

HERE = Path(__file__).parent


def as_json() -> str:
    stream = io.StringIO()
    sample_report().write("json", stream)
    return stream.getvalue()


def as_text() -> str:
    return text_of(sample_report(), 100)


def as_schema() -> str:
    """A key that goes, or means something else, needs another `schema` in the document's head."""
    return json.dumps(schema(), indent=1) + "\n"


@pytest.mark.parametrize(
    ("name", "make"), [("report.json", as_json), ("report.txt", as_text), ("report.schema.json", as_schema)]
)
def test_output_is_as_agreed(name: str, make: object) -> None:
    assert callable(make)
    made, path = make(), HERE / name
    if os.environ.get("PINPROF_GOLD") == "write":
        path.write_text(made, "utf-8")
    assert made == path.read_text("utf-8")


def keys(part: Any) -> Iterator[str]:
    """Names of all entries in a schema's records."""
    for name, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        if name == "properties":
            yield from value
        yield from keys(value)


def test_every_key_of_the_json_is_documented() -> None:
    documented = (HERE.parents[1] / "docs" / "json.md").read_text("utf-8")
    assert {key for key in keys(schema()) if f"`{key}`" not in documented and f'"{key}"' not in documented} == set()
