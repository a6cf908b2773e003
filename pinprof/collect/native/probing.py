"""The probes of a recording while it runs: what they cost the program, and which of them it can't afford.

A traced call costs the program microseconds. The kind of calls that overdraws the account is given up for the rest of
the recording. Its events are closed then, since a probed function traps wherever an event on it is open in a process,
enabled or not.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from typing import Any

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.native import perf_event
from pinprof.collect.native.account import CREDIT_NS, Account
from pinprof.collect.native.events import CALL_ENTER, CALL_LEAVE
from pinprof.collect.native.opened import Opened

PRICE_NS = 5000
"""What a traced call costs the program, entered and left, about, on Linux 6.18."""
_OFTEN_NS, _SELDOM_NS = 2_000_000, 400_000_000
"""Between two looks at the counts: while records come fast, and at most."""
_FAST_BYTES = 32 << 10
"""Records come fast when this many have come since the last look."""
_LOOK_SHARE = 5
"""A look may take a fifth of the time between two: a rarer one lets the program pay for traced calls for longer."""


class TracingBudget:
    """What calls may cost, by their number alone."""

    def __init__(self, percent: float, now_ns: int) -> None:
        """`percent` of the time that passes; from 100 on, whatever it costs."""
        self._account = Account(percent / 100 if percent < 100 else math.inf)
        self._looked_ns = now_ns

    def overdrawn(self, now_ns: int, calls: Mapping[str, int]) -> str | None:
        """Take in how many calls each kind made since the last look; the kind to give up, which made the most."""
        passed = now_ns - self._looked_ns
        if passed <= 0:
            return None
        self._looked_ns = now_ns
        cost = PRICE_NS * sum(calls.values())
        self._account.settle(passed, cost)
        if self._account.held_ns >= 0:
            return None
        self._account.held_ns = CREDIT_NS / 2
        return max(calls, key=lambda kind: calls[kind])


@dataclass
class _Kind:
    """One kind of functions: the places of its two events, and the count at the last look."""

    enter: int
    leave: int
    counted: int = 0


class Probes:
    """What governs the events of calls."""

    def __init__(self, opened: Opened, percent: float) -> None:
        """Take charge of the opened events of calls; OSError when the kernel lets no more be opened.

        `percent`: what they may cost the program of its time. The last event on a tracepoint takes the kernel a tenth
        of a second to close, in which the program's calls trap and it can start no thread: so this process keeps one on
        each, which is never switched on.
        """
        self._opened, self._percent = opened, percent
        self._kinds: dict[str, _Kind] = {}
        self._given_up: dict[str, int] = {}
        """Since when."""
        self._calls = self._pending = 0
        self._looked_ns, self._least_ns = time.monotonic_ns(), _OFTEN_NS
        self._budget = TracingBudget(percent, self._looked_ns)
        places = {spec.name.partition("/")[::2]: place for place, spec in enumerate(opened.specs)}
        for (when, name), enter in places.items():
            if when == CALL_ENTER:
                self._kinds[name] = kind = _Kind(enter, places[CALL_LEAVE, name])
                for place in (kind.enter, kind.leave):
                    opened.kept.append(perf_event.open_event(opened.specs[place].attr, os.getpid(), -1))

    def look(self, written: int) -> None:
        """While these bytes of records wait: see what calls cost, and give up what the budget does not bear."""
        self._pending += written
        now = time.monotonic_ns()
        passed = now - self._looked_ns
        if passed < (self._least_ns if self._pending >= _FAST_BYTES else _SELDOM_NS):
            return
        self._looked_ns, self._pending, calls = now, 0, self._counted()
        self._least_ns = min(max(_OFTEN_NS, _LOOK_SHARE * (time.monotonic_ns() - now)), _SELDOM_NS)
        if name := self._budget.overdrawn(now, calls):
            self._give_up(name)

    def finish(self) -> dict[str, Any]:
        """What there is to say, once the events are off."""
        self._counted()
        now = time.monotonic_ns()
        return {
            "probes": {
                "budget_percent": self._percent,
                "cost_ns": self._calls * PRICE_NS,
                "price_ns": {"full": PRICE_NS},
                "given_up": [
                    {"kind": kind, "without": "calls", "from_ns": since, "to_ns": now}
                    for kind, since in self._given_up.items()
                ],
            }
        }

    def _counted(self) -> dict[str, int]:
        """How many calls of each kind there were since the last time."""
        return {name: self._made(kind) for name, kind in self._kinds.items()}

    def _made(self, kind: _Kind) -> int:
        """How many calls of this kind there were since the last time."""
        total = sum(perf_event.count(file) for file in self._opened.files[kind.enter])
        calls, kind.counted = total - kind.counted, total
        self._calls += calls
        return calls

    def _give_up(self, name: str) -> None:
        kind, opened = self._kinds.pop(name), self._opened
        self._given_up[name] = time.monotonic_ns()
        for event in (kind.enter, kind.leave):
            for file in opened.files[event]:
                perf_event.disable(file)
        self._made(kind)
        opened.let_go((kind.enter, kind.leave))
