"""Other programs that pinprof asks something: each has limits of time and output, and leaves no process behind.

Recordings are hostile, and so may be what another program makes of one: perf can read a damaged file in circles. A
program gets a session of its own, with no terminal to ask for anything, and all of it is killed in the end.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from pinprof.base.lazy_dataclass import dataclass

_PIECE = 1 << 16
_TOO_LARGE = (-signal.SIGXFSZ, 128 + signal.SIGXFSZ)
"""Status of a program, and of a shell that ran it, that wrote more into a file than it may."""
_LOOK_S = 0.1
"""Between two looks at whether a program has ended: what it started may hold its output open for ever."""


@dataclass(frozen=True)
class Limits:
    """What a program may take; by default those of one that answers at once."""

    seconds: float = 20.0
    """Of waiting for it, less what its reader takes."""
    silent_s: float = float("inf")
    """Of waiting for its next output."""
    printed: int = 1 << 20
    """Bytes."""
    written: int | None = None
    """Bytes of each file that it writes; None for any."""


AT_ONCE = Limits()


@dataclass(frozen=True)
class Ended:
    """A program that has ended."""

    status: int | None
    """None where it was stopped, or never started."""
    output: str
    stopped: str = ""
    """At which limit, as `took more than 20 seconds`."""


class Child:
    """A program at work. `pieces()` is what it prints, until it ends or is stopped at a limit."""

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits) -> None:
        self._process, self._limits = process, limits
        self._left = limits.seconds
        self.status: int | None = None
        """What it ended with; None before that, and where it was stopped."""
        self.stopped = ""
        """At which limit, as `took more than 20 seconds`."""

    def pieces(self) -> Iterator[bytes]:
        """Its output in pieces of at most 64 KiB."""
        limits, room = self._limits, self._limits.printed
        while piece := self._piece():
            yield piece[:room]
            room -= len(piece)
            if room < 0:
                self.stopped = f"printed more than {limits.printed:,} bytes"
                return
        if piece is None and self._left > 0:
            self.stopped = f"printed nothing for {limits.silent_s:,.0f} seconds"
            return
        try:
            status = self._process.wait(max(self._left, 0))
        except subprocess.TimeoutExpired:
            self.stopped = f"took more than {limits.seconds:,.0f} seconds"
            return
        if limits.written is not None and status in _TOO_LARGE:
            self.stopped = f"wrote more than {limits.written:,} bytes"
        else:
            self.status = status

    def _piece(self) -> bytes | None:
        """The next output, empty at its end; None where a limit of time comes first."""
        output, begun = self._process.stdout, monotonic()
        assert output is not None
        os.set_blocking(output.fileno(), False)
        try:
            with selectors.DefaultSelector() as ready:
                ready.register(output, selectors.EVENT_READ)
                while True:
                    ended = self._process.poll() is not None
                    if (piece := output.read(_PIECE)) is not None or ended:
                        return piece or b""
                    left = begun + min(self._left, self._limits.silent_s) - monotonic()
                    if left <= 0:
                        return None
                    ready.select(min(left, _LOOK_S))
        finally:
            self._left -= monotonic() - begun


@contextmanager
def started(
    command: Sequence[str],
    limits: Limits = AT_ONCE,
    environment: Mapping[str, str] | None = None,
    *,
    errors: bool = False,
) -> Iterator[Child]:
    """A program, whose standard error is part of its output where `errors`; OSError if it cannot be started."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors else subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
        bufsize=0,
    )
    assert process.stdout is not None
    try:
        if limits.written is not None:
            with suppress(OSError):  # it has ended
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limits.written, limits.written))
        yield Child(process, limits)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()


def finding_pinprof() -> dict[str, str]:
    """This process's environment, in which a new Python finds pinprof where this process found it."""
    places = filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def ran(
    command: Sequence[str],
    limits: Limits = AT_ONCE,
    environment: Mapping[str, str] | None = None,
    *,
    errors: bool = False,
) -> Ended:
    """A program that has ended, by itself or at a limit; OSError if it cannot be started."""
    with started(command, limits, environment, errors=errors) as child:
        output = b"".join(child.pieces()).decode("utf-8", "replace")
    return Ended(child.status, output, child.stopped)


def asked(*command: str, environment: Mapping[str, str] | None = None, errors: bool = False) -> Ended:
    """The same of a program that answers at once; one that cannot be started has said nothing."""
    try:
        return ran(command, environment=environment, errors=errors)
    except OSError:
        return Ended(None, "")
