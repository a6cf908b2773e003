"""Copies of the scenario `pinned` beside a plain C++ program that makes the same copies, by turns in one run.

    python tests/bench/bench_link.py [--size 256MiB] [--rounds 5] [--nvcc nvcc]

The C++ program (link_bandwidth.cu) is built with nvcc and times its copies by events on the device. The scenario times
the whole call from Python, on memory that is new in every iteration. Printed are the medians over all rounds, and the
scenario's share of the plain rate. Exit status 1 when that is below the limit in a direction.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pinprof import scenario
from pinprof.base.units import parse_bytes

LIMIT = 0.95
SOURCE = Path(__file__).with_name("link_bandwidth.cu")
DIRECTIONS = ("h2d", "d2h")


def build(nvcc: str, folder: Path) -> Path:
    """The plain program."""
    program = folder / "link_bandwidth"
    subprocess.run([nvcc, "-O2", "-o", program, SOURCE], check=True)
    return program


def plain(program: Path, size_bytes: int) -> dict[str, float]:
    """Median rate of each direction, GB/s."""
    done = subprocess.run([program, str(size_bytes >> 20)], check=True, capture_output=True, text=True)
    return {name: float(median) for name, median, _ in (line.split() for line in done.stdout.splitlines())}


def scenario_rates(size_bytes: int) -> dict[str, float]:
    """The same of `pinned`."""
    result = scenario.run("pinned", scenario.Options(size_bytes, iterations=10, backend="cuda"))
    return {name: size_bytes / statistics.median(result.times_ns[name]) for name in DIRECTIONS}


def main() -> int:
    """Measure and print one line for each direction."""
    parser = argparse.ArgumentParser(description="Pinned copies beside a plain C++ program.")
    parser.add_argument("--size", default="256MiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nvcc", default="nvcc")
    given = parser.parse_args()
    if shutil.which(given.nvcc) is None:
        print(f"{given.nvcc} is not installed: name CUDA's compiler with --nvcc.", file=sys.stderr)
        return 2
    size_bytes, rounds = parse_bytes(given.size), []
    with tempfile.TemporaryDirectory() as folder:
        program = build(given.nvcc, Path(folder))
        for turn in range(given.rounds):
            first = plain(program, size_bytes) if turn % 2 else None
            mine = scenario_rates(size_bytes)
            rounds.append((first or plain(program, size_bytes), mine))
    worst = 1.0
    print(f"{'':<6}{'plain C++':>12}{'pinprof':>12}{'share':>8}   of each round")
    for name in DIRECTIONS:
        theirs, ours = (statistics.median(pair[side][name] for pair in rounds) for side in (0, 1))
        shares = [mine[name] / other[name] for other, mine in rounds]
        worst = min(worst, statistics.median(shares))
        told = " ".join(f"{share:.3f}" for share in shares)
        print(f"{name:<6}{theirs:>7.1f} GB/s{ours:>7.1f} GB/s{statistics.median(shares):>8.3f}   {told}")
    return int(worst < LIMIT)


if __name__ == "__main__":
    sys.exit(main())
