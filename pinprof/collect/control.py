"""The control FIFOs of perf, which the native collector obeys too: commands on one, each acknowledged on the other.

Source: perf-record(1), `--control fifo:CTL,ACK`.
"""

from __future__ import annotations

import contextlib
import os
import select
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pinprof.base import files
from pinprof.collect.collector import Setup, Waiter
from pinprof.scenario import CONTROL_VARIABLE

LOOK_S = 0.02
"""How long to wait for an answer before looking whether it is still to come."""


class Control:
    """Both FIFOs, held by pinprof only until the recorder is ready.

    Afterwards they belong to the recorded program. Holding them on would keep it from noticing that the recorder died.
    """

    def __init__(self, directory: Path) -> None:
        self.ctl, self.ack = directory / "ctl", directory / "ack"
        for path in (self.ctl, self.ack):
            os.mkfifo(path, 0o600)
        self._files: list[int] = []
        self.open()

    @property
    def paths(self) -> str:
        """`CTL,ACK`, as both perf and the program take it."""
        return f"{self.ctl},{self.ack}"

    def send(self, command: str) -> None:
        """Write one command: `ping`, `enable`, `disable`."""
        os.write(self._files[0], f"{command}\n".encode())

    def acknowledged(self, timeout_s: float) -> bool:
        """Whether an acknowledgement arrives in time."""
        ready, _, _ = select.select([self._files[1]], [], [], timeout_s)
        return bool(ready) and b"ack" in os.read(self._files[1], 64)

    def asked(self, command: str, waiter: Waiter) -> Iterator[None]:
        """Send a command; an item whenever it is still not acknowledged, KeyboardInterrupt when the user gives up."""
        self.send(command)
        while not self.acknowledged(LOOK_S):
            waiter.wait_ready(0)
            yield

    def ask(self, *commands: str, looks: int, gone: Callable[[], bool]) -> bool:
        """Send commands to a recorder that is at work, each when the one before is acknowledged; whether all were.

        It waits `looks` times LOOK_S for them, unless the recorder is `gone`.
        """
        self.open()
        try:
            while self.acknowledged(0):  # what came too late for an earlier one
                pass
            for command in commands:
                self.send(command)
                # Counted rather than timed: a test may have stopped the clock.
                while not self.acknowledged(LOOK_S):
                    looks -= 1
                    if looks < 0 or gone():
                        return False
            return True
        finally:
            self.close()

    def open(self) -> None:
        """Hold both FIFOs, again after `close`."""
        if not self._files:
            # For both directions, as perf does: no end waits for the other to be opened.
            self._files = [os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC) for path in (self.ctl, self.ack)]

    def close(self) -> None:
        """Let go of both FIFOs."""
        for file in self._files:
            os.close(file)
        self._files.clear()


def sampler_control(setup: Setup) -> Control:
    """The FIFOs of a sampler, which the program knows where it switches sampling on and off itself."""
    control = setup.places.enter_context(open_control())
    if setup.request.region_only:
        setup.environment[CONTROL_VARIABLE] = control.paths
    return control


@contextlib.contextmanager
def open_control() -> Iterator[Control]:
    """FIFOs in a directory of their own that disappears with them: a capture may lie where FIFOs cannot."""
    place = tempfile.gettempdir()
    # The two paths are separated by a comma.
    with files.temporary_folder("/tmp" if "," in place else place) as folder:  # noqa: S108
        control = Control(folder)
        try:
            yield control
        finally:
            control.close()
