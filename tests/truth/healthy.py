"""Programs with nothing to gain in host memory, and what the report promises for each.

usage: python -m tests.truth.healthy [NAME…] [--keep FOLDER]      records each, and prints a line of its answer
       python -m tests.truth.healthy --run NAME                   runs one

Each works for one to two seconds, prints `seconds S`, and allocates what it needs once, or in pieces that no kernel is
asked for. None may be promised more than 2 % of its work that is not real. `c_*` are those of healthy.c. Further kinds
of work are in tests/cases/healthy. A promise of more is tried where a setting keeps it: the program runs in turns with
and without. It is real where the setting saves as much processor time as its lower bound.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import copy
import csv
import decimal
import hashlib
import io
import itertools
import logging
import mmap
import os
import pickle
import queue
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.cases.measure import recorded
from tests.cases.programs import Program

MOST_SHARE = 0.02
TURNS = 7
C_PROGRAMS = ("matrix", "sort", "lists", "table", "stream")
HERE = Path(__file__).parent


def arrays_in_place() -> None:
    """Arithmetic on arrays that stay."""
    a, b, out = (np.full(4 << 20, value) for value in (1.5, 2.5, 0.5))
    for _ in range(60):
        np.multiply(a, b, out=out)
        np.add(out, a, out=out)
        np.sqrt(out, out=out)


def small_arrays() -> None:
    """Temporaries that malloc keeps."""
    a = np.full(4000, 1.5)
    for _ in range(150_000):
        (a * 2.0 + a).sum()


def random_numbers() -> None:
    """Random numbers into an array that stays."""
    made, out = np.random.default_rng(1), np.full(2 << 20, 1.0)
    for _ in range(60):
        made.random(out=out)
        out.sum()


def one_large_array() -> None:
    """One array, filled once and read often."""
    whole = np.arange(24 << 20, dtype=np.float64)
    for _ in range(50):
        whole.sum()


def mapped_warm() -> None:
    """One mapping of a cached file, read many times."""
    with tempfile.TemporaryFile() as file:
        for _ in range(64):
            file.write(os.urandom(1 << 16) * 16)
        file.flush()
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            view = np.frombuffer(mapped, np.uint64)
            for _ in range(120):
                view.sum()
            del view


def files() -> None:
    """Lines written to a file and read again."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "lines.txt"
        for _ in range(6):
            with path.open("w") as out:
                out.writelines(f"{number} {number * 7 % 1001}\n" for number in range(200_000))
            with path.open() as lines:
                sum(int(line.split()[1]) for line in lines)


def threads() -> None:
    """Threads that hand each other small jobs."""
    jobs: queue.Queue[int | None] = queue.Queue(100)
    done: list[int] = []

    def work() -> None:
        while (job := jobs.get()) is not None:
            done.append(sum(range(job % 500)))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for job in range(100_000):
        jobs.put(job)
    for _ in workers:
        jobs.put(None)
    for worker in workers:
        worker.join()


def coroutines() -> None:
    """Tasks of asyncio that wait for each other."""

    async def link(left: asyncio.Queue[int], right: asyncio.Queue[int]) -> None:
        for _ in range(4000):
            await right.put(await left.get() + 1)

    async def chain() -> None:
        queues: list[asyncio.Queue[int]] = [asyncio.Queue(10) for _ in range(11)]
        tasks = [asyncio.create_task(link(a, b)) for a, b in itertools.pairwise(queues)]
        for number in range(4000):
            await queues[0].put(number)
            await queues[-1].get()
        await asyncio.gather(*tasks)

    asyncio.run(chain())


def executor() -> None:
    """A pool of threads that hash, outside the interpreter's lock."""
    block = bytes(1 << 20)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: hashlib.sha256(block).digest(), range(600)))


def commands() -> None:
    """Many short programs, one after the other."""
    for _ in range(300):
        subprocess.run(["/bin/true"], check=True)


def pipes() -> None:
    """Text through a program and back."""
    text = "".join(f"{number * 7919 % 100_003}\n" for number in range(200_000))
    for _ in range(5):
        subprocess.run(["sort", "-n"], input=text, capture_output=True, text=True, check=True)


def sorting() -> None:
    """Lists of numbers and of texts."""
    made = random.Random(1)
    numbers = [made.random() for _ in range(200_000)]
    for _ in range(5):
        sorted(numbers)
        sorted(map(str, numbers[:60_000]))


def sockets() -> None:
    """Messages through a pair of sockets into one buffer."""
    left, right = socket.socketpair()
    message, buffer = bytes(16 << 10), bytearray(16 << 10)
    for _ in range(60_000):
        left.sendall(message)
        taken = 0
        while taken < len(message):
            taken += right.recv_into(memoryview(buffer)[taken:])
    left.close()
    right.close()


