"""What is said of processes that outlive the program, and of those with another clock."""

from __future__ import annotations

import json
import os
import struct
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pinprof.collect import RecordRequest, process_notes
from pinprof.collect.collector import Setup
from pinprof.read.perf.processes import still_running
from pinprof.read.perf.records import CommRecord, ForkRecord

HOUR = 3600 * 10**9


def clocks(folder: Path, **request: Any) -> tuple[process_notes.Clocks, list[str]]:
    """The tool of a recording that has begun, and the notes of its setup."""
    setup = Setup(RecordRequest(("true",), ("native",), **request), folder, ExitStack(), {})
    tool = process_notes.Clocks(setup)
    tool.attach(SimpleNamespace(pid=os.getpid()))  # type: ignore[arg-type]
    return tool, setup.notes


def noted(folder: Path, what: str, at: int) -> None:
    """A file of a process in which a time stands."""
    if what == "ranges":
        (folder / "ranges.jsonl").write_text(json.dumps({"name": "work", "start_ns": at}) + "\n")
        return
    (folder / what).mkdir()
    place = {"nvtx": 32, "gpu": 16}[what]
    (folder / what / "7-1.bin").write_bytes(bytes(place) + struct.pack("<Q", at) + bytes(200))


@pytest.mark.parametrize("what", ["nvtx", "gpu", "ranges"])
@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_times_of_another_clock_are_said(what: str, ahead: int, tmp_path: Path) -> None:
    tool, _ = clocks(tmp_path)
    noted(tmp_path, what, max(time.monotonic_ns() + ahead, 1))  # the machine may have booted within the hour
    (note,) = tool.result().notes
    assert "in another time namespace" in note


@pytest.mark.parametrize("what", ["nvtx", "gpu", "ranges"])
def test_times_of_the_recording_are_not(what: str, tmp_path: Path) -> None:
    tool, notes = clocks(tmp_path)
    noted(tmp_path, what, time.monotonic_ns())
    assert tool.result().notes == ()
    assert notes == []


def test_what_ran_before_its_recording_has_noted_times_before(tmp_path: Path) -> None:
    tool, _ = clocks(tmp_path, delay_s=1.0)
    noted(tmp_path, "ranges", max(time.monotonic_ns() - HOUR, 1))
    assert tool.result().notes == ()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]\n", b'{"start_ns": "x"}\n', b'{"start_ns": null}\n'])
def test_files_that_say_no_time_say_nothing(content: bytes, tmp_path: Path) -> None:
    tool, _ = clocks(tmp_path)
    (tmp_path / "ranges.jsonl").write_bytes(content)
    (tmp_path / "nvtx").mkdir()
    (tmp_path / "nvtx" / "7-1.bin").write_bytes(content)
    assert tool.result().notes == ()


def test_a_process_of_another_time_namespace_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_notes, "_namespace", lambda pid: "time:[1]" if pid == "self" else "time:[2]")
    monkeypatch.setattr(process_notes, "_offset", lambda pid: 0 if pid == "self" else -90 * 10**9)
    tool, notes = clocks(tmp_path)
    assert tool.watch() == float("inf") or tool.watch() == float("inf")
    (note,) = tool.result().notes
    assert f"({os.getpid()}) is in another time namespace, whose CLOCK_MONOTONIC is 90 s behind the kernel's." in note
    assert notes == []


def test_that_pinprof_itself_has_another_clock_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_notes, "_offset", lambda _: 90 * 10**9)
    (note,) = clocks(tmp_path)[1]
    assert note.startswith("pinprof runs in a time namespace, whose CLOCK_MONOTONIC is 90 s ahead of the kernel's")


def test_processes_that_went_on_are_named_and_counted() -> None:
    assert process_notes.left_running({}) == ()
    (one,) = process_notes.left_running({7: "worker"})
    assert one.startswith("1 process of the program went on when its first process ended: worker (7). What came")
    (many,) = process_notes.left_running({7: "a", 8: "", 9: "c", 10: "d", 11: "e"})
    assert "5 processes of the program went on" in many
    assert "ended: a (7), unknown (8), c (9) and 2 more." in many


def test_who_still_runs_is_told_by_ends_that_are_not_recorded() -> None:
    tasks = [
        (1, CommRecord(7, 7, "app", exec=True)),
        (2, ForkRecord(8, 7, 8, 7, clones=True)),
        (3, ForkRecord(7, 7, 70, 7, clones=True)),
        (4, ForkRecord(9, 8, 9, 8, clones=True)),
        (5, CommRecord(9, 9, "daemon", exec=True)),
        (6, CommRecord(9, 91, "thread", exec=False)),
        (7, ForkRecord(10, 9, 10, 9, clones=True)),
    ]
    exits = {(7, 7): 20, (7, 70): 19, (8, 8): 21, (9, 91): 8}
    assert still_running(tasks, exits, {7, 8, 9, 10}) == {9: "daemon", 10: "daemon"}
    assert still_running(tasks, exits | {(9, 9): 30, (10, 10): 30}, {7, 8, 9, 10}) == {}
    assert still_running(tasks, {}, {7, 8, 9, 10}) == {}, "where no end is recorded, none says anything"
