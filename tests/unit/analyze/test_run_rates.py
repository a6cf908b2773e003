"""What a run shows of its own costs: by size, without what would mislead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinprof.analyze.costs.run_rates import run_rates
from pinprof.analyze.results import EventResult
from pinprof.data.activity import Activity, ApiCallTable
from pinprof.data.model import Event
from pinprof.data.rates import Rate
from tests.support.small_capture import small_capture

MIB = 1 << 20


def event(name: str, unit: str, samples: int, **leaves: int) -> EventResult:
    by_leaf = {name.replace("_", "."): weight for name, weight in leaves.items()}
    return EventResult(Event(name, unit, 1, None), samples, sum(by_leaf.values()), by_leaf, {}, {}, {}, 0)


def faults(time: dict[str, int], counters: dict[str, int] | None, samples: int = 1000) -> tuple[Rate, ...]:
    capture = small_capture([], [], [])
    outcome = {"counters": counters} if counters is not None else {}
    capture = replace(capture, manifest=replace(capture.manifest, outcome=outcome))
    events = event("cpu-clock", "ns", samples, **time), event("page-faults:u", "faults", 1000, user_app=1000)
    return run_rates(capture, events)


def test_a_page_costs_the_time_in_faults_by_their_number() -> None:
    found = faults({"fault_anon": 1_500_000, "fault_entry": 500_000, "user_app": 2_000_000}, {"pgfault": 1000})
    assert [(rate.measure, rate.size_bytes, rate.median_ns) for rate in found] == [
        ("touch.first", 4096, 2000),
        ("touch.first", 4_096_000, 2_000_000),
    ]
    assert all(rate.low_ns < rate.median_ns < rate.high_ns for rate in found)


@pytest.mark.parametrize(
    ("time", "counters", "samples"),
    [
        ({"fault_anon": 1000}, {"pgfault": 1000, "thp_fault_alloc": 20}, 1000),
        ({"fault_anon": 1000}, None, 1000),
        ({"fault_anon": 800, "fault_file": 200}, {"pgfault": 1000}, 1000),
        ({"fault_anon": 1000}, {"pgfault": 1000}, 10),
        ({"user_app": 1000}, {"pgfault": 1000}, 1000),
        ({"fault_anon": 1000}, {"pgfault": "many"}, 1000),
    ],
    ids=["huge pages", "no counters", "files", "few samples", "no faults", "damaged"],
)
def test_faults_of_unknown_kind_say_nothing(time: dict[str, int], counters: Any, samples: int) -> None:
    assert faults(time, counters, samples) == ()


def calls(rows: list[tuple[str, int, int, int]]) -> tuple[Rate, ...]:
    """From (name, ns, bytes, status)."""
    names = tuple(dict.fromkeys(row[0] for row in rows))
    start = 10_000_000 * np.arange(len(rows))
    same = np.ones(len(rows), np.int32)
    table = ApiCallTable(
        start_ns=start,
        end_ns=start + np.array([row[1] for row in rows]),
        name=np.array([names.index(row[0]) for row in rows], np.int32),
        pid=same,
        tid=same,
        correlation_id=np.full(len(rows), -1),
        status=np.array([row[3] for row in rows], np.int32),
        api=np.zeros(len(rows), np.uint8),
        folded=np.zeros(len(rows), np.int32),
        names=names,
        size_bytes=np.array([row[2] for row in rows]),
    )
    return run_rates(replace(small_capture([], [], []), activity=Activity("x", calls=table)), ())


def test_pins_are_told_by_size_without_the_call_that_creates_the_context() -> None:
    rows = [("cudaMallocHost", 10**9, MIB, 0)] + [("cudaMallocHost", ns, MIB, 0) for ns in (90, 100, 100, 100, 110)]
    rows += (
        [("cudaHostAlloc", 1000, 8 * MIB, 0)] * 5 + [("cudaMallocHost", 5, 64, 0)] * 4 + [("cudaMalloc", 7, 64, 0)] * 9
    )
    rows += [("cudaMallocHost", 1, MIB, 2)] * 50
    found = calls(rows)
    assert [(rate.measure, rate.size_bytes, rate.median_ns) for rate in found] == [
        ("pin.alloc", MIB, 100),
        ("pin.alloc", 8 * MIB, 1000),
    ]
    assert (found[0].low_ns, found[0].high_ns) == pytest.approx((94, 106))


def test_calls_of_no_size_say_nothing() -> None:
    assert calls([("cudaMallocHost", 10, -1, 0)] * 9) == ()
    assert calls([]) == ()
