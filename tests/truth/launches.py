"""Launches on this machine with a rank that does more than the others, and what their answers say of it.

usage: python -m tests.truth.launches [--python PYTHON] [--library gloo|mpi]… [--ranks N]… [--way WAY]… [--rounds N]
                                      [--steps N] [--seed N] [--keep FOLDER]

PYTHON has torch (for Gloo, by torchrun) and mpi4py (for MPI, by Open MPI's mpirun). The program is straggling.py. An
answer is right where it names the rank and the line first, and what it says that the rank costs the job differs by 15 %
at most from how much later that rank came to its meetings than the next one, by the program's own clock. In the way
`nothing` all ranks do the same, and an answer is right where it blames nobody.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PROGRAM = Path(__file__).with_name("straggling.py")
WAYS = ("cpu", "faults", "pins", "disk", "nothing")
CLOSE = 0.15
_LONGEST_S = 600


@dataclass(frozen=True)
class Asked:
    """One launch."""

    library: str
    ranks: int
    way: str
    late: int
    steps: int


def launched(python: str, asked: Asked, folder: Path) -> Path:
    """Record a launch; its folder of captures."""
    recorded = folder / "job.ranks"
    record = [sys.executable, "-m", "pinprof", "record", "--no-report", "-o", str(folder / "job"), "--"]
    program = [python, str(PROGRAM), asked.library, asked.way, str(asked.late), str(asked.steps), str(folder)]
    if asked.library == "gloo":
        launcher = [python, "-m", "torch.distributed.run", "--no-python", f"--nproc-per-node={asked.ranks}"]
        launcher.append("--standalone")
    else:
        launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(asked.ranks)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launcher, *record, *program], env=environment, capture_output=True, text=True, timeout=_LONGEST_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{asked}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return recorded


def answer(recorded: Path) -> dict[str, Any] | str:
    """What pinprof says of a launch, or why it says nothing."""
    report = [sys.executable, "-m", "pinprof", "report", str(recorded), "--format", "json"]
    done = subprocess.run(report, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    if not done.stdout:
        return f"The report ends with {done.returncode}: {done.stderr[-3000:]}"
    said: dict[str, Any] = json.loads(done.stdout)
    if done.returncode:
        print(f"  The report ends with {done.returncode}: {said['incomplete']} {done.stderr[-500:]}", flush=True)
    return said


def cost_ns(folder: Path, asked: Asked) -> int:
    """How much later the late rank came to its meetings than the next one, by the program's own clock."""
    came = np.array([json.loads((folder / f"{rank}.json").read_text())["came"] for rank in range(asked.ranks)])
    others = np.delete(came, asked.late, axis=0).max(axis=0)
    return int(np.maximum(came[asked.late] - others, 0).sum())


def guilty(way: str) -> int:
    """The line of the program that does more."""
    lines = PROGRAM.read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if f"def {way}(" in line)
    return next(number for number, line in enumerate(lines[begin:], begin + 1) if line.endswith("# GUILTY"))


def judged(said: dict[str, Any] | str, asked: Asked, true_ns: int) -> tuple[str, str]:
    """(right, or what is wrong; the answer's figures)."""
    if isinstance(said, str):
        return "error", said
    holds = said["holds"]
    if asked.way == "nothing":
        return ("blames" if holds else "right"), f"{said['verdict']}: {said['headline']}"
    if not holds:
        return "nobody", said["headline"]
    first = holds[0]
    place = next((line["place"] or "nowhere" for line in first["lines"]), "nothing")
    figures = (
        f"rank {first['ranks']}, {place}, {first['cost_ns'] / 1e9:.3f} s ({first['cost_low_ns'] / 1e9:.3f} to"
        f" {first['cost_high_ns'] / 1e9:.3f}) of true {true_ns / 1e9:.3f} s"
    )
    if first["ranks"] != [asked.late]:
        return "rank", figures
    if place != f"{PROGRAM.name}:{guilty(asked.way)}":
        return "line", figures
    return ("right" if abs(first["cost_ns"] / max(true_ns, 1) - 1) <= CLOSE else "cost"), figures


def main() -> int:
    """Launch, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--library", action="append", choices=("gloo", "mpi"))
    parser.add_argument("--ranks", action="append", type=int)
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="where launches go that are not right")
    options = parser.parse_args()
    draw, results = random.Random(options.seed), Counter[tuple[str, int, str, str]]()
    kinds = itertools.product(options.library or ("gloo", "mpi"), options.ranks or (2, 4, 8), options.way or WAYS)
    launches = list(kinds) * options.rounds
    draw.shuffle(launches)
    for number, (library, ranks, way) in enumerate(launches):
        asked = Asked(library, ranks, way, draw.randrange(ranks), options.steps)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            recorded = launched(options.python, asked, folder)
            true_ns = 0 if way == "nothing" else cost_ns(folder, asked)
            verdict, figures = judged(answer(recorded), asked, true_ns)
            print(f"{verdict}: {library}, {ranks} ranks, {way} in rank {asked.late}: {figures}", flush=True)
            results[library, ranks, way, verdict] += 1
            if options.keep and verdict != "right":
                shutil.move(folder, options.keep / f"{number}-{library}-{ranks}-{way}-{asked.late}-{verdict}")
                folder.mkdir()
    wrong = sum(count for (*_, verdict), count in results.items() if verdict != "right")
    print(f"{results.total() - wrong} of {results.total()} answers are right.")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
