"""Looking at memory: what a line holds, how often one is written, and what happens when it cannot be."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pinprof.collect import memory
from pinprof.collect.collector import Setup
from pinprof.collect.memory import MemoryWatch
from pinprof.collect.program import Program
from pinprof.collect.request import RecordRequest
from pinprof.streams.store import MEMORY

MIB = 1 << 20


def watching(directory: Path, pid: int = 0) -> MemoryWatch:
    """A watch of a process, this one by default."""
    watch = MemoryWatch(Setup(RecordRequest(()), directory, ExitStack(), {}))
    watch.attach(cast("Program", SimpleNamespace(pid=pid or os.getpid())))
    return watch


def test_recordings_of_one_launch_look_less_often_where_they_are_more_than_the_processors(tmp_path: Path) -> None:
    for processors, pause_s, least_s in ((float("inf"), 0.1, 0.1), (4.0, 0.5, 0.5), (0.25, 0.1, 0.4)):
        request = RecordRequest((), processors=processors, memory_pause_s=pause_s)
        watch = MemoryWatch(Setup(request, tmp_path, ExitStack(), {}))
        watch.attach(cast("Program", SimpleNamespace(pid=os.getpid())))
        before = time.monotonic()
        watch.watch()
        assert watch._due - before >= least_s
        watch.close()


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / MEMORY).read_text().splitlines()]


def test_a_look_says_what_the_process_holds(tmp_path: Path) -> None:
    watch = watching(tmp_path)
    watch.sample()
    # The kernel's counters lag by some tens of pages for each processor.
    with mmap.mmap(-1, 48 * MIB) as shared:
        for place in range(0, len(shared), mmap.PAGESIZE):
            shared[place] = 1
        watch.sample()
    watch.close()
    before, after = (line["processes"][0] for line in lines(tmp_path))
    assert before["pid"] == os.getpid()
    assert before["name"]
    assert "name" not in after
    assert after["shmem"] - before["shmem"] >= 32 * MIB
    assert after["rss"] - before["rss"] > 16 * MIB
    assert after["threads"] >= 1


def test_counters_of_the_machine_never_fall(tmp_path: Path) -> None:
    watch = watching(tmp_path)
    watch.sample()
    watch.sample()
    watch.close()
    first, second = (line["machine"] for line in lines(tmp_path))
    assert first.keys() == second.keys()
    assert {"pgfault", "nr_free_pages"} <= first.keys()
    assert all(second[name] >= first[name] for name in first if name in memory.EVENTS)


def test_descendants_are_followed(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        watch = watching(tmp_path)
        watch.sample()
        watch.close()
        assert child.pid in {process["pid"] for process in lines(tmp_path)[0]["processes"]}
    finally:
        child.communicate(b"\n")


def test_a_process_that_has_ended_is_left_out(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    watch = watching(tmp_path, child.pid)
    watch.sample()
    child.wait()
    watch.sample()
    watch.close()
    assert [line["processes"] for line in lines(tmp_path)] == [[], []]


def test_it_looks_when_due_and_less_often_where_looking_costs_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"monotonic": 100.0, "thread": 0.0}
    monkeypatch.setattr(memory.time, "monotonic", lambda: now["monotonic"])
    monkeypatch.setattr(memory.time, "thread_time", lambda: now["thread"])
    watch = watching(tmp_path)
    looks: list[float] = []

    def look() -> None:
        looks.append(now["monotonic"])
        now["thread"] += 0.004

    monkeypatch.setattr(watch, "sample", look)
    assert watch.watch() == pytest.approx(1.0)
    now["monotonic"] += 0.4
    assert watch.watch() == pytest.approx(0.6)
    assert len(looks) == 1
    now["monotonic"] += 0.6
    watch.watch()
    assert len(looks) == 2


def test_a_place_that_cannot_be_written_ends_the_looking_not_the_recording(tmp_path: Path) -> None:
    watch = watching(tmp_path / "missing")
    assert watch.watch() == float("inf")
    watch.sample()
    watch.close()
    full = watching(tmp_path)
    os.dup2(os.open("/dev/full", os.O_WRONLY), full._file)
    full.sample()
    assert full.watch() == float("inf")
