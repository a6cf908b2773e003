"""`pinprof record --ring`: what happens is captured, whatever else does, and the recorder keeps what it needs alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pinprof import collect, read
from pinprof.cli import pipeline
from pinprof.collect import run
from pinprof.collect.pace import NO_LIMITS
from pinprof.collect.trouble import Trouble
from pinprof.data.model import Capture
from pinprof.portions.following import Following
from pinprof.streams.store import read_manifest
from tests.support.situation import SITUATION

BEGIN = """
import ctypes, mmap, os, signal, sys, time
from pathlib import Path
import pinprof

def steps(until):
    deadline = time.monotonic() + 200
    while not until() and time.monotonic() < deadline:
        with pinprof.phase("step"):
            time.sleep(0.002)

def captured():
    return any(Path().glob("ring-*.pinprof"))

def load(seconds):
    with pinprof.phase("load"):
        time.sleep(seconds)
"""
PATIENCE_S = 240


def recorded(tmp_path: Path, code: str, *options: str, status: int = 0) -> list[tuple[Path, dict[str, Any]]]:
    """Captures, and what each was made at, of a program that begins with steps."""
    command = [sys.executable, "-m", "pinprof", "record", "--ring", "5s", "-o", "ring", *options, "--"]
    told = subprocess.run(
        [*command, sys.executable, "-c", BEGIN + code],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=PATIENCE_S,
    )  # fmt: skip
    assert told.returncode == status, told.stderr
    (tmp_path / "told").write_text(told.stderr)
    assert told.stdout == "", "standard output is the program's"
    captures = sorted(tmp_path.glob("*.pinprof"))
    assert [path for path in captures if f"Capture: {path.name}" in told.stderr] == captures
    assert not list(tmp_path.glob("*.partial"))
    return [(path, dict(read_manifest(path).outcome["trigger"])) for path in captures]


def test_a_long_range_is_captured_and_its_report_is_of_that_moment(tmp_path: Path) -> None:
    # There are steps before it: what comes after it may come too late for the capture.
    code = "steps(iter([False] * 9 + [True]).__next__)\nload(0.5)\nsteps(captured)"
    ((path, trigger),) = recorded(tmp_path, code, "--trigger", "range:load>400ms")
    begin, end = trigger["moment_ns"]
    assert end - begin > 0.5e9
    assert trigger["said"].startswith("load took ")
    whole, moment = (pipeline.explain(path, read.ReadOptions(), moment=chosen) for chosen in (False, True))
    assert whole.part is None
    assert "step" in set(whole.capture.ranges.name) - set(moment.capture.ranges.name)
    assert f"It was captured because {trigger['said']}." in moment.leading[0]
    assert moment.capture.samples.time_ns.min() >= begin
    assert moment.capture.samples.time_ns.max() <= end
    told = subprocess.run(
        [sys.executable, "-m", "pinprof", "report", path, "--format", "text", "-o", "-"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    ).stdout  # fmt: skip
    assert "because load took" in " ".join(told.split())


def test_a_range_above_what_is_usual_is_captured(tmp_path: Path) -> None:
    # Whatever the machine does meanwhile, one of these is longer than those before it.
    code = "for _ in range(300): load(0.001)\nlength = 0.1\n"
    code += "while not captured():\n    load(length)\n    length *= 3"
    captures = recorded(tmp_path, code, "--trigger", "range:load>2xp99")
    assert "above 2 times its p99" in captures[0][1]["said"]


def test_pressure_is_captured(tmp_path: Path) -> None:
    if not Path("/proc/pressure/cpu").exists():
        pytest.skip("the kernel does not count pressure")
    # More that would run than there are processors: always some wait.
    code = """
own, others = os.getpid(), []
while len(others) < 2 * len(os.sched_getaffinity(0)):
    others.append(os.fork())
    if not others[-1]:
        os.nice(19)
    while not others[-1]:
        if os.getppid() != own:
            os._exit(0)
steps(captured)
for other in others:
    os.kill(other, signal.SIGKILL)
    os.waitpid(other, 0)
