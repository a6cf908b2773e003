"""NVTX ranges that the agent recorded, one file for each process; times are CLOCK_MONOTONIC.

Pushes and pops match within a thread and a domain, starts and ends within a process. Rules for what does not fit:

- a range without its end ends with the last event of its process;
- a pop without its push, an end without its start (a forked child ends what its parent began): counted;
- a range deeper than 128 others of its thread (a loop that never pops): left out and counted;
- what is written in no file that can be read: counted as damaged.

A forked child knows the domains and registered strings of its parent and does not write them again: what its own file
does not define is looked up in its parent's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Bool, Int32, Int64, UInt64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_counted
from pinprof.data.activity import MarkTable
from pinprof.data.model import RangeTable
from pinprof.read.nvtx import file as nvtx_file
from pinprof.read.nvtx.file import EventTable, NvtxFile, NvtxKind

NAMELESS = "(no name)"

_ANCESTORS = 1000
"""Generations of forks that are followed: damaged files may claim to be each other's parents."""

_Definitions = Mapping[tuple[int, int], str]


class NvtxEvents:
    """The columns of all files after one another; within a file, each thread's events are in order."""

    def __init__(self, files: Sequence[NvtxFile]) -> None:
        self.files = files
        sizes = [len(file.events) for file in files]
        self.file: Int64 = np.repeat(np.arange(len(files)), sizes)
        self.pid: Int32 = np.repeat(np.array([file.pid for file in files], np.int32), sizes)
        self.table = EventTable.empty().joined(*(file.events for file in files))
        first = np.cumsum([0, *(len(file.texts) for file in files)])
        self._text = np.where(self.table.text >= 0, self.table.text + first[self.file], -1)
        self._texts = [text for file in files for text in file.texts]
        self._file_of = {file.token: number for number, file in enumerate(files)}
        self._string, self._domain = self._definitions(NvtxKind.STRING), self._definitions(NvtxKind.DOMAIN)

    def names(self, rows: Int64) -> tuple[str, ...]:
        """The text of each event, given by itself or registered."""
        registered = self._shown(rows, self.table.registered, self._string, lambda _: NAMELESS)
        texts = self._text[rows].tolist()
        return tuple(
            (self._texts[text] or NAMELESS) if text >= 0 else string
            for text, string in zip(texts, registered, strict=True)
        )

    def domains(self, rows: Int64) -> tuple[str, ...]:
        """The name of each event's domain; the default domain's is empty."""
        return tuple(self._shown(rows, self.table.domain, self._domain, lambda key: f"domain {key}" if key else ""))

    def _definitions(self, kind: NvtxKind) -> _Definitions:
        """(file, id) → the text that a process gave it; the last one counts."""
        rows = np.flatnonzero((self.table.kind == kind) & (self._text >= 0))
        columns = (self.file[rows].tolist(), self.table.value[rows].tolist(), self._text[rows].tolist())
        return {(file, number): self._texts[text] for file, number, text in zip(*columns, strict=True)}

    def _shown(self, rows: Int64, key: UInt64, given: _Definitions, otherwise: Callable[[int], str]) -> list[str]:
        """Per event the text of its id, as its process or the nearest ancestor defined it."""
        index, first = numbered(self.file[rows], key[rows])
        distinct = zip(self.file[rows[first]].tolist(), key[rows[first]].tolist(), strict=True)
        texts = [self._inherited(given, file, number) or otherwise(number) for file, number in distinct]
        return [texts[number] for number in index.tolist()]

    def _inherited(self, given: _Definitions, file: int, key: int) -> str | None:
        for _ in range(_ANCESTORS):
            if (file, key) in given:
                return given[file, key]
            parent = self._file_of.get(self.files[file].parent)
            if parent is None:
                return None
            file = parent
        return None


def numbered(file: Int64, key: UInt64) -> tuple[Int64, Int64]:
    """Per row the number of its (file, key) among the distinct ones, and per distinct one the first row."""
    keys, index = np.unique(key, return_inverse=True)
    # Not np.unique(axis=…), which compares rows one by one.
    _, first, number = np.unique(file * max(1, len(keys)) + index, return_index=True, return_inverse=True)
    return number.astype(np.int64), first.astype(np.int64)


