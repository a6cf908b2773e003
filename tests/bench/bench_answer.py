"""How long after a program's end its recording's answer and its page are there, and how long all of it takes.

    python tests/bench/bench_answer.py [--before PINPROF] [--rounds 7] [--keep FOLDER] [NAME=COMMAND …]

Each program runs by turns alone, recorded, and recorded with `--before`, the `pinprof` of another checkout or
installation. Medians of seconds: the whole command, and from the program's end to the first line of the answer and to
the end of the command, beside the CPU seconds of pinprof's main thread. The limit is 1.10 × alone + 1.5 s. Where a
program prints `seconds NUMBER`, by its own clock, the median of how much that grows within a round is there as well.

Without programs these are one in C and one of numpy, and as well `first`: recordings on a machine of which nothing is
kept. The first round is thrown away, unless `--cache` names a folder of what is kept. `--keep` keeps the last
recordings.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import select
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path

FAULTS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
__attribute__((noinline)) static long once(size_t size)
{
    char *made = malloc(size);
    memset(made, 1, size);
    long seen = made[size / 2];
    free(made);
    return seen;
}
int main(void)
{
    double end = now() + 2;
    long seen = 0;
    while (now() < end)
        seen += once(64 << 20);
    return seen < 0;
}
"""
NUMPY = """
import time
import numpy as np
def step(k):
    made = np.ones(1 << 22)
    return (made * 2 + k).sum()
end, seen = time.monotonic() + 2, 0.0
while time.monotonic() < end:
    seen += step(1)
"""
HELD = 'exec "$@" 9>ends'
"""A shell becomes the program, which holds a pipe's end open for as long as it lives."""
OURS = ("pinprof:", "Measuring")
"""How lines begin that are no answer."""
FACTOR, MORE_S = 1.10, 1.5
SECONDS = re.compile(rb"^seconds ([0-9.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Times:
    """Seconds of one recording."""

    own: float
    """By the program's own clock; 0 where it does not say."""
    whole: float
    answer: float
    answer_cpu: float
    end: float
    end_cpu: float


def alone(program: list[str], place: Path) -> tuple[float, float]:
    """Seconds of a program that nobody records, and those by its own clock."""
    begun = time.monotonic()
    done = subprocess.run(program, cwd=place, capture_output=True)
    if done.returncode:
        sys.exit(f"{shlex.join(program)}: exit status {done.returncode}: {done.stderr[-300:].decode()}")
    return time.monotonic() - begun, own_seconds(done.stdout)


def own_seconds(said: bytes) -> float:
    """What a program says of its time, 0 if it does not."""
    return max(map(float, SECONDS.findall(said)), default=0.0)


def recorded(pinprof: str, program: list[str], place: Path, cache: Path) -> Times:
    """Record a program and have it explained."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"XDG_CACHE_HOME": str(cache), "XDG_DATA_HOME": str(cache)}
    shutil.rmtree(place / "out.pinprof", ignore_errors=True)
    (place / "ends").unlink(missing_ok=True)
    os.mkfifo(place / "ends")
    ends = os.open(place / "ends", os.O_RDONLY | os.O_NONBLOCK)
    command = [*shlex.split(pinprof), "record", "-o", "out.pinprof", "--", "sh", "-c", HELD, "sh", *program]
    begun = time.monotonic()
    with (place / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=place, env=environment, stdout=output, stderr=subprocess.PIPE)
    assert process.stderr is not None

    def now() -> tuple[float, float]:
        spent = Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]
        return time.monotonic(), int(spent) / 1e9

    said, lines = process.stderr.fileno(), [b""]
    ended = answered = last = (0.0, 0.0)
    waiting = select.poll()
    waiting.register(said, select.POLLIN)
    waiting.register(ends, select.POLLIN)
    while True:
        ready = dict(waiting.poll())
        if ends in ready and not os.read(ends, 1 << 16):
            # Nobody holds it any more.
            ended = now()
            waiting.unregister(ends)
        if said in ready:
            if not (read := os.read(said, 1 << 16)):
                break
            last = now()
            lines = (lines[-1] + read).split(b"\n")
            others = [
                line for line in lines[:-1] if line.strip() and not line.decode(errors="replace").startswith(OURS)
            ]
            if ended[0] and not answered[0] and others:
                answered = last
    os.close(ends)
    if process.wait() or not answered[0]:
        sys.exit(f"{shlex.join(command)}: exit status {process.returncode}, {'an' if answered[0] else 'no'} answer")
    own = own_seconds((place / "output").read_bytes())
    after = (answered[0] - ended[0], answered[1] - ended[1], last[0] - ended[0], last[1] - ended[1])
    return Times(own, time.monotonic() - begun, *after)


def own_programs(place: Path) -> dict[str, list[str]]:
    """A program in C and one of numpy."""
    (place / "faults.c").write_text(FAULTS)
    (place / "steps.py").write_text(NUMPY)
    subprocess.run(["cc", "-g", "-O1", "-o", place / "faults", place / "faults.c"], check=True)
    return {"C, page faults": ["./faults"], "numpy": [sys.executable, "steps.py"]}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("programs", nargs="*", metavar="NAME=COMMAND")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    pinprofs = {"now": shlex.join([sys.executable, "-m", "pinprof"])}
    if asked.before:
        pinprofs["before"] = shlex.quote(str(asked.before.absolute()))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        given = dict(one.split("=", 1) for one in asked.programs)
        programs = {name: shlex.split(words) for name, words in given.items()} or own_programs(place)
        plain: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
        taken: dict[tuple[str, bool, str], list[Times]] = {}
        for number in range(bool(asked.cache), asked.rounds + 1):
            for name, words in programs.items():
                seconds = alone(words, place)
                if number:
                    plain[name].append(seconds)
                for first, (which, pinprof) in itertools.product((False, True)[: 1 + (not given)], pinprofs.items()):
                    cache = place / (f"cache-{number}-{which}-{name}" if first else f"cache-{which}")
                    found = recorded(pinprof, words, place, cache if first else asked.cache or cache)
                    if number:
                        taken.setdefault((name, first, which), []).append(found)
                    if asked.keep and not first:
                        shutil.rmtree(asked.keep / f"{name}.pinprof", ignore_errors=True)
                        shutil.copytree(place / "out.pinprof", asked.keep / f"{name}.pinprof")
        print("| program | alone | recorded | limit | own clock | answer | of it CPU | all after the end | of it CPU |")
        print("|---|" + "---:|" * 8)
        for (name, first, which), rounds in taken.items():
            growths = [one.own / own - 1 for one, (_, own) in zip(rounds, plain[name], strict=True) if own]
            before = statistics.median(whole for whole, _ in plain[name])
            _, whole, *after = (statistics.median(column) for column in zip(*map(astuple, rounds), strict=True))
            columns = [f"{name}{', first' * first}{f', {which}' if asked.before else ''}"]
            columns += [f"{figure:.2f}" for figure in (before, whole, FACTOR * before + MORE_S)]
            columns.append(f"{statistics.median(growths):+.1%}" if growths else "–")
            print("|", " | ".join([*columns, *(f"{figure:.2f}" for figure in after)]), "|", flush=True)


if __name__ == "__main__":
    main()
