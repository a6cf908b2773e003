"""What the agent inside costs: a copy, a launch, a copy of Python with its line, a small and a large block of memory,
and the start of a program without CUDA, in its CPU time.

    python tests/bench/bench_inside.py [--rounds 7]

A C program calls a driver that does nothing and prints the nanoseconds of a call: the best of fifty batches. Runs with
and without the agent take turns; shown are the medians of their difference. Exit status 1 when that of a copy or a
launch in C is above 80 ns, or that of a start above 2 ms.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from tests.support import agent

LIMIT_NS, START_LIMIT_NS, STARTS = 80, 2_000_000, 100
PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int cuMemcpyHtoDAsync_v2(uint64_t, const void *, size_t, void *), cuLaunchKernel(void *, unsigned, unsigned, unsigned,
    unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}
#define SHOW(name, call) \\
    { \\
        double best = 1e9; \\
        for (int batch = 0; batch < 50; batch++) { \\
            double begun = now(), took; \\
            for (int i = 0; i < 20000; i++) \\
                call; \\
            if ((took = (now() - begun) / 20000) < best) \\
                best = took; \\
        } \\
        printf("%s %.1f\\n", name, best); \\
    }
int main(void)
{
    SHOW("copy", cuMemcpyHtoDAsync_v2(1ull << 62, "x", 4096, NULL))
    SHOW("small", { void *volatile p = malloc(64); free(p); })
    SHOW("large", { void *volatile p = malloc(300000); free(p); })
    SHOW("launch", cuLaunchKernel(NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL))
    return 0;
}
"""
PYTHON = """
import ctypes, time
copy = ctypes.CDLL("libcuda.so.1").cuMemcpyHtoDAsync_v2
given = ctypes.c_uint64(1 << 62), ctypes.c_void_p(4096), ctypes.c_size_t(4096), None
def batch():
    begun = time.perf_counter_ns()
    for _ in range(10000):
        copy(*given)
    return (time.perf_counter_ns() - begun) / 10000
print("python", min(batch() for _ in range(50)))
"""


def start_ns(program: Path, environment: dict[str, str]) -> float:
    """CPU time of a program that does nothing."""
    _, _, used = os.wait4(os.posix_spawn(program, [program], environment), 0)
    return 1e9 * (used.ru_utime + used.ru_stime)


def main() -> int:
    """Measure and print one line for each kind of call."""
    parser = argparse.ArgumentParser(description="What a call costs with the agent inside.")
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    added: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        driver = agent.build_driver(place)
        program = agent.build_program(place, driver, PROGRAM)
        for number in range(rounds):
            both = []
            for folder in (None, place / str(number)):
                told = agent.run([program], driver, folder) if folder else agent.run_bare([program], driver)
                python = [sys.executable, "-S", "-c", PYTHON]
                told += agent.run(python, driver, folder) if folder else agent.run_bare(python, driver)
                both.append({name: float(ns) for name, ns in map(str.split, told.splitlines())})
            for name, without in both[0].items():
                added.setdefault(name, []).append(both[1][name] - without)
        idle = agent.program(place, "int main(void) { return 0; }", name="idle")
        bare, inside = {**os.environ, "LD_LIBRARY_PATH": str(driver)}, agent.environment(driver, place)
        added["start"] = [-start_ns(idle, bare) + start_ns(idle, inside) for _ in range(STARTS)]
    medians = {name: statistics.median(values) for name, values in added.items()}
    for name, values in added.items():
        print(f"{name:8} +{medians[name]:.0f} ns each ({min(values):.0f} to {max(values):.0f})")
    return int(max(medians["copy"], medians["launch"]) > LIMIT_NS or medians["start"] > START_LIMIT_NS)


if __name__ == "__main__":
    sys.exit(main())
