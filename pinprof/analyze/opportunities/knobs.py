"""The options of libraries that do what a cure says: the table in knobs.toml, and which row answers a cost."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, FrameTable

TABLE = "knobs.toml"


@dataclass(frozen=True)
class Functions:
    """Functions of a library, by the ending of their file's path and by their names."""

    file: str
    function: str

    def among(self, frames: FrameTable) -> Bool:
        """Per frame, whether it is one of them."""
        file, function = re.compile(rf"(?:.*/)?(?:{self.file})"), re.compile(self.function)
        inside = np.array([file.fullmatch(dso.path or dso.name) is not None for dso in frames.dsos], np.bool_)
        result = inside[frames.dso]
        rows = np.flatnonzero(result)
        result[rows] = [function.fullmatch(frames.function[row]) is not None for row in rows.tolist()]
        return result


@dataclass(frozen=True)
class Knob:
    """A row of the table, whose head explains the columns."""

    name: str
    library: str
    answers: frozenset[str]
    source: str
    option: str = ""
    text: str = ""
    code: str = ""
    environment: str = ""
    since: str = ""
    until: str = ""
    framework: str | None = None
    frames: tuple[Functions, ...] = ()
    present: tuple[Functions, ...] = ()
    absent: tuple[Functions, ...] = ()
    starts: int = 0
    once: bool = False
    line: bool = False

    @property
    def versions(self) -> str:
        """`torch from 1.10`, or the library alone where all versions in use have it."""
        until = f" to before {self.until}" if self.until else ""
        return f"{self.library}{f' from {self.since}' if self.since else ''}{until}"


@cache
def table() -> tuple[Knob, ...]:
    """All rows, in their order."""
    text = files(__package__).joinpath(TABLE).read_text("utf-8")
    return tuple(_knob(row) for row in tomllib.loads(text)["knob"])


def _knob(row: Mapping[str, Any]) -> Knob:
    functions = {
        name: tuple(Functions(**one) for one in row[name]) for name in ("frames", "present", "absent") if name in row
    }
    code = str(row.get("code", "")).strip("\n")
    return Knob(**{**row, **functions, "code": code, "answers": frozenset(row["answers"])})


def options() -> tuple[Knob, ...]:
    """The rows that answer costs by the functions that they were sampled under, or that the program has."""
    return tuple(knob for knob in table() if knob.framework is None)


def words_of(cure: str, framework: str) -> Knob | None:
    """The row with the words of a framework for a cure; None where it has none of its own."""
    return next((knob for knob in table() if knob.framework == framework and cure in knob.answers), None)


def setting(name: str) -> str:
    """`NAME=value` of a row."""
    return next(knob.environment for knob in table() if knob.name == name)
