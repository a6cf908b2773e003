"""Documents as JSON, one entry a line, like the standard library's."""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest

from pinprof.base import json_text


class _Point(NamedTuple):
    x: int
    y: list[int]


class _Kind(IntEnum):
    FIRST = 1


DOCUMENTS: dict[str, Any] = {
    "scalars": [None, True, False, 0, -7, 10**30, 0.1, 1e300, 5e-324, -0.0, "", 'a "quoted" \\ \n\x00\x7f é 𝄞 \ud800'],
    "empty": {"object": {}, "list": [], "tuple": (), "list of them": [[], {}, ()]},
    "nested": {"a": [1, [2, [3, {"b": {"c": [4, {"d": []}]}}]], "5"], "e": {"f": None}},
    "rows": [{"name": f"row {n}", "ns": n * 1.5, "of": [n, n + 1]} for n in range(3)],
    "names": {1: [1], 2.5: [2], False: [3], None: [4], "é": [5]},
    "flat names": {1: 1, 2.5: 2, False: 3, None: 4},
    "kinds of their own": [OrderedDict(a=_Point(1, [2])), _Kind.FIRST, np.float64(0.25), OrderedDict(), _Point(3, [])],
    "number": 3,
    "text": "alone",
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=list(DOCUMENTS))
def test_every_byte_is_the_standard_librarys(document: Any) -> None:
    written = io.StringIO()
    json_text.write(document, written)
    assert written.getvalue() == json.dumps(document, indent=1)


@pytest.mark.parametrize("document", [float("nan"), [float("inf")], {"a": [{"b": -float("inf")}]}])
def test_numbers_without_a_word_in_json_are_refused(document: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text.write(document, io.StringIO())


@pytest.mark.parametrize("document", [{1, 2}, [{"a": b"bytes"}], {(1, 2): 3}, {(1, 2): [3]}, [np.int64(3)]])
def test_what_json_cannot_hold_is_refused(document: Any) -> None:
    with pytest.raises(TypeError):
        json_text.write(document, io.StringIO())


def test_rows_of_scalars_are_written_whole() -> None:
    rows = [{f"name {n}": n for n in range(50)} for _ in range(20)]
    pieces: list[str] = []

    class _Counting(io.StringIO):
        def write(self, text: str) -> int:
            pieces.append(text)
            return super().write(text)

    json_text.write(rows, _Counting())
    assert len(pieces) <= 3 * len(rows)
