"""How long after a program's end its recording's answer and its page are there: by turns with another pinprof.

    python tests/bench/bench_answer.py --before PINPROF [--rounds 7]

`--before` is the `pinprof` of another checkout or installation. Medians of wall seconds, and of CPU seconds of its
main thread, from the program's last line to the first one of the answer and to the end of the command. `first` is a
recording on a machine of which nothing is kept. The first round is thrown away.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
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
    fprintf(stderr, "ENDS %ld\n", seen);
    return 0;
}
"""
NUMPY = """
import sys, time
import numpy as np
def step(k):
    made = np.ones(1 << 22)
    return (made * 2 + k).sum()
end, seen = time.monotonic() + 2, 0.0
while time.monotonic() < end:
    seen += step(1)
print("ENDS", seen, file=sys.stderr)
"""


def after_end(pinprof: str, program: list[str], place: Path, cache: Path) -> list[float]:
    """Wall and CPU seconds to the answer, wall and CPU seconds to the end of the command."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"XDG_CACHE_HOME": str(cache), "XDG_DATA_HOME": str(cache)}
    shutil.rmtree(place / "out.pinprof", ignore_errors=True)
    command = [pinprof, "record", "-o", "out.pinprof", "--", *program]
    times: list[tuple[float, float]] = []
    with subprocess.Popen(command, cwd=place, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None

        def now() -> tuple[float, float]:
            spent = Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]
            return time.monotonic(), int(spent) / 1e9

        for line in process.stderr:
            last = now()
            if line.startswith("ENDS") or (len(times) == 1 and not line.startswith(("pinprof:", "Measuring"))):
                times.append(last)
    if process.returncode or len(times) != 2:
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}, {len(times)} of 2 lines")
    (end, cpu), (answered, answered_cpu) = times
    return [answered - end, answered_cpu - cpu, last[0] - end, last[1] - cpu]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--before", type=Path, required=True)
    asked = parser.parse_args()
    pinprofs = {"before": str(asked.before.absolute()), "now": str(Path(sys.executable).with_name("pinprof"))}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "faults.c").write_text(FAULTS)
        (place / "steps.py").write_text(NUMPY)
        subprocess.run(["cc", "-g", "-O1", "-o", place / "faults", place / "faults.c"], check=True)
        programs = {"C, page faults": ["./faults"], "numpy": [sys.executable, "steps.py"]}
        rows = [(name, words, first) for name, words in programs.items() for first in (False, True)]
        taken: dict[tuple[str, bool, str], list[list[float]]] = {}
        for number in range(asked.rounds + 1):
            for name, words, first in rows:
                for which, pinprof in pinprofs.items():
                    cache = place / (f"cache-{number}-{which}-{len(taken)}" if first else f"cache-{which}")
                    found = after_end(pinprof, words, place, cache)
                    if number:
                        taken.setdefault((name, first, which), []).append(found)
        print(f"{'seconds after the end':34} answer: wall   CPU   all: wall   CPU")
        for (name, first, which), rounds in taken.items():
            answer, answer_cpu, whole, whole_cpu = (statistics.median(column) for column in zip(*rounds, strict=True))
            title = f"{name}{', first' * first}, {which}"
            print(f"{title:34} {answer:12.2f} {answer_cpu:6.2f} {whole:10.2f} {whole_cpu:6.2f}")


if __name__ == "__main__":
    main()
