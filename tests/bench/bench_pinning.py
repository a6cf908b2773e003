"""Three ways to page-locked memory in one run: cudaMallocHost, touch in parallel and register, register what is there.

    python tests/bench/bench_pinning.py [--size 256MiB] [--rounds 5] [--threads N] [--backend auto]

Each round runs `prefault --variant curve`, which also calls cudaMallocHost, and `register` on touched memory. Printed
are medians per GiB over all rounds, and what each is of cudaMallocHost. Exit status 1 when all cores on huge pages are
less than 4 times as fast as cudaMallocHost, or registering touched memory costs more than a quarter of it.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from pinprof import scenario
from pinprof.base.units import format_ns, parse_bytes

FASTER = 4.0
REGISTER_SHARE = 0.25
GIB = 1 << 30


def main() -> int:
    """Measure and print one line for each way."""
    parser = argparse.ArgumentParser(description="Ways to page-locked memory.")
    parser.add_argument("--size", default="256MiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--backend", choices=scenario.BACKENDS, default="auto")
    given = parser.parse_args()
    size_bytes = parse_bytes(given.size)
    times: dict[str, list[int]] = {}
    for _ in range(given.rounds):
        curve = scenario.run(
            "prefault",
            scenario.Options(size_bytes, iterations=3, backend=given.backend, variant="curve", threads=given.threads),
        )
        for name, found in curve.times_ns.items():
            if name == "malloc_host" or name.endswith(("thread", "threads")):
                times.setdefault(name, []).extend(found)
        touched = scenario.run(
            "register", scenario.Options(size_bytes, iterations=3, backend=given.backend, variant="touched")
        )
        times.setdefault("register", []).extend(touched.times_ns["register"])
    if curve.emulation:
        print(curve.emulation)
    whole = statistics.median(times.pop("malloc_host"))
    registering = times.pop("register")
    call = curve.spec.calls[curve.backend]["malloc_host"]
    print(f"{call:<34}{format_ns(whole / size_bytes * GIB):>10}/GiB")
    for name, found in times.items():
        middle = statistics.median(found)
        told = f"{whole / middle:>6.1f} times as fast"
        print(f"{'prefault, huge pages, ' + name:<34}{format_ns(middle / size_bytes * GIB):>10}/GiB{told}")
    register = statistics.median(registering)
    share = register / whole
    print(f"{'register, touched':<34}{format_ns(register / size_bytes * GIB):>10}/GiB{share:>6.2f} of it")
    all_cores = statistics.median(times[list(times)[-1]])
    return int(whole / all_cores < FASTER or share > REGISTER_SHARE)


if __name__ == "__main__":
    sys.exit(main())
