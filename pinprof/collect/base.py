"""A program and the recorder beside it: how both start, who gets which signal, and how both end.

pinprof starts the program itself and attaches the recorder to it. The program therefore keeps its own standard streams,
its place in the terminal's foreground group and its exit status, and outlives a recorder that dies; the recorder prints
into the log. The program waits behind a gate until the recorder is ready, so nothing of it runs unrecorded, and when
the recorder cannot start, nothing of it runs at all.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol

from pinprof.errors import CollectError, ProgramNotFound

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_WATCHED = (*STOP_SIGNALS, signal.SIGCHLD)

PASS_ON_AFTER_S = 0.5
"""A terminal's Ctrl-C reaches the program too; one sent by kill may have reached only pinprof: it is passed on then."""
FINISH_TIMEOUT_S = 60.0
"""For a recorder to write its file after the program has ended."""

_SENT_BY_KERNEL = 0x80
"""siginfo's si_code SI_KERNEL: the terminal sent it, to the whole foreground group (sigaction(2))."""


@dataclass(frozen=True)
class RecordRequest:
    """What to record and how."""

    command: tuple[str, ...]
    pid: int = 0
    """Record this process, which runs already, instead of starting the command, which then is its command line."""
    duration_s: float = 0.0
    """Of a running process record so long; 0 until it ends or the user says so."""
    region_only: bool = False
    """The program switches sampling on and off itself (scenario.measured); else all of it is sampled."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables added to the program's environment; never stored."""
    frequency: int = 999
    """CPU samples a second and thread."""
    call_graph: str = "fp"
    """`fp`, `dwarf` or `lbr`."""
    fault_period: int = 64
    """One sample for so many page faults."""
    off_cpu: bool = True
    """Record why threads leave the processors, and for how long."""
    cuda_calls: bool = True
    """Record when CUDA's functions are entered and left, where that can be done."""
    system_wide: bool = False
    python: str = "off"
    """How Python functions are seen: `auto`, `lines`, `trampoline`, `both` or `off` (python.py)."""
    python_rate: int = 1000
    """Looks at Python's frames a second."""
    keep_report: bool = False
    """Keep nsys's own report, which holds the program's environment and the machine's process list."""


@dataclass(frozen=True)
class Outcome:
    """How a recording ended."""

    state: Literal["complete", "interrupted", "failed"]
    """`failed`: the recorder ended before the program did."""
    exit_status: int
    """The program's own, as a shell reports it: 128 + n for a program that signal n ended."""
    started_utc: str
    duration_ns: int
    """From the program's start to its end."""
    resources: Mapping[str, int]
    """getrusage(2) of the program and its children: CPU nanoseconds, peak resident bytes, faults, switches."""
    counters: Mapping[str, int]
    """What the machine's counters grew by meanwhile (counters.py)."""
    collectors: tuple[Mapping[str, Any], ...]
    """Of each collector `name, version, command, options`."""
    notes: tuple[str, ...] = ()
    failure: CollectError | None = None
    """Why the recorder ended early."""

    def to_manifest(self) -> dict[str, Any]:
        """`outcome` of the capture's manifest."""
        facts = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        del facts["collectors"], facts["failure"]
        if self.failure:
            facts["notes"] = (*self.notes, str(self.failure))
        return facts


def find_program(name: str) -> str:
    """Path of a program as execvp(3) would find it; ProgramNotFound (exit status 127) when there is none."""
    path = shutil.which(name)
    if path is None:
        known = "/" in name and os.access(name, os.F_OK)
        problem = f"{name!r} is not executable." if known else f"There is no program {name!r}."
        raise ProgramNotFound(problem, "Give the command after --, as you would type it.", "program")
    return path


@dataclass(frozen=True)
class HeldSignals:
    """The signals that `signals_held` keeps, and the state that a program must find instead."""

    mask: frozenset[signal.Signals]
    """Blocked before."""
    ignored: tuple[signal.Signals, ...]
    """Ignored before, as under nohup."""
    strays: list[int]
    """Arrived at a thread of some library (numpy's), which does not share our mask."""


class Process(Protocol):
    """What is recorded."""

    @property
    def pid(self) -> int:
        """Its process id."""


class Waiting(Protocol):
    """Whoever waits while a recorder begins."""

    @property
    def interruptions(self) -> int:
        """How often the user asked for an end."""

    @property
    def interrupted_by(self) -> int:
        """By which signal first."""

    def wait(self, timeout_s: float) -> None:
        """Wait for something to happen, at most so long, and note which recorder has ended."""


class Program:
    """The program being recorded, forked and waiting behind a gate."""

    in_foreground = True
    """It shares pinprof's process group: a Ctrl-C of the terminal reaches it as well."""
    begun = False
    """It is the program by now: something of it is recorded."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], signals: HeldSignals) -> None:
        executable = find_program(command[0])
        gate, self._gate = os.pipe()
        self._failure, failure = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            _become(executable, command, environment, signals, gate, failure)
        os.close(gate)
        os.close(failure)
        self.wait_status: int | None = None
        self.usage: resource.struct_rusage | None = None
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
            raise ProgramNotFound(problem, "A script needs a #! line, a binary this machine's architecture.", "program")
        self.begun = True

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

    def left_s(self) -> float:
        """In how many seconds at most it must be looked at; its end is told by a signal."""
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
        # Python ignores these two, and an ignored signal stays ignored across exec.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
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


class Recorder:
    """The recording tool: its own process group, so that a terminal's Ctrl-C is not for it; prints into `log`."""

    finish_timeout_s = FINISH_TIMEOUT_S

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        # In system-wide mode perf runs a `cat` that reads this pipe: it ends when pinprof is killed, and perf with it.
        lifeline, self._lifeline = os.pipe()
        try:
            self.pid = os.posix_spawnp(
                command[0],
                list(command),
                dict(environment),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, lifeline, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setpgroup=0,
                setsigmask=[],
                setsigdef=[*STOP_SIGNALS, signal.SIGPIPE, signal.SIGCHLD],
            )
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

    def finish(self) -> None:
        """Ask it to write what it still holds and to end."""
        self.send(signal.SIGINT)

    def stalled(self) -> bool:
        """Whether it will never finish, as far as can be told."""
        return False

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
    def ended_well(self) -> bool:
        """It exited with 0, by the SIGINT that asks it to finish, or by the SIGTERM with which it then ends its `cat`.

        perf record ends itself by the signal that ended it or its command, after the file is written.
        """
        status = self.wait_status
        if status is None or not os.WIFSIGNALED(status):
            return status == 0
        return os.WTERMSIG(status) in (signal.SIGINT, signal.SIGTERM)


