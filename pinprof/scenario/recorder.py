"""`measured()`: asks the recorder to sample only what runs inside it.

The recorder (perf record --delay=-1 --control=fifo:CTL,ACK) starts with its events off. It reads commands from one
FIFO and acknowledges each on another; their paths arrive in PINPROF_CONTROL. Everything here is non-blocking with a
deadline: a program must not hang because its profiler died.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterator

from pinprof.base.terminal import say

CONTROL_VARIABLE = "PINPROF_CONTROL"
"""Environment variable: `CTL,ACK`, the recorder's two FIFOs; nothing is controlled when it is unset."""
SCENARIO_VARIABLE = "PINPROF_SCENARIO"
"""Environment variable: the file that gets the scenario's facts as JSON, for the capture's manifest."""

ACK_TIMEOUT_S = 10.0
_POLL_MS = 100


@contextlib.contextmanager
def measured() -> Iterator[None]:
    """The measured region: sampling is on inside, off again after it, also when it is left by an exception.

    Without a recorder it does nothing. When the recorder does not answer it says so on stderr and the program goes on.
    """
    ctl_path, _, ack_path = os.environ.get(CONTROL_VARIABLE, "").partition(",")
    if not ack_path:
        yield
        return
    control = _Control(ctl_path, ack_path)
    try:
        control.send("enable")
        yield
    finally:
        control.send("disable")
        control.close()


class _Control:
    """Both FIFOs; `_lost` once the recorder failed to answer, after which commands are dropped."""

    def __init__(self, ctl_path: str, ack_path: str) -> None:
        self._files: list[int] = []
        self._lost = False
        try:
            # Opening for writing without a reader fails with ENXIO: the recorder is gone.
            for path, mode in ((ctl_path, os.O_WRONLY), (ack_path, os.O_RDONLY)):
                self._files.append(os.open(path, mode | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            self._give_up(f"{error.strerror}: {error.filename}")

    def send(self, command: str) -> None:
        """Write a command and wait for its acknowledgement."""
        if self._lost:
            return
        ctl, ack = self._files
        try:
            os.write(ctl, f"{command}\n".encode())
        except OSError as error:
            self._give_up(str(error.strerror))
            return
        answer = b""
        deadline = time.monotonic() + ACK_TIMEOUT_S
        while b"ack" not in answer:
            # A FIFO whose writer opened it before us reports no hang-up to poll, only end of file to read.
            select.select([ack], [], [], _POLL_MS / 1000)
            try:
                piece = os.read(ack, 64)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    self._give_up(f"no answer to {command!r} in {ACK_TIMEOUT_S:.0f} s")
                    return
                continue
            if not piece:
                self._give_up("it has ended")
                return
            answer += piece

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()

    def _give_up(self, reason: str) -> None:
        self._lost = True
        say(f"pinprof: the recorder does not answer ({reason}); the program continues without it.", error=True)
