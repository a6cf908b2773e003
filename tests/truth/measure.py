"""How right Python lines are: records each shape of programs.py at each length of step, and compares with its truth.

usage: python -m tests.truth.measure [--python PATH]... [--shapes NAME,…] [--steps 2,5,…] [--seconds 6]

For each line its share of its thread's CPU time in the steps, by the program's clock and by pinprof, and the worst
difference in points; and the waiting that is charged to lines that do not wait, as a share of all waiting.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pinprof.data.model import Capture
from pinprof.read import ReadOptions, read

PROGRAM = Path(__file__).with_name("programs.py")
SHAPES = ("two", "four", "sleeping", "polling", "generator", "same_function", "irregular", "threads", "tasks")
WAITS = {"sleep", "poll", "nap"}
"""Names of the steps that wait."""


@dataclass(frozen=True)
class Line:
    """One step of one thread; shares of the thread's steps."""

    thread: int
    name: str
    true: float
    said: float


@dataclass(frozen=True)
class Comparison:
    """One recording against its truth."""

    lines: tuple[Line, ...]
    wrong_waits: float
    """Share of the time spent waiting that lines are charged with which do not wait."""
    elsewhere: float
    """Share of the CPU samples of those threads that are at no step's line."""

    @property
    def worst(self) -> float:
        """Points by which the worst line is off."""
        return max((abs(line.true - line.said) for line in self.lines), default=0.0)


def record(python: str, shape: str, step_ms: float, seconds: float, folder: Path, *options: str) -> Comparison:
    """Record one program and compare."""
    truth = folder / "truth.json"
    words = [sys.executable, "-m", "pinprof", "record", "--no-report", "--force", "-o", str(folder / "out"), *options]
    words += ["--", python, str(PROGRAM), shape, str(step_ms), str(seconds), str(truth)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=seconds * 4 + 240, check=False)
    if result.returncode:
        raise RuntimeError(result.stderr)
    capture = read(folder / "out.pinprof", ReadOptions())
    return compare(capture, json.loads(truth.read_text()))


def compare(capture: Capture, truth: dict) -> Comparison:
    """Shares of each step by truth and by the capture."""
    names = {line: name for name, lines in truth["lines"].items() for line in lines}
    step_of = steps(capture, names)
    samples = capture.samples
    spans = np.array([event.spans for event in capture.events], bool)[samples.event]
    clock = (samples.event == 0) & ~spans
    lines: list[Line] = []
    waiting, wrong, at_no_step, all_cpu = 0, 0, 0, 0
    parameter = {"name"}
    for thread, times in truth["threads"].items():
        mine = (samples.tid == int(thread)) & (samples.time_ns >= truth["begun_ns"])
        mine &= samples.time_ns < truth["ended_ns"]
        said = Counter()
        for row in np.flatnonzero(mine & clock):
            said[step_of[samples.stack[row]]] += int(samples.weight[row])
        at_no_step += said.pop("", 0) + said.pop("module", 0)
        if parameter & said.keys():  # tasks: the name is a variable there
            for name, value in _by_function(capture, mine & clock).items():
                said[name] = value
            said.pop("name")
        total, whole = sum(said.values()), sum(cpu for cpu, _ in times.values())
        all_cpu += total
        lines += [
            Line(int(thread), name, 100 * cpu / whole, 100 * said[name] / max(total, 1))
            for name, (cpu, _) in times.items()
        ]
        for row in np.flatnonzero(mine & spans):
            if capture.samples.wait is not None and capture.samples.wait[row] & 1:
                continue
            waiting += int(samples.weight[row])
            name = step_of[samples.stack[row]]
            # Two threads of one interpreter wait for each other in any line.
            wrong += int(samples.weight[row]) * (name not in WAITS and name != "" and len(truth["threads"]) == 1)
    return Comparison(tuple(lines), 100 * wrong / max(waiting, 1), 100 * at_no_step / max(all_cpu + at_no_step, 1))


def steps(capture: Capture, names: dict[int, str]) -> list[str]:
    """Per node of the stacks the step whose line lies in it; empty where none does; one more for no stack."""
    place = [""] * len(capture.stacks.frames)
    for index, symbol in enumerate(capture.stacks.frames.symbol):
        if f"({PROGRAM.name}:" in symbol:
            place[index] = names.get(int(symbol.rpartition(":")[2].rstrip(")")), "")
    found = []
    for parent, frame in zip(capture.stacks.parent.tolist(), capture.stacks.frame.tolist(), strict=True):
        found.append((found[parent] if parent >= 0 else "") or place[frame])
    return [*found, ""]


def _by_function(capture: Capture, rows: np.ndarray) -> dict[str, int]:
    kinds = {"compress": "crunch", "loops": "spin", "digest": "hash"}
    found: dict[str, int] = defaultdict(int)
    for row in np.flatnonzero(rows):
        for node in capture.stacks.chain(int(capture.samples.stack[row])):
            function = capture.stacks.frames.symbol[capture.stacks.frame[node]].partition(" ")[0]
            if function in kinds:
                found[kinds[function]] += int(capture.samples.weight[row])
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", action="append")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--steps", default="2,5,10,20,50")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--details", action="store_true")
    parser.add_argument("options", nargs="*")
    asked = parser.parse_args()
    print("| Python | shape | step ms | worst line, points | at | waits wrong % | at no step % |")
    print("|---|---|---|---|---|---|---|")
    for python in asked.python or [sys.executable]:
        for shape in asked.shapes.split(","):
            for step_ms in map(float, asked.steps.split(",")):
                with tempfile.TemporaryDirectory() as folder:
                    found = record(python, shape, step_ms, asked.seconds, Path(folder), *asked.options)
                worst = max(found.lines, key=lambda line: abs(line.true - line.said))
                print(
                    f"| {_version(python)} | {shape} | {step_ms:g} | {found.worst:.1f} | "
                    f"{worst.name} {worst.true:.1f} → {worst.said:.1f} | "
                    f"{found.wrong_waits:.1f} | {found.elsewhere:.1f} |",
                    flush=True,
                )
                if asked.details:
                    for line in found.lines:
                        print(f"    {line.thread} {line.name}: {line.true:.1f} → {line.said:.1f}")


def _version(python: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
