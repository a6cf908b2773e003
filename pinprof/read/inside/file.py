"""A file of the agent: records of calls and of memory, and sums of them, with sites, on CLOCK_MONOTONIC."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.shapes import MOST
from pinprof.data.host_memory import Maker
from pinprof.data.meeting_calls import Communicator
from pinprof.data.model import Bool, Int32, Int64
from pinprof.read import chunked_file
from pinprof.read.chunked_file import Bytes
from pinprof.read.inside import used
from pinprof.read.inside.clock import TickClock
from pinprof.read.inside.layout import (
    CHUNK,
    HEADER,
    LATEST_NS,
    MAGIC,
    NOT_KNOWN,
    RECORD,
    SINGLE_BLOCKS,
    SUMMED_BLOCKS,
    Flag,
    Kind,
    Withdrew,
)
from pinprof.read.inside.texts import SAMPLED, AgentSite, without_texts
from pinprof.read.inside.used import Used
from pinprof.read.perf.cuda_processes import ANONYMOUS
from pinprof.read.perf.records import DataArea

_MOST_BYTES, _MOST_RANKS = 2**48, 2**20
_ALWAYS_SOUND = (Kind.THREAD, Kind.ANCHOR, Kind.RESIDENT, Kind.NAMED, Kind.WITHDREW, Kind.COMMUNICATOR, Kind.ENTERED)
_MOST_SPENT_NS = 2**50


@dataclass(frozen=True)
class ThreadRecords:
    """Records, each thread's in its order; columns of one length."""

    records: NDArray[np.void]
    tid: Int32
    begin_ns: Int64
    end_ns: Int64


@dataclass(frozen=True)
class InsideFile:
    """What one process called, and what memory it made."""

    pid: int
    token: int
    """Names the file among those of a capture."""
    stop: int
    """`Stop`."""
    parent: int
    """The token of the process that forked it; 0 for none that has a file."""
    lost: int
    """Calls that were not recorded."""
    unsited: int
    """Sites beyond the number that is kept."""
    lost_blocks: int
    """Making and giving back of memory that was not recorded."""
    damaged: int
    """Records left out because they make no sense, and pages that belong to no chunk."""
    names: tuple[str, ...]
    """Of functions, by number."""
    records: NDArray[np.void]
    """Calls and sums, each thread's in its order."""
    tid: Int32
    begin_ns: Int64
    end_ns: Int64
    took_ns: Int64
    """How long a call was, or all calls of a sum together."""
    sites: dict[int, AgentSite]
    areas: tuple[DataArea, ...]
    """By time: files of data that the program mapped, and what the driver's calls mapped, with their thread (else -1).
    Where something is mapped no more, there is the host's memory for all that is known."""
    blocks: ThreadRecords
    """Of large memory of the host."""
    block_lengths_ns: Mapping[str, Int64]
    """What their `source` and `stream` say, as lengths of time."""
    meetings: ThreadRecords
    """Calls in which processes meet."""
    communicators: tuple[Communicator, ...]
    forks: ThreadRecords
    """Of processes that it forked: `address` is the child's process id."""
    begun: ThreadRecords
    """At most one, of the beginning of a new program: `bytes` is the CPU time in ns that the process had used by
    then for more than to load it."""
    waits: ThreadRecords
    """`function`: in which call of the kernel, and one."""
    used: Used | None = None
    """Where it spent CPU time; None where that was not sampled."""
    withdrew: Withdrew | None = None
    """Why no more of that was sampled."""
    had_cuda: bool = False
    """Whether the process had CUDA's driver when the agent came into it, and so memory that nobody recorded."""
    asked: bool = False
    """Whether its calls are asked for, so that there is a file even where it made none."""

    @property
    def has_calls(self) -> bool:
        """Whether the process called CUDA's driver: else there is a file for its memory or its meetings alone."""
        others = len(self.blocks.records) or len(self.meetings.records) or self.used or self.withdrew is not None
        return bool(len(self.records) or self.lost or self.asked or not others)


def load(path: Path) -> InsideFile | None:
    """The calls of a file; None for one that is no such file, or cannot be read."""
    return chunked_file.load(path, parse)


