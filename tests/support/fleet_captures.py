"""Captures of a fleet, made from the committed ones: the same runs with time that passes otherwise.

Every record of a committed capture keeps what it says; its time is moved by a monotone warp that all its files share.
The warp makes each millisecond longer or shorter by chance (`noise`), and what a plant names (causes of the critical
thread's time, or its time inside CUDA calls) longer by a factor. Samples of the processors' clock are drawn again: as
many for a longer piece of time as a sampler would have taken there, and by chance one more or less.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np

from pinprof import analyze, read
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.course.results import PHASE_NAMES
from pinprof.data import perf_format as perf
from pinprof.read.perf import records as rec
from pinprof.read.perf.header import read_header

CASES = Path(__file__).parents[1] / "data" / "cases"
CALLS = "calls"
"""A plant's name for the critical thread's time inside CUDA calls, of its work."""
_SIZE_FIELD = 6


@dataclass(frozen=True)
class Made:
    """One capture of a fleet."""

    base: str
    seed: int
    labels: Mapping[str, str]
    driver: str = "580.159.04"
    numa: int = 0
    started: datetime = datetime(2026, 11, 1, tzinfo=UTC)
    slower: Mapping[str, float] = field(default_factory=dict)
    """Cause, a prefix of causes (`copy.`), `CALLS` or `` for all of the work → by what factor it takes longer."""
    rank: int = 0


@dataclass(frozen=True)
class _Records:
    """A perf.data file, ready to be warped."""

    data: bytes
    offset: int
    end: int
    starts: np.ndarray
    sizes: np.ndarray
    time_word: np.ndarray
    """Index of the record's time among the file's 64-bit words; -1 without one."""
    clock: np.ndarray
    """Whether it is a sample of the first event."""


class Base:
    """A committed capture, unpacked, with what is made of it."""

    def __init__(self, name: str, folder: Path) -> None:
        with tarfile.open(CASES / f"{name}.pinprof.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        self.path = folder / f"{name}.pinprof"
        capture = read.read(self.path)
        analysis = analyze.analyze(capture)
        course = analysis.course
        assert course is not None
        wall = course.wall
        # A sample stands for the time before it, a wait for that after it.
        waits = capture.spans[capture.samples.event[wall.sample]]
        begin = np.where(waits, wall.time_ns, wall.time_ns - wall.ns)
        order = np.argsort(begin, kind="stable")
        self.time = begin[order]
        self.ns = wall.ns[order]
        self.leaf = analysis.attribution.leaf[wall.sample][order]
        self.work = wall.phase[order] == PHASE_NAMES.index("work")
        self.start, self.end = course.start_ns, course.end_ns
        self.in_call = np.zeros(len(self.time), np.bool_)
        if capture.activity is not None:
            calls = capture.activity.calls
            mine = calls.take((calls.pid == course.pid) & (calls.tid == course.tid))
            begin = np.sort(mine.start_ns)
            end = mine.end_ns[np.argsort(mine.start_ns, kind="stable")]
            at = np.searchsorted(begin, self.time, "right") - 1
            self.in_call = (at >= 0) & (self.time < np.append(end, 0)[at])
        self.names = [row.name for row in CATEGORIES]
        self.records = {name: records_of(self.path / name) for name in ("perf.data", "calls.data")}

    @cached_property
    def shares(self) -> dict[str, float]:
        """Cause → share of the work."""
        total = max(int(self.ns[self.work].sum()), 1)
        sums = np.bincount(self.leaf[self.work], weights=self.ns[self.work], minlength=len(self.names))
        return {name: float(sums[at]) / total for at, name in enumerate(self.names) if sums[at]}

    def heaviest(self) -> str:
        """The cause with most of the work."""
        return max(self.shares, key=self.shares.__getitem__)

    def make(self, made: Made, target: Path, noise: float = 0.02) -> Path:
        """Write one capture."""
        random = np.random.default_rng(made.seed)
        times, warped = self._warp(made, random, noise)
        target.mkdir(parents=True)
        for name, records in self.records.items():
            (target / name).write_bytes(_warped(records, times, warped, random))
        for name in ("symbols.json.gz", "rates.json"):
            os.link(self.path / name, target / name)
        _warp_lines(self.path / "memory.jsonl", target / "memory.jsonl", times, warped)
        _warp_python(self.path / "python-stacks.jsonl.gz", target / "python-stacks.jsonl.gz", times, warped)
        manifest = json.loads((self.path / "manifest.json").read_text())
        manifest["labels"] = dict(made.labels)
        manifest["host"]["nvidia_driver"] = made.driver
        manifest["host"]["numa_nodes"] = 2
        manifest["host"]["gpus"][0]["numa_node"] = made.numa
        outcome = manifest["outcome"]
        outcome["started_utc"] = made.started.isoformat(timespec="seconds")
        outcome["duration_ns"] = int(np.interp(self.end, times, warped) - np.interp(self.start, times, warped))
        outcome["rank"] = {"number": made.rank, "size": 8, "launcher": "srun", "launch": f"job-{made.seed // 8}"}
        (target / "manifest.json").write_text(json.dumps(manifest))
        return target

    def _warp(self, made: Made, random: np.random.Generator, noise: float) -> tuple[np.ndarray, np.ndarray]:
        factor = np.exp(random.normal(0, noise)) * np.exp(random.normal(0, 0.1, len(self.ns)))
        for what, more in made.slower.items():
            if what == CALLS:
                hit = self.in_call
            else:
                hit = np.array([name.startswith(what) for name in self.names], np.bool_)[self.leaf]
            factor = np.where(hit & self.work, factor * more, factor)
        ends = np.minimum(self.time + self.ns, np.append(self.time[1:], self.end))
        points = np.unique(np.concatenate([self.time, ends]))
        length = np.diff(points).astype(np.float64)
        row = np.searchsorted(self.time, points[:-1], "right") - 1
        inside = (row >= 0) & (points[:-1] < ends[row])
        length = np.where(inside, length * factor[row], length)
        warped = points[0] + np.concatenate([[0.0], np.cumsum(length)])
        far = 1 << 42
        return (
            np.concatenate([[points[0] - far], points, [points[-1] + far]]).astype(np.float64),
            np.concatenate([[points[0] - far], warped, [warped[-1] + far]]),
        )


def records_of(path: Path) -> _Records:
    """Where the records of a file lie, and their times."""
    data = path.read_bytes()
    with path.open("rb") as file:
        header = read_header(file, str(path))
    layouts = [(source.ids, rec.sample_layout(source.attr)) for source in header.sources]
    of_id = {number: at for at, (ids, _) in enumerate(layouts) for number in ids}
    words = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
    end = header.data_offset + (header.data_size or len(data) - header.data_offset)
    place, starts, sizes, time_word, clock = header.data_offset, [], [], [], []
    while place + 8 <= end:
        kind, _, size = perf.RECORD_HEADER.unpack_from(data, place)
        if size < 8:
            break
        first, last = place // 8 + 1, (place + size) // 8
        word, sampled = -1, False
        if kind == perf.RECORD_SAMPLE:
            source = of_id[int(words[first])]
            word, sampled = place // 8 + layouts[source][1].time, source == 0 and path.name == "perf.data"
        elif kind < 64 and int(words[last - 1]) in of_id:
            layout = layouts[of_id[int(words[last - 1])]][1]
            word = last - layout.trailer_time if layout.trailer_time else -1
        starts.append(place)
        sizes.append(size)
        time_word.append(word)
        clock.append(sampled)
        place += size
    return _Records(
        data, header.data_offset, place, np.array(starts), np.array(sizes), np.array(time_word), np.array(clock)
    )


def _warped(records: _Records, times: np.ndarray, warped: np.ndarray, random: np.random.Generator) -> bytes:
    buffer = bytearray(records.data)
    words = np.frombuffer(buffer, np.uint64, len(buffer) // 8)
    timed = records.time_word >= 0
    at = records.time_word[timed]
    old = words[at].astype(np.float64)
    new = np.interp(old, times, warped)
    words[at] = new.astype(np.uint64)
    if not records.clock.any():
        return bytes(buffer)
    # As many samples as a sampler takes in a piece of time that is so much longer.
    clock = np.flatnonzero(records.clock)
    when = words[records.time_word[clock]].astype(np.float64)
    stretched = (np.interp(old[records.clock[timed]] + 5e5, times, warped) - when) / 5e5
    copies = np.floor(stretched + random.random(len(clock))).astype(int)
    copies = np.where(random.random(len(clock)) < 0.03, random.integers(0, 3, len(clock)), copies)
    count = np.ones(len(records.starts), int)
    count[clock] = np.clip(copies, 0, 50)
    pieces = [bytes(buffer[: records.offset])]
    view = bytes(buffer)
    starts, sizes = records.starts.tolist(), records.sizes.tolist()
    word = records.time_word.tolist()
    for row, many in enumerate(count.tolist()):
        start = starts[row]
        piece = view[start : start + sizes[row]]
        pieces.append(piece)
        if many == 0:
            pieces.pop()
        for extra in range(1, many):
            place = word[row] * 8 - start
            time = int.from_bytes(piece[place : place + 8], "little") + extra * 1_000_000
            pieces.append(piece[:place] + time.to_bytes(8, "little") + piece[place + 8 :])
    size = sum(map(len, pieces[1:]))
    moved = len(pieces[0]) + size - records.end
    head = np.frombuffer(pieces[0], np.uint64).copy() if len(pieces[0]) % 8 == 0 else None
    assert head is not None
    head[_SIZE_FIELD] = size
    tail = bytearray(view[records.end :])
    bits = sum(int(number).bit_count() for number in head[9:13])
    table = np.frombuffer(tail, np.uint64, 2 * bits)
    table[::2] += np.uint64(moved) if moved >= 0 else np.uint64(0)
    if moved < 0:
        table[::2] -= np.uint64(-moved)
    _move_ids(head, records.end, moved)
    return head.tobytes() + b"".join(pieces[1:]) + bytes(tail)


def _move_ids(head: np.ndarray, end: int, moved: int) -> None:
    """The attributes' ids may lie behind the records."""
    attr_size, attrs, size = int(head[2]), int(head[3]), int(head[4])
    for place in range(attrs, attrs + size, attr_size):
        at = (place + attr_size - 16) // 8
        if int(head[at]) >= end:
            head[at] = int(head[at]) + moved


