"""The sign of life of a reading says how far it is and how long the rest takes, once both are known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from pinprof.cli import progress


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a terminal shows, in order."""
    words: list[str] = []

    @contextlib.contextmanager
    def working(what: str) -> Iterator[Callable[[str], None]]:
        words.append(what)
        yield words.append

    monkeypatch.setattr(progress, "working", working)
    return words


def test_the_rest_takes_as_long_as_what_is_done(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[-1])
    with progress.measured("Reading long.perf.data") as told:
        for seconds, part in ((101, 0.01), (103, 0), (104, 0.04), (150, 0.5), (199, 0.99), (200, 1)):
            now.append(seconds)
            told(part)
    assert said == [
        "Reading long.perf.data",
        "Reading long.perf.data: 4%, 2 min left",
        "Reading long.perf.data: 50%, 50 s left",
        "Reading long.perf.data: 99%, 1 s left",
    ]


def test_hours_are_said_as_such(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[-1])
    with progress.measured("Reading") as told:
        now.append(600)
        told(0.1)
    assert said[-1] == "Reading: 10%, 1 h 30 min left"
