"""How much memory a flight recorder holds over time, beside a program that starts processes without end.

usage: python -m tests.truth.steady [--seconds 660] [--after 300] [--rate 200]

The program starts as many processes a second as the machine can, at most RATE, and makes large blocks. Printed
are, for each half minute, processes started, the resident memory of each of pinprof's processes, what its files take on
disk, and its CPU time. Exit status 1 where memory grows by more than 1 % between the minute after AFTER and the last.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

from pinprof.collect.proc import tree

PROGRAM = """
import os, sys, time
rate, told = float(sys.argv[1]), sys.argv[2]
count, begun = 0, time.monotonic()
while True:
    pid = os.posix_spawn("/bin/true", ["true"], os.environ)
    os.waitpid(pid, 0)
    block = bytearray(1 << 20)
    count += 1
    if count % 50 == 0:
        with open(told, "w") as file:
            file.write(str(count))
    time.sleep(max(begun + count / rate - time.monotonic(), 0))
"""
MOST_GROWTH, MINUTE = 0.01, 60


def main() -> int:
    """Record, and look once a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=660)
    parser.add_argument("--after", type=int, default=300)
    parser.add_argument("--rate", type=float, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        told = Path(place) / "told"
        command = [sys.executable, "-m", "pinprof", "record", "--ring", "60s", "-o", f"{place}/ring", "--"]
        command += [sys.executable, "-c", PROGRAM, str(given.rate), str(told)]
        environment = os.environ | {"TMPDIR": place}
        with subprocess.Popen(command, env=environment) as pinprof:
            looks: list[Counter[str]] = []
            while len(looks) < given.seconds and pinprof.poll() is None:
                time.sleep(1)
                resident, spent = held(pinprof.pid)
                looks.append(resident)
                if len(looks) % 30 == 0:
                    started = told.read_text() if told.exists() else "0"
                    print(
                        f"{len(looks)} s: {started} processes, {shown(resident)}, {on_disk(Path(place)) / 2**20:.1f} "
                        f"MiB on disk, {spent:.1f} s of CPU", flush=True,
                    )  # fmt: skip
            pinprof.send_signal(signal.SIGTERM)
    parts = looks[given.after :][:MINUTE], looks[-MINUTE:]
    before, last = (Counter({name: int(median(look[name] for look in part)) for name in looks[-1]}) for part in parts)
    print(f"The minute after {given.after} s: {shown(before)}. The last minute: {shown(last)}.")
    print(f"It grows by {100 * (last.total() / before.total() - 1):+.2f} %.")
    return int(last.total() > (1 + MOST_GROWTH) * before.total())


def held(pid: int) -> tuple[Counter[str], float]:
    """Resident bytes of each of pinprof's processes by name, and the CPU time of all of them in seconds."""
    resident, ticks = Counter[str](), 0
    for one in tree(pid):
        try:
            name = Path(f"/proc/{one}/comm").read_text().strip()
            statistics = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
        except OSError:
            continue
        if one == pid or name.startswith("pinprof"):
            resident["pinprof" if one == pid else name] += pages * os.sysconf("SC_PAGE_SIZE")
            ticks += int(statistics[11]) + int(statistics[12])
    return resident, ticks / os.sysconf("SC_CLK_TCK")


def on_disk(place: Path) -> int:
    """What a recording's files take, in bytes."""
    return sum(path.stat().st_blocks * 512 for path in place.rglob("recording/**/*") if path.is_file())


def shown(resident: Counter[str]) -> str:
    """In MiB."""
    return ", ".join(f"{name} {size / 2**20:.2f} MiB" for name, size in resident.items())


if __name__ == "__main__":
    sys.exit(main())
