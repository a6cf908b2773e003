"""Sampling pauses while threads switch too often, for as long as its cost keeps to its share, and no longer."""

from __future__ import annotations

import pytest

from pinprof.collect.native.account import CREDIT_NS
from pinprof.collect.native.switching import LOOK_MS, PRICE_NS, SHARE, WINDOW_NS, Switching

SECOND = 1_000_000_000


class Program:
    """Threads that switch and run, and a recorder that looks at them when it says it will."""

    def __init__(self) -> None:
        self.switching = Switching(1000)
        self.now = self.switches = 0
        self.samples = 0.0
        self.cost_ns = self.sampled_ns = self.windows = 0
        self.switching.begin(0, 0, 0)

    def run(self, ns: int, rate: float, threads: int = 1) -> None:
        """So much time with so many switches a second of all threads."""
        until = self.now + ns
        while self.now < until:
            step = min(self.switching.wait_ms(500) * 1_000_000, until - self.now)
            happened = round(rate * step / SECOND)
            self.now += step
            self.switches += happened
            if not self.switching.paused:
                self.samples += threads * 1000 * step / SECOND
                self.cost_ns += PRICE_NS * happened
                self.sampled_ns += step
            if self.switching.changes(self.now, self.switches, int(self.samples)):
                self.windows += not self.switching.paused


@pytest.mark.parametrize("rate", [20_000, 100_000, 1_000_000])
@pytest.mark.parametrize("threads", [1, 8])
def test_sampling_costs_its_share_and_goes_on_in_windows(rate: int, threads: int) -> None:
    program = Program()
    program.run(2 * SECOND, rate, threads)
    program.cost_ns = program.windows = 0
    program.run(20 * SECOND, rate, threads)
    allowed = SHARE * 20 * SECOND * threads
    assert min(0.5 * allowed, 0.9 * PRICE_NS * rate * 20) <= program.cost_ns <= 1.5 * allowed
    if PRICE_NS * rate > 2 * SHARE * SECOND * threads:
        assert program.windows > 10


def test_threads_that_switch_seldom_are_sampled_throughout() -> None:
    program = Program()
    program.run(60 * SECOND, 0.9 * SHARE * SECOND / PRICE_NS)
    assert program.sampled_ns == 60 * SECOND
    assert program.switching.wait_ms(500) == LOOK_MS


def test_a_burst_is_sampled_on_credit() -> None:
    program = Program()
    program.run(CREDIT_NS // 10 * 8, 100_000)
    assert not program.switching.paused
    assert program.sampled_ns > 0


def test_sampling_goes_on_soon_after_threads_become_calm() -> None:
    program = Program()
    program.run(5 * SECOND, 300_000)
    program.run(SECOND, 100)
    before = program.sampled_ns
    program.run(10 * SECOND, 100)
    assert program.sampled_ns - before == 10 * SECOND


def test_pauses_keep_no_step_with_the_program() -> None:
    program = Program()
    lengths, since = list[int](), 0
    for _ in range(2000):
        before = program.switching.paused
        program.run(5_000_000, 50_000)
        if before and not program.switching.paused:
            lengths.append(program.now - since)
        if program.switching.paused and not before:
            since = program.now
    assert len(set(lengths)) > 5


def test_an_interruption_of_the_recording_begins_with_sampling() -> None:
    program = Program()
    program.run(2 * SECOND, 300_000)
    while not program.switching.paused:
        program.run(WINDOW_NS, 300_000)
    program.switching.begin(program.now, program.switches, int(program.samples))
    assert not program.switching.paused
    assert not program.switching.changes(program.now, program.switches, int(program.samples))


def test_turns_that_take_long_are_rare() -> None:
    program, turns = Program(), 0
    for _ in range(1000):
        paused = program.switching.paused
        program.run(WINDOW_NS, 300_000)
        if program.switching.paused != paused:
            turns += 1
            program.switching.turned(program.now, program.now + WINDOW_NS)
    assert 10 < turns <= 1000 / 20
