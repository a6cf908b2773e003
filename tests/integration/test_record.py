"""Recording for real: whose output goes where, which status comes back, what survives which accident."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pinprof.collect import permission
from pinprof.read import read
from tests.support.recorded_programs import (
    BUSY,
    PINPROF,
    TOUCH,
    both_samplers,
    captured,
    manifest,
    needs_perf,
    outcome,
    python,
    record,
)

pytestmark = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")


def test_the_programs_streams_and_status_are_its_own(tmp_path: Path) -> None:
    result = record(tmp_path, "sh", "-c", "cat; echo complaint >&2; exit 7", input="through\n")
    assert result.returncode == 7
    assert result.stdout == "through\n"
    assert result.stderr.splitlines() == ["complaint", "Capture: out.pinprof"]
    assert outcome(tmp_path)["exit_status"] == 7
    assert outcome(tmp_path)["state"] == "complete"


def test_the_summary_leaves_standard_output_to_the_program(tmp_path: Path) -> None:
    result = subprocess.run(
        [*PINPROF, "record", "-o", "out", "--", *python(TOUCH + "\nprint('result')")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "result\n"
    assert "out.html\nCapture: out.pinprof\n" in result.stderr
    assert (tmp_path / "out.html").stat().st_size > 10_000


@both_samplers
def test_both_events_come_with_kernel_stacks_and_the_programs_whole_time(sampler: str, tmp_path: Path) -> None:
    code = TOUCH + "\n" + BUSY.format(0.5)
    # A busy machine may give the recorder no processor for a while.
    roomy = os.environ | {"PINPROF_RING_BYTES": str(32 << 20)}
    assert record(tmp_path, *python(code), options=("--with", sampler), env=roomy).returncode == 0
    capture = captured(tmp_path)
    assert [event.name for event in capture.events[:2]] == ["cpu-clock/freq=999/", "page-faults/period=64/"]
    symbols = set(capture.stacks.frames.symbol)
    assert symbols & {"do_anonymous_page", "handle_mm_fault", "__handle_mm_fault"}
    clock = capture.samples.weight[capture.samples.event == 0].sum()
    used = outcome(tmp_path)["resources"]
    # Within 2 % on a machine of its own. One whose host takes processors away loses samples, and gains none.
    assert 0.5 < clock / (used["user_ns"] + used["system_ns"]) < 1.1
    faults = capture.samples.weight[capture.samples.event == 1].sum()
    assert 16_000 < faults < 20_000, "64 MiB in 4 KiB pages, and the interpreter's own"
    assert capture.samples.address[capture.samples.event == 1].all()
    assert capture.losses.lost_samples == 0


def test_children_of_the_program_are_sampled_too(tmp_path: Path) -> None:
    code = f"import os\nif os.fork() == 0:\n    exec({BUSY.format(0.6)!r})\n    os._exit(0)\nos.wait()"
    assert record(tmp_path, *python(code)).returncode == 0
    samples = captured(tmp_path).samples
    assert len(set(samples.pid.tolist())) == 2
    assert len(samples) > 150


def test_a_program_that_ends_at_once_leaves_a_whole_capture(tmp_path: Path) -> None:
    assert record(tmp_path, "true").returncode == 0
    assert outcome(tmp_path)["state"] == "complete"
    captured(tmp_path)


@both_samplers
def test_system_wide_sees_other_processes_but_reports_only_the_program(sampler: str, tmp_path: Path) -> None:
    name = "import ctypes\nctypes.CDLL(None).prctl(15, b'bystander', 0, 0, 0)\n"
    other = subprocess.Popen(python(name + BUSY.format(60)))
    try:
        assert record(tmp_path, *python(BUSY.format(0.6)), options=("--system-wide", "--with", sampler)).returncode == 0
    finally:
        other.kill()
        other.wait()
    assert {"-a", "--system-wide"} & set(manifest(tmp_path)["collectors"][0]["command"])
    capture = captured(tmp_path)
    assert "bystander" not in capture.threads.values()
    assert other.pid not in capture.samples.pid.tolist()
    assert len(capture.samples) > 100


@needs_perf
def test_dwarf_call_graphs_are_recorded(tmp_path: Path) -> None:
    assert record(tmp_path, *python(BUSY.format(0.6)), options=("--call-graph", "dwarf")).returncode == 0
    assert len(captured(tmp_path).samples) > 50


def test_a_scenario_is_sampled_in_its_measured_region_only(tmp_path: Path) -> None:
    result = subprocess.run(
        [
            *PINPROF,
            "run",
            "--record",
            "pageable",
            "--backend=host",
            "--size=32MiB",
            "--iterations=2",
            "-o",
            "out",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "Page: out.html" in result.stdout
    capture = captured(tmp_path)
    assert manifest(tmp_path)["scenario"]["name"] == "pageable"
    assert manifest(tmp_path)["command"][:3] == ["pinprof", "run", "pageable"]
    start, end = capture.ranges.start_ns.min(), capture.ranges.end_ns.max()
    assert capture.ranges.name.count("iteration") == 2
    inside = (capture.samples.time_ns >= start) & (capture.samples.time_ns < end)
    assert inside.sum() > 20
    clock = capture.samples.event == 0
    before_ns = capture.samples.weight[clock & (capture.samples.time_ns < start)].sum()
    used = outcome(tmp_path)["resources"]
    unsampled_ns = used["user_ns"] + used["system_ns"] - capture.samples.weight[clock].sum()
    assert before_ns < 0.2 * unsampled_ns, "from switching on to the first range, not the start or the warm-up"


def test_a_scenario_that_refuses_to_start_leaves_nothing_behind(tmp_path: Path) -> None:
    result = subprocess.run(
        [*PINPROF, "run", "pinned", "--backend=host", "--size=10EiB", "--record"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 1
    assert "20 EiB" in result.stderr, "the two buffers that the scenario holds"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["record", "--", "no-such-program"], 127, "There is no program 'no-such-program'"),
        (["record", "--", "./plain"], 127, "not executable"),
        (["record", "--", "./broken"], 127, "cannot be executed"),
        (["record", "--frequency", "0", "--", "true"], 2, "0 Hz"),
        (["record", "--fault-period", "0", "--", "true"], 2, "page faults"),
        (["run", "pinned", "--record=strace"], 2, "no collector 'strace'"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_anything_runs(
    arguments: list[str], status: int, words: str, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("text")
    (tmp_path / "broken").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "broken").chmod(0o755)
    before = sorted(tmp_path.iterdir())
    result = subprocess.run(
        [*PINPROF, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == status, result.stderr
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_without_permission_the_sysctl_and_the_capability_are_named(tmp_path: Path) -> None:
    if (permission.paranoid() or 0) < 2:
        pytest.skip("kernel.perf_event_paranoid permits everybody here")
    # The interpreter may lie where nobody else may look, so only the rights are dropped, by the recorder's own check.
    perf = shutil.which("perf")
    code = (
        "import os; from pinprof.collect import permission\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"permission.require({perf!r}, system_wide=False)"
    )
    result = subprocess.run(python(code), capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    said = result.stderr.strip().splitlines()[-1]
    assert "CollectError" in said
    assert f"kernel.perf_event_paranoid is {permission.paranoid()}" in said
    assert "sudo sysctl kernel.perf_event_paranoid=1" in said
    assert "CAP_PERFMON" in said


def test_nothing_of_the_environment_is_stored(tmp_path: Path) -> None:
    secret = "hunter2-in-the-environment"
    assert record(tmp_path, "true", env={**os.environ, "PASSWORD": secret}).returncode == 0
    for file in (tmp_path / "out.pinprof").iterdir():
        assert secret.encode() not in file.read_bytes(), file.name


WORKING = """
import os, sys, time
from pinprof.scenario import phase
began = time.monotonic()
with phase("all"), open("working", "w", buffering=1) as notes:
    while True:
        with phase("one"):
            bytearray(8 << 20)
        print(time.monotonic_ns(), time.process_time_ns(), file=notes)
        if time.monotonic() - began > float(sys.argv[1]) or os.path.exists("enough"): break
