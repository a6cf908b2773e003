"""What recording wake-ups may cost: the event is off while its account is overdrawn, and comes back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pinprof.collect.native import perf_event
from pinprof.collect.native import wakeups as module
from pinprof.collect.native.events import WAKEUPS
from pinprof.collect.native.wakeups import PRICE_NS, SHARE, Wakeups

FILE = 7


class Kernel:
    """One event that wake-ups happen on, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.total = self.recorded = 0
        self.on = True
        monkeypatch.setattr(perf_event, "count", lambda _: self.total)
        monkeypatch.setattr(perf_event, "enable", lambda _: self.switch(on=True))
        monkeypatch.setattr(perf_event, "disable", lambda _: self.switch(on=False))
        monkeypatch.setattr(module.time, "monotonic_ns", lambda: self.now)

    def switch(self, *, on: bool) -> None:
        self.on = on

    def pass_by(self, ns: int, rate: float) -> None:
        """Time with so many wake-ups a second, which are counted while the event is off too."""
        self.now += ns
        self.total += round(rate * ns / 1e9)
        self.recorded += round(rate * ns / 1e9) if self.on else 0


def governed() -> Wakeups:
    governor = Wakeups()
    opened: Any = SimpleNamespace(specs=[SimpleNamespace(name=WAKEUPS)], files=[[FILE]])
    governor.govern(opened)
    governor.switched(on=True)
    return governor


@pytest.mark.parametrize("rate", [20_000, 1_000_000])
def test_a_flood_is_recorded_for_its_share_of_the_time_and_goes_on_being_recorded(
    monkeypatch: pytest.MonkeyPatch, rate: int
) -> None:
    kernel = Kernel(monkeypatch)
    governor = governed()
    halves = []
    for _ in range(2):
        before = kernel.recorded
        for _ in range(20_000):
            kernel.pass_by(1_000_000, rate)
            governor.look()
        halves.append(kernel.recorded - before)
    # Beyond the credit of the beginning, and a look's worth of lateness each time.
    assert halves[1] * PRICE_NS <= 1.5 * SHARE * 20e9
    assert halves[1] * PRICE_NS >= 0.5 * SHARE * 20e9
    told = governor.finish()["wakeups"]
    assert told["counted"] == kernel.recorded
    assert 0 < told["off_ns"] < kernel.now


def test_few_wakeups_are_all_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    governor = governed()
    for _ in range(1000):
        kernel.pass_by(10_000_000, 2000)
        governor.look()
        assert governor.wait_ms(500) == 500
    assert governor.finish() == {"wakeups": {"counted": 20_000, "off_ns": 0}}
