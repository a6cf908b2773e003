"""JSON whose every entry has a line of its own, byte for byte the standard library's with `indent=1`.

The standard library's C encoder indents nothing, and the one that does is written in Python, with a generator for each
value. Here that C encoder writes whatever holds no further lists or objects, with separators that end lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import IO, Any

_NESTING = (dict, list, tuple)
_NAME_ALONE = -len(": 0}")


def write(document: object, stream: IO[str]) -> None:
    """Write a document, ASCII only; ValueError for a number that JSON has no word for."""
    _put(document, 1, stream.write)


def _put(value: Any, depth: int, put: Callable[[str], object]) -> None:
    """Write a value whose entries stand `depth` columns to the right."""
    encode = _encoder(depth).encode
    if not isinstance(value, _NESTING) or not value:
        put(encode(value))
        return
    line, end, named = "\n" + " " * depth, "\n" + " " * (depth - 1), isinstance(value, dict)
    if _is_flat(value.values() if isinstance(value, dict) else value):
        text = encode(value)
        put(f"{text[0]}{line}{text[1:-1]}{end}{text[-1]}")
        return
    before = ("{" if named else "[") + line
    for name, entry in value.items() if isinstance(value, dict) else enumerate(value):
        put(before + _name(name) if named else before)
        _put(entry, depth + 1, put)
        before = "," + line
    put(end + ("}" if named else "]"))


def _is_flat(values: Iterable[object]) -> bool:
    """Whether no value has entries of its own."""
    return not any(issubclass(kind, _NESTING) for kind in set(map(type, values)))


def _name(name: object) -> str:
    """An entry's name, which JSON spells as text, and what follows it."""
    entry: Mapping[object, int] = {name: 0}
    return _encoder(1).encode(entry)[1:_NAME_ALONE] + ": "


@cache
def _encoder(depth: int) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",\n" + " " * depth, ": "))
