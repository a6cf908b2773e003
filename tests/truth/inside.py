"""Whether each recorded call of a driver that does nothing has its line, and each copy the memory at both of its ends.

usage: python -m tests.truth.inside lines [--python COMMAND]... [--program FILE] [--calls 100000] [--rounds 1]
       python -m tests.truth.inside memory [--python COMMAND]... [--seeds 20] [--steps 20000]

`lines` records tests/integration/agent_program.py, or tests/truth/backward.py, which needs PyTorch; `memory`
memory_program.py. COMMAND is an interpreter, or for example "chroot FOLDER python3.15" where that system has this
folder and the one for temporary files in the same places. One row for each recording; exit status 1 where a call is
missing, too many, at another line, or of other memory.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pinprof import read
from pinprof.data.activity import ApiCallTable
from tests.support import agent

PROGRAMS = Path(__file__).resolve().parents[1] / "integration"


def recorded(command: list[str], driver: Path, target: Path) -> tuple[str, ApiCallTable]:
    """What the program printed, and its calls."""
    asked = [sys.executable, "-m", "pinprof", "record", "--no-report", "--no-calibrate", "-q", "-o", str(target), "--"]
    own = {**os.environ, "LD_LIBRARY_PATH": str(driver)}
    done = subprocess.run([*asked, *command], env=own, stdout=subprocess.PIPE, text=True, check=True)
    activity = read.read(target).activity
    assert activity is not None
    assert activity.lost_calls == 0
    return done.stdout, activity.calls


def of_lines(asked: argparse.Namespace, python: list[str], driver: Path, place: Path) -> Iterator[tuple[str, int, int]]:
    """Name, calls, and how many of them are wrong, of each recording."""
    for number in range(asked.rounds):
        command = [*python, str(asked.program), str(asked.calls)]
        printed, calls = recorded(command, driver, place / f"{number}.pinprof")
        assert calls.size_bytes is not None
        said = {int(size): int(count) for size, count in map(str.split, printed.splitlines())}
        seen = Counter(calls.size_bytes.tolist())
        missing = sum(abs(seen[size] - said.get(size, 0)) for size in seen.keys() | said.keys())
        wrong = agent.misplaced(calls, asked.program)
        for size, site in sorted(set(wrong))[:5]:
            print(f"  {size} is at {site or 'no line'}")
        yield f"{len(said)} lines", sum(said.values()), missing + len(wrong)


def of_memory(
    asked: argparse.Namespace, python: list[str], driver: Path, place: Path
) -> Iterator[tuple[str, int, int]]:
    """The same of the copies of each seed."""
    weights = place / "weights"
    weights.write_bytes(bytes(1 << 20))
    for seed in range(asked.seeds):
        command = [*python, str(PROGRAMS / "memory_program.py"), str(seed), str(asked.steps), str(weights)]
        printed, calls = recorded(command, driver, place / f"{seed}.pinprof")
        made, wrong = agent.wrong_ends(calls, printed)
        for text in wrong[:5]:
            print(f"  {text}")
        yield f"seed {seed}", made, len(wrong)


def main() -> int:
    """Record, compare, and print a row for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.inside", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["lines", "memory"])
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--program", type=lambda path: Path(path).resolve(), default=PROGRAMS / "agent_program.py")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20_000)
    asked = parser.parse_args()
    print("| Python | | calls | wrong | seconds |\n|---|---|---:|---:|---:|")
    all_wrong = 0
    for python in asked.python or [sys.executable]:
        with tempfile.TemporaryDirectory(prefix="pinprof-inside-") as folder:
            place, begun = Path(folder), time.monotonic()
            found = {"lines": of_lines, "memory": of_memory}[asked.what]
            for name, calls, wrong in found(asked, shlex.split(python), agent.build_driver(place), place):
                print(f"| {python} | {name} | {calls} | {wrong} | {time.monotonic() - begun:.1f} |", flush=True)
                all_wrong += wrong
                begun = time.monotonic()
    return bool(all_wrong)


if __name__ == "__main__":
    sys.exit(main())
