"""One file that the agent writes of NVTX: bytes → columns of events; inside/nvtx.c has its layout.

Nothing in a file raises an error: what is no whole record is left out and counted. The writer may have been killed at
any instruction, the disk may have been full, and the file may be of a hostile program.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Bool, Int32, Int64, Table, UInt8, UInt64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.read import chunked_file
from pinprof.read.chunked_file import Bytes

MAGIC = b"PINPNVTX"


class NvtxKind(IntEnum):
    """What a record says; the numbers are those of nvtx.c."""

    THREAD = 1
    PUSH = 2
    POP = 3
    START = 4
    END = 5
    MARK = 6
    DOMAIN = 7
    STRING = 8
    CATEGORY = 9
    THREAD_NAME = 10


HEADER = np.dtype(chunked_file.HEADER)
CHUNK = np.dtype([*chunked_file.CHUNK, ("left", "<u8"), ("reserved", "<u8")])
RECORD = np.dtype(
    [
        ("time_ns", "<u8"),
        ("value", "<u8"),
        ("domain", "<u4"),
        ("category", "<u4"),
        ("text", "<u4"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("reserved", "<u2"),
    ]
)
TEXT, REGISTERED, CUT = 1, 2, 4
"""Bits of `flags`."""


@dataclass(frozen=True, eq=False, repr=False)
class EventTable(Table):
    """What processes said; of one process, each thread's events are in the order in which it said them."""

    time_ns: Int64
    tid: Int32
    kind: UInt8
    """`Kind`."""
    value: UInt64
    domain: UInt64
    text: Int64
    """Index into the file's texts, -1 without a text of its own."""
    registered: UInt64
    """Id of a registered string, 0 for none."""


@dataclass(frozen=True)
class NvtxFile:
    """What one process said."""

    pid: int
    token: int
    """Names the file among those of a capture; 0 for one that holds nothing."""
    parent: int
    """Token of the process from which this one was forked, whose domains and strings it inherited; 0 for none."""
    lost: int
    """Events that the writer had no room for, or that came from a signal handler within another event."""
    damaged: int
    """Records left out because they make no sense, and pages that belong to no chunk."""
    events: EventTable
    texts: tuple[str, ...]
    cut: int
    """Distinct texts that were too long and end in `…`."""


def load(path: Path) -> NvtxFile | None:
    """The events of a file; None for one that is no such file, or cannot be read."""
    return chunked_file.load(path, parse)


def parse(data: Bytes) -> NvtxFile | None:
    """The events of a file's bytes; None when they do not begin like one of this version."""
    if (header := chunked_file.header_of(data, MAGIC, HEADER)) is None:
        return None
    found = list(chunked_file.chunks(data, chunked_file.first_chunk(header), CHUNK, RECORD.itemsize))
    chunks, damaged = [chunk for chunk in found if chunk is not None], found.count(None)
    parts = [
        np.frombuffer(data[start + CHUNK.itemsize : start + CHUNK.itemsize + count * RECORD.itemsize], RECORD)
        for start, _, count in chunks
    ]
    records = np.concatenate([np.zeros(0, RECORD), *parts])
    place, size, count = (np.array([chunk[i] for chunk in chunks], np.int64) for i in range(3))
    begins = np.repeat(np.cumsum(count) - count, count)
    row = np.arange(len(records))
    taken: Int64 = np.maximum.accumulate(np.where(records["kind"] == NvtxKind.THREAD, row, -1))
    good, offset, length = _sound(records, np.repeat(size, count))
    good &= taken >= begins
    damaged += int(np.count_nonzero(~good))
    good &= records["kind"] != NvtxKind.THREAD
    owner = records["value"][np.maximum(taken, 0)] if len(records) else np.zeros(0, np.uint64)
    # A chunk passes from a thread that ends to another, and a thread has one after another: the number of the taking
    # orders them even where the clock is coarse.
    thread, taking = owner & np.uint64(0xFFFF_FFFF), owner >> np.uint64(32)
    order = np.lexsort((row, taking, thread))
    order = order[good[order]]
    records = records[order]
    own = (records["flags"] & TEXT) > 0
    start = (np.repeat(place, count) + offset)[order]
    text, texts, cut = _texts(data, own, start, length[order], (records["flags"] & CUT) > 0)
    return NvtxFile(
        pid=_small(int(header["pid"])),
        token=int(header["token"]),
        parent=int(header["parent"]),
        lost=int(header["lost"]),
        damaged=damaged,
        events=EventTable.of(
            len(records),
            time_ns=records["time_ns"],
            tid=thread[order] & np.uint64(0x7FFF_FFFF),
            kind=records["kind"],
            value=records["value"],
            domain=records["domain"],
            text=text,
            registered=np.where((records["flags"] & (TEXT | REGISTERED)) == REGISTERED, records["text"], 0),
        ),
        texts=texts,
        cut=cut,
    )


def _small(number: int) -> int:
    return number if number < 2**31 else -1


def _sound(records: NDArray[np.void], size: Int64) -> tuple[Bool, Int64, Int64]:
    """Which records make sense, and offset and length of their texts inside their chunks."""
    offset, length = (records["text"] & 0xFFFF).astype(np.int64), (records["text"] >> 16).astype(np.int64)
    inside = (offset >= CHUNK.itemsize) & (offset + length <= size)
    good = (records["kind"] >= NvtxKind.THREAD) & (records["kind"] <= NvtxKind.THREAD_NAME)
    good &= records["time_ns"] < np.uint64(2**63)
    good &= ((records["flags"] & TEXT) == 0) | inside
    return good, offset, length


def _texts(data: Bytes, own: Bool, start: Int64, length: Int64, cut: Bool) -> tuple[Int64, tuple[str, ...], int]:
    """Per record its text as an index into distinct texts, -1 for none; the texts; how many of them were cut."""
    index = np.full(len(own), -1, np.int64)
    key = (start << 16 | length) << 1 | cut
    places, index[own] = np.unique(key[own], return_inverse=True)
    texts, shortened = [], set()
    for place in places.tolist():
        begin, size = place >> 17, place >> 1 & 0xFFFF
        texts.append(data[begin : begin + size].decode("utf-8", "replace") + ("…" if place & 1 else ""))
        if place & 1:
            shortened.add(texts[-1])
    return index, tuple(texts), len(shortened)
