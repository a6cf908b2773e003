"""What it costs to match samples to Python lines: a capture's own threads, as often after each other as asked.

    python tests/bench/bench_matching.py CAPTURE [--times 1,10] [--rounds 3] [--before PYTHON]

`--before` is the `python` of another checkout's environment; both take turns. Printed per size: CPU seconds, the least
of the rounds, and whether the stacks are those of before. Nothing else of the report is timed.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np

from pinprof.read import read
from pinprof.read.python import frames, matching

_TIMES = ("looked", "due", "run_time", "wait_start", "wait_end", "kept_start", "kept_end")


def main() -> None:
    """Measure here, or in both environments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--times", default="1,10")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--one", action="store_true", help="print one measurement, for the others to read")
    asked = parser.parse_args()
    for times in map(int, asked.times.split(",")):
        if asked.one:
            print(*measured(asked.capture, times), sep="\t")
            continue
        pythons = {"now": sys.executable} | ({"before": str(asked.before.absolute())} if asked.before else {})
        taken: dict[str, list[list[str]]] = {name: [] for name in pythons}
        for _ in range(asked.rounds):
            for name, python in pythons.items():
                words = [python, __file__, str(asked.capture), "--times", str(times), "--one"]
                said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
                taken[name].append(said.split("\t"))
        stacks = {told[2] for rows in taken.values() for told in rows}
        for name, rows in taken.items():
            print(f"{int(rows[0][1]):>12,} samples, {name}: {min(float(told[0]) for told in rows):.2f} s CPU")
        print("the stacks are equal" if len(stacks) == 1 else "the stacks differ")


def measured(capture: Path, times: int) -> tuple[float, int, str]:
    """CPU seconds, samples, and what the stacks come to."""
    given: list[tuple[list[matching.ThreadSamples], int, np.ndarray]] = []
    match = matching.match

    def kept(threads: list[matching.ThreadSamples], period_ns: int, callers: np.ndarray) -> object:
        given.append((threads, period_ns, callers))
        return match(threads, period_ns, callers)

    vars(frames)["match"] = kept
    read(capture)
    threads = [_repeated(thread, times) for thread in given[0][0]]
    begun = time.process_time()
    found = match(threads, *given[0][1:])
    taken = time.process_time() - begun
    told = hashlib.sha1(usedforsecurity=False)
    for part in (part for both in found for part in both):
        told.update(part.stack.tobytes() + part.other.tobytes() + part.how.tobytes())
    return taken, sum(len(thread.run_time) for thread in threads), told.hexdigest()


def _repeated(thread: matching.ThreadSamples, times: int) -> matching.ThreadSamples:
    """The same again and again, each time after the time before."""
    columns = {entry.name: getattr(thread, entry.name) for entry in fields(thread)}
    ends = [int(columns[name][side]) for name in _TIMES if len(columns[name]) for side in (0, -1)]
    length = max(ends, default=0) - min(ends, default=0) + 1000
    made = {name: np.tile(column, times) for name, column in columns.items()}
    for name in _TIMES:
        made[name] += np.repeat(np.arange(times) * length, len(columns[name]))
    return matching.ThreadSamples(**made)


if __name__ == "__main__":
    main()