DEEPEST = 128
"""Ranges of a thread that are shown inside one another."""


@dataclass(frozen=True)
class LoadedNvtx:
    """What the files of a capture say, and what was wrong with them."""

    ranges: RangeTable
    marks: MarkTable
    thread_names: Mapping[tuple[int, int], str]
    """(pid, tid) → the name that the program gave the thread through NVTX."""
    open_ranges: int = 0
    unmatched: int = 0
    """Pops without a push and ends without a start."""
    too_deep: int = 0
    lost: int = 0
    damaged: int = 0
    cut: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the reader about what was left out or assumed."""
        counts = (
            (self.open_ranges, "NVTX range", "NVTX ranges", "without an end: assumed to end with the process."),
            (self.unmatched, "end of an NVTX range", "ends of NVTX ranges", "without a beginning: left out."),
            (self.too_deep, "NVTX range", "NVTX ranges", f"inside more than {DEEPEST} others: left out."),
            (
                self.lost,
                "NVTX event",
                "NVTX events",
                "not recorded: the file was full, or a signal interrupted the event.",
            ),
            (self.damaged, "damaged part", "damaged parts", "of the NVTX recording left out."),
            (self.cut, "NVTX text", "NVTX texts", "cut after 1024 bytes (marked by `…`)."),
        )
        return tuple(f"{format_counted(count, one, many)} {what}" for count, one, many, what in counts if count)


def read_folder(folder: Path) -> LoadedNvtx:
    """All files of a capture's folder together."""
    files = [nvtx_file.load(path) for path in sorted(folder.glob("*.bin"))]
    return combine([file for file in files if file is not None], unreadable=files.count(None))


def combine(files: Sequence[NvtxFile], *, unreadable: int = 0) -> LoadedNvtx:
    """Ranges, marks and names of several processes."""
    events = NvtxEvents(files)
    begin, end, unmatched = _pairs(events)
    depth = _depths(events, begin, end)
    nested = events.table.kind[begin] == NvtxKind.PUSH
    last = np.array([int(file.events.time_ns.max(initial=0)) for file in files], np.int64)
    start_ns = events.table.time_ns[begin]
    end_ns = np.where(end >= 0, events.table.time_ns[end], np.maximum(last[events.file[begin]], start_ns))
    backward, deep = end_ns < start_ns, nested & (depth[begin] >= DEEPEST)
    rows = np.flatnonzero(~backward & ~deep)
    rows = rows[np.lexsort((depth[begin[rows]], -end_ns[rows], start_ns[rows]))]
    begun = begin[rows]
    table = RangeTable(
        name=events.names(begun),
        domain=events.domains(begun),
        start_ns=start_ns[rows],
        end_ns=end_ns[rows],
        pid=events.pid[begun],
        tid=events.table.tid[begun],
        depth=np.minimum(depth[begun], DEEPEST).astype(np.int32),
        ended=end[rows] >= 0,
    )
    return LoadedNvtx(
        ranges=table,
        marks=_marks(events),
        thread_names=_thread_names(events),
        open_ranges=int(np.count_nonzero(end[rows] < 0)),
        unmatched=unmatched,
        too_deep=int(np.count_nonzero(deep)),
        lost=sum(file.lost for file in files),
        damaged=sum(file.damaged for file in files) + int(np.count_nonzero(backward)) + unreadable,
        cut=sum(file.cut for file in files),
    )


