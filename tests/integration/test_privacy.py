"""What is planted around a recording is in nothing that pinprof writes: environment, names of host and user, memory,
other processes."""

from __future__ import annotations

import base64
import gzip
import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from pinprof.base.errors import PinprofError
from pinprof.collect import RecordRequest, native, nsys, perf
from pinprof.report.export.formats import EXPORTS
from tests.support.unpacked import tells

SECRET = "hunter2"
PYTHON = sys.executable
BYSTANDER = (
    "import ctypes, time; ctypes.CDLL(None).prctl(15, b'{0}-thread', 0, 0, 0); print(flush=True); time.sleep(99)"
)
PROGRAM = """
import os, time
from pinprof.scenario import phase
known = os.environ["PASSWORD"] * 100
try:
    import nvtx
    nvtx.push_range("told")
except ImportError:
    pass
end = time.monotonic() + {seconds}
with phase("work"):
    while time.monotonic() < end:
        bytearray(known.encode() * 1000)
        time.sleep(0.001)
"""
RECORD_ITSELF = (
    f"import pinprof\nwith pinprof.record('work', output='itself'):{PROGRAM.replace(chr(10), chr(10) + ' ')}"
)
EXPORT_ALL = """
import contextlib, sys
from pinprof.cli import main
for name in sys.argv[1:]:
    with contextlib.suppress(SystemExit):
        main(["report", "run.pinprof", "--format", name, "-o", f"exported.{name}"])
"""
FORMATS = ("html", "text", "json", "folded", *EXPORTS)


def missing(recorder: str) -> str:
    """Why a recorder cannot work here; empty when it can."""
    request = RecordRequest(command=(PYTHON,), call_graph="dwarf" if recorder == "dwarf" else "fp")
    try:
        for name in recorder.split(","):
            {"native": native, "perf": perf, "dwarf": perf, "nsys": nsys}[name].check(request)
    except PinprofError as error:
        return str(error)
    return ""


def elsewhere() -> list[str]:
    """What runs a command on a machine and as a user called by the secret; nothing where that is not allowed."""
    script = (
        f"hostname {SECRET}-host && echo {SECRET}-user:x:$(id -u):0:{SECRET}:/{SECRET}:/bin/sh >passwd && "
        'mount --bind passwd /etc/passwd && exec "$@"'
    )
    command = ["unshare", "--uts", "--mount", "--", "sh", "-c", script, "sh"]
    if shutil.which("unshare") is None or shutil.which("hostname") is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        trial = subprocess.run([*command, "true"], cwd=folder, capture_output=True, check=False)
    return command if trial.returncode == 0 else []


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
    planted = {name: f"{SECRET}-{name}" for name in ("PASSWORD", "USER", "LOGNAME", "MAIL")}
    home = folder / f"{SECRET}-home"
    home.mkdir(exist_ok=True)
    environment = {**os.environ, **planted, "HOME": str(home), "XDG_DATA_HOME": str(folder / "data")}
    result = subprocess.run(
        [*elsewhere(), *map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    (folder / "passwd").unlink(missing_ok=True)
    shutil.rmtree(home)
    assert result.returncode == 0, result.stderr
    assert SECRET not in result.stdout + result.stderr


def pinprof(folder: Path, *arguments: object) -> None:
    run(folder, PYTHON, "-m", "pinprof", *arguments)


def assert_clean(folder: Path) -> None:
    """No file of a folder tells the secret, however it is packed."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    # Five megabytes of the kernel's own words, the same beside every recording.
    assert [path for path in files if path.name != "kallsyms.gz" and tells(path.read_bytes(), SECRET)] == []


def program(seconds: float = 0.3) -> tuple[str, ...]:
    return (PYTHON, "-c", PROGRAM.format(seconds=seconds))


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", data)
    return file.getvalue()


def tarred(data: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        entry = tarfile.TarInfo("x")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


def in_a_page(data: bytes) -> bytes:
    machine = zlib.compressobj(wbits=-15)
    return b"<script>x = '" + base64.b64encode(machine.compress(data) + machine.flush()) + b"'</script>"


def in_a_table(data: bytes) -> bytes:
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE t (cell)")
    base.execute("INSERT INTO t VALUES (?)", (zlib.compress(data),))
    return base.serialize()


@pytest.mark.parametrize(
    "packed",
    [bytes, gzip.compress, zstandard.compress, zipped, tarred, in_a_page, in_a_table, base64.b64encode],
    ids=lambda pack: pack.__name__,
)
def test_a_secret_is_found_however_it_is_packed(packed: Callable[[bytes], bytes]) -> None:
    hidden = gzip.compress(b"before") + gzip.compress(b"a line that says " + SECRET.encode() + b" and goes on" * 9)
    assert tells(packed(hidden), SECRET)
    assert tells(packed(f"{{'key': '{SECRET}'}}".encode("utf-16-le") * 3), SECRET)
    assert not tells(packed(b"nothing that anybody would keep to themselves" * 9), SECRET)


@pytest.mark.parametrize("recorder", ["native", "perf", "native,nsys", "dwarf"])
def test_a_recording_and_its_exports_tell_nothing(recorder: str, tmp_path: Path) -> None:
    if reason := missing(recorder):
        pytest.skip(reason)
    how = ["--call-graph", "dwarf"] if recorder == "dwarf" else ["--with", recorder]
    pinprof(tmp_path, "record", *how, "-o", "run", "--", *program())
    capture = tmp_path / "run.pinprof"
    assert {"perf.data", "memory.jsonl", "manifest.json", "symbols.json.gz"} <= {
        path.name for path in capture.iterdir()
    }
    if recorder == "native":
        run(tmp_path, PYTHON, "-c", EXPORT_ALL, *FORMATS)
        assert {f"exported.{name}" for name in FORMATS} <= {path.name for path in tmp_path.iterdir()}
    assert_clean(tmp_path)


@pytest.mark.skipif(bool(missing("native")), reason=missing("native") or "recording works")
def test_a_running_program_is_recorded_without_what_surrounds_it(tmp_path: Path) -> None:
    with subprocess.Popen(program(seconds=30), env={**os.environ, "PASSWORD": SECRET}) as process:
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
