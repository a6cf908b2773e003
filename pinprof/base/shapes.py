"""What a JSON document may hold: one place that every file of JSON is checked in before anything is computed from it.

A file's module declares its shape: `Record({"pid": COUNT, "name": TEXT}, optional={…})`. `parsed` turns bytes into JSON
values, and a shape's `fit` returns a value of that shape or raises `Unfit`, which says where the file is wrong. `Facts`
is the lenient record: it leaves out what does not fit, for files that say what is known.

JSON readers let NaN, Infinity, numbers beyond all types, lone surrogates and any depth pass; here, none of them does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from pinprof.base.lazy_dataclass import dataclass

MOST = 2**63 - 1
"""What a column of 64 bits holds."""
MOST_BYTES = 8 << 20
"""Bytes of a manifest or of rates, which have some kB; as Python's objects they take up to thirty times as much."""
_DEEPEST = 16
"""Containers in each other in what no shape describes: reports write it as it is."""


class Unfit(ValueError):
    """A value that is not of its shape; says what is wrong with it, and where it stands."""

    def __init__(self, problem: str, where: str = "") -> None:
        super().__init__(f"{where.lstrip('.') or 'it'} {problem}")
        self._problem, self._where = problem, where

    def inside(self, place: str) -> Unfit:
        """The same, as seen from the container in which it stands at `place`."""
        return Unfit(self._problem, place + self._where)


class Shape(Protocol):
    """What a value may be."""

    def fit(self, value: Any) -> Any:
        """The value as later code may rely on it; Unfit where it is none of the kind."""


def read(path: Path) -> Any:
    """The values of a small file; OSError where it cannot be read, Unfit where it is large or no JSON."""
    with path.open("rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise Unfit(f"is larger than {MOST_BYTES >> 20} MiB")
    return parsed(text)


def parsed(text: bytes | str) -> Any:
    """The values of a JSON text; Unfit for a text that JSON does not allow, and for NaN and Infinity."""
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(decoded, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise Unfit("is nested too deeply") from None
    except ValueError as error:
        raise Unfit(f"is not JSON: {error}") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


@dataclass(frozen=True)
class Whole:
    """A whole number of low … high; `true` is none."""

    low: int = 0
    high: int = MOST

    def fit(self, value: Any) -> int:
        """The number."""
        if type(value) is not int or not self.low <= value <= self.high:
            raise Unfit(f"is not a whole number from {self.low} to {self.high}")
        return value


@dataclass(frozen=True)
class Real:
    """A finite number of low … high, with or without a fraction."""

    low: float = 0.0
    high: float = float(2**63)

    def fit(self, value: Any) -> float:
        """The number as a float; whole ones of any size are compared before they are converted."""
        if type(value) not in (int, float) or not self.low <= value <= self.high:
            raise Unfit(f"is not a number from {self.low:g} to {self.high:g}")
        return float(value)


@dataclass(frozen=True)
class Text:
    """Text that can be written in UTF-8: JSON may spell lone surrogates, which become `?`."""

    def fit(self, value: Any) -> str:
        """The text."""
        if not isinstance(value, str):
            raise Unfit("is not text")
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True)
class OneOf:
    """One of a few values."""

    values: tuple[Any, ...]

    def fit(self, value: Any) -> Any:
        """The value."""
        if not any(type(value) is type(known) and value == known for known in self.values):
            raise Unfit(f"is not one of {', '.join(map(repr, self.values))}")
        return value


@dataclass(frozen=True)
class Either:
    """The first of some shapes that fits."""

    shapes: tuple[Shape, ...]

    def fit(self, value: Any) -> Any:
        """The value of that shape."""
        for shape in self.shapes[:-1]:
            try:
                return shape.fit(value)
            except Unfit:
                pass
        return self.shapes[-1].fit(value)


@dataclass(frozen=True)
class Each:
    """A list whose elements have one shape."""

    shape: Shape
    lenient: bool = False
    """Whether elements of another shape are left out."""

    def fit(self, value: Any) -> list[Any]:
        """The elements."""
        if not isinstance(value, list):
            raise Unfit("is not a list")
        if self.lenient:
            return list(_fitting(dict(enumerate(value)), dict.fromkeys(range(len(value)), self.shape)).values())
        return _in_order([self.shape] * len(value), value)


@dataclass(frozen=True)
class RowShape:
    """A list of a number of elements, each of its own shape."""

    shapes: tuple[Shape, ...]

    def fit(self, value: Any) -> tuple[Any, ...]:
        """The elements."""
        if not isinstance(value, list) or len(value) != len(self.shapes):
            raise Unfit(f"is not a list of {len(self.shapes)}")
        return tuple(_in_order(self.shapes, value))


@dataclass(frozen=True)
class ColumnShape:
    """A list of whole numbers of low … high, with a sum; millions cost milliseconds."""

    low: int = 0
    high: int = MOST
    most: int = MOST
    """The largest sum."""

    def fit(self, value: Any) -> list[int]:
        """The numbers."""
        if not isinstance(value, list) or not set(map(type, value)) <= {int}:
            raise Unfit("is not a list of whole numbers")
        if value and not (self.low <= min(value) and max(value) <= self.high and sum(value) <= self.most):
            raise Unfit(f"has a number outside {self.low} to {self.high}, or too large a sum")
        return value


@dataclass(frozen=True)
class Record:
    """An object with all of its fields; what it has beside them is left out."""

    fields: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict)

    def fit(self, value: Any) -> dict[str, Any]:
        """The fields."""
        if not isinstance(value, dict):
            raise Unfit("is not an object")
        for name in self.fields:
            if name not in value:
                raise Unfit(f"has no {name}")
        shapes = {**self.fields, **{name: shape for name, shape in self.optional.items() if name in value}}
        found = {}
        for name, shape in shapes.items():
            try:
                found[name] = shape.fit(value[name])
            except Unfit as error:
                raise error.inside(f".{name}") from None
        return found


