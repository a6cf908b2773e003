"""What is planted around a recording is in nothing that pinprof writes: environment, names of host and user, memory,
other processes."""

from __future__ import annotations

import base64
import gzip
import io
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zstandard

from pinprof.base.errors import PinprofError
from pinprof.collect import RecordRequest, native, nsys, perf
from pinprof.data.gpu_functions import FUNCTIONS, is_traced
from pinprof.read import read
from pinprof.report.export.formats import EXPORTS
from pinprof.streams import share
from tests.support import planted
from tests.support.nvtx_headers import headers
from tests.support.probes import needs_probes
from tests.support.unpacked import tells

SECRET = "hunter2"
PYTHON = sys.executable
BYSTANDER = (
    "import ctypes, time; ctypes.CDLL(None).prctl(15, b'{0}-thread', 0, 0, 0); print(flush=True); time.sleep(600)"
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
FORMATS = ("html", "text", "json", "folded", "markdown", *EXPORTS)


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


def run(folder: Path, *command: object, **variables: object) -> None:
    secrets = {name: f"{SECRET}-{name}" for name in ("PASSWORD", "USER", "LOGNAME", "MAIL")}
    home = folder / f"{SECRET}-home"
    home.mkdir(exist_ok=True)
    given = {name: str(value) for name, value in variables.items()}
    environment = {**os.environ, **secrets, **given, "HOME": str(home), "XDG_DATA_HOME": str(folder / "data")}
    result = subprocess.run(
        [*elsewhere(), *map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    (folder / "passwd").unlink(missing_ok=True)
    shutil.rmtree(home)
    assert result.returncode == 0, result.stderr
    assert SECRET not in result.stdout + result.stderr


def pinprof(folder: Path, *arguments: object, **variables: object) -> None:
    run(folder, PYTHON, "-m", "pinprof", *arguments, **variables)


def assert_clean(folder: Path) -> None:
    """No file of a folder tells the secret, however it is packed."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if tells(path.read_bytes(), SECRET)] == []


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


@pytest.mark.parametrize("recorder", ["native", "probes", "perf", "native,nsys", "dwarf"])
def test_a_recording_and_its_exports_tell_nothing(recorder: str, tmp_path: Path) -> None:
    if reason := missing("native" if recorder == "probes" else recorder):
        pytest.skip(reason)
    others = {"dwarf": ["--call-graph", "dwarf"], "probes": ["--with", "native", "--inside", "off"]}
    how = others.get(recorder, ["--with", recorder])
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
    with subprocess.Popen(program(seconds=600), env={**os.environ, "PASSWORD": SECRET}) as process:
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


@pytest.mark.parametrize("recorder", ["native", "probes", "perf", "native,nsys", "dwarf"])
def test_a_secret_in_the_command_line_is_in_no_file_and_no_output(recorder: str, tmp_path: Path) -> None:
    if reason := missing("native" if recorder == "probes" else recorder):
        pytest.skip(reason)
    others = {"dwarf": ["--call-graph", "dwarf"], "probes": ["--with", "native", "--inside", "off"]}
    how = others.get(recorder, ["--with", recorder])
    words = ("--token", f"{SECRET}abc", f"--api-key={SECRET}", f"KEY={SECRET}", f"https://me:{SECRET}@host/")
    pinprof(tmp_path, "record", *how, "-o", "run", "--", *program(), *words)
    manifest = tmp_path / "run.pinprof" / "manifest.json"
    assert "--api-key=***" in manifest.read_text()
    if recorder == "native":
        manifest.write_text(manifest.read_text().replace("***", SECRET))
        run(tmp_path, PYTHON, "-c", EXPORT_ALL, *FORMATS)
        pinprof(tmp_path, "report", "run.pinprof", "--share", "-o", "copy")
        manifest.unlink()
    assert_clean(tmp_path)


@pytest.fixture(scope="module")
def planted_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with the secret next to everything that is read of its memory."""
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    include = headers()
    return planted.build(tmp_path_factory.mktemp("planted"), *(("-DNVTX", f"-I{include}", "-ldl") if include else ()))


def record_planted(folder: Path, program: Path, *how: str) -> Path:
    options = ("--no-report", "--no-calibrate", "--probe-budget", "100", "--fault-period", "1", "--frequency", "1999")
    # nsys does not start a program that has this driver.
    places = {} if "native,nsys" in how else {"LD_LIBRARY_PATH": program.parent}
    pinprof(folder, "record", *options, *how, "-o", "run", "--", program, **places)
    return folder / "run.pinprof"


@pytest.mark.parametrize("recorder", ["native", "probes", "perf", "native,nsys", "dwarf"])
def test_memory_next_to_what_is_read_of_it_is_in_no_file(recorder: str, planted_program: Path, tmp_path: Path) -> None:
    if reason := missing("native" if recorder == "probes" else recorder):
        pytest.skip(reason)
    others = {"dwarf": ["--call-graph", "dwarf"], "probes": ["--with", "native", "--inside", "off"]}
    how = others.get(recorder, ["--with", recorder])
    capture = record_planted(tmp_path, planted_program, *how)
    assert len(read(capture).samples) > 100
    assert_clean(tmp_path)


@needs_probes
@pytest.mark.parametrize("inside", ["on", "off"])
def test_every_watched_call_is_recorded_without_the_memory_next_to_its_arguments(
    inside: str, planted_program: Path, tmp_path: Path
) -> None:
    capture = record_planted(tmp_path, planted_program, "--with", "native", "--inside", inside)
    activity = read(capture).activity
    assert activity is not None
    calls = activity.calls
    assert calls.size_bytes is not None
    counted = {name: int((calls.name == number).sum()) for number, name in enumerate(calls.names)}
    of_driver = {name for name in FUNCTIONS if not name.startswith("cuda")}
    watched = of_driver if inside == "on" else set(filter(is_traced, FUNCTIONS))
    assert counted == dict.fromkeys(watched, 3)
    batches = {name for name in watched if FUNCTIONS[name].sizes is not None}
    sizes = {calls.names[name]: size for name, size in zip(calls.name, calls.size_bytes, strict=True)}
    assert {name: sizes[name] for name in batches} == dict.fromkeys(batches, 60)
    copy = share.share(capture, tmp_path / "copy")
    again = read(copy).activity
    assert again is not None
    for name, column in vars(calls).items():
        assert np.array_equal(column, getattr(again.calls, name)), name
    assert_clean(tmp_path)


@pytest.mark.skipif(bool(missing("native")), reason=missing("native") or "recording works")
def test_a_recording_that_was_killed_is_shared_without_the_programs_memory(
    planted_program: Path, tmp_path: Path
) -> None:
    command = (PYTHON, "-m", "pinprof", "record", "--no-report", "-o", "run", "--", planted_program, "on")
    with subprocess.Popen(list(map(str, command)), cwd=tmp_path, stdout=subprocess.PIPE) as recording:
        assert recording.stdout is not None
        assert recording.stdout.readline() == b"spinning\n"
        partial = tmp_path / "run.pinprof.partial"
        begun = (partial / "perf.data").stat().st_size
        while (partial / "perf.data").stat().st_size < begun + 20_000:
            time.sleep(0.01)
        recording.kill()
        recording.stdout.read()  # the program ends
    if platform.machine() == "x86_64":
        assert tells((partial / "perf.data").read_bytes(), SECRET), "where frame pointers led"
    pinprof(tmp_path, "report", partial, "--share", "-o", "copy")
    assert_clean(tmp_path / "copy.pinprof")


@pytest.mark.skipif(bool(missing("native")), reason=missing("native") or "recording works")
def test_a_file_that_nobody_knows_is_not_shared(tmp_path: Path) -> None:
    pinprof(tmp_path, "record", "--no-report", "--no-calibrate", "-o", "run", "--", *program())
    capture = tmp_path / "run.pinprof"
    (capture / "core").write_text(f"{SECRET} in a file that somebody put here")
    (capture / "nvtx").mkdir(exist_ok=True)
    (capture / "nvtx" / "notes.txt").write_text(SECRET)
    command = [PYTHON, "-m", "pinprof", "report", str(capture), "--share", "-o", str(tmp_path / "copy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pinprof does not know what core, nvtx/notes.txt say" in done.stderr.replace("\n", " ")
    assert not list(tmp_path.glob("copy*"))


@pytest.mark.skipif(bool(missing("native")), reason=missing("native") or "recording works")
def test_a_process_that_is_woken_is_not_named(tmp_path: Path) -> None:
    reader = BYSTANDER.replace("time.sleep(600)", "[0 for _ in iter(lambda file=open(0, 'rb', 0): file.read(1), b'')]")
    writer = "import os, time\nfor _ in range(300): os.write({0}, b'x'); time.sleep(0.001)"
    ends, woken = os.pipe()
    with subprocess.Popen([PYTHON, "-c", reader.format(SECRET)], stdin=ends, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.set_inheritable(woken, True)
        command = [PYTHON, "-m", "pinprof", "record", "--no-report", "--no-calibrate", "-o", "run", "--"]
        subprocess.run([*command, PYTHON, "-c", writer.format(woken)], cwd=tmp_path, close_fds=False, check=True)
        process.kill()
    os.close(ends)
    os.close(woken)
    assert_clean(tmp_path)


def test_a_measurement_and_its_rates_tell_nothing(tmp_path: Path) -> None:
    options = ("--backend", "host", "--quick", "--time", "60s", "--only", "memcpy.host", "--size-max", "1MiB")
    pinprof(tmp_path, "bench", *options, "-o", tmp_path / "bench.json")
    assert len(list((tmp_path / "data").rglob("*.json"))) == 1
    assert_clean(tmp_path)
