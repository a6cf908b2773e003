"""Looks, waits and what was called decide whose sample it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pinprof.read.python.likely import CallHabits
from pinprof.read.python.matching import CERTAIN, NEARER, NONE, UNDECIDED, Matched, ThreadSamples, match

WORK, SLEEP, CRUNCH = 1, 2, 3
MS = 1_000_000


def thread(
    looks: Sequence[tuple[float, int]],
    runs: Sequence[float],
    waits: Sequence[tuple[float, float]] = (),
    called: Sequence[int] = (),
    kept: Sequence[tuple[float, float]] = (),
    lag: float = 0.1,
) -> ThreadSamples:
    """Times in ms."""

    def column(values: Sequence[float]) -> np.ndarray:
        return np.round(np.array(values, float) * MS).astype(np.int64)

    return ThreadSamples(
        column([time for time, _ in looks]),
        np.array([stack for _, stack in looks], np.int32),
        column([time - lag for time, _ in looks]),
        column(runs),
        np.array(called or [0] * len(runs), np.int64),
        np.ones(len(runs), np.bool_),
        column([start for start, _ in waits]),
        column([end for _, end in waits]),
        np.full(len(waits), 9, np.int64),
        column([start for start, _ in kept]),
        column([end for _, end in kept]),
    )


def matched(*threads: ThreadSamples) -> tuple[Matched, Matched]:
    return match(list(threads), MS, np.full(CRUNCH + 1, -1))[0]


def test_a_look_inside_a_wait_says_nothing_of_what_ran_around_it() -> None:
    """Work of 3 ms, a sleep of 5: the look in the sleep is the nearest to the work's last sample."""
    runs, waits = matched(thread([(1, WORK), (4, SLEEP), (9, WORK)], [2.9, 8.2], [(3, 8)]))
    assert runs.stack.tolist() == [WORK, WORK]
    assert (waits.stack.tolist(), waits.how.tolist()) == ([SLEEP], [CERTAIN])


def test_a_wait_without_a_look_goes_to_a_line_that_waits_like_this() -> None:
    looks = [(0.5, WORK), (2.5, SLEEP), (4.5, WORK), (6.5, SLEEP), (8.5, WORK), (9.5, WORK)]
    _, waits = matched(thread(looks, [], [(2, 3), (6, 7), (9, 9.2)]))
    assert waits.stack.tolist() == [SLEEP] * 3


def test_a_wait_like_no_other_is_undecided() -> None:
    _, waits = matched(thread([(1, WORK), (2, CRUNCH)], [], [(1.4, 1.6)]))
    assert waits.how.tolist() == [UNDECIDED]


@pytest.mark.parametrize(("behind", "how"), [(0, NEARER), (2, UNDECIDED)])
def test_waits_too_short_for_a_look_are_where_looks_into_some_agree(behind: int, how: int) -> None:
    """Waits of 0.03 ms, one each 0.05: of four looks into them, so many saw what came behind them."""
    waits = [(0.05 * number, 0.05 * number + 0.03) for number in range(400)]
    looks = [(2.02 + 5 * number, WORK if number < behind else SLEEP) for number in range(4)]
    _, found = matched(thread(looks, [], waits))
    assert set(found.how.tolist()) == {how}
    assert behind or set(found.stack.tolist()) == {SLEEP}


