"""In every situation the program runs, with its own output and exit status, and what is wrong is said, with what helps.

The situations are real ones, made by tests/support/situation.py: capabilities, namespaces, filters, mounts and limits
as containers, clusters and careful administrators have them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pinprof.base.errors import ToolMissing
from pinprof.collect import permission
from pinprof.machine.libraries import INSIDE, LIBRARIES
from pinprof.read import read
from tests.support import situation
from tests.support.other_user import NOBODY, reachable_python
from tests.support.recorded_programs import LEAST, python
from tests.support.situation import DENIED, DOCKER, PODMAN, SITUATION, UNAVAILABLE

PROGRAM = ("/bin/sh", "-c", "echo done; echo own >&2; exit 7")
PYTHON = python("import sys, time\ntime.sleep(0.05)\nprint('done')\nprint('own', file=sys.stderr)\nraise SystemExit(7)")
OWN = (
    "own",
    "Perf events are not permitted here: timers inside the program",
    "Perf events may not see the kernel here: timers inside the program",
    "Python lines may not be read from outside the program here: timers inside",
    "/bin/sh: 1: echo: echo: I/O error",
    "sh: 0: getcwd() failed",
)
"""What the programs here say; how CPU time is recorded; dash of a closed output, and of a folder that is gone."""
ONCE = ("--backend", "host", "--size", "1MiB", "--iterations", "1", "--warmup", "0")
FILTER = "a seccomp filter refuses perf_event_open"
NO_SAMPLES = "pinprof is not permitted to sample programs"
NOT_SAMPLED = "CPU time, page faults and waits are not recorded"
NAMELESS = "so kernel frames have no names"
HOST_SYSCTL = "On the host, run `sudo sysctl kernel.perf_event_paranoid=1`"


@dataclass(frozen=True)
class Case:
    """A situation, and what is said in it."""

    name: str
    words: str = ""
    """Those of situation.py; `{}` is the test's folder."""
    said: tuple[tuple[str, ...], ...] = ()
    """The lines of pinprof's own: what each has, the problem and the cure."""
    exact: bool = True
    """There are no other lines."""
    environment: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    """Variables that are not set."""
    through: str = 'exec "$@"'
    """What a shell does in the situation, and then starts pinprof."""
    program: tuple[str, ...] = PROGRAM
    options: tuple[str, ...] = LEAST
    printed: str = "done\n"
    recorded: bool = True
    samples: bool = True
    """They are permitted, where they are permitted to these tests."""
    doctor: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """Check → its state, words of what it found, words of its fix."""


def docker(name: str, words: str, *said: tuple[str, ...], **more: object) -> Case:
    return Case(name, f"namespace=uts {words}", said, environment={"container": "docker"}, **more)  # type: ignore[arg-type]


