"""What the agent writes while the last seconds alone are kept: windows are those of the whole, in bounded room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pinprof import collect, read, recording
from pinprof.base import files
from pinprof.base.clock import clock_ns
from pinprof.collect import run
from pinprof.collect.trouble import Trouble
from pinprof.data.activity import MemoryKind
from pinprof.data.model import Capture
from pinprof.data.time_window import TimeWindow
from pinprof.machine.libraries import compiler
from pinprof.portions.agent_files import AgentFiles
from pinprof.portions.following import Following
from pinprof.read.inside import calls as inside_calls
from pinprof.read.inside import file as inside_file
from pinprof.read.inside.file import InsideFile
from pinprof.read.symbols.resolver import Resolver
from pinprof.streams.store import read_manifest
from tests.support import agent

pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
HERE = Path(__file__).parent
PATIENCE_S = 240
CLOCK_NS = 5_000_000


class Recorded:
    """A program with the agent, whose files are looked at as it runs."""

    def __init__(self, tmp_path: Path, driver: Path, *command: str) -> None:
        (tmp_path / "inside").mkdir()
        environment = agent.environment(driver, tmp_path / "inside") | {"PINPROF_RING": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-S", *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            cwd=HERE,
            start_new_session=True,
        )
        self.shortened: dict[Path, Callable[[int], bytes]] = {}
        self.files = AgentFiles(tmp_path, self.shortened)

    def look(self, kept_ns: int) -> int:
        """Give back what is older; from when on the window reaches to."""
        begin = clock_ns() - kept_ns
        self.files.look()
        self.files.give_back(begin)
        return begin

    def end(self) -> None:
        """The program and its children, at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def table(found: list[InsideFile | None], since_ns: int, until_ns: int) -> Counter[tuple[Any, ...]]:
    """Calls by process and thread, with their bytes, ends and lines."""
    calls = inside_calls.combine([file for file in found if file is not None], Resolver(recording=True)).activity.calls
    kept = (calls.start_ns >= since_ns) & (calls.end_ns < until_ns)
    lines = [(site.function, site.line) for site in calls.sites]
    columns = (calls.pid, calls.tid, calls.name, calls.size_bytes, calls.source_kind, calls.target_kind, calls.site)
    rows = zip(*(column[kept].tolist() for column in columns if column is not None), strict=True)
    return Counter((*row[:2], calls.names[row[2]], *row[3:6], lines[row[6]]) for row in rows)