def _pairs(events: NvtxEvents) -> tuple[Int64, Int64, int]:
    """Rows of the beginnings of ranges, of their ends (-1: never ended), and the number of ends without a beginning."""
    # The file within a process, the thread and the domain within the file: one stack of pushes each.
    place = events.table.tid.astype(np.uint64) << np.uint64(32) | events.table.domain
    group, _ = numbered(events.file, place)
    rows = np.flatnonzero((events.table.kind == NvtxKind.PUSH) | (events.table.kind == NvtxKind.POP))
    rows = rows[np.argsort(group[rows], kind="stable")]
    push = events.table.kind[rows] == NvtxKind.PUSH
    level, matched = _levels(group[rows], push)
    # On one level of one stack, pushes and pops take turns.
    rows, push, level = rows[matched], push[matched], level[matched]
    order = np.lexsort((level, group[rows]))
    begin, end = _neighbours(rows[order], push[order], group[rows][order], level[order])

    # Numbers of starts are unique within a process, and ends come from any thread.
    ids = np.flatnonzero((events.table.kind == NvtxKind.START) | (events.table.kind == NvtxKind.END))
    start = events.table.kind[ids] == NvtxKind.START
    order = np.lexsort((events.table.time_ns[ids], ~start, events.table.value[ids], events.file[ids]))
    ids, start = ids[order], start[order]
    started, ended = _neighbours(ids, start, events.file[ids], events.table.value[ids])
    unmatched = int(np.count_nonzero(~matched))
    unmatched += int(np.count_nonzero(~start)) - int(np.count_nonzero(ended >= 0))
    return np.concatenate([begin, started]), np.concatenate([end, ended]), unmatched


def _levels(group: Int64, push: Bool) -> tuple[Int64, Bool]:
    """Per push and pop, ordered by group, the number of open pushes around it, and whether it is no pop of nothing."""
    step = np.where(push, 1, -1)
    count = len(step)
    # One running sum and one running minimum over all groups: each begins below everything of those before it.
    fresh = np.ones(count, np.bool_)
    fresh[1:] = group[1:] != group[:-1]
    number = np.cumsum(fresh) - 1
    total = np.cumsum(step)
    before = (total - step)[fresh]
    height = total - before[number]
    drop = number * (2 * count + 1)
    floor = np.minimum(np.minimum.accumulate(height - drop) + drop, 0)
    previous = np.zeros(count, np.int64)
    previous[1:] = np.where(fresh[1:], 0, floor[:-1])
    return height - floor - push, floor == previous


def _neighbours(rows: Int64, begins: Bool, *keys: NDArray[Any]) -> tuple[Int64, Int64]:
    """Each beginning with the end right after it that has the same keys, -1 where that is none."""
    follows = np.zeros(len(rows), np.bool_)
    follows[:-1] = begins[:-1] & ~begins[1:]
    for key in keys:
        follows[:-1] &= key[:-1] == key[1:]
    end = np.where(follows, np.append(rows[1:], -1)[: len(rows)], -1)
    return rows[begins], end[begins]


def _depths(events: NvtxEvents, begin: Int64, end: Int64) -> Int64:
    """Per event the number of pushes of its thread, of any domain, that are open before it."""
    step = np.zeros(len(events.table), np.int64)
    pushes = events.table.kind[begin] == NvtxKind.PUSH
    step[begin[pushes]] = 1
    step[end[pushes & (end >= 0)]] = -1
    open_before = np.cumsum(step) - step
    fresh = np.ones(len(events.table), np.bool_)
    fresh[1:] = (events.file[1:] != events.file[:-1]) | (events.table.tid[1:] != events.table.tid[:-1])
    depth: Int64 = open_before - open_before[fresh][np.cumsum(fresh) - 1]
    return depth


def _marks(events: NvtxEvents) -> MarkTable:
    rows = np.flatnonzero(events.table.kind == NvtxKind.MARK)
    rows = rows[np.argsort(events.table.time_ns[rows], kind="stable")]
    number: dict[str, int] = {}
    name, domain = (
        np.array([number.setdefault(text, len(number)) for text in texts], np.int32)
        for texts in (events.names(rows), events.domains(rows))
    )
    return MarkTable(
        time_ns=events.table.time_ns[rows],
        name=name,
        domain=domain,
        pid=events.pid[rows],
        tid=events.table.tid[rows],
        names=tuple(number),
    )


def _thread_names(events: NvtxEvents) -> dict[tuple[int, int], str]:
    rows = np.flatnonzero((events.table.kind == NvtxKind.THREAD_NAME) & (events.table.value < np.uint64(2**31)))
    threads = zip(events.pid[rows].tolist(), events.table.value[rows].tolist(), strict=True)
    return dict(zip(threads, events.names(rows), strict=True))
