"""Ends the programs of a trial, and removes its folder, also when pinprof itself is killed; standard library only.

usage: python -I -S keeper.py FOLDER < LIFELINE

The lifeline ends when pinprof lets go of it, or dies. What the trial has started is known then by FOLDER, in which it
works or to which it writes, and by the session of such a process. What is older than the keeper, or has a terminal, is
somebody else's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE_S, LOOK_S = 5.0, 0.02
"""For what is asked to end; between two looks whether it has."""
_STREAMS = ("cwd", "fd/1", "fd/2")
_SESSION, _TERMINAL, _STARTED = 3, 4, 19
"""Fields of `stat` after the name, from 0."""


@contextmanager
def kept(folder: Path) -> Iterator[None]:
    """In the block, a process waits for its end, or pinprof's, to end what runs for the folder, and to remove it."""
    lifeline, ours = os.pipe()
    try:
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(folder.resolve())],
            stdin=lifeline,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(lifeline)
    try:
        yield
    finally:
        os.close(ours)
        keeper.wait()


def main(folder: str) -> None:
    """Wait for the lifeline to end, then clean up."""
    while os.read(0, 1):
        pass
    end(folder)
    shutil.rmtree(folder, ignore_errors=True)


def end(folder: str) -> None:
    """Ask every process of a folder to end, and kill those that do not, or that others start meanwhile."""
    begun = time.monotonic()
    asked: set[int] = set()
    while pids := _of(folder):
        number = signal.SIGTERM if time.monotonic() - begun < PATIENCE_S else signal.SIGKILL
        for pid in pids if number == signal.SIGKILL else pids - asked:
            with suppress(OSError):
                os.kill(pid, number)
        asked |= pids
        time.sleep(LOOK_S)


def _of(folder: str) -> set[int]:
    """The processes that work in a folder, or write to it, with all of their sessions; not those that have ended."""
    sessions: dict[int, int] = {}
    marked = set()
    begun = _stat(Path("/proc/self"))[_STARTED]
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            fields = _stat(place)
            session = int(fields[_SESSION])
            others = int(fields[_STARTED]) < int(begun) or int(fields[_TERMINAL]) or session == os.getsid(0)
            if others or fields[0] in (b"Z", b"X"):
                continue
            sessions[int(place.name)] = session
            if any(_inside(place / name, folder) for name in _STREAMS):
                marked.add(session)
    return {pid for pid, session in sessions.items() if session in marked}


def _stat(place: Path) -> list[bytes]:
    """What follows a process's name in `stat` (proc(5))."""
    return (place / "stat").read_bytes().rpartition(b")")[2].split()


def _inside(link: Path, folder: str) -> bool:
    with suppress(OSError):
        return f"{link.readlink()}/".startswith(f"{folder}/")
    return False


if __name__ == "__main__":
    for caught in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(caught, signal.SIG_IGN)
    main(sys.argv[1])
