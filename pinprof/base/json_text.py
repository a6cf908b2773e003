"""JSON whose every entry has a line of its own, byte for byte the standard library's with `indent=1`.

The standard library's encoder for that is written in Python and asks a generator for each value. This one asks a table
for the word of a number, a text or nothing, and gives long lists of them to the encoder that is written in C.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from json.encoder import encode_basestring_ascii
from typing import IO, Any

_LONG = 16
"""Entries of a list from which on the C encoder is the faster one."""


def write(document: object, stream: IO[str]) -> None:
    """Write a document, ASCII only; ValueError for a number that JSON has no word for."""
    names: dict[str, str] = {}

    def put(value: Any, depth: int) -> None:
        """Write a list, an object or what has a kind of its own, with entries `depth` columns to the right."""
        if isinstance(value, dict) and value:
            put_object(value, depth)
        elif isinstance(value, list | tuple) and value:
            put_list(value, depth)
        else:
            stream.write(_encoder(depth).encode(value))

    def put_object(entries: Mapping[Any, Any], depth: int) -> None:
        line = ",\n" + " " * depth
        pieces: list[str] = []
        before = "{" + line[1:]
        for key, entry in entries.items():
            name = names.get(key) if type(key) is str else _name(key)
            if name is None:
                name = names[key] = _name(key)
            if word := _WORDS.get(type(entry)):
                pieces += before, name, word(entry)
            else:
                stream.write("".join((*pieces, before, name)))
                pieces.clear()
                put(entry, depth + 1)
            before = line
        stream.write("".join((*pieces, line[1:-1], "}")))

    def put_list(entries: Sequence[Any], depth: int) -> None:
        line = ",\n" + " " * depth
        if len(entries) >= _LONG and _WORDS.keys() >= set(map(type, entries)):
            stream.write("[" + line[1:] + _encoder(depth).encode(entries)[1:-1] + line[1:-1] + "]")
            return
        pieces: list[str] = []
        before = "[" + line[1:]
        for entry in entries:
            if word := _WORDS.get(type(entry)):
                pieces += before, word(entry)
            else:
                stream.write("".join((*pieces, before)))
                pieces.clear()
                put(entry, depth + 1)
            before = line
        stream.write("".join((*pieces, line[1:-1], "]")))

    put(document, 1)


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else _encoder(1).encode(value)


_WORDS: Mapping[type, Callable[[Any], str]] = {
    str: encode_basestring_ascii,
    int: repr,
    float: _float,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
}
"""By its exact type, how a value is written that has no entries."""
_NAME_ALONE = -len(": 0}")


def _name(key: object) -> str:
    """An entry's name, which JSON spells as text, and what follows it."""
    entry: Mapping[object, int] = {key: 0}
    return _encoder(1).encode(entry)[1:_NAME_ALONE] + ": "


@cache
def _encoder(depth: int) -> json.JSONEncoder:
    """The standard library's, which ends a line after each entry of a list or object without further ones inside."""
    return json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",\n" + " " * depth, ": "))
