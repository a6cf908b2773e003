"""What the report promises for the programs of this folder, against what was measured.

usage: python -m tests.cases.measure [NAME…] [--out TABLE.md] [--python PATH] [--runs 2] [--keep FOLDER]

Each case runs as is and cured, in turns and without a recorder; then both are recorded. Healthy programs run and are
recorded alike. What this machine cannot run is skipped, with the reason. On a busy machine wall times say little: the
table also has the CPU time that the cure saves.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cases.programs import CANNOT, Program, Skipped, programs, seconds

PINPROF = (sys.executable, "-m", "pinprof")
RECORD = ("record", "--no-report")
LIMIT_S = 300
CASES = ("case", "as is", "cured", "saved", "of it CPU", "predicted: low – likely – high", "off by", "first line")
HEALTHY = ("healthy program", "seconds", "opportunities", "promised", "of the program", "cure")
SKIPPED = ("skipped", "why")


@dataclass(frozen=True)
class Time:
    """Medians of the runs of one program, in seconds."""

    work: float
    """Wall time of the work, as the program says."""
    cpu: float
    """Processor time of the program and its children, from start to end."""


@dataclass(frozen=True)
class Promise:
    """What the report of one recording says."""

    headline: str
    opportunities: list[dict[str, Any]]
    work: float
    """Wall time of the work under the recorder, in seconds."""
    refused: list[dict[str, Any]] = field(default_factory=list)
    """What is not worth changing."""

    def largest(self) -> tuple[float, str]:
        """The largest likely saving in seconds and its cure; 0 and a dash where nothing is promised."""
        first = max(self.opportunities, key=lambda one: one["saving_ns"]["likely"], default=None)
        return (first["saving_ns"]["likely"] / 1e9, first["cure"]["id"]) if first else (0.0, "–")


@dataclass(frozen=True)
class Measured:
    """One program as is and cured; healthy programs have no cured form."""

    program: Program
    as_is: Time
    promise: Promise
    cured: Time | None = None
    cured_promise: Promise | None = None

    def row(self) -> list[str]:
        """For the table of cases, or of healthy programs."""
        if self.cured is None or self.cured_promise is None:
            promised, cure = self.promise.largest()
            row = [f"`{self.program.name}`", f"{self.as_is.work:.2f}", str(len(self.promise.opportunities))]
            return [*row, f"{promised:.2f}", f"{promised / self.as_is.work:.0%}", cure]
        saved, cpu = self.as_is.work - self.cured.work, self.as_is.cpu - self.cured.cpu
        row = [f"`{self.program.name}`", *(f"{value:.2f}" for value in (self.as_is.work, self.cured.work, saved, cpu))]
        promised, cure = self.cured_promise.largest()
        after = f"{promised:.2f} {cure}" if promised else "–"
        if not self.promise.opportunities:
            return [*row, "none", "–", "–", "–", after]
        first = self.promise.opportunities[0]
        low, likely, high = (first["saving_ns"][key] / 1e9 for key in ("low", "likely", "high"))
        file, line = Path(first["site"]["file"]).name, first["site"]["line"]
        right = file == self.program.path.name and line in self.program.guilty()
        off = f"{likely / saved - 1:+.0%}" if saved > 0 else "–"
        place = f"{file}:{line} {'right' if right else 'WRONG'}"
        return [*row, f"{low:.2f} – {likely:.2f} – {high:.2f}", off, place, first["cure"]["id"], after]


def measure(program: Program, folder: Path, python: str, runs: int) -> Measured:
    """Run and record one program, and its cured form.

    Raises:
        Skipped: this machine cannot run it.
    """
    command = program.command(folder, python)
    ways = [command] if program.healthy else [command, [*command, "cured"]]
    times: list[list[Time]] = [[] for _ in ways]
    for _ in range(runs):
        for way, collected in zip(ways, times, strict=True):
            collected.append(_timed(_launched(program, way, python), folder))
    medians = [
        Time(statistics.median(one.work for one in found), statistics.median(one.cpu for one in found))
        for found in times
    ]
    promises = [_recorded(program, way, folder, python) for way in ways]
    return Measured(program, medians[0], promises[0], *medians[1:], *promises[1:])


def _timed(command: list[str], folder: Path) -> Time:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = seconds(_output(command, folder))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Time(work, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _recorded(program: Program, command: list[str], folder: Path, python: str) -> Promise:
    capture = folder / f"{program.path.stem}{'-cured' if command[-1] == 'cured' else ''}.pinprof"
    if program.ranks == 1:
        return recorded(command, capture, folder)
    known = set(folder.glob("*.ranks"))
    work = seconds(_output(_launched(program, [*PINPROF, *RECORD, "--", *command], python), folder))
    # The ranks find a folder by themselves; the last one has the problem.
    launch = next(iter(set(folder.glob("*.ranks")) - known))
    return _promised(max(launch.glob("rank-*.pinprof")), work, folder)


def recorded(
    command: list[str],
    capture: Path,
    folder: Path,
    pinprof: Sequence[str] = PINPROF,
    environment: Mapping[str, str] | None = None,
) -> Promise:
    """What the report of one recording of a command, run in a folder, says; `pinprof` records in `environment`.

    Raises:
        RuntimeError: the command or pinprof fails.
        Skipped: this machine does not let the command run.
    """
    words = [*pinprof, *RECORD, "--force", "-o", str(capture), "--", *command]
    work = seconds(_output(words, folder, environment))
    return _promised(capture, work, folder)


def _promised(capture: Path, work: float, folder: Path) -> Promise:
    document = json.loads(_output([*PINPROF, "report", "--format", "json", str(capture)], folder))
    return Promise(document["headline"], document.get("opportunities", []), work, document.get("refused", []))


def _launched(program: Program, command: list[str], python: str) -> list[str]:
    if program.ranks == 1:
        return command
    launcher = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(program.ranks), "--no-python"]
    return [*launcher, *command]


def _output(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=folder, env=environment
    )
    if done.returncode == CANNOT:
        raise Skipped(done.stderr.strip().splitlines()[-1])
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def tables(done: list[Measured], skipped: dict[str, str]) -> str:
    """Cases, healthy programs, and what was skipped, in Markdown."""
    cases = _table((*CASES, "cure", "cured: promises"), (one.row() for one in done if not one.program.healthy))
    healthy = _table(HEALTHY, (one.row() for one in done if one.program.healthy))
    left_out = _table(SKIPPED, ([f"`{name}`", why] for name, why in skipped.items()))
    return "\n".join(filter(None, (cases, healthy, left_out)))


def _table(heads: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    lines = [" | ".join(row) for row in rows]
    return "".join(f"| {line} |\n" for line in (" | ".join(heads), "---|" * (len(heads) - 1) + "---", *lines) if lines)


def main() -> None:
    """Measure the programs that are named, or all."""
    parser = argparse.ArgumentParser(description="What reports promise, against what cures save.")
    parser.add_argument("names", nargs="*", help="programs, with or without their suffix; all without names")
    parser.add_argument("--out", type=Path, help="where the tables go")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the programs")
    parser.add_argument("--runs", type=int, default=2, help="runs of each program before it is recorded")
    parser.add_argument("--keep", type=Path, help="where programs and captures stay")
    options = parser.parse_args()
    done: list[Measured] = []
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
        folder = (options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))).resolve()
        for program in programs(options.names):
            try:
                done.append(measure(program, folder, options.python, options.runs))
            except (Skipped, RuntimeError, subprocess.SubprocessError) as error:
                skipped[program.name] = str(error).splitlines()[0]
                print(f"{program.name}: skipped. {error}", file=sys.stderr, flush=True)
                continue
            print(" ".join(done[-1].row()), file=sys.stderr, flush=True)
            print(f"    {done[-1].promise.headline}", file=sys.stderr, flush=True)
    text = tables(done, skipped)
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
