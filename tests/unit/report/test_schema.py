"""The JSON Schema of reports, as made from types: what it takes, and what it refuses."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest

from pinprof.report.export.schema import of_type, schema
from tests.unit.report import test_blocks

VALIDATOR = jsonschema.Draft202012Validator(schema())


@pytest.fixture
def document() -> dict[str, Any]:
    """The JSON of a program that makes large memory."""
    made: dict[str, Any] = json.loads(json.dumps(test_blocks.report(1 << 26).to_json()))
    return made


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_a_report_is_valid_also_with_keys_of_later_versions(document: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(document)
    assert VALIDATOR.is_valid(document | {"later": 1})


def test_what_is_missing_or_of_another_type_or_version_is_refused(document: dict[str, Any]) -> None:
    for key in document:
        assert not VALIDATOR.is_valid({name: value for name, value in document.items() if name != key}), key
    assert not VALIDATOR.is_valid(document | {"schema": 2})
    wrong = copy.deepcopy(document)
    wrong["host_memory"]["lines"][0]["made_bytes"] = "64 MiB"
    assert not VALIDATOR.is_valid(wrong)


def test_a_type_that_json_lacks_has_no_schema() -> None:
    with pytest.raises(TypeError, match="JSON has no"):
        of_type(complex)