def objects() -> None:
    """Small objects that come and go."""
    for _ in range(12):
        tree = [{"key": number, "next": (number, str(number))} for number in range(60_000)]
        sum(node["key"] for node in tree)  # type: ignore[misc]
        del tree


def copies() -> None:
    """Deep copies of a nested document."""
    document = {f"k{number}": [{"a": [1, 2, 3], "b": {"c": number}} for _ in range(5)] for number in range(300)}
    for _ in range(25):
        copy.deepcopy(document)


def pickles() -> None:
    """Small objects, serialised and made again."""
    rows = [(number, f"name {number}", {"x": number / 3}) for number in range(2000)]
    for _ in range(400):
        pickle.loads(pickle.dumps(rows))


def tables() -> None:
    """CSV, written and read."""
    for _ in range(8):
        text = io.StringIO()
        csv.writer(text).writerows((number, number * 3, f"row {number}") for number in range(40_000))
        text.seek(0)
        sum(int(row[1]) for row in csv.reader(text))


def decimals() -> None:
    """Sums of decimal fractions."""
    for _ in range(12):
        total = decimal.Decimal(0)
        for number in range(1, 60_000):
            total += decimal.Decimal(1) / number


def logs() -> None:
    """A log that nobody reads."""
    log = logging.Logger("healthy")
    with Path(os.devnull).open("w") as nowhere:
        handler = logging.StreamHandler(nowhere)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        for number in range(80_000):
            log.warning("step %d of %s", number, "many")


def words() -> None:
    """Texts split, joined and counted."""
    text = " ".join(f"w{number * number % 4999}" for number in range(60_000))
    for _ in range(40):
        counted = Counter(text.split())
        " ".join(sorted(counted)).upper()


def ring() -> None:
    """A producer that fills the same blocks in turn."""
    blocks = [np.full(1 << 20, 1.0) for _ in range(4)]
    for number in range(800):
        block = blocks[number % 4]
        block.fill(number)
        block.sum()


PROGRAMS: tuple[Callable[[], None], ...] = (
    arrays_in_place, small_arrays, random_numbers, one_large_array, mapped_warm, files, threads, coroutines, executor,
    commands, pipes, sorting, sockets, objects, copies, pickles, tables, decimals, logs, words, ring,
)  # fmt: skip


def command(name: str, folder: Path) -> list[str]:
    """What runs a program; those of C are built when first asked for."""
    if name.startswith("c_"):
        return [*Program(HERE / "healthy.c").command(folder, sys.executable), name.removeprefix("c_")]
    return [sys.executable, "-m", "tests.truth.healthy", "--run", name]


def promises(name: str, folder: Path) -> Iterator[str]:
    """The program's time, and what its report promises, worst first; what is too much begins with WRONG or REAL."""
    words = command(name, folder)
    said = recorded(words, folder / f"{name}.pinprof", HERE.parents[1])
    yield f"{said.work:.2f} s; {said.headline}"
    for one in said.opportunities:
        likely = one["saving_ns"]["likely"] / 1e9
        verdict = "WRONG" if likely > MOST_SHARE * said.work else "small"
        setting = one["cure"]["environment"]
        if verdict == "WRONG" and setting:
            real = saved(words, setting, HERE.parents[1])
            verdict = "REAL" if real >= one["saving_ns"]["low"] / 1e9 else "WRONG"
            verdict += f", {setting} saves {real:.3f} s of CPU time"
        yield f"{verdict}: {one['title']} ({one['cure']['id']}, {likely:.3f} of {said.work:.2f} s)"


def saved(words: Sequence[str], setting: str, folder: Path) -> float:
    """The processor time that settings save a command, in seconds: the difference of medians."""
    more = dict(pair.split("=", 1) for pair in setting.split())
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(TURNS):
        for environment, taken in zip((os.environ, {**os.environ, **more}), times, strict=True):
            before = os.times()
            subprocess.run(words, env=environment, cwd=folder, stdout=subprocess.DEVNULL, check=True)
            after = os.times()
            taken.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return statistics.median(times[0]) - statistics.median(times[1])


def main() -> None:
    """Run one, or record those that are named."""
    parser = argparse.ArgumentParser(description="What reports promise of programs with nothing to gain.")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--run", metavar="NAME")
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    known = {program.__name__: program for program in PROGRAMS}
    if asked.run:
        began = time.perf_counter()
        known[asked.run]()
        print(f"seconds {time.perf_counter() - began:.2f}")
        return
    with tempfile.TemporaryDirectory() as made:
        folder = (asked.keep or Path(made)).resolve()
        folder.mkdir(exist_ok=True)
        wrong = 0
        for name in asked.names or [*known, *(f"c_{name}" for name in C_PROGRAMS)]:
            for line in promises(name, folder):
                wrong += line.startswith("WRONG")
                print(f"{name}: {line}", flush=True)
    print(f"{wrong} wrong")


if __name__ == "__main__":
    main()