CASES = (
    docker(
        "Docker's default",
        f"capabilities={DOCKER} refuse=EPERM:{DENIED} limit=MEMLOCK:65536",
        (NO_SAMPLES, FILTER, "Start the container with `docker run --cap-add PERFMON`."),
        samples=False,
        doctor={
            "place": ("info", "a Docker container, as root, without capabilities", ""),
            "recording": ("ok", "recorded", ""),
            "native collector": ("warning", FILTER, "docker run --cap-add PERFMON`."),
            "sampling the kernel": ("warning", FILTER, "docker run --cap-add PERFMON`."),
            "kernel symbols": ("warning", NAMELESS, "docker run --cap-add SYSLOG`."),
            "locked memory": ("warning", "64 KiB", "--ulimit memlock=-1"),
            "io_uring": ("info", "not permitted", "--security-opt seccomp=unconfined"),
            "CUDA calls": ("ok", "by the agent", ""),
            "wake-ups": ("info", "CAP_SYS_ADMIN, which root does not have here", ""),
            "probes": ("info", "CAP_SYS_ADMIN, which root does not have here", ""),
        },
    ),
    docker(
        "an older Docker's default",
        f"capabilities={DOCKER} refuse=ENOSYS:{DENIED}",
        (NO_SAMPLES, f"{FILTER} (Function not implemented)", "docker run --cap-add PERFMON"),
        samples=False,
    ),
    docker(
        "Docker with PERFMON",
        f"capabilities={DOCKER},perfmon",
        (NAMELESS, "Start the container with `docker run --cap-add SYSLOG`."),
    ),
    docker(
        "Docker with PERFMON behind a filter of one's own",
        f"capabilities={DOCKER},perfmon refuse=EPERM:perf_event_open",
        (NO_SAMPLES, FILTER, "Start the container with `docker run --security-opt seccomp=unconfined`."),
        samples=False,
    ),
    docker(
        "Docker without the filter",
        f"capabilities={DOCKER} paranoid=3",
        (NO_SAMPLES, "and the container has no CAP_PERFMON", "docker run --cap-add PERFMON`."),
        samples=False,
    ),
    docker("Docker with everything", f"capabilities={situation.CAPABILITIES}"),
    Case(
        "Podman's default",
        f"namespace=uts capabilities={PODMAN} refuse=EPERM:{DENIED}",
        ((NO_SAMPLES, FILTER, "Start the container with `podman run --cap-add PERFMON`."),),
        environment={"container": "podman"},
        samples=False,
    ),
    Case(
        "Podman without root",
        f"namespace=user refuse=EPERM:{DENIED}",
        ((NO_SAMPLES, FILTER, "podman run --security-opt seccomp=unconfined`.", HOST_SYSCTL),),
        environment={"container": "podman"},
        samples=False,
        doctor={
            "place": ("info", "a Podman container, in a user namespace, as root", ""),
            "native collector": ("warning", FILTER, HOST_SYSCTL),
            "kernel symbols": ("warning", NAMELESS, "On the host, run `sudo sysctl kernel.kptr_restrict=0"),
            "probes": ("info", "outside of a user namespace", ""),
        },
    ),
    Case(
        "a user namespace",
        "namespace=user paranoid=3",
        ((NO_SAMPLES, "capabilities of a user namespace do not count", HOST_SYSCTL),),
        samples=False,
    ),
    Case(
        "Kubernetes, restricted",
        f"user={NOBODY} refuse=EPERM:{DENIED}",
        ((NO_SAMPLES, FILTER, "securityContext, set `capabilities: {add: [PERFMON]}", "runAsUser: 0", "restricted"),),
        environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
        samples=False,
        doctor={
            "place": ("info", "a container of Kubernetes, not as root", ""),
            "native collector": ("warning", FILTER, "set `capabilities: {add: [PERFMON]}, runAsUser: 0`"),
            "wake-ups": ("info", "needs root", ""),
        },
    ),
    Case(
        "Kubernetes with PERFMON behind its filter",
        f"capabilities={DOCKER},perfmon refuse=EPERM:perf_event_open",
        ((NO_SAMPLES, FILTER, "securityContext, set `seccompProfile: {type: Unconfined}`"),),
        environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
        samples=False,
    ),
    Case(
        "a rented container",
        f"namespace=uts capabilities={DOCKER} refuse=EPERM:{DENIED},ptrace,process_vm_readv",
        ((NO_SAMPLES, FILTER, "RunPod chooses the flags of its containers: rent a virtual machine."),),
        environment={"container": "docker", "RUNPOD_POD_ID": "x"},
        program=PYTHON,
        options=LEAST[:2],
        samples=False,
        doctor={
            "place": ("info", "a container of RunPod", ""),
            "Python lines": ("ok", "by the agent inside the program", ""),
            "timers": ("ok", "they sample its CPU time", ""),
        },
    ),
    Case(
        "gVisor",
        f"namespace=uts capabilities={DOCKER} file=/proc/version:{situation.GVISOR} "
        "file=/proc/sys/kernel/perf_event_paranoid: refuse=ENODEV:perf_event_open",
        (("gVisor has no perf events.", "Start the container with `--runtime=runc`"),),
        samples=False,
    ),
    Case(
        "a job of Slurm",
        f"user={NOBODY} paranoid=3",
        ((NO_SAMPLES, "kernel.perf_event_paranoid is 3", "Ask the cluster's administrators to run `sysctl"),),
        environment={"SLURM_JOB_ID": "77"},
        samples=False,
    ),
    Case(
        "nobody at level 2",
        f"user={NOBODY} file={situation.PARANOID}:2",
        (("sample the kernel's part", "Run `sudo sysctl kernel.perf_event_paranoid=1`", "CAP_PERFMON"),),
        samples=False,
        doctor={
            "native collector": ("info", "not used", ""),
            "timers": ("ok", "inside the program", ""),
            "sampling the kernel": ("warning", "perf_event_paranoid is 2", "sysctl kernel.perf_event_paranoid=1"),
            "CUDA calls": ("ok", "by the agent", ""),
        },
    ),
    Case(
        "nobody at level 4",
        f"user={NOBODY} paranoid=4",
        ((NO_SAMPLES, "kernel.perf_event_paranoid is 4", "Run `sudo sysctl kernel.perf_event_paranoid=1`, or run"),),
        samples=False,
    ),
    Case(
        "root without capabilities at level 3",
        "capabilities=chown paranoid=3",
        ((NO_SAMPLES, "and root has no CAP_PERFMON here", "or run pinprof with CAP_PERFMON"),),
        samples=False,
    ),
    Case(
        "kernel.kptr_restrict 2",
        f"capabilities={DOCKER},perfmon file=/proc/sys/kernel/kptr_restrict:2",
        (("kernel.kptr_restrict is 2, which hides", "from root as well", "Run `sudo sysctl kernel.kptr_restrict=1`."),),
        doctor={"kernel symbols": ("warning", "from root as well", "sysctl kernel.kptr_restrict=1")},
    ),
    Case("no kernel symbols", "file=/proc/kallsyms:", (("although pinprof has CAP_SYSLOG", NAMELESS, "findmnt"),)),
    Case(
        "Python's memory denied",
        "refuse=EPERM:process_vm_readv,ptrace",
        (("process_vm_readv fails with Operation not permitted", "docker run --cap-add SYS_PTRACE"),),
        program=PYTHON,
        options=LEAST[:2],
        samples=False,
    ),
    docker(
        "Docker with SYS_ADMIN and SYSLOG, Python's memory denied",
        f"capabilities={DOCKER},sys_admin,syslog refuse=EPERM:process_vm_readv,ptrace",
        (
            "beside samples of the kernel need: process_vm_readv fails with",
            "Start the container with `docker run --cap-add SYS_PTRACE`.",
        ),
        program=PYTHON,
        options=LEAST[:2],
        samples=False,
        doctor={
            "native collector": ("info", "timers inside the program see Python lines as well", ""),
            "timers": ("ok", "they sample its CPU time", ""),
            "Python lines": ("ok", "by the agent inside the program", ""),
            "sampling the kernel": ("warning", "permitted, but timers", "docker run --cap-add SYS_PTRACE`."),
        },
    ),
    Case("no tracefs, no namespaces", "refuse=EPERM:mount,unshare,setns,bpf,kcmp,pidfd_getfd"),
    Case("an old kernel", "refuse=ENOSYS:memfd_create,statx,pidfd_open,pidfd_getfd,clone3,move_pages,mlock2"),
    Case("no locks and priorities", "refuse=EPERM:flock,sched_setscheduler,syslog,fanotify_init"),
    Case("no /sys", "tmpfs=/sys"),
    Case(
        "no /proc",
        "tmpfs=/proc",
        ((NOT_SAMPLED, "The collector can't start"), (NAMELESS, "There is no /proc/kallsyms here")),
        samples=False,
    ),
    Case(
        "a current folder that cannot be written",
        "rofs={}",
        (("The program runs without a recording", "Read-only file system", "With -o, choose a writable place"),),
        through='cd "$PWD"; exec "$@"',
        recorded=False,
    ),
    Case(
        "no place for temporary files",
        "rofs=/tmp rofs=/var/tmp",
        (("The program runs without a recording", "No usable temporary directory", "Set TMPDIR to a writable folder"),),
        environment={"TMPDIR": "/proc"},
        through='cd /proc; exec "$@"',
        recorded=False,
    ),
    Case("temporary files that cannot be executed", "tmpfs={}/t:noexec", environment={"TMPDIR": "{}/t"}),
    Case(
        "little room for temporary files",
        "tmpfs={}/t:size=4k",
        environment={"TMPDIR": "{}/t"},
        doctor={"recording": ("ok", "recorded", "")},
    ),
    Case("a small /dev/shm", "tmpfs=/dev/shm:size=4k"),
    Case(
        "16 open files",
        "limit=NOFILE:16",
        ((NOT_SAMPLED, "can't open enough files", "ulimit -n"),),
        samples=False,
        doctor={"native collector": ("warning", "can't open enough files", "ulimit -n")},
    ),
    Case(
        "12 open files",
        "limit=NOFILE:12",
        (("The program runs without a recording", "Too many open files", "ulimit -n 65536"),),
        exact=False,
        recorded=False,
    ),
    Case(
        "no other process",
        f"user={NOBODY} limit=NPROC:1",
        (
            ("Samples and Python lines are not recorded", "start only 0 more processes", "`ulimit -u`"),
            ("The program runs without a recording", "Resource temporarily unavailable", "`ulimit -u`"),
        ),
        recorded=False,
    ),
    Case("no memory to lock", "limit=MEMLOCK:0"),
    Case(
        "files of no size",
        "limit=FSIZE:0",
        (("The program runs without a recording", "No usable temporary directory", "Set TMPDIR"),),
        recorded=False,
    ),
    Case(
        "files of 100 kB",
        "limit=FSIZE:100000",
        (("The program runs without a recording", "File too large", "`ulimit -f unlimited`"),),
        recorded=False,
    ),
    Case(
        "little memory",
        "limit=AS:90000000",
        (("Symbols were not stored", "may have only", "`ulimit -v`"),),
        # Rings of many processors may find no room either.
        exact=False,
        samples=False,
    ),
    Case("no HOME, PATH and language", without=("HOME", "PATH", "LANG", "LC_ALL", "TERM")),
    Case("the language C", environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    Case("a closed standard input", "closed=0"),
    Case("a closed standard output", "closed=1", printed=""),
    Case("signals that are ignored", through="trap '' PIPE HUP INT TERM; exec \"$@\""),
    Case("files that nobody may read", through='umask 777; exec "$@"'),
    Case(
        "a current folder that is gone",
        through='mkdir gone; cd gone; rmdir ../gone; exec "$@"',
        said=(("The program runs without a recording", "No such file or directory", "With -o, choose"),),
        recorded=False,
        doctor={"captures": ("warning", "No such file or directory", "give -o PATH")},
    ),
)


@pytest.fixture(scope="session")
def libraries() -> Iterator[Path]:
    """A cache of pinprof's libraries for each user, so that no situation has to compile them."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o711)
        for user in (os.geteuid(), NOBODY):
            folder = Path(place, str(user), "pinprof")
            folder.mkdir(0o755, parents=True, exist_ok=True)
            for library in LIBRARIES:
                try:
                    shutil.copy(library.find(), folder)
                except ToolMissing as error:
                    pytest.skip(str(error))
            if os.geteuid() == 0:
                os.chown(folder, user, -1)
        yield Path(place)


def in_situation(
    case: Case, folder: Path, cache: Path, *arguments: str, program: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """`pinprof ARGUMENTS -- PROGRAM` in a situation."""
    nobody = f"user={NOBODY}" in case.words
    interpreter, path = reachable_python() if nobody else (sys.executable, "")
    words = [word.replace("~", " ").replace("{}", str(folder)) for word in case.words.split()]
    if words and os.geteuid() != 0:
        pytest.skip("needs root")
    (folder / "t").mkdir(exist_ok=True)
    own = {"XDG_CACHE_HOME": str(cache / str(NOBODY if nobody else os.geteuid())), "PYTHONDONTWRITEBYTECODE": "1"}
    given = {name: value.replace("{}", str(folder)) for name, value in case.environment.items()}
    environment = {**os.environ, **own, **({"PYTHONPATH": path} if nobody else {}), **given}
    command = [interpreter, "-m", "pinprof", *arguments, *(("--", *program) if program else ())]
    done = subprocess.run(
        [*SITUATION, *words, "--", "/bin/sh", "-c", case.through, "sh", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={name: value for name, value in environment.items() if name not in case.without},
    )
    if done.returncode == UNAVAILABLE:
        pytest.skip(done.stderr)
    return done


def folder_of(case: Case, cache: Path, folder: Path) -> Path:
    """Where it is recorded: what others may reach, for another user."""
    if f"user={NOBODY}" not in case.words or os.geteuid() != 0:
        return folder
    place = Path(tempfile.mkdtemp(dir=cache))
    os.chown(place, NOBODY, NOBODY)
    return place


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_the_program_runs_and_what_is_missing_is_said(case: Case, libraries: Path, tmp_path: Path) -> None:
    if case.samples and case.recorded and permission.sampling_errno():
        pytest.skip("this process may not sample the kernel")
    if "file=/proc/sys/kernel/perf_event_paranoid:2" in case.words and permission.paranoid() != 2:
        pytest.skip("kernel.perf_event_paranoid is not 2")
    folder = folder_of(case, libraries, tmp_path)
    done = in_situation(case, folder, libraries, "record", "-o", "out", *case.options, program=case.program)
    assert (done.returncode, done.stdout) == (7, case.printed), done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("Capture: ", *OWN))]
    assert "own" in done.stderr.splitlines(), done.stderr
    assert [line for line in lines if not line.startswith("pinprof: ")] == [], "the program says what it says alone"
    assert len(lines) == len(case.said) or not case.exact, done.stderr
    for words in case.said:
        assert [line for line in lines if all(word in line for word in words)], done.stderr
    captures = sorted(path.name for path in folder.glob("*.pinprof") if path.is_dir())
    assert len(captures) == case.recorded
    if case.recorded and case.samples:
        assert len(read(folder / captures[0]).events), "samples, as nothing forbids them"


@pytest.mark.parametrize("case", [case for case in CASES if case.doctor], ids=lambda case: case.name.replace(" ", "-"))
def test_doctor_says_what_a_recording_has_there_and_what_lets_it_have_more(
    case: Case, libraries: Path, tmp_path: Path
) -> None:
    if case.samples and permission.sampling_errno():
        pytest.skip("this process may not sample the kernel")
    done = in_situation(case, folder_of(case, libraries, tmp_path), libraries, "doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = {check["name"]: check for check in json.loads(done.stdout)}
    for name, (state, words, fix) in case.doctor.items():
        check = found[name]
        assert (check["state"], words in check["found"], fix in check["fix"]) == (state, True, True), check


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_doctor_and_a_scenario_run_or_say_what_they_lack(case: Case, libraries: Path, tmp_path: Path) -> None:
    """With the recordings above this is a matrix: situation × doctor, record, run, status and output."""
    folder = folder_of(case, libraries, tmp_path)
    done = in_situation(case, folder, libraries, "doctor", "--json")
    assert "Traceback" not in done.stderr
    if case.printed:
        found = {check["name"]: check for check in json.loads(done.stdout)}
        assert done.returncode == (found["recording"]["state"] == "problem")
        assert [each for each in found.values() if each["state"] in ("warning", "problem") and not each["fix"]] == []
    done = in_situation(case, folder, libraries, "run", "pageable", *ONCE)
    assert "Traceback" not in done.stderr
    assert done.returncode == ("pinprof: error: " in done.stderr), done.stderr
    assert ("every element verified" in done.stdout) == (not done.returncode and bool(case.printed))


def test_a_program_in_a_folder_of_another_user_is_named_with_the_status_of_a_shell(
    libraries: Path, tmp_path: Path
) -> None:
    case = Case("", f"user={NOBODY}")
    tmp_path.chmod(0o700)
    folder = folder_of(case, libraries, tmp_path)
    done = in_situation(case, folder, libraries, "record", *LEAST, program=(str(tmp_path / "private"),))
    assert (done.returncode, done.stdout) == (127, "")
    assert "private' can't be reached: Permission denied. Check the permissions of the folders" in done.stderr


def test_libraries_that_may_not_be_executed_are_left_out(libraries: Path, tmp_path: Path) -> None:
    if INSIDE.source.with_name(INSIDE.name).is_file():
        pytest.skip("the libraries were built into the package")
    copied = f'cp -r {libraries / str(os.geteuid())}/pinprof t; exec "$@"'
    case = Case("", "tmpfs={}/t:noexec", environment={"XDG_CACHE_HOME": "{}/t"}, through=copied)
    done = in_situation(case, tmp_path, libraries, "record", "-o", "out", *LEAST, program=PROGRAM)
    assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
    assert "ld.so" not in done.stderr
    assert f"can't be loaded from {tmp_path}/t/pinprof, which is mounted with noexec. Set XDG_CACHE_HOME" in done.stderr
    if not permission.sampling_errno():
        assert len(read(tmp_path / "out.pinprof").events), "samples, with the stacks that frame pointers show"


@pytest.mark.parametrize(
    ("words", "scenario", "status", "said"),
    [
        ("refuse=EPERM:perf_event_open", "pageable", 0, (NO_SAMPLES, FILTER)),
        ("refuse=EPERM:io_uring_setup", "pinned", 1, ("does not permit io_uring", "pinprof doctor")),
    ],
)
def test_a_scenario_runs_or_says_what_it_lacks(
    words: str, scenario: str, status: int, said: tuple[str, ...], libraries: Path, tmp_path: Path
) -> None:
    done = in_situation(
        Case("", words), tmp_path, libraries, "run", scenario, *ONCE, "--record", *LEAST[:2], "-o", "out"
    )
    if status == 0 and "io_uring" in done.stderr:
        pytest.skip("io_uring is not permitted here")
    assert done.returncode == status, done.stderr
    assert [word for word in said if word not in done.stderr] == [], done.stderr
    assert "Traceback" not in done.stderr
    assert ("every element verified" in done.stdout) == (status == 0)
