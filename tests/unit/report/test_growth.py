"""What an answer and a page take grows with a recording, and no faster: for four times of it, at most 4.6 times.

Counted are calls of functions, not what numpy does inside of one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from pinprof.analyze import analyze
from pinprof.analyze.attribution import matching
from pinprof.data.model import Capture
from pinprof.report.gather import answer_of, build
from tests.support.activities import MS
from tests.support.scenes import MIB, ran, recorded, to_gpu, waited
from tests.support.stacks import Range, Sample
from tests.support.work import calls

EXPONENT = 1.1
LOCK = ("main@/app", "pthread_mutex_lock@/libc.so.6", "__x64_sys_futex", "do_futex", "futex_wait", "schedule")
FAULT = ("asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "do_anonymous_page")


def stacks(count: int) -> Capture:
    """Each sample has a line and a stack of its own."""
    return recorded(
        [
            Sample((f"main (a.py:{n})@/a.py", f"step{n} (b.py:{n})@/b.py", *FAULT), MS, (n + 1) * MS, 100, 100)
            for n in range(count)
        ]
    )


def waits(count: int) -> Capture:
    """One thread waits again and again."""
    return recorded(
        [each for n in range(count) for each in (*ran(2 * n, 2 * n + 1), *waited(2 * n + 1, 2 * n + 2, LOCK))]
    )


def threads(count: int) -> Capture:
    """Each thread runs once and waits once."""
    others = [
        each for n in range(count) for each in (*ran(n, n + 1, tid=101 + n), *waited(n + 1, n + 2, LOCK, 101 + n))
    ]
    return recorded([*ran(0, count), *others])


def copies(count: int) -> Capture:
    """Copies to the GPU, one after the other."""
    return recorded(ran(0, 2 * count), [to_gpu(2 * n, 2 * n + 1, MIB) for n in range(count)])


def ranges(count: int) -> Capture:
    """Ranges inside each other, around one sample."""
    inside = [Range(f"range {n}", n * MS, (2 * count - n) * MS, n, 100, 100) for n in range(count)]
    return recorded(ran(0, 2 * count), ranges=inside)


@pytest.mark.parametrize("made", [stacks, waits, threads, copies, ranges])
def test_work_grows_no_faster_than_what_was_recorded(made: Callable[[int], Capture]) -> None:
    matching.prepare()
    answers, pages = [], []
    for times in (1, 4, 16, 64):
        capture = made(8 * times)
        answers.append(calls(lambda: answer_of(analyze(capture))))  # noqa: B023 — it is called at once
        pages.append(calls(lambda: build(analyze(capture))))  # noqa: B023
    for counted in (answers, pages):
        for fewer, more in pairwise(counted[1:]):
            assert more <= 4**EXPONENT * fewer, counted
