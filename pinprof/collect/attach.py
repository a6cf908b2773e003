"""A program that runs already (`pinprof record --pid`): recorded from now on, and left as it is.

It is no child of pinprof: its end is seen through a pidfd (pidfd_open(2), Linux 5.3) or, where there is none, in /proc;
its status stays unknown.
Ctrl-C and the other signals end the recording, never the program.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from pathlib import Path

from pinprof.base.errors import CollectError
from pinprof.collect.proc import alive
from pinprof.collect.program import Program

_STOPPED = 0
"""The wait status of a program that pinprof is no parent of: its own is not for us."""


class RunningProgram(Program):
    """A process that was there before: recording it ends with it, after a time, or by a signal."""

    in_foreground = False
    """A signal is for the recording, which `send` ends."""

    def __init__(self, pid: int, duration_s: float) -> None:
        self.pid = pid
        self._duration_s = duration_s
        self._over = False
        self._process = -1
        try:
            self._process = os.pidfd_open(pid)
        except ProcessLookupError as error:
            raise no_process(pid) from error
        except OSError:  # older kernels, and containers that do not allow it
            if self._ended():
                raise no_process(pid) from None
        self.started_ns = self.ended_ns = time.monotonic_ns()

    def start(self) -> None:
        """From now on it counts."""
        self.started_ns, self.begun = time.monotonic_ns(), True

    def abandon(self) -> None:
        """Leave it alone."""
        self._over = True
        self.reap()

    def reap(self, options: int = os.WNOHANG) -> bool:
        """Whether the recording is over: the process has ended, the time is up, or a signal said so."""
        del options
        if self.wait_status is None:
            now = time.monotonic_ns()
            elapsed = self.begun and self._duration_s and now >= self.started_ns + self._duration_s * 1e9
            if self._over or elapsed or self._ended():
                self.wait_status, self.ended_ns = _STOPPED, now
                if self._process >= 0:
                    os.close(self._process)
        return self.wait_status is not None

    def send(self, number: int) -> None:
        """End the recording; the program gets no signal."""
        del number
        self._over = True

    def _ended(self) -> bool:
        """Whether it has ended, reaped or not."""
        if self._process >= 0:
            return bool(select.select([self._process], [], [], 0)[0])
        return not alive(self.pid)

    def left_s(self) -> float:
        """Seconds until the time is up; 0.1 at most, since no signal reports the end of another's process."""
        if not self._duration_s:
            return 0.1
        return min(max(self._duration_s - (time.monotonic_ns() - self.started_ns) / 1e9, 0.0), 0.1)


def command_of(pid: int) -> tuple[str, ...]:
    """The command line of a running process; CollectError when there is no such process."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError as error:
        raise no_process(pid) from error
    command = tuple(word.decode("utf-8", "replace") for word in words[:-1])
    if not command:
        raise CollectError(
            f"Process {pid} is a kernel thread or has ended.", "Give the PID of a program, as ps shows it.", "pid"
        )
    return command


def name_of(pid: int) -> str:
    """Its name as ps shows it; empty when it has none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    return ""


def no_process(pid: int) -> CollectError:
    """What to say of a PID that nobody has."""
    return CollectError(f"There is no process {pid} here.", "Give the PID of a running program, as ps shows it.", "pid")
