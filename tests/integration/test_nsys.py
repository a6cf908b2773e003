"""Recording with the real nsys: what the capture holds, what stays the program's own, what is left behind (nothing)."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinprof.analyze import analyze
from pinprof.base import files
from pinprof.base.errors import PinprofError
from pinprof.collect import permission
from pinprof.collect.nsys import find_nsys
from pinprof.collect.nsys_keeper import TOOLS
from pinprof.collect.proc import alive
from pinprof.machine import nsys
from tests.support.recorded_programs import after_start, captured, outcome, python

PINPROF = [sys.executable, "-m", "pinprof"]
DEMO = Path(__file__).parents[1] / "data/nsys/nvtx.c"
SECRET = "hunter2-in-the-environment"
# Processor time, of which a busy machine gives less in a second.
BUSY = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: sum(range(1000))"


def missing() -> str:
    """Why nsys cannot record here; empty when it can."""
    try:
        found = find_nsys()
        importers = nsys.find_importers([found.path])
    except PinprofError as error:
        return error.problem
    return "" if importers else "nsys has no importer here"


def perf_missing() -> str:
    if shutil.which("perf") is None:
        return "perf is not installed"
    return "this process may not sample the kernel" if permission.sampling_errno() else ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "nsys works")
with_perf = pytest.mark.skipif(bool(perf_missing()), reason=perf_missing() or "perf works")


def of_nsys(temporary: Path) -> set[int]:
    """Processes of nsys and pinprof's helpers around it that were given this temporary folder."""
    mark = os.fsencode(temporary)
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            name = (process / "comm").read_text()
            # The agent's command line does not name the folder; its environment does.
            ours = mark in words + (process / "environ").read_bytes()
            if ours and (name.startswith(TOOLS) or b"nsys_shim.py" in words or b"nsys_keeper.py" in words):
                found.add(int(process.name))
    return found


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After every test no process of nsys is left, and no file of it in the temporary folder."""
    # Short: sockets lie in it.
    temporary = Path("/tmp") / f"pinprof-{os.getpid()}-test"
    temporary.mkdir(exist_ok=True)
    monkeypatch.setenv("TMPDIR", str(temporary))
    yield
    try:
        deadline = time.monotonic() + 60
        while left := of_nsys(temporary):
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.05)
        with files.temporary_folder(str(temporary)):
            pass  # removes what a killed pinprof left behind
        assert list(temporary.glob("pinprof-*")) == []
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def record(
    tmp_path: Path, *command: str, tools: str = "nsys", options: tuple[str, ...] = ("--no-report",), **more: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PINPROF, "record", "--with", tools, "-o", "out", *options, "--", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        **more,
    )


@contextlib.contextmanager
def recording(tmp_path: Path, *command: str, tools: str = "nsys") -> Iterator[subprocess.Popen[str]]:
    """pinprof at work on a program that has touched `started`; waited for at the end."""
    process = subprocess.Popen(
        [*PINPROF, "record", "--with", tools, "-o", "out", "--no-report", "--", *command],
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
            assert time.monotonic() < deadline, "the program did not start"
            time.sleep(0.02)
        yield process
        process.wait(timeout=200)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The C program with NVTX, built with the headers that nsys brings."""
    tool = find_nsys().path.resolve().parent
    headers = [
        *tool.glob("nvtx/include"),
        *tool.parent.glob("target-linux-*/nvtx/include"),
        *Path("/usr/local").glob("cuda*/include"),
    ]
    found = next((place for place in headers if (place / "nvtx3/nvToolsExt.h").is_file()), None)
    if found is None or shutil.which("gcc") is None:
        pytest.skip("no gcc, or no NVTX headers")
    program = tmp_path_factory.mktemp("demo") / "demo"
    subprocess.run(["gcc", "-O1", f"-I{found}", "-o", program, DEMO, "-ldl"], check=True)
    return str(program)


def stats(path: Path, report: str) -> list[dict[str, str]]:
    """The rows of one report of `nsys stats`, by either generation of its names."""
    tool = str(find_nsys().path)
    for name in (report, report.replace("_", "")):
        copy = path.parent / f"{name}.sqlite"
        shutil.copyfile(path, copy)
        done = subprocess.run(
            [tool, "stats", "--report", name, "--format", "csv", str(copy)], capture_output=True, text=True, check=False
        )
        copy.unlink()
        lines = done.stdout.splitlines()
        head = next((row for row, line in enumerate(lines) if line.startswith("Time (%)")), None)
        if head is not None:
            return list(csv.DictReader(io.StringIO("\n".join(lines[head:]))))
    return []


