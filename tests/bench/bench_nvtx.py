"""What an NVTX call costs: without a tool, under pinprof's agent, under nsys where there is one.

    python tests/bench/bench_nvtx.py [--rounds 5]

A C program pushes and pops in a loop (tests/data/nvtx/speaks.c) and prints the nanoseconds of one call: the best of
twenty rounds of 100,000 calls each. The kinds of run take turns; shown are the median, least and most of their figures.
Exit status 1 when the median under pinprof is above 200 ns.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pinprof.collect import nvtx
from pinprof.machine.libraries import INSIDE

LIMIT_NS = 200
SOURCE = Path(__file__).parents[1] / "data/nvtx/speaks.c"


def compiled(folder: Path) -> Path:
    """The program, built against the headers of the package nvidia-nvtx."""
    header = next(file for file in importlib.metadata.files("nvidia-nvtx") or () if file.name == "nvToolsExt.h")
    include = Path(str(header.locate())).parents[1]
    program = folder / "speaks"
    subprocess.run(["gcc", "-O2", str(SOURCE), "-o", str(program), "-I", str(include), "-ldl", "-pthread"], check=True)
    return program


def measured_ns(command: list[str], environment: dict[str, str]) -> float:
    """The figure that the program prints last."""
    ended = subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True)
    return next(float(line) for line in ended.stdout.splitlines() if line.replace(".", "", 1).isdigit())


def main() -> int:
    """Measure and print one line for each kind of run."""
    parser = argparse.ArgumentParser(description="What an NVTX call costs.")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    library = INSIDE.find()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        program = [str(compiled(place)), "time"]

        def plain() -> float:
            return measured_ns(program, {})

        def injected() -> float:
            with tempfile.TemporaryDirectory(dir=place) as files:
                return measured_ns(program, {nvtx.LIBRARY_VARIABLE: str(library), nvtx.FOLDER_VARIABLE: files})

        def traced() -> float:
            options = ["--trace=nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true"]
            return measured_ns(["nsys", "profile", *options, f"--output={place / 'report'}", *program], {})

        kinds: dict[str, Callable[[], float]] = {"no tool": plain, "pinprof": injected}
        if shutil.which("nsys"):
            kinds["nsys"] = traced
        figures: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(rounds):
            for name, run in kinds.items():
                figures[name].append(run())
    print(f"{'':<10}{'median':>10}{'least':>10}{'most':>10}")
    for name, values in figures.items():
        print(f"{name:<10}{statistics.median(values):>7.1f} ns{min(values):>7.1f} ns{max(values):>7.1f} ns")
    return int(statistics.median(figures["pinprof"]) > LIMIT_NS)


if __name__ == "__main__":
    sys.exit(main())
