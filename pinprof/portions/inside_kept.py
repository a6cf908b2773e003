"""The agent's file of calls and of memory while the last seconds alone are kept.

Kept are sites that records name, the last copy of each line and size, memory that is granted or made and was not given
back, mappings that are still there, and communicators. Samples of timers are not: whoever keeps the last seconds has
the native collector.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import FUNCTIONS, Function
from pinprof.data.model import Bool, Int64
from pinprof.portions.agent_files import AgentChunk, ChunkedFile, Pending, Units, in_chunks, last_of_each
from pinprof.read.inside import layout
from pinprof.read.inside.clock import TickClock
from pinprof.read.inside.layout import RECORD, Kind

_WITH_TEXT = (Kind.SITE, Kind.MAPPED, Kind.UNMAPPED, Kind.NAMED, Kind.MODULE, Kind.CODE, Kind.CHAIN)
_ONCE = (Kind.COMMUNICATOR, Kind.ENTERED, Kind.BEGUN, Kind.WITHDREW)
"""Said once of a process."""
_AT_ITS_BEGIN = (Kind.THREAD, Kind.ANCHOR, Kind.MAPPED, Kind.UNMAPPED, *_ONCE, Kind.RESIDENT)
"""Whose `end` says something else."""
_ROW = np.dtype([*RECORD.descr, ("ns", "<i8"), ("at", "<i8"), ("tid", "<u8"), ("text", "<i8")])
"""A record, when it happened, whose it is, and the number of its text, -1 for none."""
_TID = np.uint64(0xFFFF_FFFF)
PINS = ("alloc pinned", "register")
"""Purposes of calls that page-lock memory."""
_ANCHORS, _CLOCK_ERROR_NS = 4, 1_000_000
"""Ticks that are kept for the clock; how much its times may change as it is known better. What is there twice for that
reason, or too early, is before the window when it is read."""
_CALLS, _MAPS, _POOLS, _BLOCKS, _COPIES = range(5)
"""What addresses are of; copies are known by their line and size class, as in a sum."""


@dataclass(frozen=True)
class Called:
    """Calls of one process that were recorded by themselves; columns of one length."""

    pid: int
    names: tuple[str, ...]
    function: Int64
    """Index into the names."""
    begin_ns: Int64
    end_ns: Int64


class InsideKept(ChunkedFile):
    """One process's."""

    magic, header, chunk, record = layout.MAGIC, layout.HEADER, layout.CHUNK, RECORD

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._names: tuple[str, ...] = ()
        self._roles: list[Function] = []
        self._anchors: Units = np.zeros(0, RECORD)
        self._clock: TickClock | None = None
        self._sites: dict[int, bytes] = {}
        self._said_of_sites: dict[bytes, bytes] = {}
        """Threads say the same of one."""
        self._texts: dict[bytes, int] = {}
        self._said: dict[bytes, None] = {}
        self._pending = Pending(np.zeros(0, _ROW), self._surviving)
        self._called: list[Units] = []
        self._lost: list[tuple[int, int, int]] = []
        """(time, calls, blocks): how many had been lost when that was looked at, where it had changed."""
        self._pinned: int | None = 0

    def look(self) -> None:
        """Read what it has gained."""
        self._called = []
        super().look()
        if self.head and (lost := self._losses()) != (self._lost[-1][1:] if self._lost else (0, 0)):
            self._lost.append((self.last_ns, *lost))

    @property
    def called(self) -> Called:
        """The calls that the last look found."""
        found = np.concatenate([np.zeros(0, RECORD), *self._called])
        begin, end = (self._ns(found[name]) for name in ("begin", "end"))
        return Called(self.pid, self._names, found["function"].astype(np.int64), begin, end)

    @property
    def pinned_bytes(self) -> int:
        """What CUDA's calls have page-locked by now."""
        if self._pinned is None:
            live = self._pending.at(2**62)
            live = live[live["kind"] == Kind.CALL]
            pins = np.array([role.purpose in PINS for role in self._roles] or [False])
            self._pinned = int(live["bytes"][pins[live["function"]]].sum())
        return 0 if self.ended else self._pinned

    def gained(self, chunk: AgentChunk, units: Units) -> None:
        """Take in records."""
        self._begin_names()
        kind, plain, texts = units["kind"], np.ones(len(units), np.bool_), np.full(len(units), -1, np.int64)
        for at, behind in _texts_in(units):
            plain[behind] = False
            raw = units[behind].tobytes()[: int(units["bytes"][at])]
            if kind[at] == Kind.SITE:
                self._sites[int(units["site"][at])] = self._said_of_sites.setdefault(raw, raw)
            else:
                texts[at] = self._texts.setdefault(raw, len(self._texts))
        texts, units = texts[plain], units[plain]
        anchors = units[units["kind"] == Kind.ANCHOR]
        if len(anchors) or self._clock is None:
            self._anchors = np.concatenate([self._anchors, anchors])
            self._clock = TickClock(np.frombuffer(self.head[: self.header.itemsize], self.header)[0], self._anchors)
        moment = self._moment(units)
        chunk.last_ns = max(chunk.last_ns, int(moment.max(initial=0)))
        owner = chunk.owners(units, Kind.THREAD)
        self._said |= dict.fromkeys(
            owner[at].tobytes() + units[at].tobytes() for at in np.flatnonzero(np.isin(units["kind"], _ONCE)).tolist()
        )
        calls = units["kind"] == Kind.CALL
        self._called.append(units[calls])
        wanted = np.isin(units["kind"], (Kind.MAPPED, Kind.UNMAPPED, Kind.MADE, Kind.GIVEN))
        wanted |= self._concerned(units)
        if wanted.any():
            rows = np.zeros(int(wanted.sum()), _ROW)
            for name in RECORD.names or ():
                rows[name] = units[name][wanted]
            rows["ns"], rows["tid"], rows["text"] = moment[wanted], owner["address"][wanted], texts[wanted]
            # What is given back may come to others before the call returns.
            rows["at"] = np.where(
                self._begins(rows) | (rows["kind"] == Kind.GIVEN), rows["ns"], self._ns(rows["begin"])
            )
            self._pending.add(rows)
            self._pinned = None

    def forget(self, before_ns: int) -> None:
        """What has ended by a time is needed no more."""
        self._pending.forget(before_ns)
        if self._clock is not None:
            earlier = int((self._ns(self._anchors["begin"]) < before_ns).sum())
            self._anchors = self._anchors[max(earlier - _ANCHORS, 0) :]
        while len(self._lost) > 1 and self._lost[1][0] < before_ns:
            del self._lost[0]

    def cut(self, begin_ns: int) -> bytes:
        """What the file would be if it had been begun at a time."""
        if not self.head or self._clock is None:
            return self.head
        live = self._pending.at(begin_ns)
        records = np.zeros(len(live), RECORD)
        for name in RECORD.names or ():
            records[name] = live[name]
        blocks = [block for chunk in self.remaining if (block := self._of_chunk(chunk, begin_ns - _CLOCK_ERROR_NS))]
        texts = list(self._texts)
        blocks[:0] = [
            _thread(tid) + record.tobytes() + _padded(texts[text] if text >= 0 else b"")
            for record, tid, text in zip(records, live["tid"].tolist(), live["text"].tolist(), strict=True)
        ]
        named = np.frombuffer(b"".join(blocks), RECORD)
        used = set(ascending(np.concatenate([named["site"], named["extra"][named["kind"] == Kind.GIVEN]])).tolist())
        sites = [_thread(0) + _site(number, text) for number, text in self._sites.items() if number in used]
        anchors = [_thread(0) + one.tobytes() for one in self._anchors]
        chunks = in_chunks(self.chunk, [*anchors, *sites, *self._said, *blocks], RECORD.itemsize)
        return self._header(begin_ns) + b"".join(chunks)

    def _begin_names(self) -> None:
        if not self._names:
            size = self.header.itemsize
            count = int(np.frombuffer(self.head[:size], self.header)[0]["names"])
            self._names = tuple(self.head[size : size + count].decode("ascii", "replace").split("\n"))[:-1]
            self._roles = [FUNCTIONS.get(name, Function()) for name in self._names]

    def _ns(self, ticks: NDArray[np.uint64]) -> Int64:
        assert self._clock is not None or not len(ticks)
        return self._clock.ns(ticks) if self._clock is not None else np.zeros(0, np.int64)

    def _moment(self, units: Units) -> Int64:
        """When records happened, on CLOCK_MONOTONIC; of sums and calls, when they ended."""
        return self._ns(np.where(np.isin(units["kind"], _AT_ITS_BEGIN), units["begin"], units["end"]))

    def _concerned(self, units: Units) -> Bool:
        """Which are copies, or calls that grant memory, or after which it is granted no more."""
        known = np.array([_about(role) is not None for role in self._roles] or [False])
        calls = (units["kind"] == Kind.CALL) & (units["result"] == 0) & (units["function"] < len(self._roles))
        return np.asarray(calls & known[np.where(calls, units["function"], 0)])

    def _begins(self, rows: Units) -> Bool:
        """Which records are of memory that is there from then on."""
        calls = rows["kind"] == Kind.CALL
        makes = np.array([(_about(role) or (0, False))[1] for role in self._roles] or [False])
        return np.where(calls, makes[np.where(calls, rows["function"], 0)], rows["kind"] == Kind.MADE)

    def _surviving(self, rows: Units) -> Units:
        about = np.array([(_about(role) or (_CALLS, False))[0] for role in self._roles] or [_CALLS])
        calls, maps = rows["kind"] == Kind.CALL, np.isin(rows["kind"], (Kind.MAPPED, Kind.UNMAPPED))
        what = np.where(calls, about[np.where(calls, rows["function"], 0)], np.where(maps, -1, _BLOCKS))
        address = np.where(what == _POOLS, rows["extra"], rows["address"])
        copies = what == _COPIES
        size_class = np.frexp(rows["bytes"].astype(np.float64))[1]
        alike = [
            np.where(copies, column, 0) for column in (rows["tid"] & _TID, rows["site"], rows["function"], size_class)
        ]
        begins = self._begins(rows)
        there = begins & last_of_each(what, np.where(copies, np.uint64(0), address), *alike)
        there |= _what_copies_used(rows, begins & (what == _CALLS), what == _CALLS, np.flatnonzero(there & copies))
        return np.concatenate([rows[there], _still_mapped(rows[maps])])

    def _of_chunk(self, chunk: AgentChunk, begin_ns: int) -> bytes:
        """What of a chunk happened from a time on, with whose it is."""
        if chunk.last_ns < begin_ns:
            return b""
        units = self.units(chunk)
        kind = units["kind"]
        moment = self._moment(units)
        kept = (moment >= begin_ns) & ~np.isin(kind, (Kind.SITE, Kind.ANCHOR, *_ONCE))
        kept |= kind == Kind.THREAD
        for at, behind in _texts_in(units):
            kept[behind] = kept[at]
        return units[kept].tobytes()

    def _losses(self) -> tuple[int, int]:
        with self.path.open("rb") as file:
            header = np.frombuffer(file.read(self.header.itemsize), self.header)[0]
        return int(header["lost"]), int(header["lost_blocks"])

    def _header(self, begin_ns: int) -> bytes:
        """The header, with what was lost since a time."""
        head = np.frombuffer(self.head[: self.header.itemsize], self.header).copy()
        before = [lost for time, *lost in self._lost if time < begin_ns]
        now, then = self._losses(), before[-1] if before else [0, 0]
        head["lost"], head["lost_blocks"] = now[0] - then[0], now[1] - then[1]
        return head.tobytes() + self.head[self.header.itemsize :]


