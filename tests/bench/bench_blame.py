"""What blame and the ledger add to a recording: CPU seconds with and without them, by turns.

    python tests/bench/bench_blame.py [--rounds 20] [--size 64MiB] [--iterations 4] [PROGRAM …]

Programs are the host scenarios and `training`: a loop of numpy with a loader in a process of its own, under a stand-in
of CUDA's driver. *Without* is this pinprof without the event of wake-ups and without looks at pages; reading is not
part of either. What counts is user and system time from the program's start to its end: the program's with all that it
starts, the recorders' processes, and pinprof's own. Both kinds of a round follow each other, now this and now that one
first. The figures are the mean of log(with / without) over the rounds, those cut off that lie at either end (a tenth
each), with its 95 % interval; and what is counted exactly: wake-ups recorded, and the CPU time of looks at pages.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pinprof.base.distributions import t_quantile
from pinprof.base.units import parse_bytes
from pinprof.collect.native.wakeups import PRICE_NS

CUT = 0.1
HEAD = "              pairs   CPU s   growth       95 % interval  wake-ups    looks  counted"
NOTED, WITHOUT = "BENCH_NOTED", "BENCH_WITHOUT"
PINPROF = f"""
import json, os, sys, time
from dataclasses import replace
from pinprof.cli import main
from pinprof.collect import placement, run
from pinprof.collect.native import sampler
if os.environ.get("{WITHOUT}"):
    placement.Placement.look = lambda *_: None
    load = sampler.Orders.load.__func__
    sampler.Orders.load = classmethod(lambda kind, path: replace(load(kind, path), wakeups=False))
begin, ended, look = run.CollectorRun.begin, run.CollectorRun.program_ended, placement.Placement.look
looked, begun = [0.0], [0.0]
def noted_begin(*given):
    begin(*given)
    begun[0] = time.process_time()
def noted_end(*given):
    with open(os.environ["{NOTED}"], "w") as file:
        json.dump({{"own": time.process_time() - begun[0], "looks": looked[0]}}, file)
    ended(*given)
def noted_look(self, *given):
    try:
        return look(self, *given)
    finally:
        looked[0] = getattr(self, "spent", 0.0)
run.CollectorRun.begin, run.CollectorRun.program_ended, placement.Placement.look = noted_begin, noted_end, noted_look
main()
"""
TRAINING = """
import ctypes, multiprocessing, os, sys
import numpy as np
ctypes.CDLL(os.environ["STANDS_IN"])
def load(queue, batches):
    random = np.random.default_rng(1)
    for _ in range(batches):
        queue.put(random.standard_normal((256, 1024), dtype=np.float32))
queue, batches = multiprocessing.Queue(4), int(sys.argv[1])
loader = multiprocessing.get_context("fork").Process(target=load, args=(queue, batches))
loader.start()
random = np.random.default_rng(2)
first, second = (random.standard_normal(shape, dtype=np.float32) / 32 for shape in ((1024, 512), (512, 10)))
for _ in range(batches):
    batch = queue.get()
    hidden = np.maximum(batch @ first, 0)
    error = hidden @ second - batch[:, :10]
    second -= 1e-6 * (hidden.T @ error)
    first -= 1e-6 * (batch.T @ ((error @ second.T) * (hidden > 0)))
