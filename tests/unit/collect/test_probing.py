"""What tracing calls may cost, and what becomes of a kind that costs too much; the kernel's part is played."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pinprof.collect.native import opened, perf_event, probing
from pinprof.collect.native.events import call_events, mappings
from pinprof.collect.native.opened import Opened
from pinprof.collect.native.perf_event import EventAttr
from pinprof.collect.native.probing import CREDIT_NS, PRICE_NS, Probes, TracingBudget
from pinprof.collect.native.tracefs import Tracepoints

POINTS = {"copies": Tracepoints(11, 12), "memory": Tracepoints(21, 22)}
MS = 1_000_000


def given_up(budget: TracingBudget, rates: dict[str, float], seconds: float) -> list[tuple[int, str]]:
    """Which kinds are given up and when, while each is called so often a second."""
    found, rates, step_ns = [], dict(rates), 10 * MS
    for now in range(step_ns, round(seconds * 1e9) + 1, step_ns):
        if kind := budget.overdrawn(now, {name: round(rate * step_ns * 1e-9) for name, rate in rates.items()}):
            found.append((now, kind))
            del rates[kind]
    return found


def test_what_keeps_the_budget_is_traced() -> None:
    # 5,900 × 5 µs are 2.95 %.
    assert given_up(TracingBudget(3, 0), {"copies": 3900, "memory": 2000}, 30) == []


def test_a_flood_is_given_up_at_once() -> None:
    ((when, kind),) = given_up(TracingBudget(3, 0), {"copies": 180_000, "memory": 1000}, 10)
    assert kind == "copies"
    assert when <= 20 * MS


@pytest.mark.parametrize("percent", [100, math.inf])
def test_a_budget_of_everything_traces_whatever_it_costs(percent: float) -> None:
    """By the usual price, these calls take all of the time and more."""
    assert given_up(TracingBudget(percent, 0), {"copies": 400_000}, 10) == []


def test_a_burst_is_no_flood() -> None:
    budget, burst = TracingBudget(3, 0), {"memory": CREDIT_NS // PRICE_NS}
    assert budget.overdrawn(10 * MS, burst) is None
    assert budget.overdrawn(20 * MS, {"memory": 200}) == "memory", "the account was empty"
    assert budget.overdrawn(400 * MS, burst) is None, "it has filled again"


def test_the_dearest_kind_gives_way_first_and_the_others_as_far_as_they_must() -> None:
    rates = {"copies": 4000.0, "memory": 5000.0, "other": 3500.0}  # 2 %, 2.5 %, 1.75 %
    assert [kind for _, kind in given_up(TracingBudget(3, 0), rates, 10)] == ["memory", "copies"]


@pytest.mark.parametrize("passed", [0, -5])
@pytest.mark.parametrize("percent", [3, 100])
def test_no_time_decides_nothing(percent: float, passed: int) -> None:
    assert TracingBudget(percent, 100).overdrawn(100 + passed, {"copies": 10**9}) is None


class Kernel:
    """Events on two tracepoints of each kind, on a clock of its own; `rate` says how often a second each is entered."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.rate = {11: 0.0, 21: 0.0}
        self.points: dict[int, tuple[int, int]] = {}
        """The tracepoint and the process of each event."""
        self.counts: dict[int, float] = {}
        self.on: set[int] = set()

    def open_event(self, attr: EventAttr, pid: int, cpu: int) -> int:
        file = os.open("/dev/null", os.O_RDONLY)
        self.points[file], self.counts[file] = (attr.config, pid), 0.0
        return file

    def passes(self, nanoseconds: int) -> None:
        self.now_ns += nanoseconds
        for file in self.on:
            self.counts[file] += self.rate.get(self.points[file][0], 0.0) * nanoseconds * 1e-9

    def count(self, file: int) -> int:
        os.fstat(file)  # an event that is closed cannot be read
        return int(self.counts[file])

    def close(self, file: int) -> None:
        if self.points.pop(file, None):
            self.on.discard(file)
        really_close(file)


