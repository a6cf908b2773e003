"""Damage to text: JSON whose values, keys and lengths change, JSON a line, and lines of words and numbers."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.fuzz.hostile import REALS, number, rearrange, text

_DEEP, _TWICE = "fuzz-deep", "fuzz-twice-"
_MOST_ADDED = 100_000
"""Bytes of lines that are repeated."""
_MOST_NODES = 100_000
"""Of a document that a change makes."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def json_document(random: Random, data: bytes) -> bytes:
    """A JSON document whose tree is changed in a few places."""
    return _written(random, _changed(random, json.loads(data)))


def json_lines(random: Random, data: bytes) -> bytes:
    """Lines of JSON, one or a few of them changed, or in another order."""
    lines = data.splitlines(keepends=True)
    if not lines or random.random() < 0.2:
        rearrange(random, lines, len(lines) + _room(data, lines))
        return b"".join(lines)
    for _ in range(random.choice((1, 1, 4))):
        place = random.randrange(len(lines))
        try:
            lines[place] = _written(random, _changed(random, json.loads(lines[place]))) + b"\n"
        except ValueError:
            lines[place] = text(random).encode("utf-8", "surrogatepass")
    return b"".join(lines)


def _room(data: bytes, lines: Sequence[object]) -> int:
    """How many more lines an input may have: it must be small enough to be read within milliseconds."""
    return _MOST_ADDED * len(lines) // (len(data) + 1)


def packed(change: Callable[[Random, bytes], bytes]) -> Callable[[Random, bytes], bytes]:
    """The same change inside a gzip file."""

    def inside(random: Random, data: bytes) -> bytes:
        try:
            return gzip.compress(change(random, gzip.decompress(data)), 1, mtime=0)
        except (OSError, EOFError, zlib.error):
            return data

    return inside


def members(random: Random, data: bytes) -> bytes:
    """Gzip members, a line of JSON each, changed and compressed again."""
    lines = json_lines(random, gzip.decompress(data)).splitlines(keepends=True)
    return b"".join(gzip.compress(line, 1, mtime=0) for line in lines)


def lines(random: Random, data: bytes) -> bytes:
    """Lines of words and numbers: some rearranged, numbers and words replaced."""
    rows = data.decode("utf-8", "surrogateescape").split("\n")
    for _ in range(random.choice((1, 1, 2, 6))):
        if not rows or random.random() < 0.3:
            rearrange(random, rows, len(rows) + _room(data, rows))
            continue
        place = random.randrange(len(rows))
        rows[place] = _line(random, rows[place])
    return "\n".join(rows).encode("utf-8", "surrogatepass" if random.random() < 0.5 else "replace")


def _line(random: Random, row: str) -> str:
    numbers = list(_NUMBER.finditer(row))
    kind = random.randrange(5)
    if kind <= 1 and numbers:
        found = random.choice(numbers)
        value = random.choice((number(random, int(float(found[0]))), random.choice(REALS)))
        return row[: found.start()] + str(value) + row[found.end() :]
    if kind == 2:
        words = row.split(" ")
        rearrange(random, words, 3000)
        return " ".join(words)
    if kind == 3:
        place = random.randrange(len(row) + 1)
        return row[:place] + text(random) + row[place:]
    characters = list(row)
    rearrange(random, characters, 5000)
    return "".join(characters)


def _changed(random: Random, tree: Any) -> Any:
    """The tree with one to five changes."""
    for _ in range(random.choice((1, 1, 2, 5))):
        nodes = _nodes(tree)
        holders = [node for node in nodes if isinstance(node, (dict, list)) and node]
        if not holders or random.random() < 0.02:
            return _value(random, tree)
        # What is repeated may hold all of the tree, and be repeated again.
        _change(random, random.choice(holders), _MOST_NODES // len(nodes))
    return tree


def _nodes(tree: Any) -> list[Any]:
    """The tree's containers, at most some thousands."""
    found, place = [tree], 0
    while place < len(found) < 5000:
        node = found[place]
        place += 1
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        found += [child for child in children if isinstance(child, (dict, list))]
    return found


def _change(random: Random, node: Any, room: int) -> None:
    """Change one element; a list gets at most `room` more."""
    if isinstance(node, list):
        if random.random() < 0.4:
            rearrange(random, node, len(node) + room)
        else:
            place = random.randrange(len(node))
            node[place] = _value(random, node[place])
        return
    key = random.choice(list(node))
    kind = random.random()
    if kind < 0.15:
        del node[key]
    elif kind < 0.25:
        node[_TWICE + key] = _value(random, node[key])
    elif kind < 0.35:
        node[random.choice((text(random), str(number(random))))] = node[key]
    elif kind < 0.45:
        other = random.choice(list(node))
        node[key], node[other] = node[other], node[key]
    else:
        node[key] = _value(random, node[key])


def _value(random: Random, old: Any) -> Any:
    """Another value: of the same kind more often than of any other, and often one that a reader lets pass."""
    if isinstance(old, int) and not isinstance(old, bool) and random.random() < 0.5:
        return random.choice((old + 1, old - 1, 0, 1, 2 * old, old // 2, old + 10**6, random.randrange(300)))
    if isinstance(old, (int, float)) and not isinstance(old, bool) and random.random() < 0.5:
        return random.choice((number(random, int(old) if abs(old) < 1e300 else 0), random.choice(REALS)))
    if isinstance(old, str) and random.random() < 0.5:
        return text(random)
    return random.choice(
        (
            None,
            True,
            False,
            number(random),
            random.choice(REALS),
            text(random),
            [],
            {},
            [old],
            {"name": old},
            [[1]],
            _DEEP,
        )
    )


def _written(random: Random, tree: Any) -> bytes:
    out = json.dumps(tree, ensure_ascii=random.random() < 0.7)
    out = out.replace(_TWICE, "")
    if _DEEP in out:
        deep = random.choice((50, 900, 100_000))
        opened, closed = random.choice((("[", "]"), ('{"a":', "}")))
        # It may have been repeated thousands of times: one of them is deep.
        out = out.replace(f'"{_DEEP}"', opened * deep + "1" + closed * deep, 1).replace(f'"{_DEEP}"', "[[1]]")
    return out.encode("utf-8", "surrogatepass")