def test_a_c_program_is_recorded_and_reported_as_nsys_itself_counts(demo: str, tmp_path: Path) -> None:
    result = record(tmp_path, demo, options=())
    assert result.returncode == 0, result.stderr
    assert result.stdout == "done\n", "nothing of nsys's own output"
    assert (tmp_path / "out.html").is_file()
    capture = captured(tmp_path)
    assert capture.activity is not None
    assert [capture.ranges.name.count(name) for name in ("iteration", "alloc", "side", "unclosed")] == [3, 3, 3, 1]
    assert [entry["name"] for entry in capture.manifest.collectors] == ["nsys"]
    assert {path.name for path in (tmp_path / "out.pinprof").iterdir()} == {
        "collector.log", "manifest.json", "memory.jsonl", "nsys.sqlite", "symbols.json.gz",
    }  # fmt: skip
    calls = capture.activity.os_calls
    ours = {
        name: (int(np.count_nonzero(calls.name == row)), int((calls.end_ns - calls.start_ns)[calls.name == row].sum()))
        for row, name in enumerate(calls.names)
        if not name.startswith("OS runtime libraries profiling")
    }
    theirs = {
        row["Name"]: (int(row["Num Calls"]), int(row["Total Time (ns)"]))
        for row in stats(tmp_path / "out.pinprof/nsys.sqlite", "osrt_sum")
    }
    assert theirs["usleep"][0] == 6
    assert ours == theirs


def test_streams_status_directory_and_group_are_the_programs_own(tmp_path: Path) -> None:
    code = 'read line; echo "$line in $PWD with $SECRET"; echo oops >&2; umask; [ -t 0 ] || exit 9'
    result = record(tmp_path, "sh", "-c", code, input="hello\n", env={**os.environ, "SECRET": SECRET})
    assert result.returncode == 9
    assert result.stdout.splitlines()[0] == f"hello in {tmp_path} with {SECRET}"
    assert result.stderr.startswith("oops\n")
    assert outcome(tmp_path)["exit_status"] == 9
    assert outcome(tmp_path)["resources"]["minor_faults"] > 0


def test_nothing_private_is_stored(tmp_path: Path) -> None:
    other = subprocess.Popen(["bash", "-c", "exec -a unrelated-of-alice sleep 60"])
    try:
        result = record(tmp_path, "sh", "-c", "printenv PASSWORD; echo again", env={**os.environ, "PASSWORD": SECRET})
    finally:
        other.kill()
        other.wait()
    assert result.stdout == f"{SECRET}\nagain\n"
    hostname = os.uname().nodename.encode()
    for file in (tmp_path / "out.pinprof").iterdir():
        raw = file.read_bytes()
        assert SECRET.encode() not in raw, file.name
        assert b"unrelated-of-alice" not in raw, file.name
        assert len(hostname) < 5 or hostname not in raw, file.name


def test_the_report_is_kept_only_when_asked_for_since_it_holds_the_environment(tmp_path: Path) -> None:
    result = record(
        tmp_path, "true", options=("--no-report", "--keep-nsys-rep"), env={**os.environ, "PASSWORD": SECRET}
    )
    assert result.returncode == 0, result.stderr
    assert "environment" in result.stderr
    report = tmp_path / "out.pinprof/nsys.nsys-rep"
    whole = nsys.export_sqlite(report, tmp_path).read_bytes()
    assert SECRET.encode() in whole, "if not, it could be kept by default"
    assert SECRET.encode() not in (tmp_path / "out.pinprof/nsys.sqlite").read_bytes()


@with_perf
def test_both_collectors_record_one_run_on_one_clock(demo: str, tmp_path: Path) -> None:
    # Work on both sides of the demo, which mostly sleeps, and enough of it for samples of a slow timer.
    work = BUSY.format(0.5)
    code = f"import subprocess\n{work}\nsubprocess.run([{demo!r}], check=True)\n{work}\nraise SystemExit(3)"
    result = record(tmp_path, *python(code), tools="perf,nsys", options=("--python", "off"))
    assert result.returncode == 3, result.stderr
    assert result.stdout == "done\n"
    capture = captured(tmp_path)
    assert [entry["name"] for entry in capture.manifest.collectors] == ["nsys", "perf"]
    assert capture.traced is not None
    joined = analyze(capture).capture
    assert joined.clock.source == "monotonic, nsys joined by UTC"
    assert len(joined.samples) > 200
    assert joined.ranges.name.count("iteration") == 3
    assert [entry["name"] for entry in joined.manifest.collectors] == ["nsys", "perf"]
    first, last = joined.samples.time_ns.min(), joined.samples.time_ns.max()
    assert first < joined.ranges.start_ns.min() < last, "ranges lie inside the sampled time"