@dataclass(frozen=True)
class Facts:
    """An object of which every field may be missing: one that is null, or not of its shape, is as if it were.

    Among `others` null stays, if their shape lets it.
    """

    fields: Mapping[str, Shape] = field(default_factory=dict)
    others: Shape | None = None
    """The shape of fields with any other name; None leaves them out."""

    def fit(self, value: Any) -> dict[str, Any]:
        """What fits."""
        if not isinstance(value, dict):
            raise Unfit("is not an object")
        shapes = {name: self.fields.get(name, self.others) for name in value}
        found = _fitting(value, {name: shape for name, shape in shapes.items() if shape is not None})
        return {TEXT.fit(name): fact for name, fact in found.items() if fact is not None or name not in self.fields}


@dataclass(frozen=True)
class Anything:
    """Any JSON of numbers within 64 bits and little depth."""

    deepest: int = _DEEPEST

    def fit(self, value: Any) -> Any:
        """The value, with text that can be written."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return TEXT.fit(value)
        if isinstance(value, int | float):
            if not -MOST <= value <= MOST:
                raise Unfit("is a number that is too large")
            return value
        if not self.deepest:
            raise Unfit("is nested too deeply")
        inner = Anything(self.deepest - 1)
        if isinstance(value, list):
            return [inner.fit(element) for element in value]
        return {TEXT.fit(name): inner.fit(element) for name, element in value.items()}


def _in_order(shapes: Sequence[Shape], values: Sequence[Any]) -> list[Any]:
    """Values of a list, each of its shape."""
    found: list[Any] = []
    try:
        for shape, value in zip(shapes, values, strict=True):
            found.append(shape.fit(value))
    except Unfit as error:
        raise error.inside(f"[{len(found)}]") from None
    return found


def _fitting(values: Mapping[Any, Any], shapes: Mapping[Any, Shape]) -> dict[Any, Any]:
    """The values that are of their shape."""
    found = {}
    for name, shape in shapes.items():
        try:
            found[name] = shape.fit(values[name])
        except Unfit:
            continue
    return found


TEXT, COUNT, ANYTHING = Text(), Whole(), Anything()
TIME = Whole(-MOST, MOST)
PID = Whole(-1, 2**31 - 1)
"""A process or thread; -1 where it is not known."""
