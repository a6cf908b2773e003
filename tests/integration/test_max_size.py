"""A busy program of several threads that switch, recorded into a small size: it keeps to it, and its sums are whole."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pinprof.analyze import Run, analyze
from pinprof.collect import permission
from pinprof.data.model import Capture
from pinprof.read import read
from pinprof.streams.store import MEMORY, PERF_DATA
from tests.support.command import pinprof

pytestmark = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")

SIZE = 1_500_000

PROGRAM = """
import json, mmap, os, sys, threading, time
done = threading.Event()
said = {}
def noted(work):
    def run():
        start = time.monotonic_ns()
        work()
        said[threading.get_native_id()] = [time.thread_time_ns(), time.monotonic_ns() - start]
    return run
there, here = os.pipe(), os.pipe()
def ping():
    while not done.is_set():
        os.write(there[1], b"x")
        os.read(here[0], 1)
    os.write(there[1], b"q")
def pong():
    while os.read(there[0], 1) != b"q":
        os.write(here[1], b"x")
def touch():
    while not done.is_set():
        with mmap.mmap(-1, 4 << 20) as fresh:
            for at in range(0, 4 << 20, 4096):
                fresh[at] = 1
def count():
    while not done.is_set():
        sum(range(2000))
threads = [threading.Thread(target=noted(work)) for work in (ping, pong, touch, count, count)]
around = {}
for thread in threads:
    start = time.monotonic_ns()
    thread.start()
    around[thread] = start
while time.process_time() < float(sys.argv[1]):  # on a busy machine it works as much, and takes longer
    time.sleep(0.05)
done.set()
for thread in threads:
    thread.join()
    said[thread.native_id].append(time.monotonic_ns() - around[thread])
with open(sys.argv[2], "w") as file:
    json.dump(said, file)
"""


@dataclass(frozen=True)
class Recorded:
    """One recording, and of each thread the CPU and wall time that it noted, and its time from start to join."""

    path: Path
    capture: Capture
    analysis: Run
    said: dict[int, tuple[int, int, int]]

    @property
    def facts(self) -> dict[str, object]:
        """What the native collector noted of thinning."""
        native = next(one for one in self.capture.manifest.collectors if one["name"] == "native")
        return dict(native.get("thinned", {}))

    def ns(self, event: str, tid: int) -> int:
        """A thread's weight in an event."""
        samples = self.capture.samples
        number = [one.name.split("/")[0] for one in self.capture.events].index(event)
        return int(samples.weight[(samples.event == number) & (samples.tid == tid)].sum())


def record(folder: Path, *options: str, seconds: float = 5) -> Recorded:
    path = folder / "out.pinprof"
    with pytest.MonkeyPatch.context() as patch:
        # Room for the program's many switches while a busy machine has no processor for the recorder.
        patch.setenv("PINPROF_RING_BYTES", str(16 << 20))
        done = pinprof(
            "record", "--no-report", "--no-calibrate", "--no-cuda-calls", "--python", "off", *options, "-o", path, "--",
            sys.executable, "-c", PROGRAM, str(seconds), folder / "said",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    capture = read(path)
    said = {int(tid): tuple(noted) for tid, noted in json.loads((folder / "said").read_text()).items()}
    return Recorded(path, capture, analyze(capture), said)


@pytest.fixture(scope="module")
def thin(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("thin"), "--max-size", str(SIZE))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("whole"))


def test_it_keeps_to_its_size_and_says_since_when(thin: Recorded, whole: Recorded) -> None:
    assert sum((thin.path / name).stat().st_size for name in (PERF_DATA, MEMORY)) <= SIZE
    assert (whole.path / PERF_DATA).stat().st_size > 2 * SIZE
    assert whole.facts == {}
    assert thin.facts["one_in"] > 1
    assert thin.capture.losses.lost_samples == 0
    notes = " ".join(thin.capture.manifest.outcome["notes"])
    assert "was thinned to stay within its size limit: from " in notes
    assert "thinned" not in " ".join(whole.capture.manifest.outcome["notes"])


def test_every_threads_processor_time_and_waits_are_whole(thin: Recorded) -> None:
    for tid, (cpu_ns, wall_ns, around_ns) in thin.said.items():
        off = thin.ns("off-cpu", tid)
        # The timer that samples may miss a tick where the host takes the processor away.
        assert thin.ns("cpu-clock", tid) == pytest.approx(cpu_ns, rel=0.15, abs=50e6)
        # A thread may wait for a processor before it notes its first time, and behind its last.
        assert 0.85 * (wall_ns - cpu_ns) - 50e6 <= off <= 1.15 * (around_ns - cpu_ns) + 50e6


def test_every_fault_is_counted(thin: Recorded) -> None:
    counted = thin.capture.manifest.outcome["resources"]["minor_faults"]
    samples = thin.capture.samples
    faults = [one.unit for one in thin.capture.events].index("faults")
    rows = samples.event == faults
    # The kernel keeps up to 63 faults of each thread to itself.
    assert samples.weight[rows].sum() == pytest.approx(counted, rel=0.05)
    assert rows.sum() < counted / 64 / 4


def test_causes_have_the_shares_of_a_whole_recording(thin: Recorded, whole: Recorded) -> None:
    def shares(recorded: Recorded, event: str) -> tuple[dict[int, float], float]:
        """Share by cause, and how many equal samples would be as certain (Kish): late ones weigh the most."""
        samples, leaf = recorded.capture.samples, recorded.analysis.attribution.leaf
        number = [one.name.split("/")[0] for one in recorded.capture.events].index(event)
        rows = (samples.event == number) & np.isin(samples.tid, list(recorded.said))
        weight = samples.weight[rows].astype(np.float64)
        sums = np.bincount(leaf[rows], weights=weight) / weight.sum()
        return dict(enumerate(sums.tolist())), weight.sum() ** 2 / (weight**2).sum()

    for event in ("page-faults", "cpu-clock"):
        (ours, few), (theirs, many) = shares(thin, event), shares(whole, event)
        # On a busy machine the program takes longer, so its recording is thinned more: 25 were left on one with
        # ten times as much to do as it can. What is allowed below follows from the number.
        assert few >= 15
        assert many > 4 * few
        for cause in ours.keys() | theirs.keys():
            # Five standard errors: there are dozens of causes.
            assert abs(ours.get(cause, 0) - theirs.get(cause, 0)) < 5 * 0.5 * (1 / few + 1 / many) ** 0.5


def test_a_small_recording_is_bounded_by_the_minute(tmp_path: Path) -> None:
    recorded = record(tmp_path, "--small", "--frequency", "999", "--fault-period", "8", seconds=4)
    # The collector begins before the program, and ends behind it: 10 s on a very busy machine.
    minutes = max((recorded.capture.manifest.outcome["duration_ns"] + 10e9) / 60e9, 1)
    assert sum((recorded.path / name).stat().st_size for name in (PERF_DATA, MEMORY)) <= 600_000 * minutes
    assert recorded.facts["one_in"] > 1


def test_a_size_that_holds_nothing_is_refused() -> None:
    done = pinprof("record", "--max-size", "10kB", "--", "true")
    assert done.returncode == 2
    assert "--max-size 10kB is too small." in done.stderr
    assert "[max-size]" in done.stderr
