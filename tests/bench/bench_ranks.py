"""How long a launch of many ranks takes to explain, and how much memory: a real one, multiplied.

usage: python tests/bench/bench_ranks.py FOLDER.ranks [--ranks N]… [--place DIRECTORY]

FOLDER.ranks has a recorded launch. Its captures become those of a larger one: each copy has its own number, its own
place in the communicators, and the clock of one of 16 machines, which differ by 25 ms. Copies on one machine share the
bytes of their samples (hard links). Prints wall and CPU time, and the most memory that all processes had at one time
(PSS).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pinprof.cli.ranks import expanded
from pinprof.collect.proc import contents, tree
from pinprof.data import perf_format as perf
from pinprof.read.inside.layout import RECORD, Kind

MACHINES, APART_NS = 16, 25_000_000
_LOOK_S = 0.5
_DATA_SECTION, _FEATURE_BITS = 40, 72
"""Places in the head of a perf.data."""
_PSS = re.compile(rb"^Pss:\s*(\d+) kB", re.MULTILINE)


def multiplied(captures: list[Path], ranks: int, folder: Path) -> None:
    """A launch of so many ranks."""
    for rank in range(ranks):
        source, place = captures[rank % len(captures)], folder / f"rank-{rank}.pinprof"
        machine = rank * MACHINES // ranks
        shutil.copytree(source, place, copy_function=os.link)
        manifest = json.loads((source / "manifest.json").read_text())
        manifest["outcome"]["rank"] |= {"number": rank, "size": ranks}
        replaced(place / "manifest.json", json.dumps(manifest).encode())
        for file in (place / "inside").glob("*.bin"):
            replaced(file, in_larger_communicators(file.read_bytes(), rank, ranks))
        same = folder.with_name(f"perf-{rank % len(captures)}-{machine}.data")
        if not same.exists():
            same.write_bytes(later((source / "perf.data").read_bytes(), machine * APART_NS))
        (place / "perf.data").unlink()
        os.link(same, place / "perf.data")


def replaced(path: Path, content: bytes) -> None:
    """Another content at this path, and not at its hard links."""
    path.unlink()
    path.write_bytes(content)


def in_larger_communicators(content: bytes, rank: int, ranks: int) -> bytes:
    """An agent's file in which the process has another place in each communicator."""
    whole = bytearray(content)
    units = np.frombuffer(memoryview(whole)[: len(whole) // RECORD.itemsize * RECORD.itemsize], RECORD)
    mine = (units["kind"] == Kind.COMMUNICATOR) & (units["address"] != 0) & (units["flags"] == 0)
    units["source"][mine] = ranks << 32 | rank
    return bytes(whole)


def later(content: bytes, ns: int) -> bytes:
    """A perf.data whose machine's clock shows a later time of day: features follow the data, the lowest bit first."""
    whole = bytearray(content)
    data_at, size = struct.unpack_from("<QQ", whole, _DATA_SECTION)
    bits = int.from_bytes(whole[_FEATURE_BITS : _FEATURE_BITS + 32], "little")
    number = (bits & (1 << perf.CLOCK_DATA) - 1).bit_count()
    (place,) = struct.unpack_from("<Q", whole, data_at + size + 16 * number)
    (wall,) = struct.unpack_from("<Q", whole, place + 8)
    struct.pack_into("<Q", whole, place + 8, wall + ns)
    return bytes(whole)


def memory_bytes(pid: int) -> int:
    """What a process and its descendants have in memory; pages that several share count once."""
    found = (_PSS.search(contents(f"/proc/{one}/smaps_rollup")) for one in tree(pid))
    return sum(int(match[1]) << 10 for match in found if match)


def measured(folder: Path) -> tuple[float, float, int, str]:
    """Explain a launch: (seconds, CPU seconds, most bytes of memory at one time, what is said)."""
    before, began, most = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0
    command = [sys.executable, "-m", "pinprof", "report", str(folder), "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not select.select([process.stdout], [], [], _LOOK_S)[0]:
            most = max(most, memory_bytes(process.pid))
        said = json.loads(process.stdout.read())
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert not process.returncode
    return took, used, most, f"{len(said['ranks'])} ranks, {said['meetings']} meetings; {said['headline']}"


def main() -> None:
    """Multiply, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("launch", type=Path)
    parser.add_argument("--ranks", action="append", type=int)
    parser.add_argument("--place", type=Path, help="where copies are made")
    options = parser.parse_args()
    captures = expanded(options.launch)
    print("| ranks | MB | wall | CPU | memory |\n|---:|---:|---:|---:|---:|")
    for ranks in options.ranks or (64, 256, 1024):
        with tempfile.TemporaryDirectory(dir=options.place) as place:
            folder = Path(place, "job.ranks")
            folder.mkdir()
            multiplied(captures, ranks, folder)
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            took, used, most, said = measured(folder)
        print(f"| {ranks:,} | {size / 1e6:,.0f} | {took:.0f} s | {used:.0f} s | {most / 1e9:.2f} GB |", flush=True)
        print(said, file=sys.stderr)


if __name__ == "__main__":
    main()
