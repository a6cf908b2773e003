"""A program that sleeps, waits for a lock and for a disk, recorded for real: each wait has its name and length.

The program notes its own thread's CPU time in each phase, and how long the thread stood ready without a
processor, so that what is expected is true on a busy machine too. A host that takes processors away from the machine
counts as neither: the kernel leaves it out of both.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pinprof.analyze import Run, analyze
from pinprof.analyze.results import RangeWall
from pinprof.collect import permission
from pinprof.read import read

pytestmark = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")

needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")

PROGRAM = """
import contextlib, json, os, threading, time
from pinprof.scenario import phase

def ready_ns():
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1])

used_ns, waited_ns = {}, {}
@contextlib.contextmanager
def noted(name):
    # A busy machine may take the processor away between a look and an end of the phase.
    before = ready_ns()
    with phase(name):
        start, ready = time.thread_time_ns(), ready_ns()
        yield
        used_ns[name] = time.thread_time_ns() - start
        inside = ready_ns() - ready
    waited_ns[name] = inside, ready_ns() - before

def asleep(thread):
    with open(f"/proc/self/task/{thread}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "S"

held, taken, main = threading.Lock(), threading.Event(), threading.get_native_id()
def hold():
    with held:
        taken.set()
        looks = 0
        # However late it comes to wait for the lock: then it sleeps at every look, and not only for the interpreter.
        while looks < 5:
            time.sleep(0.005)
            looks = looks + 1 if asleep(main) else 0
        time.sleep(0.25)

with noted("sleep"):
    time.sleep(0.25)
# Outside the phase: to begin a thread can wait for the kernel, as long as it moves a process between control groups.
holder = threading.Thread(target=hold)
holder.start()
taken.wait()
with noted("lock"):
    with held:
        pass
    holder.join()
with noted("disk"):
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    for _ in range(6):
        os.write(file, bytes(4 << 20))
        os.fsync(file)
with noted("work"):
    end = time.process_time() + 0.6
    while time.process_time() < end:
        sum(range(1000))
print(json.dumps([used_ns, waited_ns]))
"""


@dataclass(frozen=True)
class Recorded:
    """The analysis of the recording, and what the program noted."""

    analysis: Run
    used_ns: dict[str, int]
    """Processor time of its thread, by phase."""
    waited_ns: dict[str, tuple[int, int]]
    """Time in which its thread was ready and had no processor, as the kernel counts it: at least and at most, by phase.
    """

    def wall(self, name: str) -> RangeWall:
        """Where the time of a phase went."""
        (entry,) = [entry for entry in self.analysis.ranges if entry.name == name]
        assert entry.wall is not None
        return entry.wall


@pytest.fixture(scope="module", params=["native", pytest.param("perf", marks=needs_perf)])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("waits")
    options = ["--with", request.param, "--no-report", "-o", "out", "--python", "off"]
    done = subprocess.run(
        [sys.executable, "-m", "pinprof", "record", *options, "--", sys.executable, "-c", PROGRAM],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=120,
    )
    return Recorded(analyze(read(folder / "out.pinprof")), *json.loads(done.stdout))


@pytest.mark.parametrize(("name", "leaf"), [("sleep", "wait.sleep"), ("lock", "wait.lock")])
def test_a_program_that_waits_says_for_what(recorded: Recorded, name: str, leaf: str) -> None:
    wall = recorded.wall(name)
    # The rest is time that a busy machine did not give the thread.
    blocked = {leaf: ns for leaf, ns in wall.off_cpu.items() if leaf != "wait.runnable"}
    assert blocked[leaf] > 0.95 * sum(blocked.values())
    assert blocked[leaf] > 0.24e9


def test_waiting_for_a_disk_is_told_from_waiting_for_anything_else(recorded: Recorded) -> None:
    wall = recorded.wall("disk")
    # How long a disk takes is its own affair; that it is the disk is certain.
    blocked = {leaf: ns for leaf, ns in wall.off_cpu.items() if leaf != "wait.runnable"}
    assert max(blocked, key=lambda leaf: blocked[leaf]) == "wait.disk"
    assert wall.off_cpu["wait.disk"] > 0


def test_a_program_that_works_waits_for_nothing_but_a_processor(recorded: Recorded) -> None:
    wall = recorded.wall("work")
    assert wall.off_cpu_ns - wall.off_cpu.get("wait.runnable", 0) < 0.1 * recorded.used_ns["work"]
    # A host that takes the processor away takes samples with it, and adds none.
    assert 0.5 * recorded.used_ns["work"] < wall.on_cpu_ns < 1.1 * recorded.used_ns["work"]


@pytest.mark.parametrize("name", ["sleep", "lock", "work"])
def test_processor_time_and_waits_make_up_the_wall_time(recorded: Recorded, name: str) -> None:
    wall, used_ns = recorded.wall(name), recorded.used_ns[name]
    assert wall.on_cpu_ns + wall.off_cpu_ns + wall.remainder_ns == wall.wall_ns
    # Waits are traced one by one; only CPU time is sampled.
    margin_ns = 0.03 * wall.wall_ns + 2e6
    assert wall.off_cpu_ns < wall.wall_ns - used_ns + margin_ns, (wall, used_ns)
    runnable, (least, most) = wall.off_cpu.get("wait.runnable", 0), recorded.waited_ns[name]
    assert runnable < most + margin_ns, recorded
    # A thread that is woken is ready as well, until it runs: that belongs to its wait.
    assert name != "work" or runnable > least - margin_ns, recorded


def test_every_wait_of_the_recording_has_a_stack_and_an_end(recorded: Recorded) -> None:
    analysis, capture = recorded.analysis, recorded.analysis.capture
    (number,) = [number for number, event in enumerate(capture.events) if event.name == "off-cpu"]
    assert capture.events[number].spans
    rows = capture.samples.event == number
    assert rows.any()
    assert analysis.events[number].by_leaf.get("lost.nostack", 0) == 0
    assert (capture.samples.weight[rows] >= 0).all()
    assert (
        int((capture.samples.time_ns + capture.samples.weight)[rows].max())
        <= int(capture.samples.time_ns.max()) + 10**9
    )


def test_a_scenarios_wall_time_closes(tmp_path: Path) -> None:
    size = ["--backend", "host", "--size", "48MiB", "--iterations", "30"]
    command = [
        sys.executable,
        "-m",
        "pinprof",
        "run",
        "pageable",
        *size,
        "--record",
        "native",
        "--no-report",
        "-o",
        "out",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    (whole,) = [entry for entry in analyze(read(tmp_path / "out.pinprof")).ranges if not entry.depth]
    assert whole.wall is not None
    # On a machine of its own 2 %; a host that takes processors away takes samples of CPU time with them.
    assert whole.wall.remainder_ns / whole.wall.wall_ns > -0.05, whole.wall
    assert whole.wall.remainder_ns < 0.05 * whole.wall.wall_ns + whole.wall.on_cpu_ns, whole.wall
