"""Sums inside ranges: the same whichever way they are made, and not by looking at each event in each range."""

from __future__ import annotations

import numpy as np
import pytest

from pinprof.analyze.ranges import sums
from pinprof.analyze.ranges.membership import Events, Scopes, membership
from pinprof.analyze.ranges.order import smallest
from pinprof.analyze.ranges.sums import summed
from pinprof.data.model import Int64
from tests.support.activities import PID, Call, explained, to_device
from tests.support.stacks import Range, Sample, capture


def nested(count: int, pid: int = 1) -> list[Range]:
    return [Range(f"level {n} of {pid}", n, 2 * count - n, depth=n, pid=pid, tid=pid) for n in range(count)]


def cells(scopes: Scopes, events: Events, code: Int64, weight: Int64) -> dict[tuple[int, int], tuple[int, ...]]:
    one = np.ones(len(events), np.int64)
    found = {}
    for part in summed(scopes, events, code, (weight, one), weight):
        spread = part.spreads
        assert spread is not None
        first = spread.first if (np.diff(events.time_ns) >= 0).all() else 0 * spread.first
        columns = (*part.amounts, spread.least, spread.median, spread.most, first)
        for scope, of, *figures in zip(part.scope, part.code, *columns, strict=True):
            assert (int(scope), int(of)) not in found
            found[int(scope), int(of)] = tuple(map(int, figures))
    return found


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
def test_ranges_of_many_samples_have_the_sums_of_looking_at_each(
    monkeypatch: pytest.MonkeyPatch, *, kernel: bool, shuffled: bool
) -> None:
    chance = np.random.default_rng(3)
    ranges = [
        *nested(40), *nested(30, pid=2),
        *(Range("short", 3 * n, 3 * n + 2, pid=1, tid=5) for n in range(20)),
        Range("both", 0, 50, pid=1, tid=5), Range("both", 0, 60, pid=2, tid=6), Range("all", 0, 70, pid=99, tid=99),
    ]  # fmt: skip
    samples = [Sample(["main@/app"], time_ns=n // 4, pid=int(chance.integers(0, 4))) for n in range(320)]
    members = membership(capture(samples, ranges))
    events = members.samples
    order = chance.permutation(len(events)) if shuffled else np.arange(len(events))
    asleep = (chance.random(len(events)) < 0.1) & kernel
    events = Events(events.time_ns[order], events.pid[order], asleep)
    code, weight = chance.integers(0, 3, len(events)), chance.integers(0, 9, len(events))
    fast = cells(members.of_samples, events, code, weight)
    assert list(sums._crowded(members.of_samples, events, code))
    monkeypatch.setattr(sums, "_crowded", lambda *_: [])
    assert fast == cells(members.of_samples, events, code, weight)


@pytest.mark.parametrize("seed", range(8))
def test_the_nth_smallest_of_pieces_is_that_of_their_values_in_order(seed: int) -> None:
    chance = np.random.default_rng(seed)
    values = chance.integers(-5, 5 if seed % 2 else 1 << 40, 60)
    ends = np.sort(chance.integers(0, len(values) + 1, (40, 2)), axis=1)
    first, behind = ends[ends[:, 0] < ends[:, 1]].T
    cell = np.sort(np.append(np.arange(4), chance.integers(0, 4, len(first) - 4)))
    ordered = [
        sorted(
            value for low, high, of in zip(first, behind, cell, strict=True) if of == n for value in values[low:high]
        )
        for n in range(4)
    ]
    for share in (0.0, 0.5, 1.0):
        nth = [int(share * (len(one) - 1)) for one in ordered]
        (found,) = smallest(values, (first, behind, cell), (np.array(nth),))
        assert found.tolist() == [one[at] for one, at in zip(ordered, nth, strict=True)]


@pytest.mark.parametrize("kernel", [False, True])
def test_the_innermost_range_of_an_event_is_the_deepest_that_counts_it(*, kernel: bool) -> None:
    chance = np.random.default_rng(5)
    ranges = [
        *nested(20), *nested(15, pid=2), *(Range("short", 3 * n, 3 * n + 2, pid=1, tid=5) for n in range(12)),
        Range("all", 3, 70, pid=99, tid=99), Range("empty", 9, 9, depth=1, pid=1, tid=5),
    ]  # fmt: skip
    samples = [Sample(["main@/app"], time_ns=int(chance.integers(0, 60)), pid=n % 4) for n in range(200)]
    members = membership(capture(samples, ranges))
    order = chance.permutation(len(samples))
    asleep = (chance.random(len(order)) < 0.1) if kernel else None
    events = Events(members.samples.time_ns[order], members.samples.pid[order], asleep)
    best = [(-1, -1)] * len(events)
    for paths, rows in members.among(events.pid).inside(events):
        for path, row in zip(paths.tolist(), rows.tolist(), strict=True):
            best[row] = max(best[row], (members.paths[path].depth, path))
    assert members.innermost(events).tolist() == [path for _, path in best]
    assert {depth for depth, _ in best} > {-1, 0, 5, 15}


def looked_at(monkeypatch: pytest.MonkeyPatch, size: int) -> int:
    """How many pairs of a range and a sample, call or copy are looked at in `size` nested ranges with as many."""
    pairs = 0
    inside = Scopes.inside

    def counted(scopes: Scopes, events: Events, first_path: int = 0) -> object:
        nonlocal pairs
        for path, row in inside(scopes, events, first_path):
            pairs += len(path)
            yield path, row

    monkeypatch.setattr(Scopes, "inside", counted)
    samples = [Sample(["main@/app"], time_ns=2 * n) for n in range(size)]
    members = membership(capture(samples, nested(size)))
    cells(members.of_samples, members.samples, np.zeros(size, np.int64), np.ones(size, np.int64))
    members.innermost(members.samples)
    made = [Call(f"cudaMemcpy{n % 3}", 2 * n, 2 * n + 1, n + 1, status=n % 7 == 0) for n in range(size)]
    copied = [to_device(2 * n, 2 * n + 1, n, correlation_id=n + 1) for n in range(size)]
    found = explained(made, copied, samples=samples, ranges=nested(size, PID))
    assert sum(call.count for call in found.ranges[size // 2].calls) == size - size // 2
    return pairs


def test_the_work_of_nested_ranges_grows_with_them_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked_at(monkeypatch, 800) <= 8 * max(looked_at(monkeypatch, 200), 1)
