"""What tracing calls may cost the program, and what is given up where it costs more: decisions on rates, no I/O.

A traced call costs the program microseconds. Calls are watched by kind. While the budget is kept, each has its stack;
a kind that breaks it loses first the stacks, and where that is not enough it is traced no more, only counted for a
millisecond now and then, which tells when it has become rare, but not how many calls there were. It comes back when its
rate has fallen to half of what the budget bears, and each relapse makes the next return wait twice as long.

The budget is an account: a share of the time that passes goes in, what calls cost goes out, and a short burst, such as
the start of a program, may overdraw none of it. The kind that costs most is what gives way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum

from pinprof.base.lazy_dataclass import dataclass

CREDIT_NS = 10_000_000
"""What the account holds at most, and when recording begins: two thousand calls with their stacks."""
RETURN_SHARE = 0.5
"""The share of the budget that a kind may cost that comes back."""
FIRST_WAIT_NS, LONGEST_WAIT_NS = 2_000_000_000, 64_000_000_000
"""How long a kind that gave way waits before it may come back, the first time and at most."""
SEEN_TWICE = 3.0
"""A kind that another recorder sees as well breaks the budget with a third of it."""


class TracingLevel(IntEnum):
    """How much of a kind's calls is recorded; each level costs less than the one before."""

    FULL = 0
    BARE = 1
    """Without stacks."""
    COUNTED = 2
    """Not at all, but for their number."""


@dataclass(frozen=True)
class Prices:
    """What a call costs the program, entered and left, in ns; as measured on Linux 6.18 where nothing measured it."""

    full: int = 5000
    bare: int = 3500

    def of(self, level: TracingLevel) -> int:
        """The cost of a call at a level; counting is paid by the window (probing.py)."""
        return (self.full, self.bare, 0)[level]


@dataclass
class _Kind:
    level: TracingLevel = TracingLevel.FULL
    since_ns: int = 0
    wait_ns: int = FIRST_WAIT_NS
    rate: float = 0.0
    """Calls a second, over the last look and, weighted less, those before."""


class TracingBudget:
    """The level of each kind, by what its calls cost."""

    def __init__(self, percent: float, prices: Prices, kinds: Mapping[str, bool], now_ns: int) -> None:
        """`kinds`: each, and whether another recorder sees it as well. `percent`: from 100 on, whatever it costs."""
        self.prices = prices
        self._share = percent / 100 if percent < 100 else math.inf
        self._kinds = {name: _Kind(since_ns=now_ns) for name in kinds}
        self._weight = {name: SEEN_TWICE if twice else 1.0 for name, twice in kinds.items()}
        self._account: float = CREDIT_NS
        self._looked_ns = now_ns

    def level(self, kind: str) -> TracingLevel:
        """How much of a kind is recorded now."""
        return self._kinds[kind].level

    def seen_twice(self, kind: str) -> None:
        """From now on another recorder sees this kind as well."""
        self._weight[kind] = SEEN_TWICE

    def looked(self, now_ns: int, calls: Mapping[str, int]) -> dict[str, TracingLevel]:
        """Take in how many calls each traced kind made since the last look; the kinds that change, with their level."""
        passed = now_ns - self._looked_ns
        if passed <= 0:
            return {}
        self._looked_ns = now_ns
        costs = {}
        for name, count in calls.items():
            kind = self._kinds[name]
            kind.rate = _smoothed(kind.rate, count * 1e9 / passed, passed)
            costs[name] = count * self.prices.of(kind.level) * self._weight[name]
        self._account = min(self._account + self._share * passed - sum(costs.values()), CREDIT_NS)
        if self._account < 0:
            dearest = max(costs, key=lambda name: costs[name])
            self._account = CREDIT_NS / 2
            rate = calls[dearest] * 1e9 / passed
            return self._change(dearest, self._lower(dearest, rate), now_ns)
        return self._returning(now_ns)

    def counted(self, kind: str, rate: float) -> None:
        """Take in what a window has shown: calls a second of a kind that is not traced.

        A busy program may not have run in it at all: a rate falls by no more than half from window to window.
        """
        state = self._kinds[kind]
        state.rate = max(rate, state.rate / 2)

    def stays_given_up(self, kind: str) -> None:
        """It could not come back: it is not asked for again."""
        state = self._kinds[kind]
        state.level, state.wait_ns = TracingLevel.COUNTED, _FOREVER_NS

    def _lower(self, name: str, rate: float) -> TracingLevel:
        bare = rate * self.prices.bare * self._weight[name] * 1e-9
        return (
            TracingLevel.BARE
            if self._kinds[name].level == TracingLevel.FULL and bare <= self._share
            else TracingLevel.COUNTED
        )

    def _returning(self, now_ns: int) -> dict[str, TracingLevel]:
        """A kind that may come back, one at a time."""
        for name, kind in self._kinds.items():
            if kind.level == TracingLevel.FULL or now_ns - kind.since_ns < kind.wait_ns:
                continue
            for level in (TracingLevel.FULL, TracingLevel.BARE):
                cost = kind.rate * self.prices.of(level) * self._weight[name] * 1e-9
                if level < kind.level and cost <= RETURN_SHARE * self._share:
                    kind.wait_ns = min(kind.wait_ns * 2, LONGEST_WAIT_NS)
                    return self._change(name, level, now_ns)
        return {}

    def _change(self, name: str, level: TracingLevel, now_ns: int) -> dict[str, TracingLevel]:
        kind = self._kinds[name]
        if level == kind.level:
            return {}
        kind.level, kind.since_ns = level, now_ns
        return {name: level}


def untraced_rate(calls: int, passed_ns: int, price_ns: float) -> float:
    """Calls a second that there would be without tracing, from those in a time in which each cost `price_ns` more.

    Calls that wait for the GPU are as many without tracing; others are as many more as fit into the time that tracing
    took, at most ten times. Which of them these are is not known: this is the geometric mean of both.
    """
    left = max(passed_ns - calls * price_ns, passed_ns / 10)
    return calls * 1e9 / math.sqrt(left * passed_ns) if left > 0 else 0.0


_MEMORY_NS = 250_000_000
_FOREVER_NS = 1 << 62


def _smoothed(before: float, now: float, passed_ns: int) -> float:
    """An average that forgets: of a quarter of a second."""
    weight = min(passed_ns / _MEMORY_NS, 1.0)
    return before + weight * (now - before)