class Session:
    """Waits for all processes and the user's signals in one place: sigtimedwait(2), so nothing interrupts anything."""

    def __init__(self, program: Program, recorders: Sequence[Recorder], signals: HeldSignals) -> None:
        self.program = program
        self.recorders = recorders
        self._strays = signals.strays
        self.interruptions = 0
        self.interrupted_by = int(signal.SIGINT)
        self.watch: Callable[[], float] = lambda: float("inf")
        """Called between waits while the program runs; says in how many seconds it wants to be called again."""
        self._pass_on: tuple[float, int] | None = None
        """When to send the program which signal."""

    def wait(self, timeout_s: float) -> None:
        """Wait for one event at most `timeout_s`, then note who has ended."""
        info = signal.sigtimedwait(_WATCHED, timeout_s)
        if info is not None and info.si_signo != signal.SIGCHLD:
            self._interrupted(info.si_signo, from_terminal=info.si_code == _SENT_BY_KERNEL)
        while self._strays:
            self._interrupted(self._strays.pop(0), from_terminal=False)
        # Recorders first: when one ends because the program did, the program is found to have ended as well.
        ended = [recorder for recorder in self.recorders if recorder.reap()]
        if not self.program.reap():
            for recorder in ended:
                # One that exits with 0 has seen the program's exit before wait(2) shows it: CUDA's clean-up comes in
                # between.
                recorder.died_first |= recorder.wait_status != 0
        if self._pass_on and time.monotonic() >= self._pass_on[0]:
            self.program.send(self._pass_on[1])
            self._pass_on = None

    def until_program_ends(self) -> None:
        """The program's whole run."""
        while self.program.wait_status is None:
            self.wait(min(self.watch(), 0.1 if self._pass_on else 1.0))

    def finish_recorders(self) -> None:
        """Ask the recorders to write what they still hold and wait; a second Ctrl-C, or their time-out, kills them."""
        for recorder in self.recorders:
            recorder.finish()
        asked = time.monotonic()
        patience = self.interruptions + 2
        while any(recorder.wait_status is None for recorder in self.recorders):
            self.wait(1.0)
            for recorder in self.recorders:
                late = time.monotonic() > asked + recorder.finish_timeout_s
                if late or recorder.stalled() or self.interruptions >= patience:
                    recorder.send(signal.SIGKILL)

    def _interrupted(self, number: int, *, from_terminal: bool) -> None:
        """First: the program ends itself, as without pinprof. Second: it is asked to. From the third: it must."""
        self.interruptions += 1
        if self.interruptions == 1:
            self.interrupted_by = number
            if not self.program.in_foreground:
                self.program.send(number)
            elif not from_terminal:
                self._pass_on = (time.monotonic() + PASS_ON_AFTER_S, number)
        else:
            self.program.send(signal.SIGTERM if self.interruptions == 2 else signal.SIGKILL)


@contextlib.contextmanager
def signals_held() -> Iterator[HeldSignals]:
    """Hold back the watched signals for Session.wait to take, in the main thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    strays: list[int] = []
    handlers = {number: signal.signal(number, lambda caught, _: strays.append(caught)) for number in STOP_SIGNALS}
    # Ignored, it would be as if nobody ever ended: no signal, and nothing to wait for (wait(2)).
    handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ignored = tuple(number for number, handler in handlers.items() if handler is signal.SIG_IGN)
    try:
        yield HeldSignals(frozenset(signal.Signals(number) for number in before), ignored, strays)
    finally:
        # One that arrived after the last wait has had its effect: everything it could end has ended.
        while signal.sigtimedwait(_WATCHED, 0) is not None:
            pass
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True)
class ToolResult:
    """What one recording tool has to say after the run."""

    facts: Mapping[str, Any]
    """`name, version, command, options`, for the manifest."""
    notes: tuple[str, ...] = ()
    failure: CollectError | None = None


class Tool(Protocol):
    """A recording tool at work on one program."""

    @property
    def recorder(self) -> Recorder:
        """Its process."""

    def await_ready(self, session: Session) -> None:
        """Wait until it records; raises why it does not."""

    def result(self) -> ToolResult:
        """After it has ended: leave what it recorded in the capture, and say how it went."""


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


def resources(usage: resource.struct_rusage | None) -> dict[str, int]:
    """getrusage(2) as integers: nanoseconds and bytes."""
    if usage is None:
        return {}
    return {
        "user_ns": round(usage.ru_utime * 1e9),
        "system_ns": round(usage.ru_stime * 1e9),
        "max_resident_bytes": usage.ru_maxrss * 1024,
        "minor_faults": usage.ru_minflt,
        "major_faults": usage.ru_majflt,
        "voluntary_switches": usage.ru_nvcsw,
        "involuntary_switches": usage.ru_nivcsw,
    }
