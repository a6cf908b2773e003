"""The agent's file of NVTX while the last seconds alone are kept: names given once, and ranges that are open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pinprof.portions.agent_files import AgentChunk, ChunkedFile, Pending, Units, whole_chunk
from pinprof.read.nvtx import file as nvtx
from pinprof.read.nvtx.file import RECORD, TEXT, NvtxKind
from pinprof.streams.records import between

_ONCE = (NvtxKind.DOMAIN, NvtxKind.STRING, NvtxKind.CATEGORY, NvtxKind.THREAD_NAME)
_RANGES = (NvtxKind.PUSH, NvtxKind.POP, NvtxKind.START, NvtxKind.END)
_DEEPEST = 128
"""Ranges of a thread that are followed, as when they are read."""
_ROW = np.dtype([*RECORD.descr, ("ns", "<i8"), ("at", "<i8"), ("tid", "<u8"), ("said", "<i8")])
"""A record, when it happened, whose it is, and the number of its text, -1 for none of its own."""
_MOST_BYTES = (1 << 16) - 4096
"""In a chunk: offsets inside fit 16 bits."""


class NvtxKept(ChunkedFile):
    """One process's."""

    magic, header, chunk, record = nvtx.MAGIC, nvtx.HEADER, nvtx.CHUNK, RECORD

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._pending = Pending(np.zeros(0, _ROW), _open)
        self._once: dict[tuple[int, int, int, int], np.void] = {}
        self._texts: dict[bytes, int] = {}

    def gained(self, chunk: AgentChunk, units: Units) -> None:
        """Take in records."""
        rows = self._rows(chunk, units)
        chunk.last_ns = max(chunk.last_ns, int(rows["ns"].max(initial=0)))
        for at in np.flatnonzero(np.isin(rows["kind"], _ONCE)).tolist():
            row = rows[at]
            self._once[int(row["kind"]), int(row["domain"]), int(row["category"]), int(row["value"])] = row.copy()
        self._pending.add(rows[np.isin(rows["kind"], _RANGES)])

    def forget(self, before_ns: int) -> None:
        """What has ended by a time is needed no more."""
        self._pending.forget(before_ns)

    def cut(self, begin_ns: int) -> bytes:
        """What the file would be if it had been begun at a time."""
        rows = [np.array(list(self._once.values()), _ROW), self._pending.at(begin_ns)]
        for chunk in self.remaining:
            if chunk.last_ns >= begin_ns:
                whole = AgentChunk(chunk.place, chunk.size)
                found = self._rows(whole, self.units(chunk))
                rows.append(found[(found["ns"] >= begin_ns) & ~np.isin(found["kind"], _ONCE)])
        texts = list(self._texts)
        return self.head + b"".join(_chunks(np.concatenate(rows), texts))

    def _rows(self, chunk: AgentChunk, units: Units) -> Units:
        """Records without those that say whose the others are."""
        owners = chunk.owners(units, NvtxKind.THREAD)
        kept = units["kind"] != NvtxKind.THREAD
        rows = np.zeros(int(kept.sum()), _ROW)
        for name in RECORD.names or ():
            rows[name] = units[name][kept]
        rows["ns"], rows["at"], rows["tid"] = rows["time_ns"], rows["time_ns"], owners["value"][kept]
        rows["said"] = -1
        own = (rows["flags"] & TEXT) > 0
        places, which = np.unique(rows["text"][own], return_inverse=True)
        if len(places):
            raw = between(self.path, chunk.place, chunk.place + chunk.size)
            texts = [raw[place & 0xFFFF : (place & 0xFFFF) + (place >> 16)] for place in places.tolist()]
            rows["said"][own] = np.array([self._texts.setdefault(text, len(self._texts)) for text in texts])[which]
        return rows


def _open(rows: Units) -> Units:
    """Ranges that have begun and not ended, of records by time; a thread's deepest are left out, as when it is read."""
    thread = np.isin(rows["kind"], (NvtxKind.PUSH, NvtxKind.POP))
    stacks: dict[tuple[int, int], list[int]] = {}
    for at in np.flatnonzero(thread).tolist():
        stack = stacks.setdefault((int(rows["tid"][at]) & 0xFFFF_FFFF, int(rows["domain"][at])), [])
        if rows["kind"][at] == NvtxKind.PUSH:
            stack.append(at)
        elif stack:
            stack.pop()
    kept = [at for stack in stacks.values() for at in stack[:_DEEPEST]]
    started: dict[int, int] = {}
    for at in np.flatnonzero(~thread).tolist():
        if rows["kind"][at] == NvtxKind.START:
            started[int(rows["value"][at])] = at
        else:
            started.pop(int(rows["value"][at]), None)
    return rows[sorted([*kept, *started.values()])]


def _chunks(rows: Units, texts: Sequence[bytes]) -> Iterator[bytes]:
    """Chunks with records, each thread's in their order, and the texts behind them."""
    thread, taking = rows["tid"] & np.uint64(0xFFFF_FFFF), rows["tid"] >> np.uint64(32)
    order = np.lexsort((np.arange(len(rows)), taking, thread))
    held: list[int] = []
    said: dict[int, int] = {}
    length = 0
    for at, text, new in zip(
        order.tolist(), rows["said"][order].tolist(), np.append(True, np.diff(thread[order]) > 0).tolist(), strict=False
    ):
        more = RECORD.itemsize + (len(texts[text]) if text >= 0 and text not in said else 0)
        if held and (new or length + more > _MOST_BYTES):
            yield _chunk(rows[held], texts, said)
            held, said, length = [], {}, 0
            more = RECORD.itemsize + (len(texts[text]) if text >= 0 else 0)
        held.append(at)
        length += more
        if text >= 0:
            said.setdefault(text, 0)
    if held:
        yield _chunk(rows[held], texts, said)


def _chunk(rows: Units, texts: Sequence[bytes], said: dict[int, int]) -> bytes:
    records = np.zeros(len(rows) + 1, RECORD)
    for name in RECORD.names or ():
        records[name][1:] = rows[name]
    records[0]["kind"], records[0]["value"] = NvtxKind.THREAD, rows["tid"][0] & np.uint64(0xFFFF_FFFF)
    place = nvtx.CHUNK.itemsize + records.nbytes
    for text in said:
        said[text] = place | len(texts[text]) << 16
        place += len(texts[text])
    own = np.flatnonzero(rows["said"] >= 0)
    records["text"][own + 1] = [said[text] for text in rows["said"][own].tolist()]
    return whole_chunk(nvtx.CHUNK, len(records), records.tobytes() + b"".join(texts[text] for text in said))
