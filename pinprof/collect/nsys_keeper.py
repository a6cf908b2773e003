"""Ends what nsys leaves behind, also when pinprof itself is killed; standard library only.

usage: python -I -S nsys_keeper.py FOLDER < LIFELINE

nsys starts an agent that leaves its process group, session and parent; it can stay for ever, at full CPU. It keeps the
environment it was started with, though, so everything whose TMPDIR is this run's private FOLDER, and whose program is
one of nsys's, is this run's. The lifeline ends when pinprof lets go of it, or dies: then the processes end, and the
FOLDER with what they wrote.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

TOOLS = ("nsys", "QdstrmImporter", "ImportAgent")
SHARED = ("quadd-*", "NSys-*", "sem.nsys*")
"""Names in /dev/shm of what nsys's processes share; an nsys that finds those of a dead one fails to start its agent."""
PATIENCE_S = 1.0
"""For those that are just ending by themselves."""


def main(folder: str) -> None:
    """Wait for the lifeline to end, then clean up."""
    while os.read(0, 1):
        pass
    end(folder)
    shutil.rmtree(folder, ignore_errors=True)


def end(folder: str) -> None:
    """End every process of nsys that was started for this folder."""
    deadline = time.monotonic() + PATIENCE_S
    while pids := of_run(folder):
        if time.monotonic() > deadline:
            for pid in pids:
                _kill(pid)
        time.sleep(0.02)


def of_run(folder: str) -> list[int]:
    """Processes of nsys whose TMPDIR is the folder; those that have ended but are not reaped do not count."""
    mark = b"\0TMPDIR=" + os.fsencode(folder) + b"\0"
    return [pid for pid, environment in _running() if mark in environment]


def left_behind(place: Path) -> list[Path]:
    """What an nsys that was killed has left in shared memory (/dev/shm); nothing while any nsys runs."""
    found = sorted(path for pattern in SHARED for path in place.glob(pattern))
    return [] if found and any(_running()) else found


def _running() -> Iterator[tuple[int, bytes]]:
    """The processes of nsys, with the environment that each was started with, as far as this user may see it."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if (process / "exe").readlink().name.startswith(TOOLS):
                yield int(process.name), b"\0" + (process / "environ").read_bytes()


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        # What an agent shares with its clients, which it would have removed itself.
        Path(f"/dev/shm/quadd-agent-instance-{pid}").unlink()  # noqa: S108 - nsys's choice


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    main(sys.argv[1])
