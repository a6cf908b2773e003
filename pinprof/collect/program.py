"""The recorded program: how it starts behind a gate, what it finds, and how it ends.

pinprof starts the program itself and attaches the recorders to it. So the program keeps its own standard streams, its
place in the terminal's foreground group and its exit status, and outlives a recorder that dies. It waits behind a gate
until the recorders are ready: nothing of it runs unrecorded, and when they cannot start, nothing of it runs at all.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from pinprof.base.errors import ProgramNotFound
from pinprof.base.lazy_dataclass import dataclass

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""An ignored signal stays ignored across exec."""
_AS_TYPED = "Give the command after --, as you would type it."


def find_program(name: str) -> str:
    """Path of a program as execvp(3) would find it; ProgramNotFound (exit status 127) when there is none."""
    path = shutil.which(name)
    if path is None:
        try:
            here = Path(name).is_file()
        except PermissionError as error:
            problem = f"The program {name!r} can't be reached: {error.strerror}."
            raise ProgramNotFound(problem, "Check the permissions of the folders that it lies in.", "program") from None
        problem = f"{name!r} is not executable." if "/" in name and here else f"There is no program {name!r}."
        raise ProgramNotFound(problem, _meant(name) if here else _AS_TYPED, "program")
    return path


def _meant(name: str) -> str:
    """How a shell would run a file that is not on its path."""
    if name.endswith(".py"):
        return f"Did you mean `python {name}`?"
    if "/" in name:
        return f"Make it executable: chmod +x {name}"
    return f"Did you mean `./{name}`?" if os.access(name, os.X_OK) else _AS_TYPED


@dataclass(frozen=True)
class HeldSignals:
    """The signals that `signals_held` keeps, and the state that a program must find instead."""

    mask: frozenset[signal.Signals]
    """Blocked before."""
    ignored: tuple[signal.Signals, ...]
    """Ignored before, as under nohup."""
    strays: list[int]
    """Arrived at a thread of some library (numpy's), which does not share our mask."""


class NotStarted(Exception):
    """No process can be started for the program."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Program:
    """The program being recorded, forked and waiting behind a gate."""

    in_foreground = True
    """It shares pinprof's process group: a Ctrl-C of the terminal reaches it as well."""
    begun = False
    """It is the program by now: something of it is recorded."""
    wait_status: int | None = None
    usage: resource.struct_rusage | None = None
    started_ns = ended_ns = 0

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], signals: HeldSignals) -> None:
        executable = find_program(command[0])
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            gate, self._gate = os.pipe()
            self._failure, failure = os.pipe()
            self.pid = os.fork()
        except OSError as error:
            raise NotStarted(error) from error
        if self.pid == 0:
            os.close(self._gate)
            _become(executable, command, environment, signals, gate, failure)
        os.close(gate)
        os.close(failure)
        self.started_ns = self.ended_ns = time.monotonic_ns()

    def start(self) -> None:
        """Open the gate; CollectError when the program cannot be executed after all."""
        self.started_ns = time.monotonic_ns()
        with contextlib.suppress(BrokenPipeError):  # killed while it waited: reap() will tell
            os.write(self._gate, b"g")
        # Closed by a successful exec, so this returns when the program has begun.
        reason = os.read(self._failure, 16)
        self._close()
        if reason:
            problem = f"The program cannot be executed: {os.strerror(int(reason))}."
            raise ProgramNotFound(
                problem, "A script needs a #! line; a binary must match this machine's architecture.", "program"
            )
        self.begun = True

    @property
    def over(self) -> bool:
        """Whether nothing of it is left to be recorded: it has ended."""
        return self.wait_status is not None

    def abandon(self) -> None:
        """End a program that still waits: at the closed gate it exits without having begun."""
        self._close()
        self.reap(options=0)

    def reap(self, options: int = os.WNOHANG) -> bool:
        """Whether the program has ended, noting its status and usage; does not wait unless `options` is 0."""
        if self.wait_status is None:
            pid, status, usage = os.wait4(self.pid, options)
            if pid:
                self.wait_status, self.usage, self.ended_ns = status, usage, time.monotonic_ns()
        return self.wait_status is not None

    def send(self, number: int) -> None:
        """Send the program a signal, unless it has ended."""
        if self.wait_status is None:
            os.kill(self.pid, number)

    def resources(self) -> dict[str, int]:
        """What it and its children used, once it has ended (getrusage(2)); empty where that is not known."""
        return resources(self.usage) if self.usage else {}

    def left_s(self) -> float:
        """In how many seconds at most it must be looked at; a signal reports its end."""
        return float("inf")

    def _close(self) -> None:
        for file in (self._gate, self._failure):
            if file >= 0:
                os.close(file)
        self._gate = self._failure = -1


def _become(
    executable: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    signals: HeldSignals,
    gate: int,
    failure: int,
) -> NoReturn:
    """In the forked child: wait for the gate, then become the program with the signal state a shell would give it."""
    try:
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        for number in signals.ignored:
            signal.signal(number, signal.SIG_IGN)
        if os.read(gate, 1):
            signal.pthread_sigmask(signal.SIG_SETMASK, signals.mask)
            os.execve(executable, list(command), dict(environment))  # noqa: S606 - the program itself, no shell between
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def become(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Become a program in place of this process, where no other can be started."""
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    os.execve(find_program(command[0]), list(command), dict(environment))  # noqa: S606 - the program itself


def exit_status(wait_status: int) -> int:
    """A wait(2) status as a shell reports it."""
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code


def ending_note(wait_status: int) -> str:
    """A sentence about a program that a signal ended; empty for one that exited."""
    if not os.WIFSIGNALED(wait_status):
        return ""
    number = os.WTERMSIG(wait_status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return f"The program was ended by {name}."


def resources(usage: resource.struct_rusage) -> dict[str, int]:
    """getrusage(2) as integers: nanoseconds and bytes."""
    return {
        "user_ns": round(usage.ru_utime * 1e9),
        "system_ns": round(usage.ru_stime * 1e9),
        "max_resident_bytes": usage.ru_maxrss * 1024,
        "minor_faults": usage.ru_minflt,
        "major_faults": usage.ru_majflt,
        "voluntary_switches": usage.ru_nvcsw,
        "involuntary_switches": usage.ru_nivcsw,
    }
