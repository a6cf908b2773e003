"""What an answer and a page take grows with a recording, and no faster: for four times of it, at most 4.6 times.

Counted are calls of functions, and the bytes that are held at a time: these grow with what numpy does inside of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pinprof.analyze import analyze, intervals
from pinprof.analyze.attribution import matching
from pinprof.base import columns
from pinprof.data.model import Capture
from pinprof.report.gather import answer_of, build
from tests.support.activities import MS
from tests.support.scenes import MIB, Traced, ran, recorded, to_gpu, waited
from tests.support.stacks import Range, Sample
from tests.support.work import calls, peak_bytes

EXPONENT = 1.1
MOST_LINES = 120
SAMPLE_BYTES = 180
"""Of each sample of a fault, which costs something: rows of causes, and masks over them."""
POOL = ("start_thread@/libc.so.6", "work@/libpool.so", "pthread_cond_wait@/libc.so.6", *(
    "__x64_sys_futex", "do_futex", "futex_wait", "schedule"
))  # fmt: skip
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


def launches(count: int) -> Capture:
    """CUDA calls that copy nothing, from two lines."""
    return recorded(ran(0, 2 * count), [Traced("cuLaunchKernel", 2 * n, 2 * n + 1, site=n % 2) for n in range(count)])


def paths(count: int) -> Capture:
    """Ranges one after the other, each with a name and a sample of its own."""
    return recorded(ran(0, 2 * count), ranges=_one_by_one(count))


def _one_by_one(count: int) -> list[Range]:
    return [Range(f"range {n}", 2 * n * MS, (2 * n + 1) * MS, 0, 100, 100) for n in range(count)]


def pools(count: int) -> Capture:
    """As many threads without work as ranges, which lie within the wait of each."""
    idle = [wait for n in range(count) for wait in waited(0, 2 * count, POOL, 101 + n)]
    return recorded([*ran(0, 2 * count), *idle], ranges=_one_by_one(count))


FACTS = [stacks, waits, threads, copies, ranges, launches, paths, pools]


@pytest.mark.parametrize("made", FACTS)
def test_work_grows_no_faster_than_what_was_recorded(
    made: Callable[[int], Capture], monkeypatch: pytest.MonkeyPatch
) -> None:
    matching.prepare()
    # Ranges inside each other are many pairs with what is in them, of which a batch at a time is there.
    monkeypatch.setattr(intervals, "BATCH_ROWS", 1 << 8)
    answers, pages, held = [], [], []
    for times in (1, 4, 16, 64):
        capture = made(8 * times)
        answers.append(calls(lambda: answer_of(analyze(capture))))  # noqa: B023 — it is called at once
        pages.append(calls(lambda: build(analyze(capture))))  # noqa: B023
        held.append(peak_bytes(lambda: answer_of(analyze(capture))))  # noqa: B023
    for counted in (answers, pages, held):
        for fewer, more in pairwise(counted[1:]):
            assert more <= 4**EXPONENT * fewer, counted


@pytest.mark.slow
def test_columns_in_files_leave_little_of_a_sample_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LONG_ROWS", 1 << 12)
    monkeypatch.setattr(columns, "_AT_ONCE", 1 << 10)
    # What is prepared once is no sample's.
    build(analyze(stacks(2)), "json")
    few, many = 30_000, 120_000
    held = []
    for count in (few, many):
        one = stacks(2)
        samples = one.samples.take(np.arange(count) % 2)
        capture = replace(one, samples=replace(samples, time_ns=(1 + np.arange(count)) * MS))
        held.append(peak_bytes(lambda: build(analyze(capture), "json")))  # noqa: B023 — it is called at once
    assert (held[1] - held[0]) / (many - few) < SAMPLE_BYTES


@pytest.mark.parametrize("made", FACTS)
def test_a_text_has_as_many_lines_as_a_person_reads(made: Callable[[int], Capture], tmp_path: Path) -> None:
    build(analyze(made(512)), "text").save("text", tmp_path / "text", most=MOST_LINES)
    assert 10 < len((tmp_path / "text").read_text().splitlines()) <= MOST_LINES
