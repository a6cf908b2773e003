"""One run of the tried program: in a session of its own, and ended together with all that it left behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import ProgramNotFound
from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.program import exit_status, find_program
from pinprof.collect.recorder import STOP_SIGNALS
from pinprof.collect.signals import postponed

_PATIENCE_S = 2.0
"""Between the signals that end a program which has run too long."""
_GRACE_S, _END_S = 1.0, 10.0
"""For what a program left behind: to end when asked, and to be gone once it is killed."""
_LOOK_S = 0.02
"""Between looks at a program's memory."""
_TAIL = 4096


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended."""

    status: int
    """As a shell reports it: 128 + n for a program that signal n ended."""
    signal: int
    """The signal that ended it; 0 where none did."""
    wall_ns: int
    """From its start to its end."""
    peak_bytes: int
    """The largest resident memory of any one of its processes."""
    output: bytes
    """All of its standard output."""
    complaint: str
    """The last line of its standard error, empty without one."""
    timed_out: bool = False
    """It was ended because it ran for too long."""
    read_input: bool = False
    """It read from its standard input, where it was looked for."""

    @property
    def ending(self) -> str:
        """How it ended, as a part of a sentence: `exits with 3: KeyError: 'x'`."""
        if self.timed_out:
            return "did not end in time"
        if self.signal:
            names = {number.value: number.name for number in signal.Signals}
            return f"was ended by {names.get(self.signal, f'signal {self.signal}')}"
        return f"exits with {self.status}" + (f": {self.complaint}" if self.complaint else "")


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    limit_s: float,
    *,
    watch_input: bool = False,
    gently: bool = False,
) -> EndedRun:
    """Run a program to its end, or for `limit_s` at most; ProgramNotFound where there is none of that name.

    Its streams lie in `folder` meanwhile. It reads the file that pinprof's own standard input is, every run from the
    same place; otherwise nothing. With `watch_input` it finds one line end instead, which tells whether it reads.
    `gently`: the program is a recorder, which must not be killed while it can end by itself.
    """
    executable = find_program(command[0])
    files_of = [folder / name for name in ("output", "errors")]
    for path in files_of:
        path.unlink(missing_ok=True)
    output, errors = (files.create(path) for path in files_of)
    source, watched = _input(watch=watch_input)
    pid = 0
    try:
        actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate((source, output, errors))]
        started_ns = time.monotonic_ns()
        with postponed(STOP_SIGNALS):  # what has started is known, and so ended
            pid = _start(executable, command, environment, actions)
        timed_out, seen_bytes = _wait(pid, limit_s, gently=gently)
        _, status, usage = os.wait4(pid, 0)
        wall_ns = time.monotonic_ns() - started_ns
        _end_what_is_left(pid)
        read_input = watched and not os.read(source, 1)
    except BaseException:
        if pid:
            _break_off(pid, gently=gently)
        raise
    finally:
        for file in (source, output, errors):
            os.close(file)
    return EndedRun(
        status=exit_status(status),
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        wall_ns=wall_ns,
        peak_bytes=_peak(usage.ru_maxrss * 1024, seen_bytes),
        output=files_of[0].read_bytes(),
        complaint=_last_line(files_of[1]),
        timed_out=timed_out,
        read_input=read_input,
    )


def _start(
    executable: str, command: Sequence[str], environment: Mapping[str, str], actions: Sequence[tuple[int, int, int]]
) -> int:
    """PID of the program, which has begun; ProgramNotFound when it cannot be executed after all."""
    try:
        return os.posix_spawn(
            executable,
            list(command),
            dict(environment),
            file_actions=actions,
            setsid=True,
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            setsigmask=(),
        )
    except OSError as error:
        problem = f"The program cannot be executed: {error.strerror}."
        raise ProgramNotFound(
            problem, "A script needs a #! line; a binary must match this machine's architecture.", "program"
        ) from error


def _input(*, watch: bool) -> tuple[int, bool]:
    """Descriptor of what the program reads, and whether it shows who reads."""
    with contextlib.suppress(OSError):
        about = os.fstat(0)
        if stat.S_ISCHR(about.st_mode) and about.st_rdev == Path(os.devnull).stat().st_rdev:
            watch = False  # whoever reads finds the same every time
        elif stat.S_ISREG(about.st_mode):
            file = os.open("/proc/self/fd/0", os.O_RDONLY | os.O_CLOEXEC)
            os.lseek(file, os.lseek(0, 0, os.SEEK_CUR), os.SEEK_SET)
            return file, False
    if not watch:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), False
    source, target = os.pipe2(os.O_CLOEXEC)
    os.write(target, b"\n")
    os.close(target)
    return source, True


def _wait(pid: int, limit_s: float, *, gently: bool) -> tuple[bool, int]:
    """Wait until a process has ended, which stays to be waited for; whether it had to be made to, and its memory."""
    handle = os.pidfd_open(pid)
    until = time.monotonic() + limit_s
    seen_bytes = 0
    try:
        while not _ended(handle, min(_LOOK_S, until - time.monotonic())):
            seen_bytes = max(seen_bytes, _high_water(pid))
            if time.monotonic() >= until:
                _end(pid, handle, gently=gently)
                return True, seen_bytes
        return False, seen_bytes
    finally:
        os.close(handle)


def _break_off(pid: int, *, gently: bool) -> None:
    """End a process, wherever it is on its way, and what it started."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it was waited for
        handle = os.pidfd_open(pid)
        try:
            _end(pid, handle, gently=gently)
        finally:
            os.close(handle)
        os.wait4(pid, 0)
    _end_what_is_left(pid)


def _peak(told_bytes: int, seen_bytes: int) -> int:
    """A run's largest resident memory, by what wait4(2) told and what was seen while it ran.

    A process begins as a copy of pinprof's, whose size the kernel then counts as its own (exec_mmap, fs/exec.c). So
    what it tells counts where it is larger than that.
    """
    return told_bytes if not seen_bytes or told_bytes > _high_water(os.getpid()) else seen_bytes


def _high_water(pid: int) -> int:
    """The largest resident memory that a process has had (proc(5), VmHWM); 0 once it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _ended(handle: int, timeout_s: float | None = None) -> bool:
    """Whether a process has ended, within a time or, without one, at last."""
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    return bool(waiting.poll(None if timeout_s is None else max(timeout_s, 0) * 1000))


def _end(pid: int, handle: int, *, gently: bool) -> None:
    """Ask a process to end; a recorder three times, since it asks the program first and then writes what it has."""
    if gently:
        for _ in range(3):
            os.kill(pid, signal.SIGTERM)
            if _ended(handle, _PATIENCE_S):
                return
        _ended(handle, 30 * _PATIENCE_S)
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)
        if _ended(handle, _PATIENCE_S):
            return
    _ended(handle)


def _end_what_is_left(group: int) -> None:
    """End the processes that a run left in its group: none outlives it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _END_S)):
            os.killpg(group, number)
            until = time.monotonic() + patience_s
            while _alive(group) and time.monotonic() < until:
                time.sleep(_LOOK_S)


def _alive(group: int) -> bool:
    """Whether a process of a group runs, be it waited for or not (proc(5): what follows its name in `stat`)."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = path.read_bytes().rpartition(b")")[2].split()[:3]
            if int(its_group) == group and state not in (b"Z", b"X"):
                return True
    return False


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _TAIL, 0))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
