"""The program runs, with its own output and exit status, whatever keeps pinprof from recording it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinprof.collect import permission
from pinprof.machine.libraries import compiler
from pinprof.read import read
from pinprof.streams.store import read_manifest
from tests.support import agent
from tests.support.recorded_programs import BUSY, LEAST, PINPROF, outcome, python
from tests.support.situation import SITUATION, UNAVAILABLE

PROGRAM = ("sh", "-c", "echo done; exit 7")
may_sample = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")
MAIN = "\nfrom pinprof.__main__ import main\nmain()"


def pinprof(
    folder: Path,
    *options: str,
    program: tuple[str, ...] = PROGRAM,
    before: str = "",
    more: tuple[str, ...] = LEAST,
    through: tuple[str, ...] = (),
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """`pinprof record OPTIONS -- PROGRAM`, in a process that has run `before`, started `through` another command."""
    start = python(before + MAIN) if before else tuple(PINPROF)
    return subprocess.run(
        [*through, *start, "record", *options, *more, "--", *program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | environment,
    )


def ran(done: subprocess.CompletedProcess[str], *said: str, status: int = 7) -> None:
    """The program ran with its own output and status, and standard error has one line with each text, no more."""
    assert (done.returncode, done.stdout) == (status, "done\n"), done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("Capture: ", "All ranks"))]
    assert len(lines) == len(said), done.stderr
    for line, text in zip(lines, said, strict=True):
        assert text in line
        assert line.startswith("pinprof: ")


def captures(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob("**/*.pinprof*"))


def test_recordings_that_start_in_one_second_have_names_of_their_own(tmp_path: Path) -> None:
    named = (
        "from pathlib import Path\nfrom pinprof.streams import store\nstore.default_name = lambda _: Path('a.pinprof')"
    )
    command = [*python(named + MAIN), "record", *LEAST, "--", *PROGRAM]
    started = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in started:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (7, "done\n"), err
    assert captures(tmp_path) == ["a-2.pinprof", "a-3.pinprof", "a.pinprof"]


@pytest.mark.parametrize("taken", ["capture", "file", "link", "folder"])
def test_a_capture_whose_name_is_taken_gets_the_next_one(taken: str, tmp_path: Path) -> None:
    place = tmp_path / "out.pinprof"
    if taken == "capture":
        ran(pinprof(tmp_path, "-o", "out"))
    elif taken == "link":
        place.symlink_to("nowhere")
    else:
        place.mkdir() if taken == "folder" else place.touch()
    done = pinprof(tmp_path, "-o", "out")
    ran(done, "out.pinprof exists already, so the capture is out-2.pinprof.")
    assert "--force" in done.stderr
    assert captures(tmp_path) == ["out-2.pinprof", "out.pinprof"]


def test_a_taken_name_is_for_strict_recordings_a_failure(tmp_path: Path) -> None:
    (tmp_path / "out.pinprof").touch()
    told = "out.pinprof exists already"
    ran(pinprof(tmp_path, "-o", "out", "--strict", program=("echo", "done")), told, status=1)
    ran(pinprof(tmp_path, "-o", "out", "--strict"), told)


def test_a_batch_job_of_slurm_is_recorded_twice(tmp_path: Path) -> None:
    job = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "77"}
    for _ in range(2):
        ran(pinprof(tmp_path, **job))
    assert captures(tmp_path) == ["sh-slurm-77-2.ranks/rank-0.pinprof", "sh-slurm-77.ranks/rank-0.pinprof"]


def test_ranks_with_the_same_output_are_in_one_folder(tmp_path: Path) -> None:
    for rank in ("0", "1"):
        ran(pinprof(tmp_path, "-o", "out", "--force", RANK=rank, WORLD_SIZE="2", TORCHELASTIC_RUN_ID="job"))
    assert captures(tmp_path) == ["out.ranks/rank-0.pinprof", "out.ranks/rank-1.pinprof"]


def test_a_program_that_ends_before_its_recording_begins_keeps_its_status(tmp_path: Path) -> None:
    ran(pinprof(tmp_path, "--delay", "60s"), "The program ended before its recording began. Give a shorter --delay.")
    assert captures(tmp_path) == []


def test_a_page_that_cannot_be_written_costs_the_page(tmp_path: Path) -> None:
    (tmp_path / "out.html").mkdir()
    ran(pinprof(tmp_path, "-o", "out", more=("-q", "--no-calibrate", "--python=off")), "The page is not written")
    assert captures(tmp_path) == ["out.pinprof"]


@may_sample
def test_a_rate_that_the_kernel_does_not_allow_gives_way_to_one_that_it_does(tmp_path: Path) -> None:
    (tmp_path / "rate").write_text("250\n")
    lowered = "from pathlib import Path\nfrom pinprof.collect import limits\nlimits.MAX_SAMPLE_RATE = Path('rate')"
    done = pinprof(tmp_path, "-o", "out", program=python(BUSY.format(0.2) + "\nprint('done')"), before=lowered)
    ran(done, "has 250 samples a second, not 999, because the kernel allows no more", status=0)
    assert read(tmp_path / "out.pinprof").events[0].name == "cpu-clock/freq=250/"
    assert any("250 samples" in note for note in outcome(tmp_path)["notes"])


@may_sample
def test_a_reader_of_python_that_cannot_start_costs_the_lines(tmp_path: Path) -> None:
    refused = (
        "from pinprof.collect.python_frames import beside\n"
        "def refused(*_, **__): raise BlockingIOError(11, 'Resource temporarily unavailable')\n"
        "beside.started = refused"
    )
    program = python("import sys; print('done'); sys.exit(7)")
    done = pinprof(tmp_path, "-o", "out", program=program, before=refused, more=("--no-report", "--no-calibrate"))
    ran(done, "Python functions and lines are not recorded: The reader of Python lines can't start")
    assert len(read(tmp_path / "out.pinprof").events)


@may_sample
@pytest.mark.parametrize("allowed", [0, 1])
def test_a_program_for_which_no_other_process_can_start_runs_in_pinprofs_place(allowed: int, tmp_path: Path) -> None:
    few = (
        "import os\nfrom pinprof.machine import process_limits\nprocess_limits.few_left = lambda: 2\n"
        f"fork, left = os.fork, [{allowed}]\n"
        "def forked():\n    if not left[0]: raise BlockingIOError(11, 'Resource temporarily unavailable')\n"
        "    left[0] -= 1\n    return fork()\nos.fork = forked"
    )
    done = pinprof(tmp_path, "-o", "out", before=few)
    if allowed:
        ran(done, "Samples and Python lines are not recorded: This container or user can start only 2 more")
        assert captures(tmp_path) == ["out.pinprof"]
    else:
        assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
        said = (
            "The program runs without a recording: No more processes can be started: Resource temporarily unavailable"
        )
        assert said in done.stderr
        assert captures(tmp_path) == []


@pytest.fixture
def few_processes() -> Iterator[Path]:
    group = Path("/sys/fs/cgroup/pids", f"pinprof-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no group of processes can be made here: {error.strerror}")
    yield group
    for _ in range(600):  # the last processes may not be gone yet
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
    group.rmdir()


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_a_limit_of_few_processes_is_left_to_the_program(most: int, few_processes: Path, tmp_path: Path) -> None:
    (few_processes / "pids.max").write_text(str(most))
    enter = ("sh", "-c", f'echo $$ > {few_processes}/cgroup.procs; exec "$@"', "sh")
    done = pinprof(tmp_path, "-o", "out", through=enter)
    assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
    assert "Raise the limit" in done.stderr
    if most >= 3:
        # The program may start what it could start without pinprof, but for pinprof itself.
        program = ("sh", "-c", "ls / > /dev/null && echo done; exit 7")
        ran(pinprof(tmp_path, "-o", "again", through=enter, program=program), "which pinprof leaves to the program")


@pytest.mark.parametrize("free_kb", [1100, 300, 100, 0])
def test_a_disk_with_little_room_stops_no_program(free_kb: int, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    fill = f'head -c {(1100 - free_kb) << 10} /dev/zero > small/filled && exec "$@"'
    through = (*SITUATION, f"tmpfs={tmp_path}/small:size=1100k", "--", "sh", "-c", fill, "sh")
    done = pinprof(tmp_path, "-o", "small/out", program=("sh", "-c", "sleep 0.2; echo done; exit 7"), through=through)
    if done.returncode == UNAVAILABLE:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if "[disk-full]" in line]
    assert said, done.stderr
    assert all("Free some disk space" in line or "enough space" in line for line in said)


def test_a_standard_error_that_is_full_or_that_nobody_reads_stops_no_program(tmp_path: Path) -> None:
    reader, unread = os.pipe()
    os.close(reader)
    for errors in (os.open("/dev/full", os.O_WRONLY), unread):
        for program, status in ((PROGRAM, 7), (("echo", "done"), 0)):
            command = [*PINPROF, "record", "-o", "out", *LEAST, "--", *program]
            done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
            assert (done.returncode, done.stdout) == (status, "done\n")
        os.close(errors)


def test_settings_that_are_no_toml_stop_no_program(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pinprof.record\n<<<<<<< HEAD\n")
    for folder in (tmp_path, tmp_path / "inner"):
        done = pinprof(folder, "-o", "out")
        assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
        assert "is not valid TOML" in done.stderr.splitlines()[0]
        assert captures(folder)


@may_sample
def test_a_collector_that_is_never_ready_is_left_out(tmp_path: Path) -> None:
    deaf = (
        "import time\nfrom pinprof.collect.native import __main__, attached\n"
        "attached.START_TIMEOUT_S = 0.3\n__main__.main = lambda _: time.sleep(60)"
    )
    done = pinprof(tmp_path, "-o", "out", before=deaf)
    ran(done, "CPU time, page faults and waits are not recorded: The collector was not ready after 0 s.")
    assert not (tmp_path / "out.pinprof" / "perf.data").exists()
    assert any("not ready" in note for note in outcome(tmp_path)["notes"])


@may_sample
def test_kernel_symbols_that_cannot_be_copied_cost_their_names(tmp_path: Path) -> None:
    killed = "import os\nfrom pinprof.collect import kallsyms\nkallsyms.save = lambda _: os.kill(os.getpid(), 9)"
    done = pinprof(tmp_path, "-o", "out", before=killed)
    ran(done, "Kernel functions have no names: The process that copies kernel symbols was ended by SIGKILL.")
    assert (tmp_path / "out.pinprof" / "perf.data").exists()


@may_sample
@pytest.mark.parametrize(
    "place",
    [
        "pinprof.collect.native.attached.AttachedNative.attach",
        "pinprof.collect.native.attached.AttachedNative.await_ready",
        "pinprof.collect.native.attached.AttachedNative.result",
        "pinprof.collect.memory.MemoryWatch.attach",
        "pinprof.collect.memory.MemoryWatch.watch",
        "pinprof.collect.memory.MemoryWatch.ended",
        "pinprof.collect.host.facts",
        "pinprof.recording.finish",
        "pinprof.streams.store.CaptureWriter.finish",
        "pinprof.base.files.temporary_folder",
    ],
)
def test_an_error_of_pinprofs_own_is_shown_and_stops_no_program(place: str, tmp_path: Path) -> None:
    wrong = (
        "import pkgutil\ndef wrong(*_, **__): raise KeyError('wrong')\n"
        f"owner, _, name = {place!r}.rpartition('.')\nsetattr(pkgutil.resolve_name(owner), name, wrong)"
    )
    done = pinprof(tmp_path, "-o", "out", before=wrong)
    assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
    assert "in wrong" in done.stderr, "where it happened"
    assert "pinprof has an error of its own (KeyError: 'wrong'). Please report it" in done.stderr


@pytest.mark.parametrize("number", ["EPERM", "ENOSYS"])
def test_without_perf_events_the_rest_is_recorded(number: str, tmp_path: Path) -> None:
    denied = (*SITUATION, f"refuse={number}:perf_event_open", "--")
    program = python("import time\nx = bytearray(64 << 20)\ntime.sleep(0.4)\nprint('done')\nraise SystemExit(7)")
    done = pinprof(tmp_path, "--inside", "off", "-o", "out", program=program, through=denied)
    said = ["CPU time, page faults and waits are not recorded: pinprof is not permitted to sample programs"]
    ran(done, *said, *(["CUDA calls"] if "CUDA calls" in done.stderr else []))
    assert "docker run --cap-add PERFMON" in done.stderr
    assert "--security-opt seccomp=unconfined" in done.stderr
    capture = read(tmp_path / "out.pinprof")
    assert len(capture.samples) == 0
    assert capture.memory is not None
    assert any("perf_event_open" in note for note in capture.manifest.outcome["notes"])
    told = subprocess.run([*PINPROF, "report", "out.pinprof"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "no samples" in told.stdout
    assert (tmp_path / "out.html").exists()


def test_without_perf_events_and_without_a_compiler_the_program_runs(tmp_path: Path) -> None:
    lacking = (
        "from pinprof.base.errors import ToolMissing\nfrom pinprof.machine.libraries import Library\n"
        "def find(self): raise ToolMissing(f'There is no {self.title} here.', 'Install one.', 'c-library')\n"
        "Library.find = find"
    )
    denied = (*SITUATION, "refuse=EPERM:perf_event_open", "--")
    done = pinprof(tmp_path, "-o", "out", before=lacking, through=denied)
    assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
    assert "CPU time, page faults and waits are not recorded" in done.stderr
    assert captures(tmp_path) == ["out.pinprof"]


def test_many_recordings_that_start_at_once_are_all_there(tmp_path: Path) -> None:
    """With their readers of Python lines, which come before all else (`tests.truth.at_once` says how long it takes)."""
    program = python("print('done')\nraise SystemExit(7)")
    started = [
        subprocess.Popen(
            [*PINPROF, "record", *LEAST[:2], "--", *program],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(24)
    ]  # fmt: skip
    for process in started:
        out, err = process.communicate()
        assert (process.returncode, out) == (7, "done\n"), err
    found = captures(tmp_path)
    assert len(found) == len(started)
    assert {read_manifest(tmp_path / name).outcome["state"] for name in found} == {"complete"}


@pytest.mark.skipif(not compiler(), reason="there is no C compiler")
def test_without_perf_events_the_agent_records_every_call_with_its_line(tmp_path: Path) -> None:
    driver = agent.build_driver(tmp_path)
    denied = (*SITUATION, "refuse=EPERM:perf_event_open", "--")
    program = (sys.executable, str(Path(__file__).with_name("agent_program.py")), "2000")
    done = pinprof(tmp_path, "-o", "out", program=program, through=denied, LD_LIBRARY_PATH=str(driver))
    assert done.returncode == 0, done.stderr
    said = {int(size): int(count) for size, count in (line.split() for line in done.stdout.splitlines())}
    capture = read(tmp_path / "out.pinprof")
    assert capture.activity is not None
    calls = capture.activity.calls
    assert calls.size_bytes is not None
    assert {size: int((calls.size_bytes == size).sum()) for size in said} == said
    assert calls.site is not None
    assert (calls.site >= 0).all()


@pytest.mark.parametrize(
    ("options", "status"),
    [(("--frequency", "0"), 2), (("--unknown",), 2), (("--max-size", "1"), 2), (("-o", "run.html"), 2)],
)
def test_what_the_user_cannot_mean_is_refused_before_the_program_runs(
    options: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    done = pinprof(tmp_path, *options)
    assert (done.returncode, done.stdout) == (status, "")
    assert captures(tmp_path) == []


def test_two_launches_at_once_with_one_name_have_folders_of_their_own(tmp_path: Path) -> None:
    command = [*PINPROF, "record", "-o", "out", *LEAST, "--", *PROGRAM]
    started = [
        subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"RANK": rank, "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": job},
        )
        for job in ("one", "two")
        for rank in ("0", "1")
    ]
    for process in started:
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out) == (7, "done\n"), err
    ranks = [f"{folder}.ranks/rank-{rank}.pinprof" for folder in ("out-2", "out") for rank in (0, 1)]
    assert captures(tmp_path) == ranks
    for folder in ("out-2", "out"):
        launches = {
            read_manifest(tmp_path / f"{folder}.ranks/rank-{rank}.pinprof").outcome["rank"]["launch"] for rank in (0, 1)
        }
        assert len(launches) == 1


def test_a_rank_whose_folder_cannot_be_made_runs_and_keeps_its_status(tmp_path: Path) -> None:
    (tmp_path / "out.ranks").touch()
    for force in ((), ("--force",)):
        done = pinprof(tmp_path, "-o", "out", *force, RANK="1", WORLD_SIZE="2", TORCHELASTIC_RUN_ID="job")
        ran(done, "out.ranks")
    assert captures(tmp_path) == []
