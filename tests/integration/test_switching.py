"""Threads that hand work to each other are sampled in windows, and every thread's time is whole all the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pinprof import read
from pinprof.analyze import analyze
from pinprof.analyze.completeness import gaps_of
from tests.support.recorded_programs import LEAST, needs_native, record

pytestmark = needs_native

PROGRAM = """
import json, queue, resource, sys, threading, time
there, back, said = queue.SimpleQueue(), queue.SimpleQueue(), {}
def noted(work):
    begun = time.monotonic_ns()
    work()
    said[threading.get_native_id()] = [time.thread_time_ns(), time.monotonic_ns() - begun]
def hand_back():
    while there.get():
        back.put(1)
def hand_on():
    while time.process_time() < 1:
        for _ in range(100):
            there.put(1)
            back.get()
    there.put(0)
threads = [threading.Thread(target=noted, args=[work]) for work in (hand_back, hand_on)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
used = resource.getrusage(resource.RUSAGE_SELF)
json.dump([said, used.ru_nvcsw + used.ru_nivcsw], sys.stdout)
"""


@pytest.mark.parametrize("limit", ["2GiB", "1MB"])
def test_threads_that_switch_often_are_sampled_in_windows_and_their_times_are_whole(tmp_path: Path, limit: str) -> None:
    (tmp_path / "hand.py").write_text(PROGRAM)
    done = record(tmp_path, "python3", "hand.py", options=(*LEAST, "--with=native", f"--max-size={limit}"))
    assert done.returncode == 0, done.stderr
    said, switches = json.loads(done.stdout)
    capture = read.read(tmp_path / "out.pinprof")
    samples, losses = capture.samples, capture.losses
    spans = np.array([event.spans for event in capture.events])[samples.event]
    clocks = np.array([event.clocks for event in capture.events])[samples.event]
    assert losses.paused_ns > 0
    assert [gap.kind for gap in gaps_of(capture) if gap.kind == "switches"] == ["switches"]
    assert int(spans.sum()) < switches / 2, "most switches were not sampled"
    for tid, (ran, lived) in said.items():
        mine = samples.tid == int(tid)
        on, off = (int(samples.weight[mine & part].sum()) for part in (clocks, spans))
        # The kernel's clock of a thread goes on behind the record of a switch, while the kernel and recorder switch.
        assert ran / 2 - 40_000_000 < on < 1.1 * ran + 40_000_000
        assert on + off == pytest.approx(lived, rel=0.1, abs=40_000_000)


MIXED = """
import hashlib, queue, threading, time
there, back = queue.SimpleQueue(), queue.SimpleQueue()
def hand_back():
    while there.get():
        back.put(1)
def work():
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        hashlib.sha256(bytes(1 << 20)).digest()
other = threading.Thread(target=hand_back)
other.start()
for _ in range(3):
    end = time.process_time() + 0.3
    while time.process_time() < end:
        for _ in range(100):
            there.put(1)
            back.get()
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
there.put(0)
"""


def test_long_waits_among_many_switches_have_stacks_and_causes(tmp_path: Path) -> None:
    (tmp_path / "mixed.py").write_text(MIXED)
    assert record(tmp_path, "python3", "mixed.py", options=(*LEAST, "--with=native")).returncode == 0
    capture = read.read(tmp_path / "out.pinprof")
    assert capture.losses.paused_ns > 0
    (waits,) = [event for event in analyze(capture).events if event.event.spans]
    assert waits.by_leaf.get("lost.nostack", 0) < 0.2 * waits.total
    assert waits.by_leaf["wait.lock"] + waits.by_leaf.get("wait.runnable", 0) > 0.7 * waits.total