print("done")
sys.exit(3)
"""


@pytest.mark.parametrize("delay", ["", "500ms"])
def test_a_part_of_a_programs_run_is_recorded_and_the_program_goes_on(delay: str, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORKING)
    asked = ["--duration", "1s", *(["--delay", delay] if delay else []), "--no-calibrate", "--no-report"]
    command = [sys.executable, "-m", "pinprof", "record", *asked, "-o", "part", "--", sys.executable, "work.py", "60"]
    earliest_ns = time.monotonic_ns() + (500_000_000 if delay else 0)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = next((line for line in process.stderr if "Recorded for 1 s. The program continues" in line), "")
        latest_ns = time.monotonic_ns()
        (tmp_path / "enough").touch()
        rest = process.stderr.read()
        assert (process.wait(), process.stdout.read()) == (3, "done\n"), said + rest
    assert said, rest
    capture = read(tmp_path / "part.pinprof")
    start, end = capture.manifest.outcome["recorded_ns"]
    # A second, and what a machine takes that stands still as it is over.
    assert 0.9e9 < end - start < 5e9
    begin_ns = capture.samples.time_ns
    clock = capture.samples.event == 0
    # However long the recorder takes to begin and to end, nothing is of the delay, nor from after it said its end.
    assert earliest_ns <= start
    assert end <= latest_ns
    assert ((begin_ns[clock] >= earliest_ns) & (begin_ns[clock] <= latest_ns)).all()
    # On a busy machine, to start Python can take all of the part. What the program did in the part, it notes itself.
    noted = np.array([line.split() for line in (tmp_path / "working").read_text().splitlines()], np.int64)
    inside = noted[(noted[:, 0] > start) & (noted[:, 0] < end)]
    if len(inside) > 1:
        assert {"all", "one"} <= set(capture.ranges.name)
        steps = np.diff(inside, axis=0)
        within = clock & (begin_ns >= inside[0, 0]) & (begin_ns <= inside[-1, 0])
        # A host that takes the processor away takes samples with it, though that counts as used, and adds none.
        steady_ns = steps[steps[:, 0] < 5e7, 1].sum()
        assert 0.5 * steady_ns - 5e6 < capture.samples.weight[within].sum() < 1.1 * steps[:, 1].sum() + 5e6
    assert all(capture.ranges.start_ns >= start)
    assert all(capture.ranges.end_ns <= end)


def test_a_quiet_recording_says_nothing_and_is_named_after_its_script(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORKING)
    command = [sys.executable, "-m", "pinprof", "record", "-q", "--", sys.executable, "work.py", "0.3"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "done\n", "")
    made = sorted({path.name for path in tmp_path.iterdir()} - {"work.py", "working"})
    assert [re.sub(r"-\d{8}-\d{6}", "", name) for name in made] == ["work.html", "work.pinprof"]
