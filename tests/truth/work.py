"""How long the work takes by a program's own clock, and by its report.

usage: python -m tests.truth.work [NAME…] [--keep FOLDER] [--python PATH]

Each program prints `seconds S`, the time of its loop alone, and is recorded once: those of tests/cases that need no
GPU, the healthy ones there, and those of tests/truth/loops, some of which need PyTorch or pandas (`--python`). What is
kept in FOLDER is read again instead of recorded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.cases.measure import recorded
from tests.cases.programs import Program, Skipped, programs

LOOPS = Path(__file__).parent / "loops"
AGREED = 0.1
PHASES = ("build", "compile", "warm-up", "work", "exit")


def clocked(program: Program, folder: Path, python: str) -> tuple[float, Mapping[str, float]]:
    """(the program's own clock, phase → its length by the report), both of one recording and in seconds.

    Raises:
        Skipped: this machine cannot run it.
        RuntimeError: the program fails.
    """
    name = program.path.stem
    capture, clock = folder / f"{name}.pinprof", folder / f"{name}.seconds"
    if not clock.exists():
        clock.write_text(str(recorded(program.command(folder, python), capture, folder).work))
    words = [sys.executable, "-m", "pinprof", "report", "--format", "json", str(capture)]
    document = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return float(clock.read_text()), {phase["name"]: phase["wall_ns"] / 1e9 for phase in document["phases"]}


def rows(chosen: list[Program], folder: Path, python: str) -> Iterator[str]:
    """A line of the table for each program; how many agree comes last."""
    agreed, count = 0, 0
    yield f"| program | its own clock | {' | '.join(PHASES)} | work is off by |"
    yield f"|---|{'---:|' * (len(PHASES) + 2)}"
    for program in chosen:
        try:
            own, phases = clocked(program, folder, python)
        except (Skipped, RuntimeError, subprocess.SubprocessError) as error:
            print(f"{program.path.stem}: skipped. {error}", file=sys.stderr, flush=True)
            continue
        off = phases.get("work", 0.0) / own - 1
        agreed, count = agreed + (abs(off) <= AGREED), count + 1
        lengths = " | ".join(f"{phases[name]:.2f}" if name in phases else "" for name in PHASES)
        mark = "" if abs(off) <= AGREED else " **off**"
        yield f"| `{program.path.stem}` | {own:.2f} s | {lengths} | {off:+.0%}{mark} |"
    yield f"{agreed} of {count} agree within {AGREED:.0%}."


def loops() -> list[Program]:
    """The programs of tests/truth/loops."""
    return [Program(path) for path in sorted(LOOPS.iterdir()) if path.suffix in {".py", ".c", ".cpp"}]


def main() -> None:
    """Record those that are named, or all."""
    parser = argparse.ArgumentParser(description="The work by a program's own clock, and by its report.")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--python", default=sys.executable)
    asked = parser.parse_args()
    chosen = [one for one in [*programs([]), *loops()] if not asked.names or one.path.stem in asked.names]
    with tempfile.TemporaryDirectory() as made:
        folder = (asked.keep or Path(made)).resolve()
        folder.mkdir(exist_ok=True, parents=True)
        for line in rows(chosen, folder, asked.python):
            print(line, flush=True)


if __name__ == "__main__":
    main()