@with_perf
def test_both_clocks_agree_with_the_ranges_of_a_scenario(tmp_path: Path) -> None:
    result = subprocess.run(
        [
            *PINPROF,
            "run",
            "pageable",
            "--backend=host",
            "--size=16MiB",
            "--iterations=3",
            "--record=perf,nsys",
            "-o",
            "out",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    capture = captured(tmp_path)
    assert capture.traced is not None
    joined = analyze(capture).capture
    assert joined.ranges.name.count("iteration") == 3
    assert joined.activity is not None
    calls = joined.activity.os_calls
    early_ns = max(200_000, 2 * joined.clock.uncertainty_ns)
    assert len(calls) == 0 or calls.start_ns.min() >= joined.ranges.start_ns.min() - early_ns, "the region only"
    assert any("before and after the measured iterations" in note for note in joined.losses.notes)


def test_a_scenario_recorded_by_nsys_alone_has_its_ranges_and_only_its_region(tmp_path: Path) -> None:
    command = ["run", "pageable", "--backend=host", "--size=16MiB", "--iterations=3", "--record", "nsys", "-o", "out"]
    result = subprocess.run(
        [*PINPROF, *command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240
    )
    assert result.returncode == 0, result.stderr
    capture = captured(tmp_path)
    assert capture.ranges.name.count("iteration") == 3
    assert capture.activity is not None
    assert capture.ranges.start_ns.min() > 0, "on nsys's clock"
    assert capture.ranges.start_ns.max() < 60e9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_and_keeps_the_recording(number: signal.Signals, tmp_path: Path) -> None:
    code = (
        "import signal\nsignal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        f"try:\n    open('started', 'w').close()\n    exec({BUSY.format(30)!r})\n"
        "except KeyboardInterrupt:\n    raise SystemExit(42)"
    )
    with recording(tmp_path, *python(code)) as process:
        process.send_signal(number)
    assert process.returncode == 42
    assert outcome(tmp_path)["state"] == "interrupted"
    assert captured(tmp_path).activity is not None


def test_a_killed_program_is_named_and_kept(tmp_path: Path) -> None:
    result = record(tmp_path, *python("import os; os.kill(os.getpid(), 11)"))
    assert result.returncode == 139
    assert "SIGSEGV" in result.stderr
    assert captured(tmp_path).activity is not None


def child_with(process: subprocess.Popen[str], word: bytes) -> int:
    """The pid of a child with this word in its command line, waited for: pinprof adopts some of them.

    One that goes on: who forks itself into the background ends soon.
    """
    deadline = time.monotonic() + 60
    seen: set[str] = set()
    while True:
        there = set()
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                if word in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                    there.add(child)
        if steady := there & seen:
            return int(max(steady, key=int))
        assert time.monotonic() < deadline, f"no child has {word!r}"
        seen = there
        time.sleep(0.5)


@pytest.mark.parametrize("word", [b"profile", b"--start-agent"])
def test_an_nsys_that_is_killed_leaves_the_program_alone_and_is_said(word: bytes, tmp_path: Path) -> None:
    go_on = "import os\nwhile not os.path.exists('go'): sum(range(1000))\nprint('whole')"
    with recording(tmp_path, *after_start(f"{BUSY.format(0.2)}\n{go_on}")) as process:
        killed = child_with(process, word)
        os.kill(killed, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while alive(killed):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=200)
    assert out == "whole\n"
    assert process.returncode == 0
    assert "nsys" in err
    assert "Traceback" not in err
    assert outcome(tmp_path)["state"] == "failed"
    assert outcome(tmp_path)["exit_status"] == 0


def test_a_killed_pinprof_takes_nsys_with_it(tmp_path: Path) -> None:
    with recording(tmp_path, *after_start(BUSY.format(1))) as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_a_program_that_cannot_be_executed_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "broken").chmod(0o755)
    result = record(tmp_path, "./broken")
    assert result.returncode == 127
    assert "cannot be executed" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_an_nsys_that_refuses_is_quoted_and_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = find_nsys().path
    stand_in = tmp_path / "nsys"
    stand_in.write_text(
        f'#!/bin/sh\ncase "$*" in *--help*|--version) exec {real} "$@";; esac\n'
        "echo 'No space left for a session.' >&2\nexit 1\n"
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("NSYS", str(stand_in))
    result = record(tmp_path, "touch", "ran")
    assert result.returncode == 0
    assert "Nsight Systems records nothing: nsys did not start the program: No space left" in result.stderr
    assert (tmp_path / "ran").exists()


def test_an_nsys_that_fails_once_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = find_nsys().path
    stand_in = tmp_path / "nsys"
    stand_in.write_text(
        f'#!/bin/sh\ncase "$*" in *--help*|--version) exec {real} "$@";; esac\n'
        f"mkdir '{tmp_path}/failed' 2>/dev/null && {{ echo 'Dynamic exception type: bad session' >&2; exit 1; }}\n"
        f'exec {real} "$@"\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("NSYS", str(stand_in))
    result = record(tmp_path, "sh", "-c", "echo ran >>ran")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "ran").read_text() == "ran\n"
    notes = outcome(tmp_path)["notes"]
    assert any("bad session" in note and "again" in note for note in notes), notes


def test_doctor_names_nsys_and_its_importer() -> None:
    result = subprocess.run([*PINPROF, "doctor", "--json"], capture_output=True, text=True, check=False)
    checks = {entry["name"]: entry for entry in json.loads(result.stdout)}
    assert checks["nsys"]["found"].startswith(find_nsys().version)
    assert "Importer" in checks["nsys importer"]["found"]