def turns(mean: float, *lengths: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Looks at random times, a sample each 0.1 ms, and its true stack: WORK and CRUNCH take turns, in ms."""
    looks, times = np.cumsum(np.random.default_rng(5).exponential(mean, 2000)), np.arange(0.05, 400, 0.1)
    first, second = lengths

    def stack(at: np.ndarray) -> np.ndarray:
        return np.where(at % (first + second) < first, WORK, CRUNCH)

    return np.stack([looks, stack(looks)], axis=1), times, stack(times)


def test_between_two_looks_what_was_called_says_which_samples_and_nearness_how_many() -> None:
    looks, times, truth = turns(0.5, 1.1, 0.9)
    runs, _ = matched(thread(looks.tolist(), times.tolist(), called=truth.tolist()))
    blind, _ = matched(thread(looks.tolist(), times.tolist()))
    for found, right in ((runs, 0.97), (blind, 0.7)):
        assert abs((found.stack == WORK).mean() - (truth == WORK).mean()) < 0.04
        assert (found.stack == truth).mean() > right


def test_samples_that_called_the_same_between_the_same_looks_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged, odds = [], CallHabits.odds

    def counted(habits: CallHabits, called: np.ndarray, stack: np.ndarray) -> np.ndarray:
        judged.append(stack.size)
        return odds(habits, called, stack)

    monkeypatch.setattr(CallHabits, "odds", counted)
    looks, times, truth = turns(0.5, 1.1, 0.9)
    for often in (1, 16):
        matched(thread(looks.tolist(), np.repeat(times, often).tolist(), called=np.repeat(truth, often).tolist()))
    assert len(set(judged)) == 1 < len(judged)
    assert judged[0] < len(times) / 50


def test_what_a_function_calls_is_not_its_callers_which_looks_see_on_both_sides() -> None:
    """A function of 3 ms that returns for 0.3 ms: hardly any two looks that follow each other lie in that."""
    looks, times, truth = turns(1, 3, 0.3)
    runs, _ = matched(thread(looks.tolist(), times.tolist(), called=truth.tolist()))
    assert (runs.stack == truth).mean() > 0.97
    assert ((runs.stack == CRUNCH) & (truth == CRUNCH)).sum() > 0.8 * (truth == CRUNCH).sum()


def test_samples_of_events_do_not_follow_the_clocks_sums() -> None:
    """Faults come in one of both alone: a look in the other one is near many, and gets none."""
    looks, times, truth = turns(1, 3, 0.3)
    clock, faults = thread(looks.tolist(), times.tolist(), called=truth.tolist()), times[truth == WORK]
    both = np.sort(np.concatenate([clock.run_time, np.round(faults * MS).astype(np.int64) + 1000]))
    clock.run_clock = np.isin(both, clock.run_time)
    clock.run_called = np.where(clock.run_clock, 0, WORK)
    clock.run_time = both
    runs, _ = matched(clock)
    assert (runs.stack[~clock.run_clock] == WORK).mean() > 0.99
    assert abs((runs.stack[clock.run_clock] == CRUNCH).mean() - 0.3 / 3.3) < 0.03


def test_a_look_that_keeps_a_thread_from_running_itself_counts_however_late_it_is() -> None:
    looks, kept = [(1, WORK), (6, CRUNCH), (12, WORK)], [(5.5, 7)]
    for lag, stack in ((0.7, CRUNCH), (0.4, WORK)):
        runs, _ = matched(thread(looks, [5.4], kept=kept, lag=lag))
        assert runs.stack.tolist() == [stack]


def test_time_in_which_others_ran_does_not_count() -> None:
    looks = [(1, WORK), (4, WORK), (12, CRUNCH), (13, CRUNCH)]
    runs, _ = matched(thread(looks, [4.8, 11.5], kept=[(5, 11)]))
    assert runs.stack.tolist() == [WORK, CRUNCH]
    runs, _ = matched(thread([(4, WORK), (8, CRUNCH), (12, WORK)], [4.9], kept=[(5, 11)]))
    assert runs.how.tolist() == [CERTAIN], "the look at 8 saw what it was kept from"


@pytest.mark.parametrize(("seen_ms", "stack"), [(50.0, CRUNCH), (5.04, WORK)])
def test_a_thread_that_others_keep_from_running_is_where_a_look_saw_it_then(seen_ms: float, stack: int) -> None:
    """Others ran for 200 ms: looks before and after saw other lines; one at the edge may have seen what was before."""
    looks = [(1.0, WORK), (seen_ms, CRUNCH), (206.0, WORK)]
    runs, _ = matched(thread(looks, [105.0], kept=[(5, 205)], lag=0.01))
    assert runs.stack.tolist() == [stack]


def test_a_short_stretch_is_like_others_after_the_same_wait() -> None:
    """Cycles of sleep 2 ms, work 0.5 ms, crunch 0.5 ms; a look in every other one."""
    looks, runs, waits = [], [], []
    for cycle in range(200):
        start = 3.0 * cycle
        waits.append((start, start + 2))
        looks.append((start + 1, SLEEP))
        if cycle % 2:
            offset = (cycle * 7 % 100) / 100
            looks.append((start + 2 + offset, WORK if offset < 0.5 else CRUNCH))
        runs += [start + 2.25, start + 2.75]
    waits.append((600.0, 602.0))
    found, _ = matched(thread(looks, runs, waits))
    assert (found.stack.reshape(-1, 2) == [WORK, CRUNCH]).mean() > 0.95
    assert set(found.how.tolist()) <= {CERTAIN, NEARER}


def test_nothing_is_known_far_from_all_looks() -> None:
    runs, waits = matched(thread([(1, WORK)], [500.0], [(700, 800)]))
    assert (runs.how.tolist(), waits.how.tolist()) == ([NONE], [NONE])
    runs, _ = matched(thread([], [1.0]))
    assert runs.how.tolist() == [NONE]


def test_between_looks_far_apart_that_differ_the_line_is_undecided() -> None:
    runs, _ = matched(thread([(1, WORK), (60, CRUNCH)], [30.0]))
    assert (runs.how.tolist(), {int(runs.stack[0]), int(runs.other[0])}) == ([UNDECIDED], {WORK, CRUNCH})
