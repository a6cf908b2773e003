"""Whether documents fit the published JSON Schemas, which tests close: no key is allowed that the schema lacks."""

from __future__ import annotations

import functools
import io
import json
from typing import Any

import jsonschema

from pinprof.report.export.answers import SCHEMAS
from pinprof.report.forms import Forms


def problems(answer: str, document: object) -> list[str]:
    """What in a document of `pinprof schema ANSWER` does not fit, each with its place; empty where all does."""
    return [f"{error.json_path}: {error.message[:200]}" for error in _closed_validator(answer).iter_errors(document)]


def written(forms: Forms[Any], subject: object) -> Any:
    """An answer's JSON, as users read it."""
    stream = io.StringIO()
    forms.of(subject).write("json", stream)
    return json.loads(stream.getvalue())


@functools.cache
def _closed_validator(answer: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_closed(SCHEMAS[answer]()))


def _closed(part: Any) -> Any:
    if isinstance(part, list):
        return [_closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    made = {name: _closed(one) for name, one in part.items()}
    return made | ({"additionalProperties": False} if "required" in part else {})
