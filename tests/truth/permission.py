"""What the report says of the host's cases where less and less is permitted, against everything permitted.

usage: python -m tests.truth.permission [NAME…] [--only SITUATION…] [--cases FOLDER] [--rounds 1] [--at-once 1]
           [--out TABLE.md]

Each program of `tests/cases` that this machine can run (or of another folder, whose guilty lines end in `GUILTY`) is
recorded with everything permitted, and then in each situation, in turns for as many rounds as are asked for. A row says
in how many of these turns the first opportunity has the same line and cure, for how many of them the saving differs by
35 % at most, and in how many something is found that is not found with everything permitted. Runs on a busy machine
differ, too, whatever is permitted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cases import measure
from tests.cases.programs import FOLDER, Program, Skipped
from tests.support.other_user import NOBODY, reachable_python
from tests.support.situation import CAPABILITIES, DENIED, DOCKER, PODMAN, SITUATION

EVERYTHING = "everything"
_READING = "ptrace,process_vm_readv"
SITUATIONS = {
    EVERYTHING: f"capabilities={CAPABILITIES}",
    "Docker": f"capabilities={DOCKER} refuse=EPERM:{DENIED}",
    "Docker, old seccomp": f"capabilities={DOCKER} refuse=ENOSYS:{DENIED}",
    "Docker, seccomp=unconfined": f"capabilities={DOCKER}",
    "Podman": f"capabilities={PODMAN} refuse=EPERM:{DENIED}",
    "Kubernetes, restricted": f"user={NOBODY} refuse=EPERM:{DENIED}",
    "rented, no ptrace": f"capabilities={DOCKER} refuse=EPERM:{DENIED},{_READING}",
    "no reading from outside": f"capabilities={CAPABILITIES} refuse=EPERM:{_READING}",
    "nobody, level 2": f"user={NOBODY}",
    "nobody, level 3": f"user={NOBODY} paranoid=3",
    "nobody, level 4": f"user={NOBODY} paranoid=4",
}
"""The words of situation.py."""
AGREED = 0.35


@dataclass(frozen=True)
class Said:
    """The first opportunity of a recording; nothing where there is none."""

    line: str = ""
    cure: str = ""
    saving_s: float = 0.0
    work_s: float = 0.0
    """How long the program says that it worked."""
    others: frozenset[tuple[str, str]] = frozenset()
    """Lines and cures of all opportunities."""

    def __str__(self) -> str:
        return f"{self.line} {self.cure} {self.saving_s:.2f} of {self.work_s:.2f} s" if self.cure else "nothing"


@dataclass
class Row:
    """A situation, over all cases."""

    recorded: int = 0
    same: int = 0
    close: int = 0
    false: int = 0
    with_cost: int = 0

    def add(self, whole: Said, found: Said) -> None:
        """One case."""
        self.recorded += 1
        same = bool(whole.cure) and (found.line, found.cure) == (whole.line, whole.cure)
        self.with_cost += bool(whole.cure)
        self.same += same
        self.close += same and abs(found.saving_s / whole.saving_s - 1) <= AGREED
        self.false += bool(found.others - whole.others) and not same


def recorded(program: Program, situation: str, folder: Path) -> Said:
    """What is said of a program in a situation.

    Raises:
        Skipped: the program cannot be had here.
        RuntimeError: the situation cannot be had here, or pinprof fails.
    """
    nobody = "user=" in situation
    interpreter, path = reachable_python() if nobody else (sys.executable, "")
    command = program.command(folder, interpreter)
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    cache.chmod(0o777)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        Path(place).chmod(0o777)
        environment = os.environ | ({"PYTHONPATH": path, "XDG_CACHE_HOME": str(cache)} if nobody else {})
        promise = measure.recorded(
            command,
            Path(place, "run.pinprof"),
            Path(place),
            [*SITUATION, *situation.split(), "--", interpreter, "-m", "pinprof"],
            environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        )
    found = [
        (f"{Path(one['site']['file']).name}:{one['site']['line']}", one["cure"]["id"]) for one in promise.opportunities
    ]
    if not found:
        return Said(work_s=promise.work)
    return Said(*found[0], promise.opportunities[0]["saving_ns"]["likely"] / 1e9, promise.work, frozenset(found))


def cases(folder: Path, names: list[str]) -> Iterator[Program]:
    """The programs of a folder, or those with these names."""
    for path in sorted(folder.iterdir()):
        if path.suffix in (".py", ".c", ".cpp", ".cu") and (not names or path.stem in names):
            program = Program(path)
            if program.guilty():
                yield program


def turn(program: Program, situations: Mapping[str, str], folder: Path) -> dict[str, Said]:
    """What is said of a program with everything permitted, and in each situation; empty where it cannot be had.

    `situations`: by their names, the first with everything permitted.
    """
    said: dict[str, Said] = {}
    try:
        for name, words in situations.items():
            said[name] = recorded(program, words, folder)
    except (Skipped, RuntimeError, subprocess.SubprocessError, pytest.skip.Exception) as why:
        print(f"{program.path.stem}: skipped. {why}", flush=True)
        return {}
    print("\n    ".join([program.path.stem, *(f"{name}: {found}" for name, found in said.items())]), flush=True)
    return said


def table(rows: dict[str, Row]) -> str:
    """The situations in Markdown."""
    lines = [
        "| situation | cases | same line and cure | of these, saving within 35 % | false |",
        "|---|---:|---:|---:|---:|",
        *(f"| {name} | {row.with_cost} | {row.same} | {row.close} | {row.false} |" for name, row in rows.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Record, compare, and write the table."""
    parser = argparse.ArgumentParser(description="What is found where less is permitted.")
    parser.add_argument("names", nargs="*", help="programs without their suffix; all without names")
    parser.add_argument("--only", action="append", choices=SITUATIONS, help="a situation; all without")
    parser.add_argument("--cases", type=Path, default=FOLDER, help="the folder of the programs")
    parser.add_argument("--rounds", type=int, default=1, help="turns of each program")
    parser.add_argument("--at-once", type=int, default=1, help="programs that are recorded at the same time")
    parser.add_argument("--out", type=Path, help="where the table goes")
    options = parser.parse_args()
    asked = [name for name in SITUATIONS if name in (EVERYTHING, *(options.only or SITUATIONS))]
    situations = {name: SITUATIONS[name] for name in asked}
    rows = {name: Row() for name in asked[1:]}
    chosen = list(cases(options.cases, options.names))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        folder.chmod(0o711)
        at_once = stack.enter_context(ThreadPoolExecutor(options.at_once))
        for _ in range(options.rounds):
            for said in at_once.map(lambda program: turn(program, situations, folder), chosen):
                for name in rows if said else ():
                    rows[name].add(said[EVERYTHING], said[name])
            text = table(rows)
            print(text, flush=True)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
