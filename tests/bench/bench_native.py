"""The native collector beside perf: in turns on runs of one program, then both attached to the same runs.

    python tests/bench/bench_native.py [--rounds 5] [--frequency 999] [-- CMD [ARG]…]

In turns, what counts is samples per second of the program's CPU time, medians over the rounds. Together, both see the
same execution, so what differs is the recorders, not the machine's load: the share of every cause and leaf function.
Only cpu-clock is recorded then: kernel 6.18 gives samples of one software event (a page fault, a switch) that two
recorders take at once the id of one of them. Without CMD the program is the scenario `pinned`, emulated on the host.

Exit status 1 when the numbers of samples differ by more than 2 %, a share by more than 1.5 points, the native collector
lost records, or used more than 2 % of a core while recording.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pinprof import analyze, read
from pinprof.collect import load
from pinprof.collect.collector import Setup
from pinprof.collect.idle import Preparation
from pinprof.collect.kallsyms import save as save_kallsyms
from pinprof.collect.program import Program
from pinprof.collect.request import RecordRequest
from pinprof.collect.session import Session, signals_held
from pinprof.data.model import Capture
from pinprof.streams.store import CaptureWriter, new_manifest

COUNT_LIMIT, LEAF_LIMIT, CPU_LIMIT = 0.02, 0.015, 0.02
SAMPLERS = ("native", "perf")


@dataclass(frozen=True)
class Run:
    """What one recorder saw of one run."""

    capture: Capture
    recorder_share: float
    """CPU time of its process, of one core; natively without its start, which is over before the program begins."""
    program_s: float
    """CPU time of the program."""

    def samples(self, event: str) -> int:
        """How many samples of an event there are."""
        names = [entry.name for entry in self.capture.events]
        return int((self.capture.samples.event == names.index(event)).sum())


def record(names: list[str], request: RecordRequest, place: Path) -> dict[str, Run]:
    """One run under one recorder or both."""
    writers = {name: CaptureWriter.create(place / name, new_manifest(), force=True) for name in names}
    with ExitStack() as places, signals_held() as signals:
        environment = {"PATH": "/usr/bin:/bin"}
        tools = [load(name).join(Setup(request, writers[name].path, places, environment))[0] for name in names]
        program = Program(request.command, environment, signals)
        session = Session(program, tools, signals)
        for tool in tools:
            tool.attach(program)
        for tool in tools:
            tool.await_ready(session)
        program.start()
        session.until_program_ends(Preparation())
        session.finish_recorders()
    wall_s = (program.ended_ns - program.started_ns) / 1e9
    assert program.usage is not None
    runs = {}
    for name, tool in zip(names, tools, strict=True):
        result = tool.result()
        if result.failure:
            raise result.failure
        save_kallsyms(writers[name].path)
        used_s = result.facts.get("recording_cpu_ns", result.facts["cpu_ns"]) / 1e9
        capture = read.read(str(writers[name].path))
        runs[name] = Run(capture, used_s / wall_s, program.usage.ru_utime + program.usage.ru_stime)
    return runs


def leaves(runs: list[Run]) -> dict[str, float]:
    """Share of CPU time of each leaf function, all runs together."""
    found: Counter[str] = Counter()
    for run in runs:
        samples, stacks = run.capture.samples, run.capture.stacks
        for node, weight in zip(samples.stack.tolist(), samples.weight.tolist(), strict=True):
            found[stacks.frames.symbol[int(stacks.frame[node])] if node >= 0 else "no stack"] += weight
    return {leaf: weight / found.total() for leaf, weight in found.items()}


def causes(runs: list[Run]) -> dict[str, float]:
    """Share of CPU time of each cause of the page, all runs together."""
    found: Counter[str] = Counter()
    for run in runs:
        found.update(analyze.analyze(run.capture).events[0].by_leaf)
    return {leaf: weight / found.total() for leaf, weight in found.items()}


def row(name: str, ours: float, theirs: float, form: str = ",.1f") -> float:
    """Print a line of figures; ours / theirs."""
    ratio = ours / theirs if theirs else 1.0
    print(f"{name:<44}{ours:>12{form}}{theirs:>12{form}}{ratio:>9.4f}")
    return ratio


def main() -> int:
    """Record, compare, print."""
    parser = argparse.ArgumentParser(description="The native collector beside perf.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frequency", type=int, default=999)
    parser.add_argument("program", nargs="*")
    given = parser.parse_args()
    command = given.program or [
        *(sys.executable, "-m", "pinprof.scenario", "pinned", "--backend=host"),
        *("--size-bytes=268435456", "--iterations=8"),
    ]
    request = RecordRequest(tuple(command), frequency=given.frequency)
    turns: dict[str, list[Run]] = {name: [] for name in SAMPLERS}
    together: dict[str, list[Run]] = {name: [] for name in SAMPLERS}
    with tempfile.TemporaryDirectory() as directory:
        for turn in range(given.rounds):
            for name in SAMPLERS if turn % 2 else SAMPLERS[::-1]:
                turns[name].append(record([name], request, Path(directory))[name])
        for _ in range(given.rounds):
            for name, run in record(list(SAMPLERS), replace(request, off_cpu=False), Path(directory)).items():
                together[name].append(run)

    print(f"\n{'in turns, a second of CPU time':<44}{'native':>12}{'perf':>12}{'ratio':>9}")
    ratios = []
    for event in [entry.name for entry in turns["native"][0].capture.events]:
        rates = [statistics.median(run.samples(event) / run.program_s for run in runs) for runs in turns.values()]
        ratios.append(row(f"  {event}, samples", rates[0], rates[1]))
    lost = [sum(run.capture.losses.lost_samples for run in runs) for runs in turns.values()]
    row("  records lost", lost[0], lost[1], ",.0f")
    used = [statistics.median(run.recorder_share for run in runs) for runs in turns.values()]
    row("  recorder, of one core", used[0], used[1], ".2%")

    print(f"\n{'together, on the same runs':<44}{'native':>12}{'perf':>12}{'ratio':>9}")
    clock = together["native"][0].capture.events[0].name
    counts = [sum(run.samples(clock) for run in runs) for runs in together.values()]
    ratios.append(row(f"  {clock}, samples", counts[0], counts[1], ",.0f"))
    apart = 0.0
    for title, shares in (("cause", causes), ("leaf function", leaves)):
        ours, theirs = shares(together["native"]), shares(together["perf"])
        points = {name: abs(ours.get(name, 0) - theirs.get(name, 0)) for name in ours.keys() | theirs.keys()}
        for name in sorted(points, key=lambda one: -points[one])[:4]:
            row(f"  {title} {name}"[:42], ours.get(name, 0), theirs.get(name, 0), ".2%")
        apart = max(apart, *points.values())
    bad = max(abs(ratios[0] - 1), abs(ratios[-1] - 1)) > COUNT_LIMIT or apart > LEAF_LIMIT
    return int(bad or lost[0] > 0 or used[0] > CPU_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
