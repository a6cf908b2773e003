"""What recording costs a program at each switch of a thread, by the events that are on.

    python tests/bench/bench_switches.py [--rounds 9] [--priority 50]

Two threads wake each other by turns, alone and with sets of the recorder's events, in another order each round. Medians
of microseconds that a switch takes longer than alone, of wall time and of the threads' CPU time. `--priority` gives the
threads a real-time priority (chrt, needs root), for machines that others use as well. `collect/native/switching.py` and
`wakeups.py` have their prices from here.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pinprof.collect.native import events, perf_event, tracefs, unwinding
from pinprof.collect.native.events import EventSpec
from pinprof.collect.native.opened import Opened, online_cpus, open_all
from pinprof.collect.native.wakeups import SCHED_WAKING

RING_BYTES = 1 << 21
PROGRAM = r"""
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static atomic_int turns[32];
static int rounds;
static void await(atomic_int *turn, int wanted)
{
    for (int now; (now = atomic_load(turn)) != wanted;)
        syscall(SYS_futex, turn, FUTEX_WAIT_PRIVATE, now, 0, 0, 0);
}
static void pass(atomic_int *turn, int number)
{
    atomic_store(turn, number);
    syscall(SYS_futex, turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}
static void *other(void *none)
{
    for (int n = 1; n <= rounds; n++) {
        await(&turns[0], n);
        pass(&turns[16], n);
    }
    return none;
}
static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
int main(int count, char **words)
{
    pthread_t thread;
    rounds = count > 1 ? atoi(words[1]) : 20000;
    if (getchar() == EOF || pthread_create(&thread, NULL, other, NULL))
        return 1;
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int n = 1; n <= rounds; n++) {
        pass(&turns[0], n);
        await(&turns[16], n);
    }
    printf("%f %f\n", (seconds(CLOCK_MONOTONIC) - wall) / rounds * 5e5,
        (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / rounds * 5e5);
    return pthread_join(thread, NULL);
}
"""


def sets() -> dict[str, list[EventSpec] | None]:
    """What is recorded, by name; nothing for None."""
    clock, faults, waits, mappings = standard = events.standard(
        frequency=999, fault_period=64, off_cpu=True, kernel=True
    )
    deep, bare = events.versions(standard, pausable=True)
    seldom = events.standard(frequency=49, fault_period=64, off_cpu=False, kernel=True)[0]
    point = tracefs.tracepoint(SCHED_WAKING)
    return {
        "alone": None,
        "mappings": [mappings],
        "page faults": [faults, mappings],
        "CPU time, 999 Hz": [clock, mappings],
        "CPU time, 49 Hz": [seldom, mappings],
        "waits": [waits, mappings],
        "bare switches": [bare, mappings],
        "in a pause": [faults, bare, mappings],
        "all but wake-ups": [deep, faults, waits, mappings],
        **({"wake-ups": [events.wakeups(point), mappings]} if point is not None else {}),
    }


def run(command: Sequence[str], specs: list[EventSpec] | None) -> tuple[float, float]:
    """Microseconds of a switch: of wall time, and of CPU time."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        time.sleep(0.02)
        opened: Opened | None = None
        if specs is not None:
            opened = open_all(specs, process.pid, online_cpus(), RING_BYTES, copies=unwinding.supported())
            for file in (file for files in opened.files for file in files):
                perf_event.enable(file)
        process.stdin.write(b"\n")
        process.stdin.flush()
        while process.poll() is None:
            time.sleep(0.01)
            for ring in opened.rings if opened else ():
                ring.pending()
                ring.release()
        if opened:
            opened.close()
        wall, cpu = map(float, process.stdout.read().split())
        return wall, cpu


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--priority", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "turns.c"), Path(folder, "turns")
        source.write_text(PROGRAM)
        subprocess.run(["cc", "-O2", "-pthread", "-o", program, source], check=True)
        command = [*(("chrt", "-f", str(asked.priority)) if asked.priority else ()), str(program)]
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in sets()}
        for turn in range(asked.rounds):
            for name, specs in random.Random(turn).sample(list(sets().items()), len(taken)):
                taken[name].append(run(command, specs))
    print("| events | wall, µs more | CPU, µs more |\n|---|---:|---:|")
    for name, rounds in taken.items():
        pairs = zip(rounds, taken["alone"], strict=True)
        wall, cpu = zip(*((one[0] - alone[0], one[1] - alone[1]) for one, alone in pairs), strict=True)
        if name == "alone":
            wall, cpu = zip(*rounds, strict=True)
        print(f"| {name} | {statistics.median(wall):.2f} | {statistics.median(cpu):.2f} |")


if __name__ == "__main__":
    main()
