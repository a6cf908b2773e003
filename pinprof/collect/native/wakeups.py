"""Who wakes the program's threads, and what recording that may cost: an event that is off while it is too dear.

A program may wake threads 100,000 times a second. While the account is overdrawn the event is off. What waits end then
is left to inference, as where no wake-up may be recorded at all. An event that is off still costs half a microsecond at
each wake-up, since its tracepoint stays in use. Closing it costs more: threads whose events are not the same any more
can't keep them when one follows another on a processor (context_equiv, kernel/events/core.c).
"""

from __future__ import annotations

import time
from typing import Any

from pinprof.collect.native import perf_event
from pinprof.collect.native.account import CREDIT_NS, Account
from pinprof.collect.native.events import WAKEUPS
from pinprof.collect.native.opened import Opened

SCHED_WAKING = "sched/sched_waking"
SHARE = 0.005
"""The share of the time that passes: what recording wake-ups may cost."""
PRICE_NS = 3000
"""What one record costs the program, about, on Linux 6.18 in a virtual machine (tests/bench/bench_switches.py)."""
_SHORTEST_MS = 20


class Wakeups:
    """What governs the event."""

    def __init__(self) -> None:
        self._files: list[int] = []
        self._wanted = self._on = False
        self._account = Account(SHARE)
        self._count = self._counted = 0
        self._looked_ns = self._off_since_ns = self._off_ns = 0

    def govern(self, opened: Opened) -> None:
        """Take charge of the event, where the kernel has opened it."""
        place = next((place for place, spec in enumerate(opened.specs) if spec.name == WAKEUPS), None)
        self._files = opened.files[place] if place is not None else []

    def switched(self, *, on: bool) -> None:
        """All events were switched on, or off."""
        now = time.monotonic_ns()
        if self._files and on != self._wanted:
            self._end_off(now)
            self._wanted = self._on = on
            self._looked_ns, self._count = now, self._total()

    def look(self) -> None:
        """See what it costs, and switch it off or on again."""
        if not self._files or not self._wanted:
            return
        now, total = time.monotonic_ns(), self._total()
        # The kernel counts some wake-ups for the woken thread's event too, even while that is off.
        happened, passed = (total - self._count if self._on else 0), now - self._looked_ns
        self._looked_ns, self._count = now, total
        self._counted += happened
        self._account.settle(passed, PRICE_NS * happened)
        if self._on and self._account.held_ns < 0:
            self._change(perf_event.disable)
            self._on, self._off_since_ns = False, now
        elif not self._on and self._account.held_ns >= CREDIT_NS / 2:
            self._end_off(now)
            self._change(perf_event.enable)
            self._on = True

    def wait_ms(self, longest: int) -> int:
        """How long nothing has to be done here, in milliseconds, `longest` at most."""
        if self._on or not self._wanted:
            return longest
        return min(longest, max(int(self._account.until_ns(CREDIT_NS / 2) / 1_000_000), _SHORTEST_MS))

    def finish(self) -> dict[str, Any]:
        """What there is to say, once the events are off."""
        if not self._files:
            return {}
        if self._wanted:
            self._counted += self._total() - self._count if self._on else 0
            self._end_off(time.monotonic_ns())
        return {"wakeups": {"counted": self._counted, "off_ns": self._off_ns}}

    def _end_off(self, now: int) -> None:
        if self._wanted and not self._on:
            self._off_ns += now - self._off_since_ns

    def _total(self) -> int:
        return sum(perf_event.count(file) for file in self._files)

    def _change(self, change: Any) -> None:
        for file in self._files:
            change(file)
