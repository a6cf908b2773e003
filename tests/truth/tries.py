"""How often `pinprof try` finds a saving where there is none: many trials of one healthy program.

usage: python -m tests.truth.tries [--tries 20] [--time 25s] [--cure ID]... [--out FILE] -- CMD ...

Fixed in advance: seeds 1 to N, wall time, an error of 2 %, the time of each trial; a trial is wrong where any cure is
called significant. Of 20 trials one may be. Without --cure the recorded run chooses; where it finds nothing to change
there is nothing to try, so cures that cannot matter to the program are named as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def tried(command: list[str], seed: int, time: str, cures: list[str]) -> dict[str, Any]:
    """One trial's JSON."""
    words = [sys.executable, "-m", "pinprof", "try", "--format", "json", "--time", time, "--seed", str(seed)]
    words += ["--no-record"] if cures else []
    words += [word for cure in cures for word in ("--cure", cure)]
    done = subprocess.run([*words, "--", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def row(seed: int, result: dict[str, Any]) -> str:
    """One line of Markdown."""
    cells = []
    for cure in sorted(result["cures"], key=lambda one: one["id"]):
        ratio = cure["ratio"]
        found = f"{ratio['median']:.3f} ({ratio['low']:.3f}–{ratio['high']:.3f})" if ratio else cure["state"]
        cells.append(f"{cure['id']} {found}{' **significant**' if cure['significant'] else ''}")
    return f"| {seed} | {result['rounds']} | {'; '.join(cells) or 'nothing to try'} |"


def main() -> None:
    """Print one line a trial, and how many were wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--time", default="25s")
    parser.add_argument("--cure", action="append", default=[])
    parser.add_argument("--out", type=Path)
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    lines, wrong = ["| seed | rounds | cured / as is |", "|---:|---:|---|"], 0
    print("\n".join(lines))
    for seed in range(1, asked.tries + 1):
        result = tried(asked.command, seed, asked.time, asked.cure)
        wrong += any(cure["significant"] for cure in result["cures"])
        lines.append(row(seed, result))
        print(lines[-1], flush=True)
    lines.append(f"\n{wrong} of {asked.tries} trials call a cure significant.")
    print(lines[-1])
    if asked.out:
        asked.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
