"""What a recording costs that has nothing to record, and reading it: by turns with perf, and with another pinprof.

    python tests/bench/bench_fixed.py [--rounds 9] [--before PINPROF] [-- COMMAND …]

`--before` is the `pinprof` of another checkout or installation. Wall and CPU seconds (user and system, children
included) of each command, the least and the median of all rounds; the first round is thrown away. The blocks are those
of `pinprof.record()` in one process. The parts are one `pinprof record` of this checkout with the time of its steps;
with a command they are those of its recording and its report, alone.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

BLOCKS = """
import resource, sys, time
import pinprof
def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
for number in range(6):
    begun, used = time.monotonic(), cpu()
    with pinprof.record("block", output=f"block-{number}.pinprof", calibrate=False):
        inside = time.monotonic()
    if number:
        print(time.monotonic() - begun, inside - begun, cpu() - used)
"""
PARTS = """
import resource, sys, time
START = time.monotonic()
def told(what):
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, others = (each.ru_utime + each.ru_stime for each in used)
    print(f"{what:34} {time.monotonic() - START:6.3f} {own:6.3f} {others:6.3f}", file=sys.stderr)
def timed(owner, name, what):
    function = getattr(owner, name)
    def wrapped(*given, **named):
        try:
            return function(*given, **named)
        finally:
            told(what)
    setattr(owner, name, wrapped)
from pinprof import cli
import pinprof.cli.record
from pinprof import recording
from pinprof.collect import run
told("commands and recording imported")
timed(recording, "create", "capture created")
timed(run.CollectorRun, "__init__", "tools joined")
timed(recording, "_load_reader", "recorders started, reader loaded")
timed(run.CollectorRun, "begin", "program started")
timed(run.CollectorRun, "program_ended", "program ended")
timed(run.Session, "finish_recorders", "recorders ended")
timed(recording._Symbols, "store", "symbols stored")
timed(recording, "finish", "capture whole")
if "--no-report" not in sys.argv:
    from pinprof.cli import pipeline
    timed(pipeline, "attributed", "attributed")
    timed(pipeline, "guessed", "searched")
    timed(pipeline, "answer", "answer")
    timed(pipeline, "write_page", "page")
cli.main(sys.argv[1:])
"""


def used(command: Sequence[str], place: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a command."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for left in (place / "out.pinprof", place / "perf.data"):
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
    begun = time.monotonic()
    process = subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}")
    return time.monotonic() - begun, cpu(usage)


def cpu(usage: resource.struct_rusage) -> float:
    """Its CPU seconds."""
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--before", type=Path)
    parser.add_argument("command", nargs="*")
    asked = parser.parse_args()
    if asked.command:
        with tempfile.TemporaryDirectory() as folder:
            parts([], asked.command, Path(folder))
        return
    now = str(Path(sys.executable).with_name("pinprof"))
    pinprofs = {"now": now} | ({"before": str(asked.before.absolute())} if asked.before else {})
    record = ("record", "--no-calibrate", "-o", "out.pinprof")
    commands = {}
    for name, pinprof in pinprofs.items():
        commands[f"pinprof record --no-report, {name}"] = [pinprof, *record, "--no-report", "--", "true"]
        commands[f"pinprof record, {name}"] = [pinprof, *record, "--", "true"]
        commands[f"pinprof report --format json, {name}"] = [
            *(pinprof, "report", "kept.pinprof", "--format", "json", "-o", "report.json"),
        ]
    if perf := shutil.which("perf"):
        commands["perf record -F 999 -g"] = [perf, "record", "-F", "999", "-g", "-o", "perf.data", "true"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        kept = [now, "record", "--no-calibrate", "--no-report", "-o", "kept.pinprof", "--", "true"]
        used(kept, place)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(asked.rounds + 1):
            for name, command in commands.items():
                cost = used(command, place)
                if number:
                    taken[name].append(cost)
        print(f"{'seconds':44} wall: least median   CPU: least median")
        for name, costs in taken.items():
            walls, cpus = zip(*costs, strict=True)
            print(
                f"{name:44}    {min(walls):8.2f} {statistics.median(walls):6.2f}"
                f"      {min(cpus):6.2f} {statistics.median(cpus):6.2f}"
            )
        for name, pinprof in pinprofs.items():
            python = str(Path(pinprof).with_name("python"))
            for left in place.glob("block-*.pinprof"):
                shutil.rmtree(left)
            said = subprocess.run([python, "-c", BLOCKS], cwd=place, capture_output=True, text=True, check=True).stdout
            rows = [tuple(map(float, line.split())) for line in said.splitlines()]
            whole, entered, spent = (statistics.median(column) for column in zip(*rows, strict=True))
            print(f"a block, {name}: {whole:.2f} s, {entered:.2f} of it before its first line; {spent:.2f} s CPU")
        parts(["--no-calibrate", "--no-report"], ["true"], place)


def parts(options: Sequence[str], command: Sequence[str], place: Path) -> None:
    """Print when each step of a recording ended."""
    print(f"\n{'parts, after':34}   wall    own  children", flush=True)
    shutil.rmtree(place / "out.pinprof", ignore_errors=True)
    words = [sys.executable, "-c", PARTS, "record", *options, "-o", "out.pinprof", "--", *command]
    # As the command line has it, which is called from inside here.
    subprocess.run(words, cwd=place, check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})


if __name__ == "__main__":
    main()
