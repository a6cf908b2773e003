"""Recording for real: whose output goes where, which status comes back, what survives which accident."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pinprof.collect import permission
from pinprof.collect.proc import alive
from pinprof.model import Capture
from pinprof.read import ReadOptions, read

pytestmark = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")

needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
both_samplers = pytest.mark.parametrize("sampler", ["native", pytest.param("perf", marks=needs_perf)])
"""For what the sampler has a part in; elsewhere the default one takes part."""

PINPROF = [sys.executable, "-m", "pinprof"]
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
    assert record(tmp_path, *python(TOUCH + "\n" + BUSY.format(0.5)), options=("--with", sampler)).returncode == 0
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
    code = f"import os\nif os.fork() == 0:\n    exec({BUSY.format(0.3)!r})\n    os._exit(0)\nos.wait()"
    assert record(tmp_path, *python(code)).returncode == 0
    samples = captured(tmp_path).samples
    assert len(set(samples.pid.tolist())) == 2
    assert len(samples) > 150


def test_a_program_that_ends_at_once_leaves_a_whole_capture(tmp_path: Path) -> None:
    assert record(tmp_path, "true").returncode == 0
    assert outcome(tmp_path)["state"] == "complete"
    captured(tmp_path)


def test_a_daemon_left_behind_is_not_waited_for(tmp_path: Path) -> None:
    assert record(tmp_path, "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $! > daemon; exit 5").returncode == 5
    os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)  # it was there to the end
    assert outcome(tmp_path)["state"] == "complete"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, 137), (signal.SIGSEGV, 139)])
def test_a_program_that_a_signal_ends_is_kept_and_named(number: signal.Signals, status: int, tmp_path: Path) -> None:
    result = record(tmp_path, *python(f"{BUSY.format(0.2)}\nimport os\nos.kill(os.getpid(), {int(number)})"))
    assert result.returncode == status
    assert number.name in result.stderr
    assert outcome(tmp_path)["state"] == "complete"
    assert number.name in str(outcome(tmp_path)["notes"])
    assert len(captured(tmp_path).samples) > 100


def test_an_interrupt_of_the_group_ends_the_program_and_keeps_the_recording(tmp_path: Path) -> None:
    code = f"{BUSY.format(0.3)}\ntry:\n    open('started', 'w').close()\n    exec({BUSY.format(30)!r})\n"
    with recording(tmp_path, *python(code + "except KeyboardInterrupt:\n    raise SystemExit(42)")) as process:
        os.killpg(process.pid, signal.SIGINT)
    assert process.returncode == 42
    assert outcome(tmp_path)["state"] == "interrupted"
    assert len(captured(tmp_path).samples) > 100
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sent_to_pinprof_alone_is_passed_on(number: signal.Signals, tmp_path: Path) -> None:
    with recording(tmp_path, "sh", "-c", "touch started; exec sleep 30") as process:
        process.send_signal(number)
    assert process.returncode == 128 + number
    assert outcome(tmp_path)["state"] == "interrupted"
    captured(tmp_path)


def test_the_third_interrupt_ends_a_program_that_ignores_them(tmp_path: Path) -> None:
    with recording(tmp_path, "sh", "-c", "trap '' INT TERM; touch started; while :; do :; done") as process:
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            # One that comes while another waits to be taken would count as one with it.
            while pending(process.pid):
                time.sleep(0.02)
    assert process.returncode == 137
    assert outcome(tmp_path)["state"] == "interrupted"


@both_samplers
def test_a_sampler_dying_leaves_the_program_alone_and_is_said(sampler: str, tmp_path: Path) -> None:
    code = f"{BUSY.format(0.5)}\nopen('started', 'w').close()\n{GO_ON}\nprint('done')\nraise SystemExit(4)"
    with recording(tmp_path, *python(code), options=("--with", sampler)) as process:
        killed = sampler_of(process, sampler)
        os.kill(killed, signal.SIGKILL)
        wait_ended(killed)
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert out == "done\n"
    assert "SIGKILL" in err
    assert outcome(tmp_path)["state"] == "failed"
    captured(tmp_path)


def test_a_program_under_nohup_still_ignores_the_hangup(tmp_path: Path) -> None:
    code = "touch started; until [ -e go ]; do sleep 0.02; done; exit 9"
    with recording(tmp_path, "sh", "-c", code, before=("nohup",)) as process:
        os.killpg(process.pid, signal.SIGHUP)
        while pending(process.pid):
            time.sleep(0.02)
        (tmp_path / "go").touch()
    assert process.returncode == 9


def test_a_recording_that_failed_does_not_look_like_success(tmp_path: Path) -> None:
    with recording(tmp_path, *after_start(GO_ON)) as process:
        ended = sampler_of(process, "native")
        os.kill(ended, signal.SIGTERM)
        wait_ended(ended)
        (tmp_path / "go").touch()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "collector" in err
    assert "Traceback" not in err
    assert outcome(tmp_path)["exit_status"] == 0


@both_samplers
def test_a_killed_pinprof_takes_the_sampler_with_it_and_leaves_what_reads(sampler: str, tmp_path: Path) -> None:
    with recording(tmp_path, *after_start(BUSY.format(1)), options=("--system-wide", "--with", sampler)) as process:
        mine = sampler_of(process, sampler)
        process.kill()
        # It has as long as it takes: what is left of the recording is ended with this block.
        wait_ended(mine)
    partial = tmp_path / "out.pinprof.partial"
    assert json.loads((partial / "manifest.json").read_text())["outcome"]["state"] == "recording"
    assert len(read(str(partial), ReadOptions()).samples) > 0


@both_samplers
def test_a_disk_that_fills_up_keeps_what_was_recorded(sampler: str, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.decode().strip()}")
    try:
        options = ("--with", sampler, "--frequency", "20000", "--fault-period", "1")
        result = record(tmp_path, *python(TOUCH + "\n" + BUSY.format(1)), options=("-o", str(small / "out"), *options))
        assert result.returncode == 1
        assert "disk is full" in result.stderr
        assert "Traceback" not in result.stderr
        raw = json.loads((small / "out.pinprof/manifest.json").read_text())
        assert raw["outcome"]["state"] == "failed"
        assert raw["outcome"]["exit_status"] == 0
        capture = read(str(small / "out.pinprof"), ReadOptions())
        assert len(capture.samples) > 1000
        assert "handle_mm_fault" in capture.stacks.frames.symbol, "kernel symbols were saved before"
    finally:
        subprocess.run(["umount", "-l", small], check=True)


@both_samplers
def test_system_wide_sees_other_processes_but_reports_only_the_program(sampler: str, tmp_path: Path) -> None:
    name = "import ctypes\nctypes.CDLL(None).prctl(15, b'bystander', 0, 0, 0)\n"
    other = subprocess.Popen(python(name + BUSY.format(20)))
    try:
        assert record(tmp_path, *python(BUSY.format(0.4)), options=("--system-wide", "--with", sampler)).returncode == 0
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
    assert record(tmp_path, *python(BUSY.format(0.2)), options=("--call-graph", "dwarf")).returncode == 0
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
    assert f"Page: {tmp_path / 'out.html'}" in result.stdout
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
        (["record", "--frequency", "0", "--", "true"], 1, "0 Hz"),
        (["record", "--fault-period", "0", "--", "true"], 1, "page faults"),
        (["record", "-o", "taken", "--", "true"], 1, "exists already"),
        (["record", "-o", "/proc/nowhere", "--", "true"], 1, "cannot be written"),
        (["run", "pinned", "--record=strace"], 1, "no collector 'strace'"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_anything_runs(
    arguments: list[str], status: int, words: str, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("text")
    (tmp_path / "broken").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "broken").chmod(0o755)
    (tmp_path / "taken.pinprof").mkdir()
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


def test_the_program_gets_only_our_variables_and_the_signals_it_would_have(tmp_path: Path) -> None:
    handler = "signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    code = f"import os, signal; print(sorted(os.environ)); print({handler})"
    plain = subprocess.run(python(code), capture_output=True, text=True, check=True).stdout
    recorded = record(tmp_path, *python(code)).stdout
    of_cuda = ("CUDA_INJECTION64_PATH", "PINPROF_CUPTI", "PINPROF_GPU", "PINPROF_GPU_BUDGET")
    for ours in (*of_cuda, "NVTX_INJECTION64_PATH", "PINPROF_NVTX", "PINPROF_RANGES"):
        assert f", '{ours}'" in recorded
        recorded = recorded.replace(f", '{ours}'", "")
    assert recorded == plain
    masks = "grep -E 'Sig(Blk|Ign)' /proc/self/status"
    shell = subprocess.run(["sh", "-c", masks], capture_output=True, text=True, check=True).stdout
    assert record(tmp_path, "sh", "-c", masks, options=("--force",)).stdout == shell


BROKEN_OFF = """
import os, signal
from pinprof import read
from pinprof.__main__ import main
read.seal_symbols = lambda place: os.kill(os.getpid(), signal.SIGTERM)
main()
"""


def test_a_signal_while_symbols_are_stored_leaves_a_whole_capture(tmp_path: Path) -> None:
    result = subprocess.run(
        [*python(BROKEN_OFF), "record", "-o", "out", "--python=off", "--", *python(BUSY.format(0.2))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 143
    assert result.stderr.strip() == "Capture: out.pinprof"
    assert outcome(tmp_path)["state"] == "complete"
    assert any(note.startswith("Symbols were not stored") for note in outcome(tmp_path)["notes"])
    assert len(captured(tmp_path).samples) > 50


WORKING = """
import sys, time
from pinprof.scenario import phase
began = time.monotonic()
with phase("all"):
    while time.monotonic() - began < float(sys.argv[1]):
        with phase("one"):
            bytearray(8 << 20)
