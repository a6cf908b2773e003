"""The threads that a reader can choose, by the numbers that they have on the page.

A program may start thousands of short processes. The sampled threads with the most samples are shown one by one, and
the others together; so the samples of the page agree in more and become fewer.
"""

from __future__ import annotations

from pinprof.base.units import format_counted
from pinprof.data.model import Capture
from pinprof.report.flame import Thread
from pinprof.report.rows import thread_names

MOST_ALONE = 300
"""Sampled threads that are shown one by one."""


def thread_numbers(capture: Capture) -> dict[tuple[int, int], int]:
    """(pid, tid) → number: sampled threads first, in ascending order, with one number for those that stand together."""
    sampled = capture.sampled_threads
    alone = sorted(sorted(sampled, key=lambda thread: -sampled[thread])[:MOST_ALONE])
    numbers = {thread: number for number, thread in enumerate(alone)}
    together = [thread for thread in sampled if thread not in numbers]
    numbers |= dict.fromkeys(together, len(alone))
    following = len(alone) + bool(together)
    others = [thread for thread in thread_names(capture) if thread[1] > 0 and thread not in numbers]
    return numbers | {thread: following + place for place, thread in enumerate(others)}


def numbered_threads(capture: Capture, *, sampled: bool = False) -> tuple[Thread, ...]:
    """The threads in the order of their numbers, all or the `sampled` ones, each with its name in the capture."""
    numbers = thread_numbers(capture)
    chosen = [thread for thread in numbers if not sampled or thread in capture.sampled_threads]
    sharing = len(capture.sampled_threads) - MOST_ALONE
    made = {numbers[pair]: Thread(*pair, capture.threads.get(pair, "")) for pair in chosen}
    if sharing > 0:
        made[MOST_ALONE] = Thread(0, 0, format_counted(sharing, "other thread", "other threads"), several=True)
    return tuple(made[number] for number in sorted(made))
