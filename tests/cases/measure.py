"""What the report promises for the programs of this folder, against what was measured.

usage: python -m tests.cases.measure [NAME…] [--out TABLE.md] [--python PATH] [--runs 2] [--keep FOLDER]

Each case runs as is and cured, in turns and without a recorder; then it is recorded as is. Healthy programs run and are
recorded alike. What this machine cannot run is skipped, with the reason.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cases.programs import Program, Skipped, programs, seconds

PINPROF = (sys.executable, "-m", "pinprof")
LIMIT_S = 300


@dataclass(frozen=True)
class Recorded:
    """What a recording said."""

    seconds: float
    """The program's time under the recorder."""
    opportunities: list[dict[str, Any]]
    headline: str


@dataclass(frozen=True)
class Measured:
    """One program: medians of its seconds, and what was promised."""

    program: Program
    as_is: float
    cured: float | None
    """None of healthy programs."""
    recorded: Recorded

    def row(self) -> list[str]:
        """For the table of cases."""
        saved = self.as_is - (self.cured or 0.0)
        row = [f"`{self.program.name}`", f"{self.as_is:.2f}", f"{self.cured or 0:.2f}", f"{saved:.2f}"]
        if not self.recorded.opportunities:
            return [*row, "–", "–", "none", "–"]
        first = self.recorded.opportunities[0]
        saving, site = first["saving_ns"], first["site"]
        low, likely, high = (saving[key] / 1e9 for key in ("low", "likely", "high"))
        right = Path(site["file"]).name == self.program.path.name and site["line"] in self.program.guilty()
        off = f"{likely / saved - 1:+.0%}" if saved > 0 else "–"
        place = f"{Path(site['file']).name}:{site['line']}"
        return [*row, f"{low:.2f} – {likely:.2f} – {high:.2f}", off, "yes" if right else place, first["cure"]["id"]]

    def healthy_row(self) -> list[str]:
        """For the table of healthy programs."""
        found = self.recorded.opportunities
        most = max(found, key=lambda one: one["saving_ns"]["likely"], default=None)
        promised = most["saving_ns"]["likely"] / 1e9 if most else 0.0
        row = [f"`{self.program.name}`", f"{self.as_is:.2f}", str(len(found))]
        return [*row, f"{promised:.2f}", f"{promised / self.as_is:.0%}", most["cure"]["id"] if most else "–"]


def measure(program: Program, folder: Path, python: str, runs: int) -> Measured:
    """Run and record one program.

    Raises:
        Skipped: this machine cannot run it.
    """
    command = program.command(folder, python)
    ways = ([],) if program.healthy else ([], ["cured"])
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(runs):
        for way, collected in zip(ways, times, strict=True):
            collected.append(seconds(_output(_launched(program, [*command, *way], python), folder)))
    as_is, *cured = map(statistics.median, times)
    return Measured(program, as_is, cured[0] if cured else None, _recorded(program, command, folder, python))


def _recorded(program: Program, command: list[str], folder: Path, python: str) -> Recorded:
    words = [*PINPROF, "record", "--no-report"]
    if program.ranks == 1:
        capture = folder / f"{program.path.stem}.pinprof"
        words += ["--force", "-o", str(capture)]
    output = _output(_launched(program, [*words, "--", *command], python), folder)
    if program.ranks > 1:  # every rank finds the folder of the launch by itself; the last one has the problem
        capture = max(folder.glob(f"*{program.path.stem}*.ranks/rank-*.pinprof"))
    document = json.loads(_output([*PINPROF, "report", "--format", "json", str(capture)], folder))
    return Recorded(seconds(output), document.get("opportunities", []), document["headline"])


def _launched(program: Program, command: list[str], python: str) -> list[str]:
    if program.ranks == 1:
        return command
    launcher = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(program.ranks), "--no-python"]
    return [*launcher, *command]


def _output(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def table(heads: list[str], rows: Iterable[list[str]]) -> str:
    """Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tables(done: list[Measured], skipped: dict[str, str]) -> str:
    """Cases, healthy programs, and what was skipped."""
    cases = ["case", "as is", "cured", "saved", "predicted: low – likely – high", "off by", "right line", "cure"]
    healthy = ["healthy program", "seconds", "opportunities", "promised", "of the program", "cure"]
    text = table(cases, (one.row() for one in done if not one.program.healthy))
    text += "\n" + table(healthy, (one.healthy_row() for one in done if one.program.healthy))
    if skipped:
        text += "\n" + table(["skipped", "why"], ([f"`{name}`", why] for name, why in skipped.items()))
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the programs")
    parser.add_argument("--runs", type=int, default=2)
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
                one = measure(program, folder, options.python, options.runs)
            except (Skipped, RuntimeError, subprocess.SubprocessError) as error:
                skipped[program.name] = str(error).splitlines()[0]
                print(f"{program.name}: skipped, {error}", file=sys.stderr, flush=True)
                continue
            done.append(one)
            print(" ".join(one.healthy_row() if program.healthy else one.row()), file=sys.stderr, flush=True)
            print(f"    recorded {one.recorded.seconds:.2f}: {one.recorded.headline}", file=sys.stderr, flush=True)
    text = tables(done, skipped)
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
