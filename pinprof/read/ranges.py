"""NVTX ranges from `ranges.jsonl`: one JSON object a line, times in nanoseconds of CLOCK_MONOTONIC.

    {"name": "alloc", "start_ns": 1, "end_ns": 9, "domain": "pinprof", "pid": 7, "tid": 7, "depth": 1}

Only the name and the times are needed; `start` and `end` are accepted as their names. Rules for what is not as it
should be:

- a line that is no such object, a time outside 0 … 2^63-1, an end before its start: left out and counted as bad;
- a last line without its newline (the program died writing it) likewise;
- no end, or null (the program died inside the range): it ends at the latest time in the file and is counted as open;
- no depth: the number of ranges of its thread that began before it, or with it and end later, and are still open.
  Ranges that overlap without nesting are kept as they are.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pinprof.base.errors import FormatError, readable, unreadable
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_counted
from pinprof.data.model import RangeTable
from pinprof.read.packed import PackedError, unpacked

_MAX = 2**63 - 1
_MAX_BYTES = 1 << 30
_OPEN = -1
_LONGEST_SUM = 2.0**62
"""Nanoseconds, 146 years: what all ranges together may last."""


@dataclass(frozen=True)
class LoadedRanges:
    """Ranges of one file, and what was wrong with it."""

    table: RangeTable
    bad_lines: int
    open_ranges: int
    """Ranges without an end, closed at the latest time in the file."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the reader about what was left out or assumed."""
        notes = []
        if self.bad_lines:
            what = format_counted(self.bad_lines, "unreadable line", "unreadable lines")
            notes.append(f"{what} of the ranges file left out.")
        if self.open_ranges:
            what = format_counted(self.open_ranges, "range", "ranges")
            notes.append(f"{what} have no end; assumed to end with the last recorded range.")
        return tuple(notes)


class _Range(NamedTuple):
    name: str
    domain: str
    start: int
    end: int
    pid: int
    tid: int
    depth: int
    ended: bool = True


def read_ranges(path: Path) -> LoadedRanges:
    """Ranges of a file and what was wrong with it; ordered by start, an outer one before inner ones that start with it.

    CaptureError if it cannot be read, FormatError if it has lines but no range.
    """
    remedy = "Give the ranges.jsonl of a capture, or lines of that form."
    with readable(f"The ranges {path}", remedy, "ranges"):
        try:
            text = unpacked(path.read_bytes(), _MAX_BYTES)
        except PackedError as error:
            raise unreadable(f"The ranges {path}", error, remedy, "ranges") from error
    loaded = parse_ranges(text)
    if not len(loaded.table) and text.partition(b"\n")[1] and text.strip():
        raise FormatError(
            str(path),
            expected='a line like {"name": "alloc", "start_ns": 1, "end_ns": 9}',
            found=repr(text[:24].decode("utf-8", "replace")),
            remedy=remedy,
            slug="ranges",
        )
    return loaded


def parse_ranges(text: bytes) -> LoadedRanges:
    """Ranges of the text of a file; nothing in it raises an error."""
    ranges, bad, unclosed = [], 0, 0
    for line in text.split(b"\n"):
        if not line.strip():
            continue
        entry = _parse(line)
        if entry is None:
            bad += 1
            continue
        ranges.append(entry)
        unclosed += entry.end == _OPEN
    if unclosed:
        latest = max(max(entry.start, entry.end) for entry in ranges)
        ranges = [entry._replace(end=latest, ended=False) if entry.end == _OPEN else entry for entry in ranges]
    ranges.sort(key=lambda entry: (entry.start, -entry.end, entry.depth))
    return LoadedRanges(_table(ranges), bad, unclosed)


def summable(ranges: RangeTable) -> tuple[RangeTable, tuple[str, ...]]:
    """Ranges whose lengths sum to what 64 bits hold, and what to say where the longest had to be left out for it."""
    length = (ranges.end_ns - ranges.start_ns).astype(np.float64)
    if length.sum() < _LONGEST_SUM:
        return ranges, ()
    order = np.argsort(length, kind="stable")
    kept = np.zeros(len(length), np.bool_)
    kept[order] = np.cumsum(length[order]) < _LONGEST_SUM
    what = format_counted(int(np.count_nonzero(~kept)), "range lasts", "ranges last")
    return ranges.take(kept), (f"{what} impossibly long and left out: the file is damaged.",)


def _parse(line: bytes) -> _Range | None:
    """The range of one line, end _OPEN and depth -1 where not given; None if there is none."""
    try:
        raw: Any = json.loads(line)
        if not isinstance(raw, dict) or not isinstance(raw["name"], str):
            return None
        start = _time(raw["start_ns"] if "start_ns" in raw else raw["start"])
        end = raw["end_ns"] if "end_ns" in raw else raw.get("end")
        end = _OPEN if end is None else _time(end)
        if not 0 <= start <= _MAX or not (end == _OPEN or start <= end <= _MAX):
            return None
        return _Range(
            _text(raw["name"]),
            _text(raw.get("domain")),
            start,
            end,
            _small(raw.get("pid")),
            _small(raw.get("tid")),
            _small(raw.get("depth")),
        )
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None


def _time(value: object) -> int:
    """Nanoseconds; TypeError for anything but a number, ValueError or OverflowError for an impossible one."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise TypeError("not a time")
    return int(value)


def _text(value: object) -> str:
    """Text that can be written in UTF-8: JSON may spell lone surrogates."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _small(value: object) -> int:
    """A number from 0 to 2^31-1, -1 for anything else."""
    return value if isinstance(value, int) and 0 <= value < 2**31 else -1


def _table(ranges: list[_Range]) -> RangeTable:
    """Columns of ranges in order, with the depths that are missing."""
    open_ends: dict[tuple[int, int], list[int]] = defaultdict(list)
    depths = []
    for entry in ranges:
        ends = open_ends[entry.pid, entry.tid]
        while ends and ends[0] <= entry.start:
            heapq.heappop(ends)
        depths.append(len(ends) if entry.depth < 0 else entry.depth)
        heapq.heappush(ends, entry.end)
    name, domain, start, end, pid, tid, _, ended = zip(*ranges, strict=True) if ranges else ((),) * 8
    return RangeTable.of(
        len(ranges), name=name, domain=domain, start_ns=start, end_ns=end, pid=pid, tid=tid, depth=depths, ended=ended
    )