def _about(role: Function) -> tuple[int, bool] | None:
    """What the address of a function's calls is of, and whether it begins to be that; None for others."""
    if role.maps is not None:
        return _MAPS, role.maps
    if role.memory is not None:
        return _CALLS, role.grants or role.size is not None
    if role.copies is not None:  # sums lie where the last one like them did
        return _COPIES, True
    return (_POOLS, True) if role.properties is not None else None


def _texts_in(units: Units) -> Iterator[tuple[int, slice]]:
    """The records with a text, and where it lies behind each; none lies within another's text."""
    end = 0
    for at in np.flatnonzero(np.isin(units["kind"], _WITH_TEXT)).tolist():
        if at >= end:
            end = at + 1 - (-int(units["bytes"][at]) // RECORD.itemsize)
            yield at, slice(at + 1, end)


def _what_copies_used(rows: Units, grants: Bool, calls: Bool, copies: Int64) -> Bool:
    """The grants of memory that these copies used, with the calls that ended them: a copy that stays keeps its kind.

    Rows are in the order of time; masks over them.
    """
    used = np.zeros(len(rows), np.bool_)
    granted, each = (np.flatnonzero(mask) for mask in (grants, calls))
    granted = granted[np.argsort(rows["address"][granted], kind="stable")]
    each = each[np.argsort(rows["address"][each], kind="stable")]
    starts, addresses = rows["address"][granted], rows["address"][each]
    for copy in copies.tolist():
        for end in (rows["address"][copy], rows["source"][copy]):
            # Of the memory that begins nearest before the end, the last grant before the copy.
            high = int(np.searchsorted(starts, end, "right"))
            low = int(np.searchsorted(starts, starts[high - 1])) if high else 0
            at = low + int(np.searchsorted(granted[low:high], copy)) - 1
            if at < low or end - starts[at] >= rows["bytes"][granted[at]]:
                continue
            first, behind = (int(np.searchsorted(addresses, starts[at], side)) for side in ("left", "right"))
            later = first + int(np.searchsorted(each[first:behind], granted[at], "right"))
            used[granted[at]] = True
            used[each[later : min(later + 1, behind)]] = True
    return used


def _still_mapped(rows: Units) -> Units:
    """Mappings, without what later ones cover or take away: so one may be divided."""
    starts: list[int] = []
    of: dict[int, tuple[int, int]] = {}
    for at, (begin, end, kind) in enumerate(
        zip(rows["address"].tolist(), rows["source"].tolist(), rows["kind"].tolist(), strict=True)
    ):
        first, last = bisect_left(starts, begin), bisect_left(starts, end)
        first -= first > 0 and of[starts[first - 1]][0] > begin
        covered = [(start, *of.pop(start)) for start in starts[first:last]]
        parts = [(start, (min(until, begin), row)) for start, until, row in covered if start < begin]
        parts += [(begin, (end, at))] if kind == Kind.MAPPED and begin < end else []
        parts += [(end, (until, row)) for _, until, row in covered if until > end]
        starts[first:last] = [start for start, _ in parts]
        of.update(parts)
    found = rows[[row for _, row in of.values()]]
    found["address"], found["source"] = list(of), [end for end, _ in of.values()]
    return found


def _thread(owner: int) -> bytes:
    record = np.zeros(1, RECORD)
    record["kind"], record["address"] = Kind.THREAD, owner & 0xFFFF_FFFF
    return record.tobytes()


def _site(number: int, text: bytes) -> bytes:
    record = np.zeros(1, RECORD)
    record["kind"], record["site"], record["bytes"] = Kind.SITE, number, len(text)
    return record.tobytes() + _padded(text)


def _padded(text: bytes) -> bytes:
    return text.ljust(-(-len(text) // RECORD.itemsize) * RECORD.itemsize, b"\0")
