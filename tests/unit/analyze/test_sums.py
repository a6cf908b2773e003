"""Sums inside ranges: the same whichever way they are made, and not by looking at each event in each range."""

from __future__ import annotations

import numpy as np
import pytest

from pinprof.analyze.ranges import sums
from pinprof.analyze.ranges.membership import Events, Scopes, membership
from pinprof.analyze.ranges.sums import summed
from pinprof.data.model import Int64
from tests.support.stacks import Range, Sample, capture


def nested(count: int, pid: int = 1) -> list[Range]:
    return [Range(f"level {n} of {pid}", n, 2 * count - n, depth=n, pid=pid, tid=pid) for n in range(count)]


def cells(scopes: Scopes, events: Events, code: Int64, weight: Int64) -> dict[tuple[int, int], tuple[int, int]]:
    one = np.ones(len(events), np.int64)
    found = {}
    for part in summed(scopes, events, code, (weight, one)):
        for scope, of, first, second in zip(part.scope, part.code, *part.amounts, strict=True):
            assert (int(scope), int(of)) not in found
            found[int(scope), int(of)] = (int(first), int(second))
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


def looked_at(monkeypatch: pytest.MonkeyPatch, size: int) -> int:
    """How many pairs of a range and a sample are looked at for `size` nested ranges with as many samples."""
    pairs = 0
    inside = Scopes.inside

    def counted(scopes: Scopes, events: Events, first_path: int = 0) -> object:
        nonlocal pairs
        for path, row in inside(scopes, events, first_path):
            pairs += len(path)
            yield path, row

    monkeypatch.setattr(Scopes, "inside", counted)
    members = membership(capture([Sample(["main@/app"], time_ns=2 * n) for n in range(size)], nested(size)))
    cells(members.of_samples, members.samples, np.zeros(size, np.int64), np.ones(size, np.int64))
    return pairs


def test_the_work_of_nested_ranges_grows_with_them_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked_at(monkeypatch, 800) <= 8 * max(looked_at(monkeypatch, 200), 1)
