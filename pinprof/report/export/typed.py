"""JSON Schema of values, from the types of the records that they are written from."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

import numpy as np

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}


def of_type(hint: Any) -> Schema:
    """The schema of a type whose values JSON holds as `dataclasses.asdict` gives them; TypeError where it cannot."""
    kind, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind is Any:
        return {}
    if kind is typing.Literal:
        return {"enum": list(inner)}
    if kind in (typing.Union, types.UnionType):
        return {"anyOf": [of_type(one) for one in inner]}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if kind is np.ndarray:
        return list_of(WHOLE)
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return record(kind, fields_of(kind))
    if issubclass(kind, Mapping):
        return {"type": "object", "additionalProperties": of_type(inner[1])}
    if issubclass(kind, tuple) and inner[-1] is not ...:
        row = [of_type(one) for one in inner]
        return {"type": "array", "prefixItems": row, "minItems": len(row), "maxItems": len(row)}
    if issubclass(kind, Collection):
        return list_of(of_type(inner[0]))
    raise TypeError(f"JSON has no {hint}.")


def fields_of(kind: Any, without: str = "") -> str:
    """The names of a dataclass's fields, but for `without`, as `record` takes them."""
    return " ".join(field.name for field in dataclasses.fields(kind) if field.name not in without.split())


def record(kind: type, names: str, **others: Schema) -> Schema:
    """An object with attributes of a class, named with blanks between them as in `section.picked`, and `others`."""
    hints = typing.get_type_hints(kind)
    for name in names.split():
        if name not in hints:
            made = getattr(kind, name)
            hints[name] = typing.get_type_hints(getattr(made, "fget", None) or made.func)["return"]
    return entries_of({name: of_type(hints[name]) for name in names.split()} | others)


def entries_of(entries: Mapping[str, Schema], **optional: Schema) -> Schema:
    """An object with `entries`, and `optional` ones that need not be there."""
    return {"type": "object", "properties": {**entries, **optional}, "required": list(entries)}


def list_of(schema: Schema) -> Schema:
    """A list of any length."""
    return {"type": "array", "items": schema}


def or_null(schema: Schema) -> Schema:
    """The same, or null."""
    return {"anyOf": [schema, of_type(type(None))]}


WHOLE, TEXT, YES = of_type(int), of_type(str), of_type(bool)
WEIGHTS, TEXTS = of_type(Mapping[str, int]), of_type(list[str])
