"""Follows the managed memory of a program until it has ended.

usage: python -m pinprof.collect.uvm PID FOLDER BUDGET < LIFELINE

Processes are looked through for /dev/nvidia-uvm every SOON_S, less often where that takes more than SEARCH_SHARE of a
processor; each address space has a file in FOLDER. BUDGET is the part of the program's time that events may cost, `inf`
for any. SIGINT or the end of the lifeline end it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pinprof.collect.proc import alive, tree
from pinprof.collect.uvm import READY, REFUSED, descriptors
from pinprof.collect.uvm.driver import DriverRefused
from pinprof.collect.uvm.source import FollowedSpace

SOON_S, SELDOM_S, SEARCH_SHARE = 0.02, 0.5, 0.005
READ_S = 0.1
"""Between two readings of queues that do not fill up."""
LIFELINE = 0
MOST_SOURCES = 64
_TRIES = 100
"""How often a descriptor beside one that is followed is tried: the second one of a process never stands for memory."""


class Follower:
    """All address spaces of a program."""

    def __init__(self, pid: int, folder: Path, budget: float) -> None:
        self._root, self._folder, self._budget = pid, folder, budget
        self.sources: dict[int, FollowedSpace] = {}
        """By our copy of the descriptor."""
        self._ends: dict[int, int] = {}
        """Pidfd → pid, of processes that are followed: readable when it has ended."""
        self._tried: dict[tuple[int, int], int] = {}
        self._refused: dict[int, str] = {}
        """Process → why it is not followed."""
        self._search_at = self._read_at = 0.0
        self._stopping = False

    def stop(self, *_: object) -> None:
        """Finish soon."""
        self._stopping = True

    def run(self) -> None:
        """Until the program has ended or `stop` is called."""
        while not self._stopping and alive(self._root):
            self.step()
        self.finish()

    def step(self) -> None:
        """Search and read, whichever is due, then wait for the next."""
        begun, used = time.monotonic(), time.thread_time()
        if begun >= self._search_at:
            self.search()
            self._search_at = begun + min(max(SOON_S, (time.thread_time() - used) / SEARCH_SHARE), SELDOM_S)
        due = max(min(self._search_at, self._read_at) - time.monotonic(), 0)
        watched = {source.descriptor: source for source in self.sources.values() if source.descriptor >= 0}
        ready = set(select.select([LIFELINE, *self._ends, *watched], [], [], due)[0])
        if LIFELINE in ready and not os.read(LIFELINE, 64):
            self.stop()
        everything = time.monotonic() >= self._read_at
        for descriptor, source in watched.items():
            if everything or descriptor in ready:
                source.read()
        if everything:
            self._read_at = time.monotonic() + READ_S
        for process in self._ends.keys() & ready:
            self._ended(process)

    def finish(self) -> None:
        """Store what is left of all."""
        for process in list(self._ends):
            self._ended(process)
        for reason in sorted(set(self._refused.values())):
            print(f"{REFUSED}{reason}", flush=True)

    def search(self) -> None:
        """Begin to follow what has come."""
        for pid in tree(self._root):
            for number in descriptors.numbers(pid) if pid != os.getpid() else ():
                if self._tried.get((pid, number), 0) < _TRIES and len(self.sources) < MOST_SOURCES:
                    self._try(pid, number)

    def _try(self, pid: int, number: int) -> None:
        """Follow what a descriptor stands for, if it is an address space that is not followed yet."""
        with contextlib.ExitStack() as opened:
            try:
                process = os.pidfd_open(pid)
                opened.callback(os.close, process)
                uvm = descriptors.copied(process, number)
                opened.callback(os.close, uvm)
                if any(descriptors.same(uvm, other) for other in self.sources):
                    self._tried[pid, number] = _TRIES
                    self._refused.pop(pid, None)
                    return
                self.sources[uvm] = FollowedSpace(pid, uvm, self._folder, self._budget)
            except DriverRefused as error:
                # What a process opens first may become an address space a moment later.
                if pid in self._ends.values():
                    self._tried[pid, number] = self._tried.get((pid, number), 0) + 1
                else:
                    self._refused[pid] = str(error)
                return
            except OSError as error:
                if error.errno not in (errno.ESRCH, errno.EBADF):  # it has ended, or closed it
                    self._tried[pid, number] = _TRIES
                    self._refused[pid] = f"follow it: {error.strerror}"
                return
            opened.pop_all()
        self._refused.pop(pid, None)
        self._ends[process] = pid

    def _ended(self, process: int) -> None:
        """Finish what belongs to a process, and forget it."""
        pid = self._ends.pop(process)
        os.close(process)
        for uvm, source in list(self.sources.items()):
            if source.pid == pid and pid not in self._ends.values():
                source.finish()
                del self.sources[uvm]
                os.close(uvm)
        self._tried = {key: tries for key, tries in self._tried.items() if key[0] != pid}


def main(arguments: Sequence[str]) -> int:
    """0 when everything was kept that was seen."""
    pid, folder, budget = int(arguments[0]), Path(arguments[1]), float(arguments[2])
    follower = Follower(pid, folder, budget)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, follower.stop)
    print(READY, flush=True)
    follower.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
