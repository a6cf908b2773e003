"""Parses a long log into objects, then makes the same report of it for every hour."""

import random
import re
import statistics
import time
from dataclasses import dataclass


@dataclass(slots=True)
class Entry:
    hour: int
    name: str
    taken: float


def read(lines):
    pattern = re.compile(r"(\d+)h (\w+) took ([\d.]+)")
    return [Entry(int(found[1]), found[2], float(found[3])) for line in lines if (found := pattern.match(line))]


def report(entries, hour):
    by_name = {}
    for entry in entries:
        if entry.hour == hour:
            by_name.setdefault(entry.name, []).append(entry.taken)
    return {name: (statistics.median(taken), max(taken)) for name, taken in by_name.items()}


def main():
    made = random.Random(4)
    lines = [f"{made.randrange(48)}h job{made.randrange(300)} took {made.random():.4f}" for _ in range(200_000)]
    entries = read(lines)
    begun = time.perf_counter()
    found = [report(entries, hour) for hour in range(48)]
    print("seconds", time.perf_counter() - begun, len(found))


main()
