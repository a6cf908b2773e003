"""Of thousands of threads a reader can choose the busiest; the others stand together, and no sum changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from pinprof.analyze import analyze
from pinprof.data.model import Capture
from pinprof.report import threads
from pinprof.report.flame import FlameData, Thread
from pinprof.report.gather import build
from pinprof.report.threads import numbered_threads, thread_numbers
from tests.support.small_capture import small_capture

COUNTS = {(1, 1): 5, (2, 2): 1, (3, 3): 7, (3, 4): 1, (5, 5): 2}


@pytest.fixture
def capture() -> Capture:
    """Threads with these numbers of samples, of a millisecond and more each."""
    pairs = [pair for pair, count in COUNTS.items() for _ in range(count)]
    made = small_capture(
        [(0, 10**6 + row, row % 2) for row in range(len(pairs))], [("a", 0), ("b", 0)], [(-1, 0), (0, 1)]
    )
    pid, tid = np.array(pairs, np.int32).T
    return replace(made, samples=replace(made.samples, pid=pid, tid=tid), threads={(1, 1): "main", (5, 5): "short"})


def flame_of(capture: Capture) -> FlameData:
    flame = build(analyze(capture)).flame
    assert flame is not None
    return flame


def test_few_threads_stand_alone(capture: Capture) -> None:
    assert thread_numbers(capture) == {pair: number for number, pair in enumerate(COUNTS)}
    titles = [thread.title for thread in numbered_threads(capture)]
    assert titles == ["main 1", "2", "3", "4", "short 5"]


def test_of_many_the_busiest_stand_alone(capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = flame_of(capture)
    monkeypatch.setattr(threads, "MOST_ALONE", 2)
    assert thread_numbers(capture) == {(1, 1): 0, (3, 3): 1, (2, 2): 2, (3, 4): 2, (5, 5): 2}
    assert numbered_threads(capture) == (
        Thread(1, 1, "main"), Thread(3, 3, ""), Thread(0, 0, "3 other threads", several=True),
    )  # fmt: skip
    together = flame_of(capture)
    assert [thread.title for thread in together.threads] == ["main 1", "3", "3 other threads"]
    weights: dict[str, Counter[int]] = {}
    for name, flame in (("apart", apart), ("together", together)):
        weights[name] = Counter()
        for number, weight in zip(flame.thread.tolist(), flame.weight.tolist(), strict=True):
            weights[name][number] += weight
    each = weights["apart"]
    assert weights["together"] == {0: each[0], 1: each[2], 2: each[1] + each[3] + each[4]}
