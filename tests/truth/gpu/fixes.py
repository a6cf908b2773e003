"""What `pinprof fix` proves on a GPU: each program fixed, and its hand-made cure (`X cured`) measured beside it.

usage: python -m tests.truth.gpu.fixes [PROGRAM...] --out DIR [--time 60s] [--python PATH]

A PROGRAM is a Python file that prints `seconds S`; without one, those of tests/cases that have a cure (host programs
too). Its lines that choose the cure by `CURED` work as ever. DIR gets NAME.json and NAME.log of every program, and
all.md: verdict, measured ratio, and the share of the hand-made cure's saving that the fix reaches. Programs that cannot
be run are named with the reason; the others go on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.truth.gpu.try_cases import changed_code, ratio

CASES = Path(__file__).parents[2] / "cases"
HEAD = (
    "| program | as is | by hand | fixed / as is | verdict | of the hand-made saving | transformation, or the reason |",
    "|---|---:|---:|---|---|---:|---|",
)


def fixed(program: Path, folder: Path, out: Path, python: str, time: str) -> dict[str, Any]:
    """One program's answer, in a folder with nothing else; RuntimeError with what was said where there is none."""
    shutil.copy(program, folder)
    target = (out / f"{program.stem}.json").resolve()
    words = [sys.executable, "-m", "pinprof", "fix", "--format", "json", "-o", str(target), "--time", time]
    words += ["--measure", "regex:^seconds ([0-9.eE+-]+)", "--", python, program.name]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    (out / f"{program.stem}.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    answer: dict[str, Any] = json.loads(target.read_text())
    return answer


def row(name: str, answer: dict[str, Any], by_hand: float | None) -> str:
    """A line of the table."""
    as_is = answer["trial"]["as_is"]["median"]
    reasons = "; ".join(f"{one['cure']} at {one['place']}: {one['reason']}" for one in answer["left_alone"])
    best = next(iter(answer["changes"]), None)
    cells = [f"`{name}`", f"{as_is:.3g} s", f"{by_hand:.3g} s" if by_hand else "–"]
    if best is None:
        return f"| {' | '.join([*cells, '–', 'left alone', '–', reasons or 'no opportunity'])} |"
    found, share = best["measured"]["ratio"], "–"
    if found and by_hand and by_hand < as_is:
        share = f"{(1 - found['median']) * as_is / (as_is - by_hand):.0%}"
    words = best["transformation"] + (f": {best['measured']['problem']}" if best["measured"]["problem"] else "")
    return f"| {' | '.join([*cells, ratio(found), best['verdict'], share, words])} |"


def main() -> None:
    """Fix every program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--time", default="60s")
    parser.add_argument("--python", default=sys.executable)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    # A launch of ranks is no command that repeats by itself.
    cases = [path for path in sorted(CASES.glob("*.py")) if "GUILTY\n" in path.read_text() and path.stem != "ddp_rank"]
    table = list(HEAD)
    for program in asked.programs or cases:
        try:
            with tempfile.TemporaryDirectory() as folder:
                answer = fixed(program.resolve(), Path(folder), asked.out, asked.python, asked.time)
            table.append(row(program.stem, answer, changed_code([asked.python, str(program.resolve())])))
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            table.append(f"| `{program.stem}` | – | – | – | not run | – | {error} |")
        print(table[-1], flush=True)
        (asked.out / "all.md").write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
