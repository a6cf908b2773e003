"""Planted stalls of 200 ms in a running loop, and what a flight recorder has of each.

usage: python -m tests.truth.stalls [--times 24]

The program (stalling.py) stalls in six ways, one after another. A stall is captured where a capture was made for a
step that holds it. Its cause and its line are those of most of the critical thread's time in the moment that the
capture is for, as its report has it. Printed are the stalls, how long each was, and what its capture says first. Exit
status 1 where one is not captured, or has another cause or another line. The temporary folder has to be on a disk.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from pinprof import read
from pinprof.analyze import Run
from pinprof.base.units import format_ns
from pinprof.cli import pipeline

EXPECTED = {
    "pin": (("pin.",), "Stalls.pin"),
    "compaction": (("sys.reclaim", "wait.reclaim"), "Stalls.compaction"),
    "lock": (("wait.sleep",), "Stalls._hold"),  # what the thread does that has the lock
    "disk": (("wait.disk",), "Stalls.disk"),
    "fault": (("wait.disk",), "Stalls.fault"),
    "neighbour": (("wait.runnable",), "Stalls.neighbour"),
}
"""How right causes begin, and where they are."""


def main() -> int:
    """Record, read, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=24)
    times: int = parser.parse_args().times
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        recorder = [sys.executable, "-m", "pinprof", "record", "--ring", "10s", "--trigger", "range:step>150ms"]
        recorder += ["--captures-per-hour", "1000", "-o", str(folder / "stall"), "--"]
        subprocess.run([*recorder, sys.executable, "-m", "tests.truth.stalling", place, str(times)], check=True)
        runs = [
            pipeline.explain(path, read.ReadOptions(), moment=True) for path in sorted(folder.glob("stall-*.pinprof"))
        ]
        right = sum(judged(runs, *one) for one in json.loads((folder / "stalls.json").read_text()))
    print(f"{right} of {times} are captured with the right cause and line first, in {len(runs)} captures.")
    return int(right != times)


def judged(runs: list[Run], kind: str, start_ns: int, end_ns: int) -> bool:
    """Whether one of the captures is of a stall, and says the right thing first."""
    stall = f"{kind} of {format_ns(end_ns - start_ns)}"
    for run in runs:
        begin, end = run.capture.manifest.outcome["trigger"]["moment_ns"]
        if start_ns <= begin and end <= end_ns:
            cause, function = first(run)
            right = cause.startswith(EXPECTED[kind][0]) and function == EXPECTED[kind][1]
            print(f"{'right' if right else 'WRONG'}: {stall}: {cause}, in {function}")
            return right
    print(f"WRONG: {stall}: not captured")
    return False


def first(run: Run) -> tuple[str, str]:
    """The cause of most of the critical thread's time, and the function of the program that it is spent in."""
    table = run.doing
    if table is None:
        return "nothing", "nothing"
    rows = np.arange(len(table.course.wall))
    cause = next(iter(table.causes(rows)), "nothing")
    mine = rows[table.caused_by(cause)]
    return cause, table.sites.heaviest(table.place[mine], table.course.wall.ns[mine], "").function


if __name__ == "__main__":
    sys.exit(main())
