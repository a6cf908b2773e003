"""Processes and threads whose numbers are unknown, negative or huge: a report tells them apart as all others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pinprof.analyze import analyze
from pinprof.read import read
from pinprof.report.gather import build
from pinprof.report.sections.timeline.lanes import timeline
from tests.support.nsys_file import GLOBAL_TID, call, session, write_export
from tests.support.perf_file import Spec, comm, pipe_mode, sample

ODD = [-1, -2, 0, 2**31, 2**63, 2**64, 10**30, None, "x", 1.5, True]


def call_of(pid: Any, ts: int, tid: Any = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaMalloc", "pid": pid, "tid": tid, "ts": ts, "dur": 5}


@pytest.mark.parametrize("field", ["pid", "tid"])
@pytest.mark.parametrize("odd", ODD, ids=map(repr, ODD))
def test_a_trace_with_odd_numbers_has_every_call_in_its_thread(tmp_path: Path, odd: Any, field: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": [call_of(2, 1), {**call_of(2, 11), field: odd}, call_of(2, 21)]}))
    analysis = analyze(read(path))
    json.dumps(build(analysis).to_json(), allow_nan=False)
    made = timeline(analysis)
    assert made is not None
    assert sorted(lane.total for lane in made.lanes if lane.kind == "call") == [1, 2]


def test_an_export_whose_calls_have_no_thread_keeps_those_that_have_one_apart(tmp_path: Path) -> None:
    rows = [call(10, 20, 1, 1), call(30, 40, 1, 2, tid=-1), call(50, 60, 1, 3), call(70, 80, 1, 4, tid=GLOBAL_TID + 1)]
    rows[1]["globalTid"] = None
    path = write_export(
        tmp_path / "a.sqlite",
        {"CUPTI_ACTIVITY_KIND_RUNTIME": rows, "TARGET_INFO_SESSION_START_TIME": session()},
        strings={1: "cudaMalloc_v3020"},
    )
    analysis = analyze(read(path))
    json.dumps(build(analysis).to_json(), allow_nan=False)
    made = timeline(analysis)
    assert made is not None
    assert sorted(lane.total for lane in made.lanes if lane.kind == "call") == [1, 1, 2]


def test_a_recording_with_negative_threads_keeps_each_apart(tmp_path: Path) -> None:
    """As pipe mode and foreign PID namespaces have them: -1, and any number of 32 bits."""
    spec = Spec()
    threads = [(7, 7), (-1, -1), (-5, 7), (7, -(2**31)), (2**31 - 1, 2**31 - 1)]
    records = b"".join(
        sample(spec, time=1000 * (number + 5 * turn), pid=pid, tid=tid)
        for turn in range(40)
        for number, (pid, tid) in enumerate(threads)
    )
    path = tmp_path / "perf.data"
    path.write_bytes(pipe_mode([spec], comm(spec, "app") + records))
    analysis = analyze(read(path))
    assert {(thread.pid, thread.tid) for thread in build(analysis).threads} == set(threads)
    made = timeline(analysis)
    assert made is not None
    assert len(made.densities) >= len(threads)
