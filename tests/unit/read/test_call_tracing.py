"""What the tracer of CUDA calls gave up: read from the manifest, told, and kept apart from whole calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinprof.data.activity import Activity, CallOverhead, GivenUp
from pinprof.read.directory import Reading
from pinprof.read.perf import call_tracing, capture, cuda_calls
from pinprof.read.reader import ReadOptions
from pinprof.streams.store import new_manifest, write_manifest
from tests.support.perf_file import pipe_mode
from tests.support.small_capture import small_capture

MS = 1_000_000
COPIES = {"kind": "copies", "without": "calls", "from_ns": 100 * MS, "to_ns": 2500 * MS, "calls": 198_000}
MEMORY = {"kind": "memory", "without": "calls", "from_ns": 50 * MS, "to_ns": 60 * MS}


def told(*given_up: Any, **others: Any) -> Any:
    probes = {"budget_percent": 3.0, "given_up": list(given_up), **others}
    return new_manifest(collectors=({"name": "native", "probes": {}}, {"name": "cuda-calls", "probes": probes}))


def test_what_was_given_up_is_read_by_time() -> None:
    assert call_tracing.given_up(told(COPIES, MEMORY)) == (
        GivenUp("memory", 50 * MS, 60 * MS),
        GivenUp("copies", 100 * MS, 2500 * MS),
    ), "what older recordings estimate of copies is not taken over"
    assert call_tracing.given_up(new_manifest()) == ()


@pytest.mark.parametrize(
    "change",
    [{"from_ns": 3000 * MS}, {"kind": "launches"}, {"without": "stacks"}, {"to_ns": None}],
    ids=lambda change: next(iter(change)),
)
def test_what_is_no_episode_is_left_out(change: dict[str, Any]) -> None:
    assert call_tracing.given_up(told({**COPIES, **change}, MEMORY)) == call_tracing.given_up(told(MEMORY))


def test_notes_say_since_when_for_how_long_and_how_many_where_they_were_counted() -> None:
    manifest = told(COPIES, MEMORY, {**COPIES, "from_ns": 3000 * MS, "to_ns": 3100 * MS})
    percent = call_tracing.budget_percent(manifest)
    why = "because tracing them would have cost more than 3 % of the program's time (--probe-budget)."
    assert call_tracing.notes(call_tracing.given_up(manifest), 0, percent) == (
        f"Memory copies and memsets were not traced, from 100 ms on, for 2.5 s in 2 intervals, {why}",
        f"Calls that allocate or free memory were not traced, from 50 ms on, for 10 ms, {why}",
    )
    assert call_tracing.notes((), 0, None) == ()
    by_gpu = [replace(part, calls=1234) for part in call_tracing.given_up(told(COPIES))]
    assert call_tracing.notes(by_gpu, 0, percent)[0].startswith("1,234 memory copies and memsets were not traced")


@pytest.mark.parametrize(
    ("raw", "known"),
    [
        ({"inside": 1500, "around": 4000}, CallOverhead(1500, 4000)),
        ({"inside": -1, "around": "x"}, None),
        ({"inside": 1500, "around": 10**9}, None),
        ({"inside": 1500}, None),
    ],
)
def test_what_older_recordings_measured_of_a_call_is_read(raw: dict[str, Any], known: CallOverhead | None) -> None:
    collectors = ({"name": "native"}, {"name": "cuda-calls", "call_overhead_ns": raw})
    assert call_tracing.overhead(new_manifest(collectors=collectors)) == known
    assert call_tracing.overhead(told()) is None


def test_an_entry_and_a_return_with_an_interval_between_them_are_of_two_calls() -> None:
    given_up = call_tracing.given_up(told(COPIES))
    start, end = np.array([[10, 90, 90, 40, 2600], [20, 101, 2600, 70, 2700]], np.int64) * MS
    copies, memory = np.zeros(5, np.int32), np.ones(5, np.int32)
    across = cuda_calls._across(given_up, start, end, copies, ("copies", "memory"))
    assert across.tolist() == [False, True, True, False, False]
    assert not cuda_calls._across(given_up, start, end, memory, ("copies", "memory")).any(), "these were traced on"


def test_calls_may_be_missing_by_kind() -> None:
    activity = Activity("uprobes", given_up=call_tracing.given_up(told(COPIES)))
    for asked in (activity.untraced, activity.may_lack):
        assert (asked(), asked("copies"), asked("memory")) == (True, True, False)
    lossy = Activity("uprobes", lost_calls=3)
    assert (lossy.may_lack(), lossy.may_lack("copies"), lossy.may_lack("memory")) == (True, True, False)
    assert replace(lossy, lost_memory=True).may_lack("memory")
    assert not Activity("uprobes").may_lack()


def test_a_file_without_events_holds_no_calls(tmp_path: Path) -> None:
    (tmp_path / "calls.data").write_bytes(pipe_mode([], b""))
    write_manifest(tmp_path, new_manifest())
    found = capture.with_calls(small_capture([], [], []), tmp_path / "calls.data", Reading(tmp_path, ReadOptions()))
    assert found.activity is not None
    assert len(found.activity.calls) == 0
    assert "CUDA calls can't be read" in found.losses.notes[0]