print("done")
sys.exit(3)
"""


@pytest.mark.parametrize(("delay", "least", "most"), [("", 0.9, 1.6), ("500ms", 0.9, 1.6)])
def test_a_part_of_a_programs_run_is_recorded_and_the_program_goes_on(
    delay: str, least: float, most: float, tmp_path: Path
) -> None:
    (tmp_path / "work.py").write_text(WORKING)
    asked = ["--duration", "1s", *(["--delay", delay] if delay else []), "--no-calibrate", "--no-report"]
    command = [sys.executable, "-m", "pinprof", "record", *asked, "-o", "part", "--", sys.executable, "work.py", "6"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, "done\n"), ended.stderr
    assert "Recorded for 1 s. The program goes on" in ended.stderr
    capture = read(tmp_path / "part.pinprof")
    times = capture.samples.time_ns
    assert least < (times.max() - times.min()) / 1e9 < most
    start, end = capture.manifest.outcome["recorded_ns"]
    assert least < (end - start) / 1e9 < most
    assert {"all", "one"} <= set(capture.ranges.name)
    assert capture.ranges.start_ns.min() >= start
    assert capture.ranges.end_ns.max() <= end


def test_a_program_that_ends_before_its_recording_begins_is_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pinprof", "record", "--delay", "30s", "--", "true"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.endswith("The program ended before its recording began. Give a shorter --delay. [delay]\n")
    assert not list(tmp_path.iterdir())


def test_a_quiet_recording_says_nothing_and_is_named_after_its_script(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORKING)
    command = [sys.executable, "-m", "pinprof", "record", "-q", "--", sys.executable, "work.py", "0.3"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "done\n", "")
    made = sorted(path.name for path in tmp_path.iterdir() if path.name != "work.py")
    assert [re.sub(r"-\d{8}-\d{6}", "", name) for name in made] == ["work.html", "work.pinprof"]
