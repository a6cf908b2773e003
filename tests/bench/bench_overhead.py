"""What recording costs a program: native, perf, nsys and py-spy beside each other, and nothing, by turns in one run.

    python tests/bench/bench_overhead.py [--size 256MiB] [--iterations 5] [--rounds 9] [--recorders …] [SCENARIO …]

The program is a scenario, all of it recorded at 999 Hz; it notes its own CPU time when it ends, so neither the start of
a recorder nor a report is in it. Recorders take turns, in another order each time, because a machine's speed drifts;
the figures are medians over all rounds of recorded / plain within one round: CPU seconds first, for wall time also
depends on who else is there. Recorders that are not installed are left out. Exit status 1 when the native collector
costs any scenario more than the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pinprof.base.units import parse_bytes
from pinprof.machine import nsys

LIMIT = 0.03
NOTHING = "nothing"
USAGE, RANGES = "BENCH_USAGE", "PINPROF_RANGES"
PROGRAM = f"""
import atexit, json, os, resource, runpy, sys
def note():
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open(os.environ["{USAGE}"], "w") as file:
        json.dump(used.ru_utime + used.ru_stime, file)
atexit.register(note)
sys.argv[0] = "pinprof.scenario"
runpy.run_module("pinprof.scenario", run_name="__main__")
"""


@dataclass(frozen=True)
class Cost:
    """One run of the program."""

    cpu_s: float
    """The program's own."""
    iterations_s: float
    """Its measured iterations by its own clock."""
    recorder_s: float | None
    """CPU time of the recorder's process, its start included; None where it cannot be told."""


def run(recorder: str, program: list[str], place: Path) -> Cost:
    """One run under a recorder, or under nothing."""
    usage, ranges, capture = place / "usage", place / "ranges.jsonl", place / "run.pinprof"
    for file in (usage, ranges):
        file.unlink(missing_ok=True)
    before: list[str] = []
    if recorder == "py-spy":
        before = [py_spy(), "record", "--rate=999", "--format=raw", f"--output={place / 'stacks'}", "--"]
    elif recorder != NOTHING:
        options = ["--python=off", "--no-report", "--force", f"--output={capture}"]
        before = [sys.executable, "-m", "pinprof", "record", f"--with={recorder}", *options, "--"]
    process = subprocess.Popen(
        [*before, *program],
        env={**os.environ, USAGE: str(usage), RANGES: str(ranges)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, all_of_it = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{recorder}: status {process.returncode} of {' '.join([*before, *program])}")
    cpu_s: float = json.loads(usage.read_text())
    recorder_s: float | None = None
    if recorder == "py-spy":
        recorder_s = all_of_it.ru_utime + all_of_it.ru_stime - cpu_s
    elif recorder != NOTHING:
        ranges = capture / "ranges.jsonl"
        facts = json.loads((capture / "manifest.json").read_text())["collectors"][0]
        recorder_s = facts["cpu_ns"] / 1e9 if "cpu_ns" in facts else None
    rows = [json.loads(line) for line in ranges.read_text().splitlines()]
    iterations_ns = sum(row["end_ns"] - row["start_ns"] for row in rows if row["name"] == "iteration")
    return Cost(cpu_s, iterations_ns / 1e9, recorder_s)


def py_spy() -> str:
    """Where py-spy is, beside this Python or on the PATH; empty when it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy") or ""


def available(wanted: list[str]) -> list[str]:
    """The recorders of a list that this machine has."""
    there: dict[str, Callable[[], object]] = {
        "native": lambda: True,
        "perf": lambda: shutil.which("perf"),
        "nsys": nsys.find_nsys,
        "py-spy": py_spy,
    }
    return [name for name in wanted if there[name]()]


def main() -> int:
    """Measure and print a table for each scenario."""
    parser = argparse.ArgumentParser(description="What recording costs a program.")
    parser.add_argument("scenarios", nargs="*", default=["pageable", "pinned", "zerocopy", "uvm"])
    parser.add_argument("--size", default="256MiB")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--recorders", default="native,perf,nsys,py-spy")
    given = parser.parse_args()
    recorders = [NOTHING, *available(given.recorders.split(","))]
    worst = 0.0
    for scenario in given.scenarios:
        program = [sys.executable, "-c", PROGRAM, scenario, f"--size-bytes={parse_bytes(given.size)}"]
        program.append(f"--iterations={given.iterations}")
        costs: dict[str, list[Cost]] = {name: [] for name in recorders}
        with tempfile.TemporaryDirectory() as directory:
            for turn in range(given.rounds):
                first = turn % len(recorders)
                for name in [*recorders[first:], *recorders[:first]]:
                    costs[name].append(run(name, program, Path(directory)))
        print(
            f"\n{scenario:<10}{'CPU s':>9}{'growth':>9}{'quartiles':>18}{'iterations':>13}{'growth':>9}{'recorder':>11}"
        )
        for name, runs in costs.items():
            cpu = [one.cpu_s / plain.cpu_s - 1 for one, plain in zip(runs, costs[NOTHING], strict=True)]
            wall = [one.iterations_s / plain.iterations_s - 1 for one, plain in zip(runs, costs[NOTHING], strict=True)]
            low, middle, high = statistics.quantiles(cpu, n=4) if len(cpu) > 1 else cpu * 3
            used = [one.recorder_s for one in runs if one.recorder_s is not None]
            print(
                f"{name:<10}{statistics.median(one.cpu_s for one in runs):>9.2f}{middle:>+9.1%}"
                f"{low:>+9.1%} …{high:>+7.1%}{statistics.median(one.iterations_s for one in runs):>11.2f} s"
                f"{statistics.median(wall):>+9.1%}{f'{statistics.median(used):.2f} s' if used else '':>11}",
                flush=True,
            )
            worst = max(worst, middle if name == "native" else 0.0)
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
