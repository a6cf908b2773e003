"""The process of a recording tool: who it listens to, and how it ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Self

from pinprof.base import files
from pinprof.base.errors import CollectError, system_error
from pinprof.collect.proc import state_and_cpu

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
FINISH_TIMEOUT_S = 60.0
"""For a recorder to write its file after the program has ended."""


def printed_lines(log: Path) -> list[str]:
    """What tools printed into a log, made of printable characters, without empty lines."""
    try:
        text = log.read_text("utf-8", "replace")
    except OSError:
        return []
    return [shown for line in text.splitlines() if (shown := re.sub(r"[^ -~]", "", line).strip())]


class Recorder:
    """The recording tool: its own process group, so that a terminal's Ctrl-C is not for it; prints into `log`."""

    finish_timeout_s = FINISH_TIMEOUT_S

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._begin(lambda lifeline: _spawned(command, environment, log, lifeline))

    @classmethod
    def forked(cls, work: Callable[[], int], log: Path) -> Self:
        """A copy of this process, which has one thread, does the work and exits with what that returns."""
        recorder = cls.__new__(cls)
        recorder._begin(lambda lifeline: _forked(work, log, lifeline))
        return recorder

    def _begin(self, start: Callable[[int], int]) -> None:
        """Start the process, whose standard input is given to `start`, which returns its pid."""
        # In system-wide mode perf runs a `cat` that reads this pipe: it ends when pinprof is killed, and perf with it.
        lifeline, self._lifeline = os.pipe()
        try:
            self.pid = start(lifeline)
        except OSError:
            os.close(self._lifeline)
            raise
        finally:
            os.close(lifeline)
        self._process = -1
        with contextlib.suppress(OSError):  # before Linux 5.3
            self._process = os.pidfd_open(self.pid)
        self.wait_status: int | None = None
        self.status_lost = False
        """Another part of this process took its status, or nobody can (SIGCHLD ignored): `wait_status` says nothing."""
        self.cpu_ns = 0
        """CPU time that it used, known once it has ended."""
        self.died_first = False
        """It ended, not by itself, while the program was running."""
        self._asked = False
        """To end, while it was running."""
        self._give_time()

    def _give_time(self) -> None:
        self._had_s, self._seen = 0.0, (time.monotonic(), state_and_cpu(self.pid)[1])

    def had_s(self) -> float:
        """How many seconds it had, since it began or was asked to end: what it used of a processor, and what it slept
        at that. It can't help the time in which it waits for a processor or a disk that others have.

        To be asked every second: what passes beyond that is a pause of pinprof, which both may have had.
        """
        since, used_s = self._seen
        state, cpu_s = state_and_cpu(self.pid)
        self._seen = time.monotonic(), cpu_s
        waits = cpu_s > used_s or state in ("R", "D")
        self._had_s += cpu_s - used_s if waits else min(self._seen[0] - since, 1.0)
        return self._had_s

    def finish(self) -> None:
        """Ask it to write what it still holds and to end; one that somebody stopped goes on for that."""
        self._asked = not self.reap()
        self._give_time()
        self.send(signal.SIGINT)
        self.send(signal.SIGCONT)

    def stalled(self, waited_s: float) -> bool:
        """Whether it will never finish, as far as is known after `waited_s` seconds of waiting for that."""
        del waited_s
        return False

    def wait(self) -> None:
        """Wait until it has ended."""
        if self.wait_status is None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self.reap()

    def reap(self) -> bool:
        """Whether the recorder has ended; does not wait."""
        if self.wait_status is None:
            try:
                pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.wait_status, self.status_lost = 0, True
            else:
                if not pid:
                    return False
                self.wait_status = status
                self.cpu_ns = round((usage.ru_utime + usage.ru_stime) * 1e9)
            for file in (self._lifeline, self._process):
                if file >= 0:
                    os.close(file)
        return True

    def send(self, number: int) -> None:
        """Send the recorder a signal, unless it has ended; nobody else, whoever has its pid by now."""
        if self.wait_status is None:
            with contextlib.suppress(ProcessLookupError):
                if self._process >= 0:
                    signal.pidfd_send_signal(self._process, number)
                else:
                    os.kill(self.pid, number)

    @property
    def ended_by_others(self) -> bool:
        """A signal ended it before pinprof asked it to finish."""
        return not self._asked and self.wait_status is not None and os.WIFSIGNALED(self.wait_status)

    def unfinished(self, name: str, slug: str, *, disk_full: bool, reason: str) -> CollectError:
        """Why its recording is not whole, once it has ended: `name` is the tool's, `reason` what it printed itself."""
        assert self.wait_status is not None
        when = "while the program was running" if self.died_first else "before it had written everything"
        if disk_full:
            return CollectError(
                f"The disk is full: {name} stopped {when}; the recording up to then is kept.",
                "Free some disk space, or write to another disk with -o.",
                "disk-full",
            )
        if self.status_lost:
            how = "ended"
        elif os.WIFSIGNALED(self.wait_status):
            how = f"was ended by {signal.Signals(os.WTERMSIG(self.wait_status)).name}"
        else:
            how = f"ended with status {os.waitstatus_to_exitcode(self.wait_status)}"
        subject = name[0].upper() + name[1:] if name.startswith("the ") else name
        return CollectError(
            f"{subject} {how} {when}{f' ({reason})' if reason else ''}; the recording up to then is kept.",
            "Record again for a complete capture.",
            slug,
        )

    @property
    def ended_well(self) -> bool:
        """It exited with 0, by the SIGINT that asks it to finish, or by the SIGTERM with which it then ends its `cat`.

        perf record ends itself by the signal that ended it or its command, after the file is written.
        """
        status = self.wait_status
        if status is None or not os.WIFSIGNALED(status):
            return status == 0
        return os.WTERMSIG(status) in (signal.SIGINT, signal.SIGTERM)


def unstarted(who: str, error: OSError) -> tuple[str, str]:
    """What to say of a process that cannot be started: problem and remedy."""
    known = system_error(error)
    return f"{who} can't start: {error.strerror}.", known.remedy if known else "`pinprof doctor` checks this machine."


_STANDARD = (0, 1, 2)
_DEFAULTED = (*STOP_SIGNALS, signal.SIGPIPE, signal.SIGCHLD)
"""Signals that do in a recorder what they do in any new program."""


def _spawned(command: Sequence[str], environment: Mapping[str, str], log: Path, lifeline: int) -> int:
    return os.posix_spawnp(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_DUP2, lifeline, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), LOG_FLAGS, files.PRIVATE),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setpgroup=0,
        setsigmask=[],
        setsigdef=_DEFAULTED,
    )


def _forked(work: Callable[[], int], log: Path, lifeline: int) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _work(work, log, lifeline)
    return pid


def _work(work: Callable[[], int], log: Path, lifeline: int) -> NoReturn:
    """In the forked child: the state that a new program finds, then the work. Nothing of the parent is cleaned up."""
    status, logs = 1, False
    try:
        os.setpgid(0, 0)
        file = os.open(log, LOG_FLAGS, files.PRIVATE)
        for source, stream in zip((lifeline, file, file), _STANDARD, strict=True):
            os.dup2(source, stream)
        logs = True
        # What others wait for the end of, such as their lifelines.
        for file in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            if file > _STANDARD[-1]:
                with contextlib.suppress(OSError):  # the listing's own
                    os.close(file)
        signal.set_wakeup_fd(-1)
        for number in _DEFAULTED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        status = work()
    except BaseException as error:
        if logs:  # the program's standard error is no place for it
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        if isinstance(error, OSError) and error.errno:
            status = error.errno
    finally:
        os._exit(status)