really_close = os.close


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    played = Kernel()
    monkeypatch.setattr(perf_event, "open_event", played.open_event)
    monkeypatch.setattr(perf_event, "disable", played.on.discard)
    monkeypatch.setattr(perf_event, "count", played.count)
    monkeypatch.setattr(perf_event, "lost_records", lambda file, _: 3)
    monkeypatch.setattr(opened.os, "close", played.close)
    monkeypatch.setattr(probing, "time", SimpleNamespace(monotonic_ns=lambda: played.now_ns))
    return played


class Watched:
    """The probes of a program, and their events."""

    PID = 7

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        specs = [mappings(), *call_events(POINTS)]
        files = [[kernel.open_event(spec.attr, self.PID, cpu) for cpu in (0, 1)] for spec in specs]
        ring: Any = SimpleNamespace(close=lambda: None)
        self.opened = Opened(specs, files, [ring], [], [0, 1])
        self.probes = Probes(self.opened, 3.0)
        kernel.on.update(file for each in files for file in each[:1])

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            self.kernel.passes(10 * MS)
            self.probes.look(1 << 20)

    def names(self) -> set[str]:
        """Events that are open and on."""
        on = self.kernel.on
        pairs = zip(self.opened.specs[1:], self.opened.files[1:], strict=True)
        return {spec.name for spec, files in pairs if any(file in on for file in files)}

    def finish(self) -> dict[str, Any]:
        told: dict[str, Any] = self.probes.finish()["probes"]
        return told


@pytest.fixture
def watched(kernel: Kernel) -> Iterator[Watched]:
    made = Watched(kernel)
    yield made
    made.opened.close()
    assert not kernel.points, "no event stays open"


REST = {"call-enter/memory", "call-leave/memory"}
FULL = {"call-enter/copies", "call-leave/copies", *REST}


def test_within_the_budget_everything_is_recorded(watched: Watched) -> None:
    watched.kernel.rate |= {11: 2000, 21: 2000}
    watched.run(10)
    assert watched.names() == FULL
    told = watched.finish()
    assert told["given_up"] == []
    # 40,000 calls at the usual 5 µs.
    assert told["cost_ns"] == pytest.approx(200 * MS, rel=0.01)


def test_calls_are_looked_at_often_only_while_records_come_fast(watched: Watched) -> None:
    watched.kernel.rate[11] = 180_000
    for _ in range(39):
        watched.kernel.passes(10 * MS)
        watched.probes.look(0)
    assert watched.names() == FULL
    watched.kernel.passes(10 * MS)
    watched.probes.look(0)
    assert watched.names() == REST


def test_a_flood_is_closed_to_the_end_and_nobody_says_how_many_calls_there_were(watched: Watched) -> None:
    watched.kernel.rate |= {11: 50_000, 21: 500}
    watched.run(1)
    watched.kernel.rate[11] = 0
    watched.run(100)
    assert watched.names() == REST
    assert watched.opened.files[1:3] == [[], []], "what stays open traps"
    assert watched.opened.lost_records(1) == [3, 3]
    told = watched.finish()
    (episode,) = told["given_up"]
    assert episode["from_ns"] <= 50 * MS
    assert episode == {
        "kind": "copies", "without": "calls", "from_ns": episode["from_ns"], "to_ns": watched.kernel.now_ns,
    }  # fmt: skip
    traced = 500 * 101 + 50_000 * episode["from_ns"] * 1e-9
    assert told["cost_ns"] == pytest.approx(traced * PRICE_NS, rel=0.05)


def test_no_event_of_the_program_is_the_last_one_on_its_tracepoint(watched: Watched) -> None:
    """That one's closing takes the kernel so long that the program can start no thread for a tenth of a second."""
    watched.kernel.rate[11] = 50_000
    watched.run(1)
    left = {point for point, pid in watched.kernel.points.values() if pid == os.getpid()}
    assert left == {11, 12, 21, 22}
    assert {pid for file, (_, pid) in watched.kernel.points.items() if file in watched.kernel.on} == {Watched.PID}