def _warp_lines(source: Path, target: Path, times: np.ndarray, warped: np.ndarray) -> None:
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    for line in lines:
        if "t" in line:
            line["t"] = int(np.interp(line["t"], times, warped))
    target.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _warp_python(source: Path, target: Path, times: np.ndarray, warped: np.ndarray) -> None:
    def at(value: np.ndarray) -> np.ndarray:
        return np.interp(value, times, warped).astype(np.int64)

    lines = []
    for text in gzip.decompress(source.read_bytes()).splitlines():
        segment = json.loads(text)
        start = segment["start_ns"]
        begin = int(at(np.array([start]))[0])
        for thread in segment["threads"]:
            when = start + np.cumsum(thread["times"])
            moved = at(when)
            if "lasts" in thread:
                thread["lasts"] = (at(when + thread["lasts"]) - moved).tolist()
            thread["times"] = np.diff(moved, prepend=begin).tolist()
        for pid, steps in segment.get("looks", {}).items():
            moved = (at(start + np.cumsum(steps) * 1000) - begin) // 1000
            segment["looks"][pid] = np.diff(moved, prepend=0).tolist()
        segment["start_ns"], segment["end_ns"] = begin, int(at(np.array([segment["end_ns"]]))[0])
        lines.append(gzip.compress((json.dumps(segment) + "\n").encode(), 1))
    target.write_bytes(b"".join(lines))


