"""JSON is checked against a declared shape before anything is computed from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base import shapes
from pinprof.base.shapes import (
    ANYTHING,
    COUNT,
    TEXT,
    ColumnShape,
    Each,
    Either,
    Facts,
    OneOf,
    Real,
    Record,
    RowShape,
    Shape,
    Unfit,
    Whole,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)

THREAD = Record({"pid": Whole(0, 9), "name": TEXT}, optional={"times": ColumnShape(0, 5, 7)})
SHAPE = Record(
    {"threads": Each(THREAD), "rows": Each(RowShape((TEXT, Real(0, 1))))}, optional={"by": OneOf(("a", True))}
)


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", "[Infinity]", "-Infinity", "1e999", "[" * 100_000, "9" * 5000, b"\xff", '{"a": nan}'],
    ids=range(10),
)
def test_what_json_readers_let_pass_is_no_json(text: str | bytes) -> None:
    with pytest.raises(Unfit):
        shapes.parsed(text)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "it is not an object"),
        ({"threads": []}, "it has no rows"),
        ({"threads": [{"pid": 1, "name": "a"}, {"pid": 10, "name": "a"}], "rows": []}, "threads[1].pid is not a whole"),
        ({"threads": [{"pid": True, "name": "a"}], "rows": []}, "threads[0].pid"),
        ({"threads": [{"pid": 1, "name": 3}], "rows": []}, "threads[0].name is not text"),
        ({"threads": [{"pid": 1, "name": "a", "times": [5, 3]}], "rows": []}, "threads[0].times has"),
        ({"threads": [{"pid": 1, "name": "a", "times": [1, True]}], "rows": []}, "threads[0].times is"),
        ({"threads": [], "rows": [["a", 1], ["a"]]}, "rows[1] is not a list of 2"),
        ({"threads": [], "rows": [["a", 1.5]]}, "rows[0][1] is not a number"),
        ({"threads": [], "rows": [["a", 10**400]]}, "rows[0][1] is not a number"),
        ({"threads": [], "rows": [], "by": 1}, "by is not one of"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(Unfit) as error:
        SHAPE.fit(value)
    assert str(error.value).startswith(words)


def test_facts_leave_out_what_does_not_fit() -> None:
    facts = Facts({"size": COUNT, "words": Each(TEXT, lenient=True), "command": Either((TEXT, Each(TEXT)))}, ANYTHING)
    given_ = {"size": -1, "words": ["a", 2, "\ud800"], "command": ["ls"], "more": {"deep": [1.5]}, "beyond": 2**70}
    assert facts.fit(given_) == {"words": ["a", "?"], "command": ["ls"], "more": {"deep": [1.5]}}
    assert facts.fit({"size": None, "more": None}) == {"more": None}


@pytest.mark.slow
@given(JSON)
def test_what_nothing_describes_can_always_be_written_again(value: Any) -> None:
    found = Facts(others=ANYTHING).fit({"a": value})
    text = json.dumps(found, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert shapes.parsed(text) == found


@given(JSON)
def test_a_shape_fits_or_says_why_not(value: Any) -> None:
    shape: Shape
    for shape in (SHAPE, THREAD, Facts({"a": SHAPE}), ColumnShape(), Either((COUNT, Each(COUNT)))):
        try:
            found = shape.fit(value)
        except Unfit:
            continue
        assert shape.fit(json.loads(json.dumps(found))) == found


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MOST_BYTES", 1 << 20)
    (tmp_path / "a.json").write_bytes(b" " * (1 << 20) + b"1")
    with pytest.raises(Unfit, match="larger than 1 MiB"):
        shapes.read(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes(b" " * ((1 << 20) - 1) + b"1")
    assert shapes.read(tmp_path / "a.json") == 1
