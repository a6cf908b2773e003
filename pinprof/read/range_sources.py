"""The ranges of a capture directory: `ranges.jsonl` and what the agent recorded of NVTX, each range once.

`pinprof.scenario.phase()` opens an NVTX range and writes a line of ranges.jsonl from the same instants, so its ranges
are in both; the line's interval lies within the range's. The line stays, as its times are without the calls of NVTX. A
program that was killed has ranges of phases that it could not write; these stay too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.activity import MarkTable
from pinprof.data.model import Bool, Capture, Int64, RangeTable
from pinprof.read.directory import Reading
from pinprof.read.nvtx import injection as nvtx_injection
from pinprof.read.ranges import parse_ranges, read_ranges
from pinprof.read.thread_names import with_nvtx_names
from pinprof.streams import store


@dataclass(frozen=True)
class CaptureRanges:
    """The ranges of a capture directory, and what is to say about them."""

    table: RangeTable
    notes: tuple[str, ...]
    thread_names: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """(pid, tid) → the name that the program gave the thread through NVTX."""
    marks: MarkTable = field(default_factory=MarkTable.empty)
    """Instants that the program marked through NVTX."""


def load(directory: Path, given: Path | None, *, measured_only: bool) -> CaptureRanges:
    """All ranges of a capture; those of a file that the user gives take the place of its own.

    `measured_only`: leave out what NVTX has before the first line of ranges.jsonl and after the end of the last.
    """
    path = given or directory / store.RANGES
    written = read_ranges(path) if given or path.is_file() else parse_ranges(b"")
    if given or not (directory / store.NVTX).is_dir():
        return CaptureRanges(written.table, written.notes)
    injected = nvtx_injection.read_folder(directory / store.NVTX)
    table = injected.ranges
    keep = ~doubles(table, written.table)
    marks = injected.marks
    if measured_only and len(written.table):
        first, last = int(written.table.start_ns.min()), int(written.table.end_ns.max())
        keep &= (table.start_ns >= first) & (table.end_ns <= last)
        marks = marks.within(first, last + 1)
    joined = written.table.joined(table.take(keep))
    # By start, an outer range before the inner ones that start with it.
    joined = joined.take(np.lexsort((joined.depth, -joined.end_ns, joined.start_ns)))
    return CaptureRanges(joined, (*written.notes, *injected.notes), injected.thread_names, marks)


def with_nvtx(capture: Capture, _path: Path, reading: Reading) -> Capture:
    """The capture, whose ranges are there already, with NVTX's instants and names of threads."""
    return replace(with_nvtx_names(capture, reading.ranges.thread_names), marks=reading.ranges.marks)


def doubles(ranges: RangeTable, lines: RangeTable) -> Bool:
    """Which ranges are also among the lines of ranges.jsonl.

    A line belongs to the last range of its thread, domain and name that began before it, if it also ends within it.
    """
    both = (ranges, lines)
    labels = {key: number for number, key in enumerate(dict.fromkeys(zip(lines.domain, lines.name, strict=True)))}
    label = [np.array([labels.get(key, -1) for key in zip(t.domain, t.name, strict=True)], np.int64) for t in both]
    rows = np.flatnonzero(label[0] >= 0)
    result = np.zeros(len(ranges), np.bool_)
    columns = (
        np.concatenate([ranges.start_ns[rows], lines.start_ns]),
        # A range that begins at the instant of the line comes before it.
        np.repeat([0, 1], [len(rows), len(lines)]),
        np.concatenate([label[0][rows], label[1]]),
        np.concatenate([ranges.tid[rows], lines.tid]),
        np.concatenate([ranges.pid[rows], lines.pid]),
    )
    order = np.lexsort((columns[1], columns[0], *columns[2:]))
    is_range = order < len(rows)
    place = np.arange(len(order))
    before: Int64 = np.maximum.accumulate(np.where(is_range, place, -1))
    follows = ~is_range & (before >= 0)
    line, candidate = order[follows], order[before[follows]]
    same = np.ones(len(line), np.bool_)
    for column in columns[2:]:
        same &= column[line] == column[candidate]
    line, candidate = line[same] - len(rows), rows[candidate[same]]
    result[candidate[lines.end_ns[line] <= ranges.end_ns[candidate]]] = True
    return result
