"""How right and how dear recording the GPU's work is, on a machine with a GPU.

usage: python -m tests.truth.gpu.measure OUT [--case NAME=COMMAND]… [--only agreement,overhead,profilers] [--rounds 5]
       [--program NAME]… [--recorder NAME]…

Writes OUT/results.json and OUT/results.md after each table, so that what was measured is kept when it is interrupted.
Programs are those of programs/, which need PyTorch and nvcc (`NVCC`); `--case` adds others to the agreement and the
overhead, `--program` leaves only those named, and `--recorder` only those recorders of the overhead. nsys is that of
`NSYS`. Exit status 1 where an agreement does not hold or a profile is not whole.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pinprof import __version__
from pinprof.base.units import parse_bytes
from tests.truth.gpu import agreement, overhead, profilers, runs
from tests.truth.gpu.runs import Program
from tests.truth.gpu.table import Table

TABLES = ("agreement", "overhead", "profilers")
SCENARIOS = ("pageable", "pinned", "zerocopy", "uvm")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write as it goes."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.gpu.measure", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--case", action="append", default=[], type=case, metavar="NAME=COMMAND")
    parser.add_argument("--program", action="append", default=[], metavar="NAME")
    parser.add_argument("--recorder", action="append", choices=(*runs.RECORDERS, *runs.LIVE))
    parser.add_argument("--only", type=chosen, default=TABLES, metavar=",".join(TABLES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--settle", type=float, default=overhead.SETTLE_S, help="seconds before each run")
    parser.add_argument("--count", type=int, default=200_000, help="calls of the programs that make so many")
    parser.add_argument("--size", default="256MiB", help="of the scenarios' buffers")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    size = parse_bytes(given.size)
    with tempfile.TemporaryDirectory(prefix="pinprof-truth-") as name:
        place = Path(name)
        makers: dict[str, Callable[[], Table]] = {
            "agreement": lambda: _agreement(given, place),
            "overhead": lambda: _overhead(given, place, size),
            "profilers": lambda: _profilers(place),
        }
        tables: dict[str, Table] = {}
        for wanted in given.only:
            tables[wanted] = makers[wanted]()
            write(given.out, tables)
            print(tables[wanted].markdown(), flush=True)
    return int(any(not row.get("holds", row.get("whole", True)) for table in tables.values() for row in table.data))


def case(text: str) -> Program:
    """`NAME=COMMAND` as a program."""
    name, equals, command = text.partition("=")
    words = shlex.split(command)
    if not name or not equals or not words:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=COMMAND")
    return Program(name, tuple(words))


def chosen(text: str) -> tuple[str, ...]:
    """Tables by name, each once, in their order."""
    names = text.split(",")
    if unknown := sorted(set(names) - set(TABLES)):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: no table of {', '.join(TABLES)}")
    return tuple(name for name in TABLES if name in names)


def write(out: Path, tables: dict[str, Table]) -> None:
    """Both files."""
    about = {
        "pinprof": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    document = {"about": about, "tables": {name: table.document() for name, table in tables.items()}}
    (out / "results.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    head = f"# Recording the GPU's work\n\n{', '.join(f'{key} {value}' for key, value in about.items())}\n"
    (out / "results.md").write_text("\n".join([head, *(table.markdown() for table in tables.values())]), "utf-8")


def _agreement(given: argparse.Namespace, place: Path) -> Table:
    own, notes = runs.own_programs(place, ("copies", "read_back", "batches", "train"), given.count)
    table = agreement.measure(_wanted(given, [*given.case, *own]), place)
    table.notes[:0] = notes
    return table


def _overhead(given: argparse.Namespace, place: Path, size: int) -> Table:
    own, notes = runs.own_programs(place, ("start", "copies", "kernels", "launches", "train"), given.count)
    script = str(runs.HERE / "scenario.py")
    command = (sys.executable, script)
    scenarios = [Program(name, (*command, name, f"--size-bytes={size}", "--iterations=5")) for name in SCENARIOS]
    recorders = given.recorder or runs.RECORDERS
    wanted = _wanted(given, [*own, *scenarios, *given.case])
    table = overhead.measure(wanted, place, given.rounds, recorders, given.settle)
    table.notes[:0] = notes
    return table


def _wanted(given: argparse.Namespace, programs: Sequence[Program]) -> list[Program]:
    return [one for one in programs if not given.program or one.name in given.program]


def _profilers(place: Path) -> Table:
    (profiled, traced), _ = runs.own_programs(place, ("self_profiled", "train"), 0)
    return profilers.measure(profiled, traced, place)


if __name__ == "__main__":
    sys.exit(main())
