"""Time `pinprof report`, folded and JSON, against `perf script`, alone and with stackcollapse work, in one run.

    python tests/bench/bench_read.py [--samples 260000] [--scales 1,2,4] [--paths 4000] [--each N] [--rounds 3]
                                     [--no-collapse] [--keep DIR]

With `--each`, recordings have short child processes of that many samples each (multiply_perf_data.py).

The commands alternate, so that whatever else the machine does meets all of them. Printed per scale: user+system CPU
seconds (the least of the rounds) with those of the processes that a command starts, the ratio to perf script alone,
wall-clock seconds and their ratio to the CPU seconds, and the peak resident size of the largest process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import make_perf_data
import multiply_perf_data

TEMPLATE_SAMPLES = 100_000

FIELDS = "comm,pid,tid,time,event,ip,sym,dso"

COLLAPSE = r"""
function flush_sample() { if (stack != "") folded[comm stack]++; stack = "" }
/^$/ { flush_sample(); next }
/^[^ \t]/ { comm = $1; next }
{ name = $2; for (i = 3; i < NF; i++) name = name " " $i; stack = ";" name stack }
END { flush_sample(); for (line in folded) print line, folded[line] }
"""
"""What stackcollapse-perf.pl does, in awk."""


@dataclass(frozen=True)
class Cost:
    """What one command took."""

    cpu_s: float
    wall_s: float
    peak_mib: float


def main() -> None:
    """Make the recordings, time the commands, print a table; exit status 1 if pinprof costs more than perf script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=260_000)
    parser.add_argument("--scales", default="1,2,4")
    parser.add_argument("--paths", type=int, default=4000)
    parser.add_argument("--each", type=int, default=0, help="samples of each child process (default: no children)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-collapse", action="store_true", help="leave the work of stackcollapse out")
    parser.add_argument("--keep", type=Path, help="keep the recordings here, and use those that are there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        within = [
            bench(
                recording(folder, round(options.samples * float(scale)), options.paths, options.each),
                options.rounds,
                collapse=not options.no_collapse,
            )
            for scale in options.scales.split(",")
        ]
    sys.exit(0 if all(within) else 1)


def recording(folder: Path, samples: int, paths: int, each: int) -> Path:
    """A recording, made where there is none yet; kallsyms lies beside it."""
    path = folder / f"{samples}-{paths}-{each}.perf.data"
    if path.exists():
        return path
    if not each:
        make_perf_data.make(path, samples, paths)
        return path
    template = recording(folder, TEMPLATE_SAMPLES, paths, 0)
    multiply_perf_data.multiply(template, path, samples, each)
    Path(f"{path}.kallsyms").write_bytes(Path(f"{template}.kallsyms").read_bytes())
    return path


def bench(path: Path, rounds: int, *, collapse: bool) -> bool:
    """Time one recording; whether pinprof took no more CPU time for folded stacks than perf script alone."""
    kallsyms = f"{path}.kallsyms"
    script = ["perf", "script", "-i", str(path), "--kallsyms", kallsyms, "-F", FIELDS]
    report = [sys.executable, "-m", "pinprof", "report", str(path), "--kallsyms", kallsyms, "--format"]
    commands: dict[str, list[list[str]]] = {
        "pinprof report --format folded": [[*report, "folded"]],
        "pinprof report --format json": [[*report, "json"]],
        "perf script": [script],
    }
    if collapse:
        commands["perf script | stackcollapse"] = [script, ["awk", COLLAPSE]]
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, pipeline in commands.items():
            costs[name].append(run(pipeline))
    samples, paths, _ = path.name.split(".")[0].split("-")
    print(f"\n{path.stat().st_size / 1e6:.0f} MB, about {int(samples):,} samples, {paths} paths (0: all different)")
    base = min(cost.cpu_s for cost in costs["perf script"])
    for name, rows in costs.items():
        cpu, peak = min(cost.cpu_s for cost in rows), max(cost.peak_mib for cost in rows)
        wall = min(cost.wall_s for cost in rows)
        print(
            f"  {name:32} {cpu:7.2f} s CPU   {cpu / base:5.2f} × perf script   {wall:7.2f} s = {wall / cpu:4.2f} × CPU"
            f"   {peak:6.0f} MiB peak",
            flush=True,
        )
    return min(cost.cpu_s for cost in costs["pinprof report --format folded"]) <= base


def run(pipeline: list[list[str]]) -> Cost:
    """Run commands as a pipeline into nothing: the sum of their CPU times, the largest of their peaks."""
    begun = time.perf_counter()
    processes: list[subprocess.Popen[bytes]] = []
    for index, command in enumerate(pipeline):
        last = index == len(pipeline) - 1
        source = processes[-1].stdout if processes else None
        process = subprocess.Popen(
            command,
            stdin=source or subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if last else subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if source is not None:
            source.close()
        processes.append(process)
    cpu, peak = 0.0, 0.0
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{process.args!r} failed with status {process.returncode}")
        cpu += usage.ru_utime + usage.ru_stime
        peak = max(peak, usage.ru_maxrss / 1024)
    return Cost(cpu, time.perf_counter() - begun, peak)


if __name__ == "__main__":
    main()
