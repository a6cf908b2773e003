"""A flight recorder: the last seconds of a program in bounded room, and a capture of them when something happens."""

from __future__ import annotations

import os
import signal
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from pinprof.collect.run import CollectorRun
from pinprof.portions.following import Following
from pinprof.portions.triggers import Fired, Trigger
from pinprof.portions.watching import Watching

EVERY_S = 1.0
_HOUR_S = 3600.0


class FlightRecorder(ABC):
    """Looks at a recording each second; what becomes of a capture is for those that are made of this."""

    def __init__(
        self,
        following: Following,
        directory: Path,
        triggers: Sequence[Trigger],
        signals: set[int],
        most_an_hour: int,
    ) -> None:
        """The recording goes into `directory`; `signals`: those that have arrived, which are taken from there."""
        self.following = following
        self._watching = Watching(directory, following.agent, nvtx=any(one.of_ranges for one in triggers))
        self.triggers, self._signals = triggers, signals
        self.stalls = [0] * len(triggers)
        """How many looks have found that each trigger had fired."""
        self.pinned_bytes = 0
        """At the last look."""
        self._most_an_hour, self._refused = most_an_hour, False
        self._made: deque[float] = deque()
        self._unfinished: deque[Callable[[], object]] = deque()
        self._early: Fired | None = None
        self._over = False
        self._finishing = 0
        """The process that makes a capture whole; 0: none."""
        self._due = 0.0

    @abstractmethod
    def capture(self, fired: Fired) -> Callable[[], object]:
        """Cut one, and give what makes it whole, for a process of its own."""

    @abstractmethod
    def refuse(self, fired: Fired) -> None:
        """It would be one too many in an hour: the first since one was made."""

    @abstractmethod
    def ended_early(self) -> None:
        """The recorder has ended and the program has not: nothing more is captured."""

    def watch(self, run: CollectorRun) -> float:
        """Look if it is time; when to call again, in seconds."""
        began = time.monotonic()
        if not self._over and not run.recording:
            self._over = True
            self.ended_early()
        if self._over:
            return float("inf")
        if began >= self._due or self._signals:
            self._look(run, 0)
            ended = time.monotonic()
            # Never more than half of the time, however long it takes.
            self._due = max(began + EVERY_S, ended + (ended - began))
        return max(self._due - time.monotonic(), 0.0)

    def end(self, ended_by: int) -> None:
        """The recording is over, and the program too, perhaps by a signal."""
        if not self._over:
            self._look(None, ended_by)
        while self._unfinished or self._finishing:
            self._finish(0)

    def _finish(self, options: int) -> None:
        """Make one capture after another whole, beside the recording; `options` as of waitpid(2)."""
        if self._finishing and os.waitpid(self._finishing, options)[0]:
            self._finishing = 0
        if self._unfinished and not self._finishing:
            self._finishing = _forked(self._unfinished.popleft())

    def _look(self, run: CollectorRun | None, ended_by: int) -> None:
        self._finish(os.WNOHANG)
        arrived = frozenset(self._signals)
        self._signals -= arrived
        seen = self._watching.look(self.following.look(run), arrived, ended_by)
        # Each of them looks, also where another has fired: it counts what it sees.
        looked = [trigger.look(seen) for trigger in self.triggers]
        self.stalls = [count + (one is not None) for count, one in zip(self.stalls, looked, strict=True)]
        self.pinned_bytes = seen.pinned_bytes
        fired = next((one for one in looked if one), self._early)
        # Between the first look and the next is the first window: what came before is captured then.
        self._early = None if self.following.seen_s else fired
        if fired is None or self._early:
            return
        now = time.monotonic()
        while self._made and self._made[0] <= now - _HOUR_S:
            self._made.popleft()
        if len(self._made) < self._most_an_hour:
            self._refused = False
            self._made.append(now)
            self._unfinished.append(self.capture(fired))
            self._finish(os.WNOHANG)
        elif not self._refused:
            self._refused = True
            self.refuse(fired)


def _forked(work: Callable[[], object]) -> int:
    """A process, less urgent than this one, that does some work; its pid."""
    if pid := os.fork():
        return pid
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the program
        os.nice(10)
        work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