loader.join()
"""
SOURCES = Path(__file__).parents[1] / "data/cuda"


@dataclass(frozen=True)
class Cost:
    """One recording: CPU seconds, and what of blame and ledger can be counted in it."""

    program_s: float
    recorders_s: float
    own_s: float
    wakeups: int
    looks_s: float

    @property
    def all_s(self) -> float:
        """What the machine spent."""
        return self.program_s + self.recorders_s + self.own_s


def recorded(program: list[str], place: Path, *, without: bool) -> Cost:
    """One recording of a program."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        NOTED: str(place / "noted"),
        WITHOUT: "1" if without else "",
        "STANDS_IN": str(place / "libcuda.so.1"),
    }
    options = ["record", "--no-report", "--no-calibrate", "--force", "-o", str(place / "out.pinprof"), "--"]
    subprocess.run(
        [sys.executable, "-c", PINPROF, *options, *program], cwd=place, env=environment, check=True, capture_output=True
    )
    manifest = json.loads((place / "out.pinprof/manifest.json").read_text())
    noted = json.loads((place / "noted").read_text())
    used = manifest["outcome"]["resources"]
    return Cost(
        (used["user_ns"] + used["system_ns"]) / 1e9,
        sum(each.get("recording_cpu_ns", 0) for each in manifest["collectors"]) / 1e9,
        noted["own"],
        sum(each.get("wakeups", {}).get("counted", 0) for each in manifest["collectors"]),
        noted["looks"],
    )


def growth(pairs: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The growth from the second to the first of pairs: mean and 95 % interval, without the tenths at the ends.

    The trimmed mean's error is that of Yuen: from the values with their ends drawn in.
    """
    logs = sorted(math.log(with_it / plain) for with_it, plain in pairs)
    cut = int(CUT * len(logs))
    kept = logs[cut : len(logs) - cut]
    drawn = [kept[0]] * cut + kept + [kept[-1]] * cut
    middle, mean = sum(kept) / len(kept), sum(drawn) / len(drawn)
    scatter = sum((value - mean) ** 2 for value in drawn)
    error = math.sqrt(scatter / (len(kept) * (len(kept) - 1))) * t_quantile(len(kept) - 1, 0.975)
    return tuple(math.expm1(value) for value in (middle - error, middle, middle + error))


def main() -> None:
    """A line for each program, and one for all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("programs", nargs="*", default=["pageable", "pinned", "zerocopy", "uvm", "training"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--size", default="64MiB")
    parser.add_argument("--iterations", type=int, default=4)
    asked = parser.parse_args()
    size = parse_bytes(asked.size)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run(
            ["cc", "-O1", "-shared", "-fPIC", "-o", place / "libcuda.so.1", SOURCES / "driver.c"], check=True
        )
        (place / "training.py").write_text(TRAINING)
        print(HEAD)
        taken: dict[str, list[tuple[Cost, Cost]]] = {name: [] for name in asked.programs}
        for turn in range(asked.rounds):
            for name, rows in taken.items():
                words = [sys.executable, "-m", "pinprof.scenario", name, f"--size-bytes={size}"]
                words += [f"--iterations={asked.iterations}"]
                if name == "training":
                    words = [sys.executable, "training.py", str(10 * asked.iterations)]
                order = (False, True) if turn % 2 else (True, False)
                costs = {without: recorded(words, place, without=without) for without in order}
                rows.append((costs[False], costs[True]))
            show(taken)


def show(taken: dict[str, list[tuple[Cost, Cost]]]) -> None:
    """The table so far."""
    everything = []
    for name, rows in taken.items():
        pairs = [(one.all_s, other.all_s) for one, other in rows]
        everything += pairs
        line(name, pairs, [one for one, _ in rows])
    line("all", everything, [one for rows in taken.values() for one, _ in rows])


def line(name: str, pairs: list[tuple[float, float]], costs: list[Cost]) -> None:
    """A line of the table."""
    if len(pairs) < 3:
        return
    low, middle, high = growth(pairs)
    spent = sum(plain for _, plain in pairs)
    wakeups, looks = sum(cost.wakeups for cost in costs), sum(cost.looks_s for cost in costs)
    print(
        f"{name:10}{len(pairs):>6}{spent / len(pairs):>8.2f}{middle:>+9.2%}{low:>+10.2%} …{high:>+8.2%}"
        f"{wakeups / len(pairs):>10.0f}{looks / spent:>9.3%}{(looks + wakeups * PRICE_NS / 1e9) / spent:>9.3%}",
        flush=True,
    )


if __name__ == "__main__":
    main()
