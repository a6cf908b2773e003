"""The program as nsys launches it, and what makes it pinprof's own child all the same.

nsys can trace only what it starts. Left alone it would put the program into a session of its own, feed it through
`nsys-tee`, store its output and environment in the report, and stay between it and its exit status. So nsys starts
`nsys_shim.py`, which fetches the program, its streams and its environment from pinprof. What remains of nsys's way is
the session: a Ctrl-C of the terminal does not reach the program by itself, so pinprof sends it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import CollectError
from pinprof.collect import nsys_keeper, nsys_shim
from pinprof.collect.proc import contents, tree
from pinprof.collect.program import HeldSignals, Program, find_program
from pinprof.collect.recorder import Recorder

_PR_SET_CHILD_SUBREAPER = 36
_LINE, _KEEPER_TIMEOUT_S = "line", 20.0
STALL_S = 60.0
"""What nsys has collected by then can be imported later; what it has not, it never will."""


class LaunchedProgram(Program):
    """The program behind its gate, started by nsys and adopted by pinprof; the leader of a process group of its own."""

    in_foreground = False

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], signals: HeldSignals) -> None:
        self._order = {
            "command": list(command),
            "executable": str(Path(find_program(command[0])).absolute()),
            "environment": dict(environment),
            "directory": str(Path.cwd()),
            "umask": _umask(),
            "mask": [int(number) for number in signals.mask],
            "ignored": [int(number) for number in signals.ignored],
        }
        self._gate = self._failure = -1
        self.pid = 0
        self.started_ns = self.ended_ns = time.monotonic_ns()

    def hand_over(self, line: socket.socket, given: Mapping[str, str]) -> None:
        """Give the shim, which was started with the environment `given`, the program."""
        gate, self._gate = os.pipe()
        self._failure, failure = os.pipe()
        try:
            message = json.dumps(self._order | {"given": dict(given)}).encode("utf-8", "surrogateescape") + b"\n"
            sys.stdout.flush()
            sys.stderr.flush()
            sent = socket.send_fds(line, [message], [0, 1, 2, gate, failure])
            line.sendall(message[sent:])
        finally:
            os.close(gate)
            os.close(failure)

    def adopt(self, pid: int) -> None:
        """Note the process, which is pinprof's child by now."""
        self.pid = pid

    def abandon(self) -> None:
        """End a program that still waits, if there is one yet."""
        self._close()
        if self.pid:
            self.reap(options=0)

    def reap(self, options: int = os.WNOHANG) -> bool:
        """As of any program; one that has not come to be has not ended."""
        return bool(self.pid) and super().reap(options)

    def send(self, number: int) -> None:
        """Send the program's whole group a signal, as the terminal would."""
        if self.pid and self.wait_status is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


class NsysRecorder(Recorder):
    """nsys: ends when the shim does, and then takes its time to write the report."""

    finish_timeout_s = 3600.0

    line: socket.socket | None = None
    """To the shim, once it has called."""
    _written = (-1, 0.0)
    """Bytes in the folder, and after how many seconds of waiting that changed last."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path) -> None:
        """`nsys profile …`, which writes into the folder, of the shim there."""
        shim = (sys.executable, "-I", "-S", nsys_shim.__file__, str(folder / _LINE))
        super().__init__([*command, *shim], environment, log)
        self.folder = folder

    def finish(self) -> None:
        """Hang up: the shim ends, and nsys, whose program it is, with it."""
        self._asked = not self.reap()
        if self.line:
            self.line.close()
            self.send(signal.SIGCONT)
        else:
            self.send(signal.SIGKILL)

    def stalled(self, waited_s: float) -> bool:
        """Nothing has been written for a while: 2022.4 can go round in circles over the end of a process."""
        size = 0
        for place, _, names in os.walk(self.folder):
            for name in names:
                with suppress(OSError):
                    size += os.lstat(f"{place}/{name}").st_size
        if size != self._written[0]:
            self._written = (size, waited_s)
        return waited_s > self._written[1] + STALL_S


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder for everything that nsys writes, whose end takes all processes of nsys with it."""
    with files.temporary_folder() as folder, _kept(folder):
        yield folder


@contextmanager
def _kept(folder: Path) -> Iterator[None]:
    """A keeper waits for the end of the block, or of pinprof, to end all processes of nsys."""
    lifeline, ours = os.pipe()
    try:
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", nsys_keeper.__file__, str(folder)],
            stdin=lifeline,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(lifeline)
    _adopt_orphans(True)
    try:
        yield
    finally:
        os.close(ours)
        with suppress(subprocess.TimeoutExpired):
            keeper.wait(_KEEPER_TIMEOUT_S)
        # The keeper has done it, unless somebody ended the keeper.
        nsys_keeper.end(str(folder))
        _adopt_orphans(False)
        _reap()


def listen(folder: Path) -> socket.socket:
    """The socket that the shim will call."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / _LINE))
    server.listen(1)
    server.setblocking(False)
    return server


def adopted(answer: bytes) -> tuple[int, tuple[int, ...]]:
    """From what the shim says: the program's pid, and those of the shim; CollectError when another has adopted it."""
    pid, parent, *shims = map(int, answer.split())
    if parent != os.getpid():
        raise CollectError(
            "nsys does not report the program's exit status here.",
            "Record with perf, or run nsys yourself and give its report to `pinprof report`.",
            "nsys-failed",
        )
    return pid, tuple(shims)


def _adopt_orphans(adopt: bool) -> None:
    """Become, or stop being, the parent of what descendants leave behind (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


def _reap() -> None:
    """Take note of the end of adopted processes of nsys; whatever else was adopted stays the program's affair."""
    for pid in tree(os.getpid())[1:]:
        name = contents(f"/proc/{pid}/comm").decode("utf-8", "replace")
        with suppress(ChildProcessError):  # another process's child
            if name.startswith(nsys_keeper.TOOLS):
                os.waitpid(pid, os.WNOHANG)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
