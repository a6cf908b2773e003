"""Programs that know which of their lines used the processor: each shape's steps are timed by the thread's own clock.

usage: programs.py SHAPE STEP_MS SECONDS TRUTH_FILE

A step is the block of `with Step(NAME):`. TRUTH_FILE holds per thread and name the CPU and wall time of its steps, in
ns, and the lines that the names stand on. Standard library only, CPython 3.11 and later.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import sys
import threading
import time
import zlib
from collections import defaultdict
from pathlib import Path

SHAPE, STEP_MS, SECONDS = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
TIMES = defaultdict(lambda: defaultdict(lambda: [0, 0]))
SHORTEST = {}
PAUSE_NS = 30_000_000
"""A host that takes the processor away from its machine takes samples with it, and yet that counts as CPU time: of a
step that takes so much longer than the shortest of its name, that one's time counts."""
DATA = random.Random(1).randbytes(1 << 20)


class Step:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.cpu, self.wall = time.thread_time_ns(), time.monotonic_ns()

    def __exit__(self, *_):
        took, entry = time.thread_time_ns() - self.cpu, TIMES[threading.get_native_id()][self.name]
        shortest = SHORTEST[self.name] = min(took, SHORTEST.get(self.name, took))
        entry[0] += took if took < 4 * shortest + PAUSE_NS else shortest
        entry[1] += time.monotonic_ns() - self.wall


def spin(rounds):
    total = 0
    for number in range(rounds):
        total += number
    return total


def calibrated(function):
    """How many units of a function take a millisecond of the processor."""
    best = 0
    for _ in range(5):
        begun, units = time.thread_time_ns(), 0
        while time.thread_time_ns() - begun < 4_000_000:
            function(1)
            units += 1
        best = max(best, units / 4)
    return best


def compress(units):
    for _ in range(units):
        zlib.compress(DATA[:2000], 6)


def digest(units):
    for _ in range(units):
        hashlib.sha256(DATA[:20000]).digest()


def loops(units):
    spin(300 * units)


def sums(units):
    for _ in range(units):
        sum(range(800))


RATE = {function: calibrated(function) for function in (compress, digest, loops, sums)}


def work(function, share):
    """A kind of work for a share of the length of a step."""
    function(max(1, round(RATE[function] * STEP_MS * share)))


def numbers(count, units):
    for number in range(count):
        spin(units)
        yield number


def recurse(depth, function, share):
    if depth:
        recurse(depth - 1, function, share)
    else:
        work(function, share)


def until(seconds):
    """For this long, and on a busy machine until half of it was CPU time, so that there are samples to compare."""
    end, had = time.monotonic() + seconds, time.process_time() + seconds / 2
    while time.monotonic() < end or time.process_time() < had:
        yield


def two():
    for _ in until(SECONDS):
        with Step("compress"):
            work(compress, 0.7)
        with Step("loops"):
            work(loops, 0.3)


def four():
    for _ in until(SECONDS):
        with Step("loops"):
            work(loops, 0.25)
        with Step("digest"):
            work(digest, 0.15)
        with Step("sums"):
            work(sums, 0.35)
        with Step("compress"):
            work(compress, 0.25)


def sleeping():
    for _ in until(SECONDS):
        with Step("load"):
            work(compress, 0.3)
        with Step("sleep"):
            time.sleep(STEP_MS / 1000)
        with Step("augment"):
            work(loops, 0.7)


def polling():
    for _ in until(SECONDS):
        with Step("prepare"):
            work(sums, 0.5)
        ready = time.monotonic() + 0.16 * STEP_MS / 1000
        with Step("poll"):
            while time.monotonic() < ready:
                time.sleep(0.0002)
        with Step("compute"):
            work(digest, 0.35)


def generator():
    for _ in until(SECONDS):
        values = numbers(4, max(1, int(300 * RATE[loops] * STEP_MS * 0.1)))
        for _ in range(4):
            with Step("next"):
                next(values)
            with Step("use"):
                work(compress, 0.15)


def same_function():
    for _ in until(SECONDS):
        with Step("first"):
            work(loops, 0.2)
        with Step("second"):
            work(loops, 0.5)
        with Step("third"):
            recurse(5, loops, 0.3)


def irregular():
    choose = random.Random(2)
    for _ in until(SECONDS):
        kind = choose.random()
        if kind < 0.3:
            with Step("rare"):
                work(compress, choose.random())
        elif kind < 0.8:
            with Step("often"):
                work(sums, choose.random())
        else:
            with Step("nap"):
                time.sleep(STEP_MS / 2000)
        with Step("always"):
            work(loops, 0.2)


def threads():
    def first():
        for _ in until(SECONDS):
            with Step("loops"):
                work(loops, 0.4)
            with Step("nap"):
                time.sleep(STEP_MS / 1000)
            with Step("sums"):
                work(sums, 0.2)

    def second():
        for _ in until(SECONDS):
            with Step("digest"):
                work(digest, 0.6)
            with Step("compress"):
                work(compress, 0.3)

    both = [threading.Thread(target=function, name=function.__name__) for function in (first, second)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()


def tasks():
    async def one(name, function, share):
        for _ in until(SECONDS):
            with Step(name):
                work(function, share)
            await asyncio.sleep(STEP_MS / 2000)

    async def all_of_them():
        await asyncio.gather(one("crunch", compress, 0.3), one("spin", loops, 0.5), one("hash", digest, 0.2))

    asyncio.run(all_of_them())


SHAPES = {
    function.__name__: function
    for function in (two, four, sleeping, polling, generator, same_function, irregular, threads, tasks)
}

if __name__ == "__main__":
    begun = time.monotonic_ns()
    SHAPES[SHAPE]()
    ended = time.monotonic_ns()
    lines = defaultdict(list)
    shape = name = ""
    depth = 0
    for number, text in enumerate(Path(__file__).read_text("utf-8").splitlines(), 1):
        indent = len(text) - len(text.lstrip())
        if found := re.match(r"def (\w+)\(", text):
            shape = found[1]
        if found := re.search(r"with Step\(\"?(\w+)\"?\):", text):
            name, depth = found[1], indent
        elif text and indent <= depth:
            name = ""
        if name and shape == SHAPE:
            lines[name].append(number)
    with Path(sys.argv[4]).open("w", encoding="utf-8") as output:
        json.dump({"threads": TIMES, "lines": lines, "begun_ns": begun, "ended_ns": ended}, output)
