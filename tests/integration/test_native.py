"""The native collector on real programs: what perf makes of its file, and what it survives."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pinprof.collect import permission
from pinprof.data.model import Capture
from pinprof.read import read
from pinprof.read.perf import data as perf_data
from pinprof.read.perf import records as rec
from tests.support.other_user import AS_NOBODY, reachable_python

pytestmark = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")

ROOT = Path(__file__).parents[2]
# Processor time, of which a busy machine gives less in a second.
BUSY = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: sum(range(1000))\n"
TOUCH = """import mmap
b = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
b.madvise(mmap.MADV_NOHUGEPAGE)
for i in range(0, len(b), 4096): b[i] = 1
"""


def record(
    tmp_path: Path, *command: str, options: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "pinprof", "record", "-o", "out", "--no-report", "--python=off", "--with=native"),
            *(*options, "--", *command),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **(env or {})},
    )


def recorded(tmp_path: Path) -> Capture:
    return read(str(tmp_path / "out.pinprof"))


def collector(tmp_path: Path) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = json.loads((tmp_path / "out.pinprof/manifest.json").read_text())["collectors"][0]
    return facts


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_without_perf_on_the_path_everything_is_recorded(tmp_path: Path) -> None:
    code = TOUCH + BUSY.format(0.6) + "time.sleep(0.2)"
    assert record(tmp_path, *python(code), env={"PATH": "/nowhere"}).returncode == 0
    capture = recorded(tmp_path)
    assert [event.name for event in capture.events] == ["cpu-clock/freq=999/", "page-faults/period=64/", "off-cpu"]
    counts = Counter(capture.samples.event.tolist())
    assert counts[0] > 100
    assert counts[1] > 240, "64 MiB are 16,384 pages, or 256 samples"
    waits = capture.samples.weight[capture.samples.event == 2]
    assert 0.19e9 < waits.max() < 5e9, "it slept for 0.2 s"
    assert capture.losses.lost_samples == capture.losses.corrupt_bytes == capture.losses.unknown_records == 0
    assert "do_anonymous_page" in capture.stacks.frames.symbol
    assert capture.clock.source == "monotonic"
    assert collector(tmp_path)["name"] == "native"


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_perf_reads_the_file_and_counts_the_same(tmp_path: Path) -> None:
    assert record(tmp_path, *python(TOUCH * 4 + BUSY.format(0.3)), options=("--no-off-cpu",)).returncode == 0
    path = tmp_path / "out.pinprof/perf.data"
    report = subprocess.run(
        ["perf", "report", "-i", path, "--stdio", "--header", "--no-children", "-g", "none", "-F", "sample,sym"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "name = page-faults/period=64/" in report.stdout
    assert os.uname().nodename not in re.findall(r"hostname : (\S+)", report.stdout)
    capture = recorded(tmp_path)
    samples, stacks = capture.samples, capture.stacks
    clock, _, faults = report.stdout.partition("of event 'page-faults")
    ours = Counter(
        stacks.frames.symbol[int(stacks.frame[node])]
        for node in samples.stack[samples.event == 0].tolist()
        if stacks.frames.mode[int(stacks.frame[node])]
    )
    theirs: Counter[str] = Counter()
    for count, symbol in re.findall(r"^\s+(\d+)\s+\[k\]\s(\S+)", clock, re.MULTILINE):
        theirs[symbol] += int(count)
    assert ours == theirs
    assert theirs.total() > 30
    everything = sum(int(count) for count in re.findall(r"^\s+(\d+)\s+\[[.k]\]", clock, re.MULTILINE))
    assert everything == int((samples.event == 0).sum())
    pages = sum(int(count) for count in re.findall(r"^\s+(\d+)\s+\[[.k]\]", faults, re.MULTILINE))
    assert pages == int((samples.event == 1).sum())


def test_a_thousand_children_are_followed(tmp_path: Path) -> None:
    code = (
        "import os\nfor i in range(1000):\n"
        "    if os.fork() == 0: os._exit(0)\n"
        "    if i % 20 == 19:\n        for _ in range(20): os.wait()\n"
    )
    assert record(tmp_path, *python(code)).returncode == 0
    raw = perf_data.load(tmp_path / "out.pinprof/perf.data").raw
    assert sum(isinstance(task, rec.ForkRecord) for _, task in raw.tasks) == 1000
    assert raw.lost_samples == raw.corrupt_bytes == 0


THREADS = """
#include <pthread.h>
static pthread_barrier_t gate;
static void *run(void *unused) {
    for (volatile long i = 0; i < 10000; i++) {}
    pthread_barrier_wait(&gate);
    return unused;
}
int main(void) {
    static pthread_t many[10000];
    pthread_attr_t small;
    pthread_barrier_init(&gate, 0, 10001);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < 10000; i++)
        if (pthread_create(&many[i], &small, run, 0)) return 77;
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 10000; i++) pthread_join(many[i], 0);
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_ten_thousand_threads_are_followed(tmp_path: Path) -> None:
    subprocess.run(
        ["gcc", "-O1", "-pthread", "-x", "c", "-", "-o", "many"], cwd=tmp_path, input=THREADS.encode(), check=True
    )
    # All of them leave the gate in one moment, in which a busy machine gives the recorder no processor.
    result = record(tmp_path, "./many", env={"PINPROF_RING_BYTES": str(64 << 20)})
    if result.returncode == 77:
        pytest.skip("so many threads are not allowed here")
    assert result.returncode == 0, result.stderr
    capture = recorded(tmp_path)
    assert capture.losses.lost_samples < 5000
    seen = len(set(capture.samples.tid.tolist()))
    assert seen + capture.losses.lost_samples > 9500, "each waits at the gate at least once"


