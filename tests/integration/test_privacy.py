"""What is planted around a recording is in nothing that pinprof writes: environment, host name, other processes."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinprof.collect import RecordRequest, native, perf
from pinprof.errors import PinprofError

SECRET = "hunter2"
PYTHON = sys.executable
BYSTANDER = (
    "import ctypes, time; ctypes.CDLL(None).prctl(15, b'{0}-thread', 0, 0, 0); print(flush=True); time.sleep(99)"
)
PROGRAM = """
import time
from pinprof.workload import phase
try:
    import nvtx
    nvtx.push_range("told")
except ImportError:
    pass
end = time.monotonic() + {seconds}
with phase("work"):
    while time.monotonic() < end:
        bytearray(1 << 20)
        time.sleep(0.001)
"""
RECORD_ITSELF = (
    f"import pinprof\nwith pinprof.record('work', output='itself'):{PROGRAM.replace(chr(10), chr(10) + ' ')}"
)
EXPORTS = ("html", "json", "trace")


def missing(recorder: str) -> str:
    """Why a recorder cannot work here; empty when it can."""
    try:
        {"native": native, "perf": perf}[recorder].check(RecordRequest(command=(PYTHON,)))
    except PinprofError as error:
        return str(error)
    return ""


def hidden_host() -> list[str]:
    """What runs a command on a machine called by the secret; nothing where that is not allowed."""
    command = ["unshare", "--uts", "--", "sh", "-c", f'hostname {SECRET}-host && exec "$@"', "sh"]
    if shutil.which("unshare") is None or shutil.which("hostname") is None:
        return []
    return command if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0 else []


@pytest.fixture(scope="module", autouse=True)
def bystander() -> Iterator[None]:
    """Another process, with the secret in its command line and in its thread's name."""
    code = BYSTANDER.format(SECRET)
    with subprocess.Popen([PYTHON, "-c", code, f"--password={SECRET}"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.kill()


def run(folder: Path, *command: object) -> None:
    environment = {**os.environ, "PASSWORD": SECRET, "XDG_DATA_HOME": str(folder / "data")}
    result = subprocess.run(
        [*hidden_host(), *map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert SECRET not in result.stdout + result.stderr


def pinprof(folder: Path, *arguments: object) -> None:
    run(folder, PYTHON, "-m", "pinprof", *arguments)


def assert_clean(folder: Path) -> None:
    """No file of a folder tells the secret, packed or not."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        raw = path.read_bytes()
        for text in (raw, gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else b""):
            assert SECRET.encode() not in text, path


def program(seconds: float = 0.3) -> tuple[str, ...]:
    return (PYTHON, "-c", PROGRAM.format(seconds=seconds))


@pytest.mark.parametrize("recorder", ["native", "perf"])
def test_a_recording_and_its_exports_tell_nothing(recorder: str, tmp_path: Path) -> None:
    if reason := missing(recorder):
        pytest.skip(reason)
    pinprof(tmp_path, "record", "--with", recorder, "--no-report", "-o", "run", "--", *program())
    capture = tmp_path / "run.pinprof"
    assert {"perf.data", "memory.jsonl", "manifest.json", "symbols.json.gz"} <= {
        path.name for path in capture.iterdir()
    }
    if recorder == "native":
        for name in EXPORTS:
            pinprof(tmp_path, "report", capture, "--format", name, "-o", tmp_path / f"run.{name}")
    assert_clean(tmp_path)


@pytest.mark.skipif(bool(missing("native")), reason=missing("native") or "recording works")
def test_a_running_program_is_recorded_without_what_surrounds_it(tmp_path: Path) -> None:
    with subprocess.Popen(program(seconds=30)) as process:
        try:
            options = ("--pid", process.pid, "--duration", "300ms", "--no-report", "-o", "run")
            pinprof(tmp_path, "record", *options)
        finally:
            process.kill()
    assert_clean(tmp_path)


@pytest.mark.skipif(bool(missing("native")), reason=missing("native") or "recording works")
def test_a_process_that_records_itself_tells_nothing(tmp_path: Path) -> None:
    run(tmp_path, PYTHON, "-c", RECORD_ITSELF.format(seconds=0.2))
    assert_clean(tmp_path / "itself.pinprof")


def test_a_measurement_and_its_rates_tell_nothing(tmp_path: Path) -> None:
    options = ("--backend", "host", "--quick", "--time", "3s", "--only", "memcpy.host", "--size-max", "1MiB")
    pinprof(tmp_path, "bench", *options, "-o", tmp_path / "bench.json")
    assert len(list((tmp_path / "data").rglob("*.json"))) == 1
    assert_clean(tmp_path)
