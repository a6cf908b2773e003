"""What reporting a large Nsight Systems export costs, against `nsys stats` on the same file.

    python tests/bench/bench_nsys.py [--rows 1000000]

The file has that many runtime calls and copies and twice as many migrations (`make_nsys_sqlite.py`). A second one of
half the size shows the growth. Exit status 1 above 15 s of CPU, 1.5 GB, or 1.2 times linear growth.
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

LIMIT_S, LIMIT_BYTES, LIMIT_GROWTH = 15.0, 1_500_000_000, 1.2
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
    seconds = {}
    peak = 0
    with tempfile.TemporaryDirectory(prefix="pinprof-bench-") as folder:
        for count in (rows // 2, rows):
            path = Path(folder) / f"{count}.sqlite"
            write(path, count, count, 2 * count)
            page = f"--output={path.with_suffix('.html')}"
            seconds[count], peak = cost([sys.executable, "-m", "pinprof", "report", str(path), page])
            print(f"pinprof report, {count:,} calls: {seconds[count]:.2f} s CPU, {peak / 1e6:.0f} MB")
        if shutil.which("nsys"):
            other, most = cost(["nsys", "stats", "--report", STATS, "--format", "csv", "--quiet", str(path)])
            print(f"nsys stats, {rows:,} calls: {other:.2f} s CPU, {most / 1e6:.0f} MB")
    growth = seconds[rows] / seconds[rows // 2] / 2
    print(f"growth: {growth:.2f} of linear")
    return int(seconds[rows] > LIMIT_S or peak > LIMIT_BYTES or growth > LIMIT_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
