"""What timers inside a program cost it where perf events are denied: by turns recorded, and not.

    python tests/bench/bench_timers.py [--python PATH] [--rounds 27] [--pairs 3] [PROGRAM …]

PROGRAM is `training`, a loop of PyTorch on the CPU (`--python`: an interpreter that has it), or `numpy`. Two processes
run it, one of them recorded. In each round one does some steps while the other waits, and then the other, and both say
the processor time and the wall time of these. After a part of the rounds, two new processes go on. Figures are medians
and quartiles over all rounds of recorded / plain within one round. Exit status 1 when timers cost a program more
processor time than the limit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.situation import DENIED, DOCKER, SITUATION

LIMIT = 0.03
LOOP = """
import json, sys, time
for _ in range(3):
    step()
for line in sys.stdin:
    begun = time.process_time(), time.monotonic()
    for _ in range({steps}):
        step()
    print(json.dumps([time.process_time() - begun[0], time.monotonic() - begun[1]]), flush=True)
"""
TRAINING = """
import torch
from torch.nn import Linear, ReLU
model = torch.nn.Sequential(Linear(512, 1024), ReLU(), Linear(1024, 1024), ReLU(), Linear(1024, 10))
optimizer, loss_of = torch.optim.AdamW(model.parameters()), torch.nn.CrossEntropyLoss()
batch, labels = torch.randn(128, 512), torch.randint(0, 10, (128,))
def step():
    optimizer.zero_grad()
    loss_of(model(batch), labels).backward()
    optimizer.step()
"""
NUMPY = """
import numpy as np
random = np.random.default_rng(0)
table, values = random.random((400, 400)), random.random(1 << 16)
def step():
    made = np.tanh(table * 0.5) + table.T
    ranked = (np.sort(values)[::-1] * 1.0001) % 1.0
    return ranked[0] + sum(float(row.sum()) for row in made[:40])
"""
PROGRAMS = {"training": (TRAINING, 20), "numpy": (NUMPY, 100)}
"""With how many steps a round has."""


def turns(program: list[str], record: list[str], rounds: int) -> list[list[list[float]]]:
    """Of each round processor and wall time in seconds, plain and recorded."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    both = [subprocess.Popen([*before, *program], **pipes) for before in ([], record)]
    found = []
    for number in range(rounds + 1):
        times: list[list[float]] = [[], []]
        for which in (0, 1) if number % 2 else (1, 0):
            print(file=both[which].stdin, flush=True)
            times[which] = json.loads(both[which].stdout.readline())
        found.append(times)
    for one in both:
        one.communicate()
    return found[1:]


def growth(plain: list[float], recorded: list[float]) -> tuple[float, str]:
    """The median of what is more, and that with its quartiles in words."""
    found = [after / before - 1 for before, after in zip(plain, recorded, strict=True)]
    low, middle, high = statistics.quantiles(found, n=4) if len(found) > 1 else found * 3
    return middle, f"{middle:+.1%} ({low:+.1%} to {high:+.1%})"


def main() -> int:
    """Measure, and print a line for each program."""
    parser = argparse.ArgumentParser(description="What timers inside a program cost it.")
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=27)
    parser.add_argument("--pairs", type=int, default=3)
    given = parser.parse_args()
    words = [*SITUATION, f"capabilities={DOCKER}", f"refuse=EPERM:{DENIED}", "--", sys.executable, "-m", "pinprof"]
    worst = 0.0
    with tempfile.TemporaryDirectory() as place:
        capture = str(Path(place, "capture.pinprof"))
        record = [*words, "record", "-q", "--no-report", "--no-calibrate", "--force", "-o", capture, "--"]
        for name in given.programs:
            text, steps = PROGRAMS[name]
            program = [given.python if name == "training" else sys.executable, "-c", text + LOOP.format(steps=steps)]
            found = [turn for _ in range(given.pairs) for turn in turns(program, record, given.rounds // given.pairs)]
            times = [[[turn[way][kind] for turn in found] for way in range(2)] for kind in range(2)]
            cpu, wall = (growth(*kind) for kind in times)
            print(f"{name}: {statistics.median(times[0][0]):.2f} s of CPU {cpu[1]}; wall {wall[1]}", flush=True)
            worst = max(worst, cpu[0])
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
