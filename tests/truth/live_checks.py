"""How often `pinprof check --baseline CMD -- CMD` is wrong, by whole checks that share nothing.

usage: python -m tests.truth.live_checks FOLDER [--checks 20] [--seed 1]

Runs the command itself with its defaults, so as many recordings as it decides to make, on the program of checked.py, by
turns: unchanged, and with range compute 10 % slower. Budgets are those that a check against a baseline has where nobody
wrote any, and the CPU time of that range. After each round it prints how many checks fail, and the interval that holds
the true share with 95 % (Clopper and Pearson, Biometrika 26 (1934), 404).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scipy.special import betaincinv

from pinprof.check.budgets import no_worse
from tests.integration.test_cuda_calls import build
from tests.truth.checks import PLANTED, PROGRAM


def show(folder: Path, checks: int, seed: int) -> None:
    """Run whole checks, and print what became of them after each round."""
    libraries = folder / "cuda"
    if not libraries.exists():
        libraries.mkdir(parents=True)
        build(libraries)
    written = [f'{budget.measure} = "{budget.limit_words.removeprefix("the ")}"' for budget in no_worse()]
    budgets = folder / "live.toml"
    budgets.write_text("\n".join(("[[budget]]", *written, "[[budget]]", 'range = "compute"', 'cpu-time = "baseline"')))
    slower = next(options for options, subject in PLANTED.values() if subject == "cpu-time in compute")
    found: dict[str, Counter[str]] = {"unchanged": Counter(), "a range 10 % slower": Counter()}
    runs: Counter[str] = Counter()
    for number in range(checks):
        for name, options in zip(found, ((), slower), strict=True):
            checked = _checked_live(libraries, budgets, options, seed + number)
            found[name][checked["outcome"]] += 1
            runs[name] += len(checked["captures"])
        print(f"\nafter {number + 1} checks of each\n\n| program | broken | with 95 % | not assessable | runs a side |")
        print("|---|---:|---:|---:|---:|")
        for name, outcomes in found.items():
            broken, whole = outcomes["broken"], outcomes.total()
            low, high = (f"{100 * share:.1f}" for share in exact_interval(broken, whole))
            shown = f"{broken} of {whole} | {low} to {high} % | {outcomes['not-assessable']}"
            print(f"| {name} | {shown} | {runs[name] / whole:.1f} |", flush=True)


def _checked_live(libraries: Path, budgets: Path, options: Sequence[str], seed: int) -> dict[str, Any]:
    program = [sys.executable, str(PROGRAM), str(libraries)]
    words = [sys.executable, "-m", "pinprof", "check", "--format", "json", "--budget", str(budgets)]
    words += ["--seed", str(seed)]
    words += ["--baseline", shlex.join(program), "--", *program, *options]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode not in (0, 3, 4):
        sys.exit(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def exact_interval(found: int, whole: int) -> tuple[float, float]:
    """The interval of a share, of so many found, with 95 %."""
    low = float(betaincinv(found, whole - found + 1, 0.025)) if found else 0.0
    high = float(betaincinv(found + 1, whole - found, 0.975)) if found < whole else 1.0
    return low, high


def main() -> None:
    """Run checks, as many as asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--checks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    show(asked.folder, asked.checks, asked.seed)


if __name__ == "__main__":
    main()