def parse(data: Bytes) -> InsideFile | None:
    """The calls of a file's bytes; None when they do not begin like one of this version."""
    if (header := chunked_file.header_of(data, MAGIC, HEADER)) is None:
        return None
    head = chunked_file.first_chunk(header)
    names = data[HEADER.itemsize : HEADER.itemsize + min(int(header["names"]), head - HEADER.itemsize)]
    functions = tuple(names.decode("ascii", "replace").split("\n"))[:-1]
    parts, thread, taking, damaged = [np.zeros(0, RECORD)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    sites: dict[int, AgentSite] = {}
    paths: list[str] = []
    heard: dict[Kind, list[tuple[np.void, bytes]]] = {kind: [] for kind in SAMPLED}
    for chunk in chunked_file.chunks(data, head, CHUNK, RECORD.itemsize):
        if chunk is None:
            damaged += 1
            continue
        start, count = chunk[0] + CHUNK.itemsize, chunk[2]
        units = np.frombuffer(data[start : start + count * RECORD.itemsize], RECORD)
        records, texts = without_texts(units, len(paths), heard)
        sites.update(texts.sites)
        paths += texts.paths
        row = np.arange(len(records))
        taken: Int64 = np.maximum.accumulate(np.where(records["kind"] == Kind.THREAD, row, -1))
        damaged += int((taken < 0).sum())
        records, taken = records[taken >= 0], taken[taken >= 0] - int((taken < 0).sum())
        owner = records["address"][taken] if len(records) else np.zeros(0, np.uint64)
        parts.append(records)
        thread.append((owner & np.uint64(0x7FFF_FFFF)).astype(np.int64))
        taking.append((owner >> np.uint64(32)).astype(np.int64))
    records, tid, number = np.concatenate(parts), np.concatenate(thread), np.concatenate(taking)
    clock = TickClock(header, records)
    kind = records["kind"]
    met = (kind == Kind.MET) & (records["source"] < LATEST_NS)
    told = (kind == Kind.CALL) | (kind == Kind.SUM) | met
    good = told & (records["begin"] <= records["end"]) & (records["function"] < len(functions))
    good &= (records["bytes"] < _MOST_BYTES) | (records["bytes"] == NOT_KNOWN) | (kind == Kind.SUM)
    good &= clock.sound(records["begin"]) & clock.sound(records["end"])
    good &= (kind != Kind.SUM) | _is_sum(records)
    memory = _memory(records, clock)
    maps = np.flatnonzero(np.isin(kind, (Kind.MAPPED, Kind.UNMAPPED)) & clock.sound(records["begin"]))
    maps = maps[(records["address"][maps] < records["source"][maps]) & (records["source"][maps] < MOST)]
    samples = (kind == Kind.USED) & clock.sound(records["begin"]) & used.sound(records)
    named = {int(tid[row]): paths[int(records["site"][row])] for row in np.flatnonzero(kind == Kind.NAMED).tolist()}
    lasts = (records["begin"] <= records["end"]) & clock.sound(records["begin"]) & clock.sound(records["end"])
    forks, waits = (kind == Kind.FORKED) & lasts, (kind == Kind.WAITED) & lasts & (records["function"] > 0)
    begun = (kind == Kind.BEGUN) & clock.sound(records["begin"]) & (records["bytes"] < _MOST_SPENT_NS)
    settled = good | memory | samples | forks | begun | waits | np.isin(kind, _ALWAYS_SOUND)
    settled[maps] = True
    damaged += int((~settled).sum())
    pid = int(header["pid"]) & 0x7FFFFFFF
    areas = _areas(records[maps], pid, tid[maps], clock.ns(records["begin"][maps]), paths)
    why = records["result"][kind == Kind.WITHDREW]
    # Chunks pass from a thread that ends to another, and a thread has one after another.
    order = np.lexsort((np.arange(len(records)), number, tid))

    def ordered(which: Bool) -> ThreadRecords:
        rows = order[which[order]]
        mine = records[rows]
        return ThreadRecords(mine, tid[rows].astype(np.int32), clock.ns(mine["begin"]), clock.ns(mine["end"]))

    calls, blocks = ordered(good & ~met), ordered(memory)
    sums, took = calls.records["kind"] == Kind.SUM, calls.end_ns - calls.begin_ns
    return InsideFile(
        used=_used(records, tid, samples, clock, heard, named) if samples.any() else None,
        withdrew=Withdrew(bool(why.any())) if len(why) else None,
        parent=int(header["parent"]),
        pid=pid,
        token=int(header["token"]),
        stop=int(header["stop"]),
        lost=min(int(header["lost"]), LATEST_NS),
        unsited=min(int(header["unsited"]), LATEST_NS),
        lost_blocks=int(header["lost_blocks"]),
        damaged=damaged,
        names=functions,
        **vars(calls),
        took_ns=np.where(sums, np.minimum(clock.length_ns(calls.records["source"]), took), took),
        sites=sites,
        areas=areas,
        blocks=blocks,
        block_lengths_ns={name: clock.length_ns(blocks.records[name]) for name in ("source", "stream")},
        meetings=ordered(good & met),
        communicators=_communicators(records),
        forks=ordered(forks),
        begun=ordered(begun),
        waits=ordered(waits),
        had_cuda=bool(records["result"][kind == Kind.ENTERED].any()),
        asked=bool(records["extra"][kind == Kind.ENTERED].any()),
    )


def _communicators(records: NDArray[np.void]) -> tuple[Communicator, ...]:
    """Those that make sense, each once."""
    mine = records[records["kind"] == Kind.COMMUNICATOR]
    found = [
        Communicator(identity, told & 0xFFFF_FFFF, told >> 32)
        for identity, told in zip(mine["address"].tolist(), mine["source"].tolist(), strict=True)
    ]
    return tuple(dict.fromkeys(one for one in found if one.rank < one.size <= _MOST_RANKS))


def _memory(records: NDArray[np.void], clock: TickClock) -> Bool:
    """Which records are of large memory, and make sense."""
    kind = records["kind"]
    sums = np.isin(kind, SUMMED_BLOCKS)
    good = (np.isin(kind, SINGLE_BLOCKS) | sums) & (records["begin"] <= records["end"])
    good &= (records["function"] <= max(Maker)) & clock.sound(records["begin"]) & clock.sound(records["end"])
    good &= records["bytes"] < np.where(sums, LATEST_NS, _MOST_BYTES).astype(np.uint64)
    good &= ~sums | ((records["address"] > 0) & (records["address"] < 2**40))
    good &= (records["source"] < LATEST_NS) & (records["stream"] < LATEST_NS)
    return np.asarray(good)


def _used(
    records: NDArray[np.void],
    tid: Int64,
    samples: Bool,
    clock: TickClock,
    told: dict[Kind, list[tuple[np.void, bytes]]],
    names: dict[int, str],
) -> Used:
    """The samples, by time."""
    grown = records["kind"] == Kind.RESIDENT
    resident = used.resident(records[grown], tid[grown])
    records, tid = records[samples], tid[samples]
    order = np.argsort(records["begin"], kind="stable")
    records = records[order]
    return Used(
        period_ns=int(records["result"].max(initial=1)),
        time_ns=clock.ns(records["begin"]),
        tid=tid[order].astype(np.int32),
        **used.columns(records),
        resident=resident,
        chains=dict(used.chains(told[Kind.CHAIN])),
        codes=dict(used.codes(told[Kind.CODE])),
        modules=tuple(used.modules(told[Kind.MODULE])),
        names=names,
    )


def _areas(records: NDArray[np.void], pid: int, tid: Int64, time: Int64, paths: list[str]) -> tuple[DataArea, ...]:
    columns = (records[name].tolist() for name in ("kind", "flags", "address", "source", "extra", "site"))
    found = []
    for when, thread, kind, flag, start, end, extra, path in zip(time.tolist(), tid.tolist(), *columns, strict=True):
        mapped = kind == Kind.MAPPED
        owner = thread if mapped and flag & Flag.INSIDE else -1
        protection, flags = (extra & 0xFF, extra >> 8) if mapped else (mmap.PROT_READ | mmap.PROT_WRITE, 0)
        anonymous = ANONYMOUS[flags & mmap.MAP_SHARED > 0]
        found.append(DataArea(when, pid, owner, start, end, protection, flags, paths[path] or anonymous))
    programs = {area.path for area in found if area.protection & mmap.PROT_EXEC and area.path not in ANONYMOUS}
    return tuple(sorted(area for area in found if area.path not in programs))


def _is_sum(records: NDArray[np.void]) -> Bool:
    """Whether what is said of several calls can be."""
    span = records["end"] - records["begin"]
    known = (records["bytes"] == NOT_KNOWN) | (records["bytes"] < LATEST_NS)
    several = (records["address"] > 0) & (records["address"] < 2**40) & (records["source"] <= span + 1)
    return np.asarray(several & known)