@pytest.mark.parametrize("seed", [3, 8])
def test_windows_of_copies_between_all_kinds_of_memory_are_those_of_the_whole(
    tmp_path: Path, driver: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # What is given back is not read again, and stays for the comparison.
    monkeypatch.setattr(files, "forget", lambda *_: None)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    memory = tmp_path / "file"
    memory.write_bytes(os.urandom(1 << 20))
    recorded = Recorded(tmp_path, driver, "memory_program.py", str(seed), "100000000", str(memory))
    windows: list[tuple[int, list[bytes]]] = []
    try:
        while len(windows) < 4:
            begin = recorded.look(800_000_000)
            if not windows or begin > windows[-1][0] + 300_000_000:
                windows.append((begin, [cut(begin) for cut in recorded.shortened.values()]))
            assert recorded.process.poll() is None
            time.sleep(0.1)
    finally:
        recorded.end()
    whole = [inside_file.load(path) for path in (tmp_path / "inside").iterdir()]
    seen = 0
    for begin, cuts in windows:
        part, until = list(map(inside_file.parse, cuts)), begin + 300_000_000
        if any(file is not None and len(file.records) for file in part):
            # A thread may stand still between a call and its record, so only the first part is whole. The agent's clock
            # is known better later.
            inner, outer = (begin + CLOCK_NS, until - CLOCK_NS), (begin, until)
            too_many = table(part, *inner) - table(whole, *outer)
            lacking = table(whole, *inner) - table(part, *outer)
            assert not too_many
            assert not lacking
            seen += table(part, *inner).total()
    assert seen > 250


def test_a_program_that_calls_without_end_takes_bounded_room(tmp_path: Path, driver: Path) -> None:
    # A call that fails has a record of its own, however many there are.
    text = agent.PRELUDE + "for _ in range(10**9):\n    cuda.cuEventQuery(P(1))\n"
    recorded = Recorded(tmp_path, driver, "-c", text)
    most, written = 0, 0
    try:
        # How much room it takes depends on how fast the two are, not on how much is written.
        while written < max(24 << 20, 2 * most + 1):
            assert written < 1 << 30
            recorded.look(100_000_000)
            for path in recorded.shortened:
                written, most = path.stat().st_size, max(most, path.stat().st_blocks * 512)
            assert recorded.process.poll() is None
            time.sleep(0.05)
        begin = recorded.look(50_000_000)
        (cut,) = (cut(begin) for cut in recorded.shortened.values())
        file = inside_file.parse(cut)
        assert file is not None
        assert (file.damaged, file.lost, file.stop) == (0, 0, 0)
        assert file.end_ns.min() >= begin - CLOCK_NS
    finally:
        recorded.end()


SLOW = """
import ctypes, time
from pathlib import Path
import pinprof
cuda = ctypes.CDLL("libcuda.so.1")
P, Q, N = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
pinned, device, plain = P(), Q(), ctypes.create_string_buffer(8192)
assert not cuda.cuMemHostAlloc(ctypes.byref(pinned), N(5 << 20), 0)
assert not cuda.cuMemAlloc_v2(ctypes.byref(device), N(8192))

def copy(source, slow_ns=0):
    cuda.cuMemcpyHtoDAsync_v2(device, source, N(4096), P(slow_ns))

def steps(until):
    deadline = time.monotonic() + 200
    while not until() and time.monotonic() < deadline:
        with pinprof.phase("step"):
            copy(pinned)
            copy(P(ctypes.addressof(plain)))
        time.sleep(0.002)

def captured(number):
    return Path(f"ring-{number}.pinprof").exists()

begun = time.monotonic()
steps(lambda: time.monotonic() > begun + 7)
copy(P(ctypes.addressof(plain)), 300_000_000)
steps(lambda: captured(1))
second = P()
assert not cuda.cuMemHostAlloc(ctypes.byref(second), N(4 << 20), 0)
steps(lambda: captured(2))
"""


def test_a_long_call_and_pinned_memory_are_captured_with_all_that_was_pinned_before(
    tmp_path: Path, driver: Path
) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    command = [sys.executable, "-m", "pinprof", "record", "--ring", "5s", "-o", "ring"]
    command += ["--trigger", "call:cuMemcpy*>250ms", "--trigger", "pinned>8MiB", "--", sys.executable, str(script)]
    told = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=PATIENCE_S,
        env=os.environ | {"LD_LIBRARY_PATH": str(driver)},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    triggers = [read_manifest(path).outcome["trigger"] for path in sorted(tmp_path.glob("ring-*.pinprof"))]
    assert [trigger["said"].split(" took")[0] for trigger in triggers] == [
        "a call of cuMemcpyHtoDAsync", "9 MiB are pinned, above 8 MiB",
    ]  # fmt: skip
    begin, end = triggers[0]["moment_ns"]
    assert end - begin >= 300_000_000
    capture = read.read(tmp_path / "ring-1.pinprof")
    assert capture.activity is not None
    calls = capture.activity.calls
    assert calls.site is not None
    assert calls.source_kind is not None
    copies = [
        (MemoryKind(kind).name, calls.sites[site].function)
        for name, kind, site in zip(calls.name.tolist(), calls.source_kind.tolist(), calls.site.tolist(), strict=True)
        if calls.names[name] == "cuMemcpyHtoDAsync"
    ]
    assert {kind for kind, _ in copies} == {"PINNED", "PAGEABLE"}, "it was pinned before the window"
    assert {function for _, function in copies} == {"copy"}
    assert ((calls.start_ns == begin) & (calls.end_ns == end)).sum() == 1


STEPS = """
import ctypes, sys, time
from pathlib import Path
import pinprof
cuda = ctypes.CDLL("libcuda.so.1")
P, Q, N = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
device, plain = Q(), ctypes.create_string_buffer(8192)
assert not cuda.cuMemAlloc_v2(ctypes.byref(device), N(8192))
blocks = []

def step(number):
    block = P()
    assert not cuda.cuMemHostAlloc(ctypes.byref(block), N(4096), 0)
    blocks.append(block)
    for source in (blocks[0], blocks[-1], P(ctypes.addressof(plain))):
        for _ in range(50):
            cuda.cuMemcpyHtoDAsync_v2(device, source, N(100 + number % 900), None)
    if number % 3:
        cuda.cuMemFreeHost(blocks.pop())

deadline, number = time.monotonic() + 200, 0
while not Path(sys.argv[1]).exists() and time.monotonic() < deadline:
    with pinprof.phase("step"):
        step(number)
    number += 1
    time.sleep(0.002)
"""


def rows_between(capture: Capture, begin: int, end: int) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    """Samples, calls and ranges of a part of a capture."""
    part = TimeWindow(begin, end).begun(capture)
    samples = part.samples.take((part.samples.time_ns >= begin) & (part.samples.time_ns < end))
    names = [
        tuple(part.stacks.frames.symbol[part.stacks.frame[one]] for one in part.stacks.chain(node))
        for node in samples.stack.tolist()
    ]
    assert part.activity is not None
    calls = part.activity.calls
    lines = [(site.path, site.line) for site in calls.sites]
    columns = (calls.start_ns, calls.end_ns, calls.tid, calls.size_bytes, calls.source_kind, calls.target_kind)
    called = [
        (calls.names[name], lines[site], *row)
        for name, site, *row in zip(
            calls.name.tolist(), *(column.tolist() for column in (calls.site, *columns) if column is not None),
            strict=True,
        )
    ]  # fmt: skip
    ranges = zip(part.ranges.name, part.ranges.start_ns.tolist(), part.ranges.end_ns.tolist(), strict=True)
    sampled = zip(samples.time_ns.tolist(), samples.tid.tolist(), samples.event.tolist(), names, strict=True)
    return Counter(sampled), Counter(called), Counter(ranges)


def test_a_window_has_the_samples_the_calls_and_the_ranges_of_the_whole(tmp_path: Path, driver: Path) -> None:
    script, stop = tmp_path / "steps.py", tmp_path / "stop"
    script.write_text(STEPS)
    command = (sys.executable, str(script), str(stop))
    request = collect.RecordRequest(command, python="off", gpu="off")
    windows: list[Path] = []

    def hooks(folder: Path) -> run.RecordingHooks:
        following = Following(folder, command, longest_s=3600)

        def watch(recorded: run.CollectorRun) -> float:
            following.look(recorded)
            if not windows and following.seen_s > 6:
                windows.extend(following.write(tmp_path / f"{length}.pinprof", length) for length in (2, 3600))
                stop.touch()
            return 0.5

        return run.RecordingHooks(watch=watch)

    with ExitStack() as places, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(driver))
        outcome = recording.follow(request, Trouble(raises=True), hooks, places)
    assert outcome.exit_status == 0
    part, whole = map(read.read, windows)
    begin, end = part.manifest.outcome["recorded_ns"]
    assert begin > whole.manifest.outcome["recorded_ns"][0] + 10**9
    # The clock of the first ticks is known better later, and open sums grow from the one cut to the other.
    begin, end = begin + CLOCK_NS, end - 200_000_000
    for found, wanted, least in zip(
        rows_between(part, begin, end), rows_between(whole, begin, end), (20, 5000, 50), strict=True
    ):
        assert found == wanted
        assert found.total() > least
    inside = [next((window / "inside").iterdir()).stat().st_size for window in windows]
    assert inside[0] < inside[1]