def test_a_program_that_becomes_another_is_followed(tmp_path: Path) -> None:
    again = f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', {BUSY.format(0.6)!r}])"
    assert record(tmp_path, "sh", "-c", 'exec "$0" -c "$1"', sys.executable, again).returncode == 0
    capture = recorded(tmp_path)
    assert (capture.samples.event == 0).sum() > 100
    assert len(set(capture.samples.pid.tolist())) == 1 or platform.system() != "Linux"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_program_that_drops_its_privileges_is_followed(tmp_path: Path) -> None:
    code = "import os\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n" + BUSY.format(0.6) + "print(os.getuid())"
    result = record(tmp_path, *python(code))
    assert result.stdout == "65534\n"
    capture = recorded(tmp_path)
    assert (capture.samples.event == 0).sum() > 100
    assert max(capture.stacks.frames.mode) == 1, "with the kernel's part"


def test_an_overrun_ring_is_counted_and_shown(tmp_path: Path) -> None:
    # The collector is stopped meanwhile: with a processor at the right moments it could keep up.
    stop = (
        "import os, signal\n"
        "for child in open(f'/proc/{os.getppid()}/task/{os.getppid()}/children').read().split():\n"
        "    if open(f'/proc/{child}/comm').read() == 'pinprof-native\\n': os.kill(int(child), signal.SIGSTOP)\n"
    )
    result = record(
        tmp_path,
        *python(stop + TOUCH + stop.replace("SIGSTOP", "SIGCONT")),
        options=("--fault-period=1", "--frequency=20000"),
        env={"PINPROF_RING_BYTES": "32768"},
    )
    assert result.returncode == 0
    lost = collector(tmp_path)["lost_records"]
    assert lost > 0
    capture = recorded(tmp_path)
    assert capture.losses.lost_samples >= lost
    assert capture.losses.corrupt_bytes == 0
    text = subprocess.run(
        [sys.executable, "-m", "pinprof", "report", tmp_path / "out.pinprof", "--format", "text", "--all"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"{capture.losses.lost_samples:,} lost" in text


def children(pid: int) -> list[bytes]:
    """Command lines of a process's children, and their names: a fork of pinprof has a name of its own."""
    found = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                found += [Path(f"/proc/{child}/{file}").read_bytes() for file in ("cmdline", "comm")]
    return found


MOMENTS: Mapping[str, Callable[[int], bool]] = {
    # While Python itself begins, a signal ends it in ways of its own: not before it reads `-m pinprof`'s modules.
    "imports": lambda pid: "_ctypes" in Path(f"/proc/{pid}/maps").read_text(),
    "starts the collector": lambda pid: b"pinprof-native\n" in children(pid),
    "records": lambda pid: any(line.startswith(b"sleep\0") for line in children(pid)),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_moment_leaves_nothing_running_and_what_is_left_reads(
    number: signal.Signals, moment: str, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "pinprof", "record", "-o", "out", "--no-report", "--python=off", "--", "sleep", "600"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    )
    try:
        deadline = time.monotonic() + 60
        while not MOMENTS[moment](process.pid):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1].decode()
        deadline = time.monotonic() + 60
        while left := [pid for pid in pids() if in_session(pid, process.pid)]:
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # Before pinprof has its handlers, a signal ends it as it ends any process.
    assert process.returncode in (128 + number, -number)
    assert not list((tmp_path / "tmp").iterdir())
    for capture in tmp_path.glob("out*"):
        read(str(capture))
        assert capture.name == "out.pinprof"
        assert "The program was ended by" in said


def pids() -> list[int]:
    return [int(place.name) for place in Path("/proc").glob("[0-9]*")]


def in_session(pid: int, session: int) -> bool:
    """Whether a process that is no zombie belongs to a session."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z" and int(fields[3]) == session


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_who_asks_for_perf_events_gets_user_stacks_and_hears_what_is_missing(tmp_path: Path) -> None:
    level = permission.paranoid()
    if level is None or level != 2:
        pytest.skip(f"kernel.perf_event_paranoid is {level}, not 2")
    interpreter, path = reachable_python()
    tmp_path.chmod(0o777)
    result = subprocess.run(
        [
            *(*AS_NOBODY, interpreter, "-m", "pinprof", "record"),
            *("-o", "out", "--with", "native", "--no-report", "--python=off", "--"),
            *(interpreter, "-c", TOUCH + BUSY.format(0.3)),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert result.returncode == 0, result.stderr
    assert "without time in the kernel (page faults, pinning) and off the CPU" in result.stderr
    assert "sudo sysctl kernel.perf_event_paranoid=1" in result.stderr
    capture = recorded(tmp_path)
    assert (capture.samples.event == 0).sum() > 50
    assert max(capture.stacks.frames.mode) == 0
    assert collector(tmp_path)["options"]["kernel"] is False