"""
    captures = recorded(tmp_path, code, "--trigger", "psi:cpu>1%")
    assert captures[0][1]["said"].startswith("some threads waited for cpu for ")
    assert len(captures[0][1]["moment_ns"]) == 2


def test_pinned_memory_is_captured(tmp_path: Path) -> None:
    disabled = Path("/proc/sys/kernel/io_uring_disabled")
    if not disabled.exists() or disabled.read_text().strip() != "0":
        pytest.skip("io_uring is not permitted here")
    code = """
size = 16 << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.c_char.from_buffer(memory)), size)
libc = ctypes.CDLL(None)
ring = libc.syscall(425, 1, ctypes.create_string_buffer(120))
if libc.syscall(427, ring, 0, vector, 1):
    sys.exit(7)
steps(captured)
"""
    ((_, trigger),) = recorded(tmp_path, code, "--trigger", "pinned>15MiB")
    assert trigger["said"] == "16 MiB are pinned, above 15 MiB"


def test_a_signal_to_pinprof_is_captured(tmp_path: Path) -> None:
    code = "os.kill(os.getppid(), signal.SIGUSR2)\nsteps(captured)"
    ((path, trigger),) = recorded(tmp_path, code)
    assert trigger["said"] == "SIGUSR2 arrived"
    capture = read.read(path)
    assert capture.losses.corrupt_bytes == capture.losses.unknown_records == 0


def test_the_end_by_a_signal_is_captured_and_is_the_exit_status(tmp_path: Path) -> None:
    status = 128 + signal.SIGSEGV
    ((path, trigger),) = recorded(tmp_path, "load(0.1)\nos.kill(os.getpid(), signal.SIGSEGV)", status=status)
    assert trigger["said"] == "the program was ended by SIGSEGV"
    assert len(read.read(path).samples) > 0


def test_captures_are_no_more_than_the_hour_allows_and_the_rest_is_said_once(tmp_path: Path) -> None:
    # A look follows the capture that was awaited: the second is one too many.
    code = "load(0.3)\nsteps(captured)\nload(0.3)\nload(0.3)"
    ((path, _),) = recorded(tmp_path, code, "--trigger", "range:load>200ms", "--captures-per-hour", "1")
    assert path.name == "ring-1.pinprof"
    assert (tmp_path / "told").read_text().count("is not captured, by --captures-per-hour 1.") == 1


def test_a_recorder_that_is_killed_is_said_at_once_and_the_program_goes_on(tmp_path: Path) -> None:
    code = r"""
for status in Path("/proc").glob("[0-9]*/status"):
    try:
        text = status.read_text()
    except OSError:  # it has ended
        continue
    if f"PPid:\t{os.getppid()}\n" in text and "Name:\tpinprof-native\n" in text:
        os.kill(int(status.parent.name), signal.SIGKILL)
steps(lambda: "The recorder has ended" in Path("told").read_text())
print("the program's own")
sys.exit(3)
"""
    command = [sys.executable, "-m", "pinprof", "record", "--ring", "5s", "--", sys.executable, "-c", BEGIN + code]
    with (tmp_path / "told").open("w") as told:
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=told, text=True, check=False, cwd=tmp_path, timeout=PATIENCE_S
        )
    assert (ended.returncode, ended.stdout) == (3, "the program's own\n")
    assert "The recorder has ended, so nothing more is captured." in (tmp_path / "told").read_text()


def test_a_program_that_does_nothing_of_it_leaves_nothing(tmp_path: Path) -> None:
    assert recorded(tmp_path, "load(0.1)\nsys.exit(3)", status=3) == []


def test_a_program_runs_where_it_cannot_be_recorded(tmp_path: Path) -> None:
    record = [sys.executable, "-m", "pinprof", "record", "--ring", "5s", "--", sys.executable, "-c"]
    program = [*record, "import sys; print('done'); sys.exit(3)"]
    ended = subprocess.run(
        [*SITUATION, "refuse=EPERM:perf_event_open", "--", *program],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (3, "done\n")
    assert "The program runs without a recording: --ring does not record with timers." in ended.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trigger", "crash"], "belongs to a flight recorder"),
        (["--ring", "1s"], "is not possible"),
        (["--ring", "60s", "--max-size", "1MiB"], "--max-size does not go with --ring"),
        (["--ring", "60s", "--gpu", "uvm"], "can't be recorded by the driver in a ring"),
        (["--ring", "60s", "--trigger", "call:pin"], "in quotes"),
        (["--ring", "60s", "--trigger", "range:step"], "in quotes"),
    ],
)
def test_what_cannot_be_is_refused_before_the_program_starts(tmp_path: Path, options: list[str], said: str) -> None:
    command = [sys.executable, "-m", "pinprof", "record", *options, "--", "touch", "begun"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert told.returncode == 2
    assert said in told.stderr
    assert not list(tmp_path.iterdir())


def test_the_first_look_is_before_all_that_the_program_does(tmp_path: Path) -> None:
    begun: list[bool] = []

    def watch(_: run.CollectorRun) -> float:
        begun.append((tmp_path / "begun").exists())
        return 1.0

    request = collect.RecordRequest(("touch", str(tmp_path / "begun")), ("native",), cuda_calls=False, gpu="off")
    (tmp_path / "recording").mkdir()
    run.record(request, tmp_path / "recording", Trouble(raises=True), run.RecordingHooks(watch=watch))
    assert not begun[0]
    assert (tmp_path / "begun").exists()


CHILDREN = """
import os, sys, time
print("ready", flush=True)
while True:
    os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-S", "-c", "sum(range(200000))"], os.environ), 0)
    sum(range(100000))
