"""When records of CUDA calls may be missing: by ring, by event, and where a kind was given up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pinprof.data import perf_format as perf
from pinprof.data.activity import GivenUp
from pinprof.read.perf import records as rec
from pinprof.read.perf.call_losses import CallLosses

EVENTS = ("dummy", "call-enter/memory", "call-leave/memory", "call-enter/copies", "call-leave/copies")
MAPPINGS, ENTER_MEMORY, LEAVE_MEMORY, ENTER_COPY, LEAVE_COPY = range(5)
ALL = (-1, 1 << 62)


def losses(
    samples: Sequence[tuple[int, int, int]] = (),
    lost: Sequence[rec.Loss] = (),
    by_event: Mapping[int, int] | None = None,
    *,
    counted: bool = True,
    given_up: Sequence[GivenUp] = (),
) -> CallLosses:
    """`samples`: (time, CPU, event)."""
    clock, cpu, source = (np.array(column, np.int64) for column in zip(*(samples or [(0, 9, 0)]), strict=True))
    attr = SimpleNamespace(read_format=perf.FORMAT_LOST if counted else 0)
    sources: Any = [SimpleNamespace(name=name, attr=attr) for name in EVENTS]
    raw: Any = SimpleNamespace(
        samples=SimpleNamespace(clock=clock, cpu=cpu, source=source), losses=tuple(lost), lost_by_source=by_event or {}
    )
    return CallLosses(raw, sources, given_up)


def test_what_is_lost_of_copies_says_nothing_of_memory() -> None:
    found = losses([(10, 0, ENTER_COPY)], [rec.Loss(50, 0, LEAVE_COPY, 9)], {ENTER_COPY: 5, LEAVE_COPY: 4})
    assert (found.of_memory, found.lost_memory) == ([], False)
    assert losses(lost=[rec.Loss(0, -1, -1, 9)]).of_memory == [], "of a part of a recording"


def test_a_ring_has_no_room_from_its_last_record_until_it_says_so() -> None:
    samples = [(10, 0, ENTER_MEMORY), (20, 0, LEAVE_MEMORY), (25, 1, ENTER_MEMORY), (40, 0, ENTER_COPY)]
    found = losses(samples, [rec.Loss(50, 0, ENTER_MEMORY, 3)], {ENTER_MEMORY: 3})
    assert (found.of_memory, found.lost_memory) == ([(20, 50)], True)
    assert losses(samples, [rec.Loss(50, 2, MAPPINGS, 3)], {MAPPINGS: 3}).of_memory == [(-1, 50)]
    assert losses(samples, [rec.Loss(0, -1, MAPPINGS, 3)]).of_memory == [ALL], "nobody says when"


def test_what_is_lost_at_the_end_may_be_missing_anywhere() -> None:
    assert losses(lost=[rec.Loss(50, 0, LEAVE_MEMORY, 3)], by_event={LEAVE_MEMORY: 4}).of_memory == [(-1, 50), ALL]
    # Of older recordings rings held everything: another event tells of the loss.
    assert losses(lost=[rec.Loss(50, 0, LEAVE_COPY, 9)], by_event={LEAVE_COPY: 8, ENTER_MEMORY: 1}).of_memory == [ALL]


def test_where_the_kernel_counts_no_losses_by_event_any_may_be_of_memory() -> None:
    assert losses(lost=[rec.Loss(50, 0, LEAVE_COPY, 9)], counted=False).of_memory == [(-1, 50)]


def test_calls_that_were_given_up_are_missing_too() -> None:
    gaps = [GivenUp("memory", 100, 200), GivenUp("copies", 1, 2)]
    found = losses(given_up=gaps)
    assert (found.of_memory, found.lost_memory) == ([(100, 200)], False)


@pytest.mark.parametrize(
    ("pair", "missing"),
    [(((10, 0), (60, 0)), True), (((10, 1), (60, 1)), False), (((10, 0), (30, 0)), False), (((45, 0), (60, 0)), False)],
    ids=["across", "on another processor", "before", "after"],
)
def test_an_entry_and_a_return_with_lost_records_between_them_may_be_of_two_calls(
    pair: tuple[tuple[int, int], tuple[int, int]], missing: bool
) -> None:
    (start, first), (end, last) = pair
    samples = [(start, first, ENTER_COPY), (end, last, LEAVE_COPY), (20, 0, LEAVE_COPY)]
    lost = [rec.Loss(40, 0, LEAVE_COPY, 8)]
    rows = np.array([0]), np.array([1])
    assert losses(samples, lost, {ENTER_COPY: 4, LEAVE_COPY: 4}).across(*rows).tolist() == [missing]
    assert losses(samples, lost).across(*rows).tolist() == [missing], "nobody counted"
    assert losses(samples, lost, {ENTER_COPY: 8}).across(*rows).tolist() == [False], "no return was lost"
    others = losses([(time, cpu, event - 2) for time, cpu, event in samples], lost, {ENTER_COPY: 4, LEAVE_COPY: 4})
    assert others.across(*rows).tolist() == [False], "only copies were lost"
