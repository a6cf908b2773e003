"""A run with some of its facts written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pinprof.analyze.restriction import Attributed
from pinprof.analyze.run import Run

_GIVEN = "given by hand"


def with_facts(run: Run, **facts: Any) -> Run:
    """The run with these facts, and those given before; the others follow from them when they are asked for."""
    known = {**vars(run).get(_GIVEN, {}), **facts}
    other = replace(run)
    vars(other).update(known, **{_GIVEN: known})
    return other


def with_capture(run: Run, **changes: Any) -> Run:
    """The run of a recording that differs in these fields."""
    capture, attribution = replace(run.capture, **changes), run.attribution
    return replace(run, attributed=Attributed.of(capture, attribution))