"""


def followed(tmp_path: Path, look: Callable[[Following], list[Path]]) -> list[Path]:
    """What `look` gives at last, after each look at a program that starts processes one after another."""
    directory, script, windows = tmp_path / "recording", tmp_path / "children.py", list[Path]()
    directory.mkdir()
    script.write_text(CHILDREN)
    following = Following(directory, ("children.py",), longest_s=3600)

    def watch(recording: run.CollectorRun) -> float:
        following.look(recording)
        if not windows and (found := look(following)):
            windows.extend(found)
            os.kill(os.getpid(), signal.SIGINT)
        return 0.5

    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        request = collect.RecordRequest(
            ("children.py",), pid=process.pid, cuda_calls=False, gpu="off", limits=NO_LIMITS
        )
        run.record(request, directory, Trouble(strict=True, raises=True), run.RecordingHooks(watch=watch))
        process.kill()
    return windows


def test_a_window_is_the_same_as_that_part_of_a_whole_recording(tmp_path: Path) -> None:
    def look(following: Following) -> list[Path]:
        if following.seen_s < 5:
            return []
        return [following.write(tmp_path / f"{length}.pinprof", length) for length in (2, 3600)]

    windows = followed(tmp_path, look)
    part, whole = map(read.read, windows)
    begin, end = part.manifest.outcome["recorded_ns"]
    assert begin > whole.manifest.outcome["recorded_ns"][0]
    assert (windows[1] / "perf.data").stat().st_size > (windows[0] / "perf.data").stat().st_size
    found, same = (samples_between(capture, begin, end) for capture in (part, whole))
    assert (found - same, same - found) == (Counter(), Counter())
    assert found.total() > 50


def test_a_window_becomes_shorter_where_a_program_writes_more_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_s: list[float] = []

    def look(following: Following) -> list[Path]:
        seen_s.append(following.seen_s)
        if seen_s[-1] > 3:
            # From the next look on there is room for nothing.
            monkeypatch.setattr("pinprof.portions.following.MOST_BYTES", 1)
        elif seen_s[-1] < max(seen_s):
            return [following.write(tmp_path / "window.pinprof", 3600)]
        return []

    (window,) = followed(tmp_path, look)
    assert 0 < seen_s[-1] < 3
    capture = read.read(window)
    assert capture.losses.corrupt_bytes == capture.losses.unknown_records == 0
    assert any("python" in frame.path for frame in capture.stacks.frames.dsos), "mappings from before are kept"


def samples_between(capture: Capture, begin: int, end: int) -> Counter[tuple[Any, ...]]:
    samples, stacks = capture.samples, capture.stacks
    chosen = (samples.time_ns >= begin) & (samples.time_ns < end)
    columns = (column[chosen].tolist() for column in (samples.time_ns, samples.pid, samples.tid, samples.event))
    nodes = samples.stack[chosen].tolist()
    names = [tuple(stacks.frames.symbol[stacks.frame[one]] for one in stacks.chain(node)) for node in nodes]
    return Counter(zip(*columns, names, strict=True))
