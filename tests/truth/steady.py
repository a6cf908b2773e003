"""How much memory a flight recorder holds over time, beside a program that starts processes without end.

usage: python -m tests.truth.steady [--seconds 300] [--rate 200]

The program starts as many processes a second as the machine can, at most RATE, and makes large blocks. Printed
are, for each half minute, processes started, the resident memory of pinprof's processes, what its files take on disk,
and its CPU time. Exit status 1 where memory grows by more than 1 % after two fifths of the time.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
MOST_GROWTH = 0.01


def main() -> int:
    """Record, and look once a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--rate", type=float, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        told = Path(place) / "told"
        command = [sys.executable, "-m", "pinprof", "record", "--ring", "20s", "-o", f"{place}/ring", "--"]
        command += [sys.executable, "-c", PROGRAM, str(given.rate), str(told)]
        environment = os.environ | {"TMPDIR": place}
        with subprocess.Popen(command, env=environment) as pinprof:
            looks: list[tuple[int, int, float]] = []
            while len(looks) < given.seconds and pinprof.poll() is None:
                time.sleep(1)
                looks.append(held(pinprof.pid, Path(place)))
                if len(looks) % 30 == 0:
                    resident, disk, spent = looks[-1]
                    started = told.read_text() if told.exists() else "0"
                    print(
                        f"{len(looks)} s: {started} processes, {resident / 2**20:.1f} MiB resident, "
                        f"{disk / 2**20:.1f} MiB on disk, {spent:.1f} s of CPU", flush=True,
                    )  # fmt: skip
            pinprof.send_signal(signal.SIGTERM)
    part = max(len(looks) // 5, 1)
    early, late = (sorted(look[0] for look in looks[at : at + part])[part // 2] for at in (2 * part, len(looks) - part))
    print(
        f"The median of the last fifth of the time is {100 * (late / early - 1):+.1f} % above that of the third fifth."
    )
    return int(late > (1 + MOST_GROWTH) * early)


def held(pid: int, place: Path) -> tuple[int, int, float]:
    """Resident bytes of pinprof's processes, what its files take on disk, and its CPU time in seconds."""
    resident, ticks = 0, 0
    for one in tree(pid):
        try:
            words = Path(f"/proc/{one}/cmdline").read_bytes()
            statistics = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
        except OSError:
            continue
        if (
            b"pinprof" in words
            and b"posix_spawn" not in words.partition(b"\0--\0")[0]
            and b"/bin/true" not in words[:9]
        ):
            resident += pages * os.sysconf("SC_PAGE_SIZE")
            ticks += int(statistics[11]) + int(statistics[12])
    disk = sum(path.stat().st_blocks * 512 for path in place.rglob("recording/**/*") if path.is_file())
    return resident, disk, ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
