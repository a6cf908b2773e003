"""Many recordings that start at the same time in one folder: how long until all have ended, and what they leave.

usage: python -m tests.truth.at_once [NUMBER] [--limit 900] [--reports]

Each program ends with a status of its own. Said are the time until the last recording has ended, what all of them used
of the processors, the least memory that the machine had left, and how many have their program's status and a capture.
"""

from __future__ import annotations

import argparse
import collections
import compileall
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pinprof.streams import store

_STATUS = 7
_HERE = Path(__file__).parents[2]


def started(folder: Path, *, reports: bool) -> subprocess.Popen[bytes]:
    """One recording in a folder."""
    # As where pinprof is installed: its modules are compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    asked = ["--no-calibrate"] if reports else ["--no-calibrate", "--no-report"]
    return subprocess.Popen(
        [sys.executable, "-m", "pinprof", "record", *asked, "--", "python3", "-c", f"raise SystemExit({_STATUS})"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=(folder / "said").open("ab"),
        env=environment | {"PYTHONPATH": str(_HERE)},
    )  # fmt: skip


def main() -> None:
    """Start them, wait, and say what came out."""
    parser = argparse.ArgumentParser(description="Many recordings that start at the same time.")
    parser.add_argument("number", nargs="?", type=int, default=200)
    parser.add_argument("--limit", type=float, default=900, help="seconds to wait")
    parser.add_argument("--reports", action="store_true", help="with their answers")
    options = parser.parse_args()
    compileall.compile_dir(_HERE / "pinprof", quiet=2)
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        folder, began, least = Path(place), time.monotonic(), 1 << 62
        recordings = [started(folder, reports=options.reports) for _ in range(options.number)]
        said = ended = 0
        while ended < options.number and time.monotonic() - began < options.limit:
            time.sleep(0.5)
            ended = sum(one.poll() is not None for one in recordings)
            free = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvail"))
            least = min(least, int(free.split()[1]) >> 10)
            if time.monotonic() - began > said + 10:
                said += 10
                print(f"{said} s: {ended} ended, load {os.getloadavg()[0]:.0f}, {least} MB left", flush=True)
        took = time.monotonic() - began
        for one in recordings:
            if one.poll() is None:
                one.kill()
                one.wait()
        used = sum(os.times()[2:4])
        statuses = dict(collections.Counter(one.returncode for one in recordings))
        states = [store.read_manifest(path).outcome["state"] for path in folder.glob("*.pinprof")]
        print(
            f"{ended} of {options.number} ended after {took:.1f} s and {used:.1f} s of CPU; {states.count('complete')}"
            f" whole captures; statuses {statuses}; {least} MB left at the least"
        )
        lines = (folder / "said").read_text("utf-8", "replace").splitlines()
        texts = collections.Counter(line for line in lines if not line.startswith("Capture: "))
        for line, times in texts.most_common(12):
            print(f"{times:4} {line}")


if __name__ == "__main__":
    main()
