"""What the pytest plugin costs: processor time of a run with many small tests less that of a run with one.

usage: python tests/bench/bench_pytest.py [TESTS] [ROUNDS]

Processor time is that of pytest and of everything it starts. Marks are compared with the same tests without a mark.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BODY = "    memory = bytearray(8 << 20)\n"
MARKS = {
    "no mark": "",
    "counts decide": "@pytest.mark.pinprof(page_faults=10_000_000)\n",
    "samples are read": '@pytest.mark.pinprof(page_faults=10_000_000, cause={"fault": "99 %"})\n',
}


def seconds(folder: Path, mark: str, tests: int) -> float:
    """Of processor time, for a run of so many tests."""
    (folder / "test_cost.py").write_text(
        f"import pytest\n{mark}@pytest.mark.parametrize('number', range({tests}))\ndef test_cost(number):\n{BODY}"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    options = ["-q", "-p", "no:cacheprovider", "--pinprof-allow-unassessable"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "pytest", *options]
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """One line for each kind of mark."""
    tests = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in MARKS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, mark in MARKS.items():
                one, many = (seconds(Path(folder), mark, count) for count in (1, tests + 1))
                found[name].append((one, (many - one) / tests))
    plain = found["no mark"]
    for name, measured in found.items():
        first = statistics.median(one for one, _ in measured) - statistics.median(one for one, _ in plain)
        each = statistics.median(each for _, each in measured) - statistics.median(each for _, each in plain)
        print(f"{name:20} first test {first:6.2f} s   each {1e3 * each:6.1f} ms")


if __name__ == "__main__":
    main()
