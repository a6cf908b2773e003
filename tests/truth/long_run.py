"""What a recording that keeps to a size says of a long run, beside one of the same run that keeps everything.

usage: python -m tests.truth.long_run FOLDER [--seconds 180] [--stands-for 7200] [--size 2GiB] [--children 200]

The program (bursts.py) is recorded with everything. These records go through the code that thins recordings once more,
as they came, into a size of SIZE × SECONDS / STANDS_FOR: to that they come to the same part as those of a run of
STANDS_FOR seconds to SIZE. Two recorders of one program would disturb each other: Linux 6.18 gives samples of
software events that several recorders have open the id of one recorder alone. A second run is recorded into that size,
to see how much memory the processes of the recorder hold over time, and which size comes out.

Printed are the sizes, the shares of causes in both recordings and where they differ most, and that memory. Exit status
1 where a size is not kept, a share is off by more than a point or the memory grows by more than a tenth.
"""

from __future__ import annotations

import argparse
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pinprof.analyze import Run, analyze
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.base.units import parse_bytes
from pinprof.collect.native import unwinding
from pinprof.collect.native.attached import SAMPLES_SHARE
from pinprof.collect.native.bounded import Bounded
from pinprof.collect.native.events import EventSpec, standard, wakeups
from pinprof.collect.native.perf_file import FINISHED_ROUND, PerfFile
from pinprof.collect.pace import SizeLimits
from pinprof.collect.proc import tree
from pinprof.data import perf_format as perf
from pinprof.read import read
from pinprof.streams.store import MEMORY, PARTIAL, PERF_DATA

MOST_POINTS, MOST_GROWTH = 1.0, 0.1
EVENTS = ("cpu-clock", "page-faults", "off-cpu")
_BURSTS = Path(__file__).with_name("bursts.py")
_SETTLE_S = 3
"""After which a recorder has opened all its events."""
_BEHIND_NS = 5_000_000
"""Records of a round that are younger than the youngest less this may have been read before older ones."""


