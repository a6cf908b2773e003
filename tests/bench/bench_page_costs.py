"""What part of the sampled time of page faults a cure saves: memory made anew each time against memory that stays.

    python tests/bench/bench_page_costs.py [--rounds 7] [--only anon,cow] [--out FILE.json]

For each kind of memory, size of page, access and size: rounds of `page_costs` in turns, fresh and cured, without a
recorder, in CPU time of the thread; then the fresh ones recorded by `pinprof record`, and their samples by cause.
Printed are, in ns per KiB: fresh, cured, what the cure saves (median and quartiles of pairs), what the samples show of
faults (of that zeroing and copying of pages), of freeing and of other kernel work, and the saved part of their sum.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pinprof.analyze import CATEGORIES
from pinprof.analyze.attribution.attribute import attribute
from pinprof.read import ReadOptions, read

SOURCE = Path(__file__).with_name("page_costs.c")
RECORD = (sys.executable, "-m", "pinprof", "record", "--no-report", "--force", "--python", "off", "--no-cuda-calls")
KIB, MIB = 1 << 10, 1 << 20
FILLING = ("clear_page", "clear_huge_page", "folio_zero_user", "clear_subpage", "copy_mc", "copy_page", "memset_orig")
"""Beginnings of the kernel's functions that fill a new page."""


@dataclass(frozen=True)
class Setting:
    """One way to use memory."""

    kind: str
    pages: str
    access: str
    size: int

    @property
    def times(self) -> int:
        """How often it is used in a round."""
        whole = (512 if self.pages == "huge" and self.kind == "anon" else 128) * MIB
        return max(whole // self.size, 2)


@dataclass(frozen=True)
class Cost:
    """One setting's result; ns per KiB."""

    setting: Setting
    fresh: float
    cured: float
    saved: tuple[float, float, float]
    """Lower quartile, median and upper quartile of the pairs."""
    recorded: float
    fault: float
    filling: float
    """The part of `fault` in which the kernel fills pages."""
    free: float
    kernel: float
    """Other time in the kernel."""
    user: float

    @property
    def part(self) -> tuple[float, float, float]:
        """What is saved of the sampled time in the kernel."""
        low, middle, high = (saved / (self.fault + self.free + self.kernel) for saved in self.saved)
        return low, middle, high


def settings() -> Iterator[Setting]:
    """All that is measured."""
    for access in ("touch", "fill", "store", "add", "use"):
        for size in (256 * KIB, 1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB):
            yield Setting("anon", "small", access, size)
            if size >= 4 * MIB:
                yield Setting("anon", "huge", access, size)
    for size in (4 * MIB, 64 * MIB):
        for access in ("touch", "store", "add"):
            yield Setting("cow", "small", access, size)
            yield Setting("cow", "huge", access, size)
            yield Setting("shared", "small", access, size)
            yield Setting("private", "small", access, size)
        for access in ("touch", "use"):
            yield Setting("file", "small", access, size)
            yield Setting("kept", "small", access, size)


def measure(program: Path, setting: Setting, rounds: int, folder: Path) -> Cost:
    """Run and record one setting."""
    words = [str(program), setting.kind, setting.pages, setting.access, str(setting.size), str(setting.times)]
    # The first round also pays for memory that a hypervisor has not handed over yet.
    pairs = np.array(_times([*words, "both", str(rounds + 1)]), float).reshape(-1, 2)[1:]
    capture = folder / "fresh.pinprof"
    recorded = _times([*RECORD, "-o", str(capture), "--", *words, "fresh", str(rounds)])
    scale = KIB / (setting.size * setting.times)
    samples = {name: value * scale / len(recorded) for name, value in _sampled(capture).items()}
    saved = np.percentile(pairs[:, 0] - pairs[:, 1], (25, 50, 75)) * scale
    fresh, cured = np.median(pairs, axis=0) * scale
    return Cost(
        setting, fresh, cured, (saved[0], saved[1], saved[2]), statistics.median(recorded) * scale,
        **{name: samples.get(name, 0.0) for name in ("fault", "filling", "free", "kernel", "user")},
    )  # fmt: skip


def _times(command: list[str]) -> list[int]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(line.split()[1]) for line in done.stdout.splitlines()]


def _sampled(path: Path) -> Counter[str]:
    """ns of CPU time inside the measured work, by what it was for."""
    capture = read(path, ReadOptions())
    leaf = attribute(capture).leaf
    samples, stacks = capture.samples, capture.stacks
    sums: Counter[str] = Counter()
    for row in np.flatnonzero(samples.event == 0):
        chain = [stacks.frames.symbol[stacks.frame[node]] for node in stacks.chain(int(samples.stack[row]))]
        if not any(name.startswith("fresh") for name in chain):
            continue
        weight, level = int(samples.weight[row]), CATEGORIES[leaf[row]].name.split(".")[0]
        group = level if level in {"fault", "free"} else "user" if level in {"user", "copy"} else "kernel"
        if CATEGORIES[leaf[row]].name == "copy.kernel":
            group = "kernel"
        sums[group] += weight
        if group == "fault" and any(name.startswith(FILLING) for name in chain):
            sums["filling"] += weight
    return sums


def main() -> None:
    """Measure all settings and print a line for each."""
    parser = argparse.ArgumentParser(description="What part of the sampled time of faults a cure saves.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", help="kinds of memory, separated by commas")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    costs: list[Cost] = []
    print("kind    pages access   KiB  fresh  cured  saved (quartiles)  rec  fault filling  free kernel   user   part")
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "page_costs"
        subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-o", str(program), str(SOURCE)], check=True)
        for setting in settings():
            if given.only and setting.kind not in given.only.split(","):
                continue
            cost = measure(program, setting, given.rounds, Path(name))
            costs.append(cost)
            print(_line(cost), flush=True)
    if given.out:
        given.out.write_text(json.dumps([asdict(cost) | {"part": cost.part} for cost in costs], indent=1))


def _line(cost: Cost) -> str:
    one, (low, middle, high), (part_low, part, part_high) = cost.setting, cost.saved, cost.part
    return (
        f"{one.kind:7} {one.pages:5} {one.access:5} {one.size // KIB:6} {cost.fresh:6.0f} {cost.cured:6.0f}"
        f" {middle:6.0f} ({low:.0f}–{high:.0f}) {cost.recorded:6.0f} {cost.fault:6.0f} {cost.filling:6.0f}"
        f" {cost.free:6.0f} {cost.kernel:6.0f} {cost.user:6.0f}  {part:5.2f} ({part_low:.2f}–{part_high:.2f})"
    )


if __name__ == "__main__":
    main()