def damage(path: Path, how: int) -> None:
    """Make a capture one that cannot be read, in one of five ways."""
    if how == 0:
        (path / "perf.data").write_bytes(os.urandom(4096))
    elif how == 1:
        (path / "manifest.json").write_text("{")
    elif how == 2:
        (path / "perf.data").unlink()
    elif how == 3:
        (path / "manifest.json").write_text(json.dumps({"schema_version": 99}))
    else:
        shutil.rmtree(path)
        path.with_name(path.name + ".tar.xz").write_bytes(b"\xfd7zXZ\0" + os.urandom(2000))


def day(number: float) -> datetime:
    """A day of the fleet."""
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=number)


BASES = (
    "staged_h2d", "fresh_h2d", "weights_offload", "alloc_pairs", "pinned_ring", "gpu_faults", "thrash",
    "managed_readback", "fresh_d2h", "host_churn",
)  # fmt: skip
SLOW_DRIVER, BAD_HOST, BAD_NODE = "570.86.10", "h02", 1
DRIVERS = ("580.159.04", "580.95.05", SLOW_DRIVER)


@dataclass(frozen=True)
class Plan:
    """A fleet with what is planted in it."""

    captures: Mapping[str, Made]
    """Name → capture."""
    stragglers: frozenset[str]
    damaged: tuple[str, ...]


def plan(count: int, stragglers: int, damaged: int, hosts: int, bases: tuple[str, ...] = BASES, seed: int = 1) -> Plan:
    """So many captures of as many hosts: one driver in ten is slow in CUDA's calls, one host's second node in all."""
    random = np.random.default_rng(seed)
    captures: dict[str, Made] = {}
    for number in range(count):
        host, node = f"h{number % hosts:02}", int(random.integers(2))
        driver = DRIVERS[int(random.choice(3, p=(0.6, 0.28, 0.12)))]
        slower: dict[str, float] = {}
        if driver == SLOW_DRIVER:
            slower[CALLS] = 1.5
        if (host, node) == (BAD_HOST, BAD_NODE):
            slower[""] = 1.4
        base = bases[int(random.integers(len(bases)))]
        captures[f"{base}-{number:05}.pinprof"] = Made(
            base, seed * 100_000 + number, {"host": host, "job": f"train-{number // 8}"}, driver, node,
            day(14 * number / count), slower, number % 8,
        )  # fmt: skip
    healthy = [name for name, made in captures.items() if not made.slower and made.base != "host_churn"]
    chosen = random.choice(len(healthy), stragglers + damaged, replace=False)
    names = [healthy[at] for at in chosen.tolist()]
    return Plan(captures, frozenset(names[:stragglers]), tuple(names[stragglers:]))


def make(fleet: Plan, bases: Mapping[str, Base], folder: Path, names: list[str] | None = None) -> None:
    """Write a fleet, or some captures of it; stragglers take about twice as long in what takes longest."""
    for name in names if names is not None else fleet.captures:
        made = fleet.captures[name]
        base = bases[made.base]
        if name in fleet.stragglers:
            made = replace(made, slower={base.heaviest(): 1.8 + made.seed % 8 / 10})
        path = base.make(made, folder / made.labels["host"] / name)
        if name in fleet.damaged:
            damage(path, fleet.damaged.index(name) % 5)


def bases_of(names: tuple[str, ...], folder: Path) -> dict[str, Base]:
    """The committed captures that a fleet is made from."""
    return {name: Base(name, folder) for name in names}
