"""What sampling costs at each switch of a thread, kept within a share of the program's time.

The kernel starts and stops a thread's timer each time that it comes to a processor and leaves it, which in a virtual
machine takes a call of the hypervisor, and takes the stack of a thread that leaves. Threads that hand work to each
other switch 100,000 times a second, and would run at a fraction of their speed. So while the account is overdrawn both
events are paused, and records without stacks say when each thread ran and when it waited. Reading gives the samples
behind a pause the time that it has (`read/perf/pauses.py`).
"""

from __future__ import annotations

import random

from pinprof.collect.native.account import CREDIT_NS, Account

SHARE = 0.02
"""What it may cost, of the time that the program's threads use, or of the time that passes where that is more."""
PRICE_NS = 4000
"""What a switch costs the program more than in a pause: about, on Linux 6.18 in virtual machines
(tests/bench/bench_switches.py).
"""
WINDOW_NS = 20_000_000
"""How long sampling goes on between two pauses, about."""
LOOK_MS = 100
"""The longest between two looks: what threads that begin to switch often pay for."""
_SHORTEST_MS = 5
_TURNS = 20
"""A turn may take a twentieth of the time until the next: thousands of threads have their own events."""


class Switching:
    """Whether sampling is paused, by how often threads switch."""

    def __init__(self, frequency: int) -> None:
        """`frequency`: how often each thread is sampled in a second of its time."""
        self.paused = False
        self._account = Account(SHARE)
        self._random = random.Random()
        self._each_ns = 1_000_000_000 // max(frequency, 1)
        self._looked_ns = self._switches = self._samples = 0
        self._rate = 0.0
        """Switches in a nanosecond that passes …"""
        self._busy = 1.0
        """… and threads that run, by the last look at which sampling was not paused, but one at least."""
        self._enough_ns: float = CREDIT_NS
        self._settled_ns = 0
        """Until when nothing changes."""

    def begin(self, now_ns: int, switches: int, samples: int) -> None:
        """Sampling is switched on; `switches` and `samples` of time are those until now."""
        self.paused = False
        self._looked_ns, self._switches, self._samples = now_ns, switches, samples

    def turned(self, began_ns: int, ended_ns: int) -> None:
        """How long it took to pause, or to go on."""
        self._settled_ns = ended_ns + _TURNS * (ended_ns - began_ns)

    def changes(self, now_ns: int, switches: int, samples: int) -> bool:
        """Whether sampling is paused, or goes on, from now on."""
        passed, happened, ran = now_ns - self._looked_ns, switches - self._switches, samples - self._samples
        if passed <= 0:
            return False
        if not self.paused:
            self._busy = max(self._each_ns * ran / passed, 1.0)
        self._rate = happened / passed
        self._looked_ns, self._switches, self._samples = now_ns, switches, samples
        self._account.settle(self._busy * passed, 0 if self.paused else PRICE_NS * happened)
        if now_ns < self._settled_ns:
            return False
        if not self.paused and self._account.held_ns < 0:
            self.paused = True
            # In no step with what the program repeats.
            self._enough_ns = min(self._window_ns() * self._random.uniform(0.5, 1.5), CREDIT_NS)
            return True
        if self.paused and self._account.held_ns >= min(self._enough_ns, self._window_ns()):
            self.paused = False
            return True
        return False

    def wait_ms(self, longest: int) -> int:
        """How long nothing has to be done here, in milliseconds, `longest` at most."""
        if self.paused:
            due_ns = self._account.until_ns(self._enough_ns) / self._busy
        else:
            spends = PRICE_NS * self._rate - SHARE * self._busy
            due_ns = max(self._account.held_ns, 0) / spends if spends > 0 else longest * 1e6
        return max(min(int(due_ns / 1e6), LOOK_MS, longest), _SHORTEST_MS)

    def _window_ns(self) -> float:
        """What a window costs at the rate of now."""
        return PRICE_NS * self._rate * WINDOW_NS
