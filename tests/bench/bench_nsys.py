"""What reporting a large Nsight Systems export costs, against `nsys stats` on the same file.

    python tests/bench/bench_nsys.py [--rows 1000000]

The file has that many runtime calls and copies and twice as many migrations (`make_nsys_sqlite.py`). A second one of
half the size shows the growth. The JSON and the page are measured by turns with `nsys stats`, and the least of three
counts. Exit status 1 where the JSON takes more CPU time than `nsys stats`, or more than 600 MB, or grows by more than
1.2 times what is linear.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from make_nsys_sqlite import write

LIMIT_BYTES, LIMIT_GROWTH = 600_000_000, 1.2
ROUNDS = 3
STATS = "cudaapisum,gpukernsum,gpumemtimesum,gpumemsizesum,unifiedmemory"


def cost(command: list[str]) -> tuple[float, int]:
    """CPU seconds and peak bytes of a command."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)} failed with status {child.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What reporting a large Nsight Systems export costs.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="pinprof-bench-") as folder:
        half, whole = Path(folder) / "half.sqlite", Path(folder) / "whole.sqlite"
        write(half, rows // 2, rows // 2, rows)
        write(whole, rows, rows, 2 * rows)
        report = [sys.executable, "-m", "pinprof", "report"]
        commands = {
            "half": [*report, str(half), "--format=json"],
            "json": [*report, str(whole), "--format=json"],
            "page": [*report, str(whole), "--format=html", f"--output={whole.with_suffix('.html')}"],
        }
        if shutil.which("nsys"):
            commands["nsys stats"] = ["nsys", "stats", "--report", STATS, "--format", "csv", "--quiet", str(whole)]
        costs: dict[str, list[tuple[float, int]]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                costs[name].append(cost(command))
    least = {name: min(seconds for seconds, _ in measured) for name, measured in costs.items()}
    most = {name: max(peak for _, peak in measured) for name, measured in costs.items()}
    for name, seconds in least.items():
        print(f"{name:12} {seconds:6.2f} s CPU   {most[name] / 1e6:6.0f} MB")
    growth = least["json"] / least["half"] / 2
    print(f"growth: {growth:.2f} of linear")
    slower = least["json"] > least.get("nsys stats", float("inf"))
    return int(slower or most["json"] > LIMIT_BYTES or growth > LIMIT_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
