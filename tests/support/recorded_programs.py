"""Programs recorded for real, in a folder of the test, and what their captures say."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pinprof.base.errors import PinprofError
from pinprof.collect import RecordRequest, native
from pinprof.collect.proc import alive
from pinprof.data.model import Capture
from pinprof.read import ReadOptions, read


def native_missing() -> str:
    """Why the native collector cannot record here; empty when it can."""
    try:
        native.check(RecordRequest(command=(sys.executable,)))
    except PinprofError as error:
        return str(error)
    return ""


needs_native = pytest.mark.skipif(bool(native_missing()), reason=native_missing() or "recording works")
needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
both_samplers = pytest.mark.parametrize("sampler", ["native", pytest.param("perf", marks=needs_perf)])
"""For what the sampler has a part in; elsewhere the default one takes part."""

PINPROF = [sys.executable, "-m", "pinprof"]
LEAST = ("--no-report", "--no-calibrate", "--python=off")
# Processor time, of which a busy machine gives less in a second.
BUSY = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: sum(range(1000))"
TOUCH = """import mmap
b = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
b.madvise(mmap.MADV_NOHUGEPAGE)
for i in range(0, len(b), 4096): b[i] = 1"""


def record(
    tmp_path: Path, *command: str, options: tuple[str, ...] = (), **more: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PINPROF, "record", "-o", "out", "--no-report", *options, "--", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **more,
    )


def manifest(tmp_path: Path) -> Mapping[str, Any]:
    raw: Mapping[str, Any] = json.loads((tmp_path / "out.pinprof/manifest.json").read_text())
    return raw


def outcome(tmp_path: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = manifest(tmp_path)["outcome"]
    return found


def captured(tmp_path: Path) -> Capture:
    return read(str(tmp_path / "out.pinprof"), ReadOptions())


@contextlib.contextmanager
def recording(
    tmp_path: Path, *command: str, options: tuple[str, ...] = (), before: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A recording in its own process group, handed over once the program has written `started` in `tmp_path`."""
    process = subprocess.Popen(
        [*before, *PINPROF, "record", "-o", "out", "--no-report", *options, "--", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "started").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
        process.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def sampler_of(process: subprocess.Popen[str], sampler: str) -> int:
    """The pid of the sampler that this recording started."""
    words = {"native": b"pinprof-native", "perf": b"perf"}
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(child) for child in children if Path(f"/proc/{child}/comm").read_bytes().strip() == words[sampler])


def wait_ended(pid: int) -> None:
    """Until a process has ended, reaped or not."""
    deadline = time.monotonic() + 60
    while alive(pid):
        assert time.monotonic() < deadline, "it goes on for ever"
        time.sleep(0.02)


def pending(pid: int) -> bool:
    """Whether a process has yet to take a signal that it was sent."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return any(int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd")))


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


GO_ON = "import os\nwhile not os.path.exists('go'): sum(range(1000))"
"""Work until the test has done its deed."""


def after_start(code: str) -> tuple[str, ...]:
    return python(f"open('started', 'w').close()\n{code}")
