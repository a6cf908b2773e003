"""A busy program that pinprof comes to and leaves, many times: it goes on as fast as before, and nothing is left.

usage: python -m tests.truth.attached [--times 100]

The program multiplies matrices in two threads, copies and touches new memory, as training on the CPU does. pinprof
comes by turns as `top --pid`, as `record --ring --pid` and as `record --pid`. Another one runs beside it, to which
nobody comes: whatever else the machine does meets both. Printed are the steps of the first for each of the other,
before, in between and after. Exit status 1 where it ended, is more than 5 % slower afterwards, or where probes, a
tracer or processes of pinprof's are left.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAM = """
import sys, threading, time
import numpy as np

steps = [0, 0]

def train(number):
    weights, batch = np.ones((192, 192), np.float32), np.ones((64, 192), np.float32)
    while True:
        fresh = np.zeros(1 << 18, np.uint8)
        fresh[::4096] = 1
        batch = (batch @ weights) / 192
        batch = batch.copy()
        steps[number] += 1

for number in range(2):
    threading.Thread(target=train, args=(number,), daemon=True).start()
while True:
    time.sleep(0.5)
    print(sum(steps), flush=True)
"""
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PROBES = Path("/sys/kernel/tracing/uprobe_events")
MOST_SLOWER = 0.05
ALONE_S = 30.0


def main() -> int:
    """Come and leave, and look what is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    times: int = parser.parse_args().times
    probes = probed()
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        programs = [running.enter_context(begun(Path(place) / name)) for name in ("program", "beside")]
        program = programs[0].process
        try:
            before = ratio(programs, lambda: time.sleep(ALONE_S))
            began, failed = time.monotonic(), 0

            def come_and_leave() -> None:
                nonlocal failed
                for number in range(times):
                    failed += not come(program.pid, number, Path(place))
                    if program.poll() is not None:
                        sys.exit(f"WRONG: after {number + 1} times the program had ended with {program.returncode}.")

            during = ratio(programs, come_and_leave)
            took = time.monotonic() - began
            after = ratio(programs, lambda: time.sleep(ALONE_S))
            tracer = next(
                line for line in Path(f"/proc/{program.pid}/status").read_text().splitlines() if "TracerPid" in line
            )
            left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(program.pid) in arguments(path)]
        finally:
            for one in programs:
                one.process.kill()
    wrong = [
        text
        for text, is_so in (
            (f"{failed} of the recordings failed", failed > 0),
            ("the program is slower", after < (1 - MOST_SLOWER) * before),
            ("a tracer is left", tracer.split()[1] != "0"),
            ("probes are left", probed() != probes),
            ("processes are left", bool(left)),
        )
        if is_so
    ]
    print(
        f"{times} times in {took:.0f} s: for each step of the other {before:.3f} before, {during:.3f} meanwhile, "
        f"{after:.3f} after ({100 * (after / before - 1):+.1f} %)."
    )
    print(f"WRONG: {'; '.join(wrong)}." if wrong else "It goes on, and nothing of pinprof's is left.")
    return int(bool(wrong))


def come(pid: int, number: int, folder: Path) -> bool:
    """Come once, and leave; whether that went well."""
    of_it = ["--pid", str(pid)]
    commands = (
        ["top", *of_it, "--window", "1s", "--count", "1"],
        ["record", "--ring", "5s", "-o", str(folder / "ring"), *of_it],
        ["record", "--no-report", "--no-calibrate", "--duration", "0.5", "-o", str(folder / f"c{number}"), *of_it],
    )
    chosen = commands[number % len(commands)]
    with subprocess.Popen(
        [sys.executable, "-m", "pinprof", *chosen], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pinprof:
        assert pinprof.stdout is not None
        if "--ring" in chosen:
            pinprof.stdout.readline()  # it has begun
            time.sleep(0.5)
            pinprof.send_signal(signal.SIGINT)
        said = pinprof.communicate(timeout=120)[0]
    if pinprof.returncode not in (0, 130):
        print(f"{chosen[0]}: status {pinprof.returncode}: {said[-300:]}")
    return pinprof.returncode in (0, 130)


@dataclass(frozen=True)
class Running:
    """A program, and where it tells its steps."""

    process: subprocess.Popen[bytes]
    told: Path

    @property
    def steps(self) -> int:
        """So far."""
        lines = [line for line in self.told.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return int(lines[-1]) if lines else 0


@contextmanager
def begun(told: Path) -> Iterator[Running]:
    """One that runs."""
    with (
        told.open("w") as output,
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=output, env=ENVIRONMENT) as process,
    ):
        yield Running(process, told)


def ratio(programs: Sequence[Running], during: Callable[[], object]) -> float:
    """Steps that the first makes for each of the second, while something is done."""
    first = [one.steps for one in programs]
    during()
    made = [one.steps - steps for one, steps in zip(programs, first, strict=True)]
    return made[0] / made[1]


def probed() -> str:
    """Probes that the kernel has."""
    return PROBES.read_text() if PROBES.exists() else ""


def arguments(path: Path) -> list[str]:
    """A process's."""
    try:
        found = path.read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    return found if any("pinprof" in part for part in found) else []


if __name__ == "__main__":
    sys.exit(main())
