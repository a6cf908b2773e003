"""Pickles as data: what Python writes is read alike, and nothing that a pickle names is imported or called."""

from __future__ import annotations

import array
import collections
import os
import pickle
import random
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pinprof.base.errors import FormatError
from pinprof.read.plain_pickle import MOST_DEPTH, plain


def load(data: bytes) -> Any:
    return plain(data, "s.pickle", "Give another.", "torch-file")


def made(draw: random.Random, depth: int = 4, *, with_bytes: bool = True) -> Any:
    """Any plain value, with containers at more than one place."""
    simple = [
        None, True, False, 0, -1, 255, 256, 65536, -(1 << 31), 1 << 40, (1 << 64) - 1, -(1 << 63), 1.5, float("inf"),
        "", "a", "é\ud800", "x" * 300, *((b"", b"\0" * 300) if with_bytes else ()),
    ]  # fmt: skip
    if not depth or draw.random() < 0.4:
        return draw.choice(simple)
    parts = [made(draw, depth - 1, with_bytes=with_bytes) for _ in range(draw.randrange(5))]
    parts += parts[:1]
    return draw.choice([list, tuple, lambda rows: {f"k{n}": row for n, row in enumerate(rows)}])(parts)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_what_python_writes_is_read_alike(protocol: int) -> None:
    draw = random.Random(protocol)
    with_bytes = protocol > 2  # a call made bytes before
    values = [made(draw, with_bytes=with_bytes) for _ in range(300)]
    for value in [*values, list(range(3000)), {n: str(n) for n in range(3000)}]:
        assert load(pickle.dumps(value, protocol)) == value


def test_a_list_at_two_places_is_one() -> None:
    shared: list[int] = [1]
    first, second = load(pickle.dumps([shared, shared]))
    assert first is second


class Runs:
    """What runs a command when Python's own reader meets it."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_that_a_pickle_names_is_called(protocol: int, tmp_path: Path) -> None:
    target = tmp_path / "made"
    for value in (Runs(os.mkdir, str(target)), Runs(eval, f"open({str(target)!r}, 'w')")):
        data = pickle.dumps({"segments": [value]}, protocol)
        with pytest.raises(FormatError, match=r"^s\.pickle: expected a pickle of plain data at byte \d+, found"):
            load(data)
    assert not target.exists()


@pytest.mark.parametrize(
    "value",
    [
        {1, 2}, frozenset({1}), collections.OrderedDict(a=1), bytearray(b"a"), array.array("i", [1]), partial(print),
        Path("/"), range(3), complex(1, 2), print, int, {(1, 2): 3}, 1 << 200,
    ],
    ids=repr,
)  # fmt: skip
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(FormatError, match=r"found .+\. Give another\.$"):
        load(pickle.dumps([value]))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "damage"),
        (b"\x80\x04", "damage"),
        (b"\x80\x63.", "protocol 99"),
        (b"\x80\x04h\x05.", "damage"),
        (b"\x80\x04e.", "damage"),
        (b"\x80\x04K\x01K\x02a.", "damage"),
        (b"\x80\x04}K\x01K\x02K\x03(su.", "damage"),
        (b"\x80\x04}(K\x01u.", "damage"),
        (b"\x80\x04.", "damage"),
        (b"\x80\x04X\xff\xff\xff\xffabc.", "damage"),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "damage"),
        (b"\x80\x04\x8c\x01\xff.", "damage"),
        (b"\x80\x04\x8a\x40" + b"\1" * 64 + b".", "an integer of 64 bytes"),
        (b"\x80\x02c" + b"os\nsystem\n(X\x01\0\0\0atR.", "instruction 0x63"),
        (b"\x80\x02\x82\x01.", "instruction 0x82"),
        (b"\x80\x02K\x01Q.", "instruction 0x51"),
        (b"\x80\x02(" + b"(" * MOST_DEPTH + b".", "containers inside one another"),
    ],
)
def test_damage_and_bounds_are_named(data: bytes, found: str) -> None:
    with pytest.raises(FormatError, match=found):
        load(data)


def test_a_huge_number_of_a_memo_costs_nothing() -> None:
    assert load(b"\x80\x02]r" + struct.pack("<I", 0xFFFFFFFF) + b".") == []


def test_deep_values_do_not_end_python() -> None:
    deep = load(b"\x80\x04" + b")" + b"\x85" * 200_000 + b".")
    assert type(deep) is tuple
    deep = load(b"\x80\x04" + b"]" * 200_000 + b"a" * 199_999 + b".")
    assert type(deep) is list
    with pytest.raises(FormatError, match="a key that is a container"):
        load(b"\x80\x04}" + b")" + b"\x85" * 200_000 + b"Ns.")


def test_random_damage_is_an_error_or_a_value() -> None:
    draw = random.Random(7)
    good = pickle.dumps([made(draw, 5) for _ in range(30)], 4)
    refused = 0
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            load(bytes(data))
        except FormatError:
            refused += 1
    assert refused > 100
