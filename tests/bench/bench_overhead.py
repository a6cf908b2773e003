"""What recording at 999 Hz costs a scenario: its own iteration times, with and without the recorder, by turns.

    python tests/bench/bench_overhead.py [--size 256MiB] [--iterations 5] [--rounds 9] [SCENARIO …]

Both kinds of run are the same command; one of them under `pinprof run --record`. A run counts as the sum of its
`iteration` ranges by the scenario's own clock, so neither perf's start nor the report is in it. Runs alternate, because
a machine's speed drifts; the figure is the median over all rounds of recorded / plain within one round.
Exit status 1 when that median is above the limit for any scenario.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 0.03


def iterations_ns(ranges: Path) -> int:
    """Sum of the outermost ranges of a run."""
    rows = (json.loads(line) for line in ranges.read_text().splitlines())
    return sum(row["end_ns"] - row["start_ns"] for row in rows if row["name"] == "iteration")


def plain_ns(scenario: str, size: str, iterations: int, place: Path) -> int:
    """One run without a recorder."""
    ranges = place / "ranges.jsonl"
    ranges.unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-m", "pinprof.workload", scenario, f"--size-bytes={size}", f"--iterations={iterations}"],
        env={**os.environ, "PINPROF_RANGES": str(ranges)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return iterations_ns(ranges)


def recorded_ns(scenario: str, size: str, iterations: int, place: Path) -> int:
    """One run under perf."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pinprof", "run", scenario, f"--size={size}", f"--iterations={iterations}"),
            *("--record", "--no-report", "--force", f"--output={place / 'run'}"),
        ],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return iterations_ns(place / "run.pinprof/ranges.jsonl")


def main() -> int:
    """Measure and print one line for each scenario."""
    parser = argparse.ArgumentParser(description="What recording costs a scenario.")
    parser.add_argument("scenarios", nargs="*", default=["pageable", "pinned", "zerocopy", "uvm"])
    parser.add_argument("--size", default="256MiB")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    worst = 0.0
    print(f"{'scenario':<12}{'plain':>10}{'recorded':>10}{'growth':>9}{'quartiles':>18}")
    with tempfile.TemporaryDirectory() as directory:
        for scenario in given.scenarios:
            pairs = []
            for turn in range(given.rounds):
                measure = [plain_ns, recorded_ns]
                # Whoever runs second finds warmer caches: take turns at that too.
                order = measure if turn % 2 else measure[::-1]
                times = {run: run(scenario, given.size, given.iterations, Path(directory)) for run in order}
                pairs.append((times[plain_ns], times[recorded_ns]))
            growth = [recorded / plain - 1 for plain, recorded in pairs]
            middle = statistics.median(growth)
            low, _, high = statistics.quantiles(growth, n=4)
            worst = max(worst, middle)
            plain, recorded = (statistics.median(column) / 1e6 for column in zip(*pairs, strict=True))
            print(
                f"{scenario:<12}{plain:>7.0f} ms{recorded:>7.0f} ms{middle:>+9.1%}{low:>+9.1%} …{high:>+7.1%}",
                flush=True,
            )
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