@dataclass(frozen=True)
class Recorded:
    """A recording, and (seconds since the program began, bytes that the recorder's processes hold)."""

    path: Path
    held: tuple[tuple[float, int], ...]

    @property
    def size_bytes(self) -> int:
        """Of what is bounded."""
        return sum((self.path / name).stat().st_size for name in (PERF_DATA, MEMORY))

    @property
    def growth(self) -> float:
        """By how much the memory of the last quarter exceeds that of the second one, in parts of it."""
        held = np.array([size for _, size in self.held], np.float64)
        quarter = max(len(held) // 4, 1)
        return float(np.median(held[-quarter:]) / np.median(held[quarter : 2 * quarter])) - 1


def record(path: Path, size: str, seconds: float, children: float) -> Recorded:
    """Record a run of the program into a size."""
    words = [sys.executable, str(_BURSTS), str(seconds), str(children)]
    program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    words = [sys.executable, "-m", "pinprof", "record", "--no-report", "--no-calibrate", "--force", "--max-size", size]
    recorder = subprocess.Popen([*words, "-o", str(path), "--pid", str(program.pid)])
    try:
        while not (path.with_name(path.name + PARTIAL) / MEMORY).exists():
            if recorder.poll() is not None:
                sys.exit(f"The recorder ended with status {recorder.returncode}.")
            time.sleep(0.1)
        time.sleep(_SETTLE_S)
        assert program.stdin is not None
        program.stdin.write(b"\n")
        program.stdin.close()
        began, held = time.monotonic(), []
        while program.poll() is None:
            held.append((time.monotonic() - began, _held(recorder.pid)))
            time.sleep(1)
        recorder.wait()
    finally:
        program.kill()
        recorder.kill()
    return Recorded(path, tuple(held))


def _held(pid: int) -> int:
    """Bytes that a process and its descendants hold."""
    held = 0
    for process in tree(pid, 64, 64):
        try:
            held += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096
        except (OSError, IndexError):
            continue
    return held


def replayed(whole: Path, path: Path, limits: SizeLimits) -> Path:
    """The capture with its samples thinned as they came."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(whole, path)
    (path / PERF_DATA).unlink()
    raw = (whole / PERF_DATA).read_bytes()
    events = list(_events(raw))
    bounded, file = Bounded(limits.share(SAMPLES_SHARE), events), PerfFile(path / PERF_DATA, events)
    for records, youngest_ns in _rounds(raw, events[0][0]):
        file.write(bounded.chosen([records], file.data_bytes, youngest_ns - _BEHIND_NS))
    file.write(bounded.rest())
    file.finish({})
    file.close()
    print(bounded.facts())
    return path


def _events(raw: bytes) -> Iterator[tuple[EventSpec, list[int]]]:
    """The events of a file that the native collector wrote, with their ids."""
    specs = [*standard(frequency=999, fault_period=64, off_cpu=True, kernel=True), wakeups(0)]
    entry, attrs, size = struct.unpack_from("<QQQ", raw, 16)
    for place in range(attrs, attrs + size, entry):
        kind, _, config, _, fields = struct.unpack_from("<IIQQQ", raw, place)
        # The number of a tracepoint differs between machines.
        alike = [
            one for one in specs if one.attr.type == kind and (kind != perf.TYPE_SOFTWARE or one.attr.config == config)
        ]
        spec = unwinding.as_written(alike[0])
        assert spec.attr.sample_type == fields, spec.name
        ids, length = struct.unpack_from("<QQ", raw, place + entry - 16)
        yield spec, list(struct.unpack_from(f"<{length // 8}Q", raw, ids))


def _rounds(raw: bytes, spec: EventSpec) -> Iterator[tuple[bytes, int]]:
    """(records, time of the youngest) of each time that the rings were emptied."""
    place, size = struct.unpack_from("<QQ", raw, 40)
    end, first, youngest = place + size, place, 0
    mark = struct.unpack_from("<I", FINISHED_ROUND)[0]
    while place < end:
        kind, _, length = struct.unpack_from("<IHH", raw, place)
        if kind == mark or place + length == end:
            yield raw[first:place], youngest
            first = place + length
        elif kind == perf.RECORD_SAMPLE:
            youngest = max(youngest, struct.unpack_from("<Q", raw, place + 32)[0])
        place += length


def shares(analysis: Run, event: str) -> dict[str, float]:
    """Cause → percent of an event."""
    capture, rows = analysis.capture, _rows(analysis, event)
    weight = np.bincount(analysis.attribution.leaf[rows], capture.samples.weight[rows], len(CATEGORIES))
    percent = 100 * weight / max(weight.sum(), 1)
    return {CATEGORIES[leaf].name: float(percent[leaf]) for leaf in np.flatnonzero(weight).tolist()}


def differences(ours: dict[str, float], theirs: dict[str, float]) -> list[tuple[float, str]]:
    """(points by which a cause differs, cause), the largest first."""
    return sorted(((ours.get(cause, 0) - theirs.get(cause, 0), cause) for cause in ours.keys() | theirs.keys()),
                  key=lambda one: -abs(one[0]))  # fmt: skip


def compare(bounded: Run, whole: Run) -> float:
    """Print what differs; the most points."""
    most = 0.0
    for event in EVENTS:
        ours, theirs = shares(bounded, event), shares(whole, event)
        apart = differences(ours, theirs)
        (few, less), (many, more) = (_amounts(one, event) for one in (bounded, whole))
        print(f"{event}: {few:,} of {many:,} samples; sums {less:,} and {more:,}, {less / max(more, 1):.4f}")
        for points, cause in apart[:4]:
            print(f"    {points:+.2f} points  {cause}: {ours.get(cause, 0):.2f} and {theirs.get(cause, 0):.2f} %")
        most = max(most, abs(apart[0][0]) if apart else 0)
    return most


def _amounts(analysis: Run, event: str) -> tuple[int, int]:
    """How many samples an event has, and what they weigh."""
    rows = _rows(analysis, event)
    return int(np.count_nonzero(rows)), int(analysis.capture.samples.weight[rows].sum())


def main() -> int:
    """Record, print, judge."""
    parser = argparse.ArgumentParser(description="What a bounded recording says of a long run.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--stands-for", type=float, default=7200)
    parser.add_argument("--size", default="2GiB")
    parser.add_argument("--children", type=float, default=200)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    limit = round(parse_bytes(options.size) * options.seconds / options.stands_for)
    whole = record(options.folder / "whole.pinprof", "1TB", options.seconds, options.children)
    thin = replayed(whole.path, options.folder / "replayed.pinprof", SizeLimits(total=limit))
    print(f"whole: {whole.size_bytes:,} bytes; replayed: {(thin / PERF_DATA).stat().st_size:,}; limit: {limit:,}")
    most = compare(*(analyze(read(path), search=False) for path in (thin, whole.path)))
    live = record(options.folder / "live.pinprof", str(limit), options.seconds, options.children)
    print(f"live: {live.size_bytes:,} bytes of {limit:,}")
    for note in read(live.path).manifest.outcome.get("notes", ()):
        print(note)
    steps = live.held[:: max(len(live.held) // 12, 1)]
    print("memory: " + ", ".join(f"{at:.0f} s {held / 1e6:.1f} MB" for at, held in steps))
    print(f"growth from the second quarter to the last: {100 * live.growth:+.1f} %")
    kept = max(live.size_bytes, (thin / PERF_DATA).stat().st_size) <= limit
    return int(not kept or most > MOST_POINTS or live.growth > MOST_GROWTH)


def _rows(analysis: Run, event: str) -> NDArray[np.bool_]:
    numbers = [number for number, one in enumerate(analysis.capture.events) if one.name.split("/")[0] == event]
    return np.isin(analysis.capture.samples.event, numbers)


if __name__ == "__main__":
    sys.exit(main())
