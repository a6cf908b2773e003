"""Keeps looking at a program's Python until it has ended.

usage: python -m pinprof.collect.python_frames PID RATE SHARE OUTPUT < LIFELINE

Looks come as decays do: how long the last one is ago says nothing of the next. So no rhythm of the program's keeps step
with them, not even one that they cause: a thread that waits for a processor often gets it when a look ends, and what it
does first would hardly be seen if looks kept their distance. Where a look takes long (many threads), looks become
fewer: with all that is done around them, they take SHARE of one processor at most; and where many threads want the
processors, SHARE of what one of them gets. Else many recordings that start together, whose looks come before all else,
would leave nothing to their programs. What was seen becomes a gzip member
of OUTPUT every SEGMENT_S, written by a child, for which looking need not stop. SIGUSR1 asks for one at once; SIGUSR2
does so too, and then nobody looks until SIGUSR1. SIGINT or the end of the lifeline ask for the last one.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pinprof.collect.proc import alive, runnable
from pinprof.collect.python_frames import READY, UNKNOWN
from pinprof.collect.python_frames.memory import Gone
from pinprof.collect.python_frames.processes import SOON_S, Processes
from pinprof.collect.python_frames.timeline import SegmentTimeline

SEGMENT_S = 60.0
MOST_ROWS = 500_000
"""The most that a segment holds, so that memory is bounded."""
_IDLE_S, _BEGINNING_S, _RESTING_S = 0.02, 0.004, 0.004
"""Between two looks while nothing runs Python, and while something is about to; between two wakings while it rests."""
_CHECKED_S, _SEARCHED = 0.1, 5
"""Between two looks at the machine; and in looks, between two searches for interpreters at least."""
_CROWD = 2
"""Threads for each processor, running or waiting for it: with more, looks become fewer."""


class Watch:
    """The whole run."""

    def __init__(self, pid: int, rate: int, share: float, output: Path) -> None:
        self._pid, self._period_s, self._share, self._output = pid, 1 / rate, share, output
        self._pause_s = max(_SEARCHED * self._period_s, SOON_S)
        self._processes = Processes(pid, self._pause_s)
        self._timeline = self._fresh()
        self._stopping = self._resting = False
        self._cutting = 0
        self._writer = 0
        self._names: dict[tuple[int, int], str] = {}
        self._failed, self._mean_s = 0, self._period_s
        self._usual_s = 1e-4
        """The CPU time from one look to the next."""
        self._waiting = 0.0
        """Threads for each processor, as they were over the last checks."""

    def stop(self, *_: object) -> None:
        """Finish soon."""
        self._stopping = True

    def cut(self, number: int, _: object) -> None:
        """End the segment soon; by SIGUSR2 rest then, by SIGUSR1 look on."""
        self._cutting = number

    def run(self) -> int:
        """Until the program has ended or a signal asks to stop; 0 when everything seen was stored."""
        checked, due_ns, looks = 0.0, time.monotonic_ns(), 1
        used = time.thread_time()
        while not self._stopping:
            looked = time.monotonic()
            before, used = used, time.thread_time()
            # Now and then it takes long because an interpreter was found, or this machine stood still.
            self._usual_s += min(0.05 * looks, 0.5) * (min((used - before) / looks, 4 * self._usual_s) - self._usual_s)
            following_ns, looks = 0, 1
            if not self._resting:
                following_ns, looks = self._look(due_ns)
            if looked > checked + _CHECKED_S:
                checked = looked
                self._waiting += 0.2 * (runnable() / (os.cpu_count() or 1) - self._waiting)
                if not alive(self._pid) or _hung_up():
                    break
            if self._cutting:
                self._cut()
            if self._resting:
                time.sleep(_RESTING_S)
                continue
            crowd = max(self._waiting / _CROWD, 1)
            self._processes.update(crowd)
            if looked > self._timeline.start_ns / 1e9 + SEGMENT_S or self._timeline.size > MOST_ROWS:
                self._store_beside()
            mean = _BEGINNING_S if self._processes.beginning else _IDLE_S
            if self._processes.interpreters:
                mean = self._period_s
            self._mean_s = max(mean, crowd * self._usual_s / self._share)
            now_ns = time.monotonic_ns()
            due_ns = max(following_ns or round(looked * 1e9) + self._gap_ns(), now_ns)
            time.sleep((due_ns - now_ns) / 1e9)
        for name in sorted(self._processes.unread):
            print(UNKNOWN + name, flush=True)
        self._store(self._ended_segment())
        return self._failed

    def _cut(self) -> None:
        """Do as the signal said; whoever sent it waits for the segment, though it may hold nothing."""
        number, self._cutting = self._cutting, 0
        self._store(self._ended_segment())
        self._resting = number == signal.SIGUSR2

    def _ended_segment(self) -> SegmentTimeline:
        """The segment until now, with its names; another has begun. Names of threads that have ended are forgotten."""
        ended, self._timeline = self._timeline, self._fresh()
        ended.names = self._names
        self._names = {
            (pid, tid): name
            for (pid, tid), name in self._names.items()
            if pid in self._processes.interpreters and not ended.lacks(pid, tid)
        }
        return ended

    def _store(self, segment: SegmentTimeline) -> None:
        """Write a segment behind those before it."""
        self._await_writer()
        segment.save(self._output, time.monotonic_ns())

    def _look(self, due_ns: int) -> tuple[int, int]:
        """Look at everything, repeatedly where that is one interpreter; when to look next, 0 where nothing says so, and
        how many looks there were.
        """
        timeline, following_ns, looks = self._timeline, 0, 1
        alone = len(self._processes.interpreters) == 1 and not self._processes.beginning
        gaps = [self._gap_ns() for _ in range(round(2 * self._pause_s / self._mean_s) + 1)] if alone else [0]
        until_ns = time.monotonic_ns() + round(self._pause_s * 1e9)
        for pid, interpreter in list(self._processes.interpreters.items()):
            try:
                seen, next_ns = interpreter.looks(timeline.tables, due_ns, until_ns, gaps)
                for look in seen:
                    if look.stacks:
                        timeline.saw(pid, look.stacks, look.seen_ns, look.due_ns, look.windows)
                if alone:
                    following_ns, looks = next_ns, len(seen)
                for tid, name in interpreter.names().items():
                    self._names[pid, tid] = name
            except Gone:
                self._processes.gone(pid)
        return following_ns, looks

    def _gap_ns(self) -> int:
        """From a look to the next one."""
        return round(random.expovariate(1 / self._mean_s) * 1e9)

    def _fresh(self) -> SegmentTimeline:
        return SegmentTimeline(time.monotonic_ns(), round(self._period_s * 1e9))

    def _store_beside(self) -> None:
        """Let a child write the segment, one after another."""
        self._await_writer()
        full = self._ended_segment()
        self._writer = os.fork()
        if self._writer == 0:
            status = 1
            with contextlib.suppress(OSError):
                full.save(self._output, time.monotonic_ns())
                status = 0
            os._exit(status)

    def _await_writer(self) -> None:
        if self._writer:
            _, status = os.waitpid(self._writer, 0)
            self._failed |= int(status != 0)
            self._writer = 0


def _hung_up() -> bool:
    ready, _, _ = select.select([0], [], [], 0)
    return bool(ready) and not os.read(0, 64)


def main(arguments: Sequence[str]) -> int:
    """0 when everything was kept that was seen."""
    pid, rate, share, output = arguments
    watch = Watch(int(pid), int(rate), float(share), Path(output))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, watch.stop)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, watch.cut)
    with contextlib.suppress(OSError):
        # On a busy machine it would look late. It sleeps nearly always, and its children, which write, go with others.
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    print(READY, flush=True)
    try:
        return watch.run()
    except OSError as error:
        print(f"python lines: {error.strerror}", flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
