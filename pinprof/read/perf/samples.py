"""The samples of a perf.data file as columns, and how records in a buffer become words."""

from __future__ import annotations

import errno
import os
import struct
from typing import NamedTuple

import numpy as np

from pinprof.base.columns import Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data import perf_format as perf
from pinprof.data.gpu_functions import BATCHES, READ_PIECES
from pinprof.data.model import Bool, Int32, Int64, UInt64
from pinprof.read.perf import records as rec
from pinprof.read.perf.header import EventSource

MAX_WEIGHT = 1 << 48
"""A period or a count beyond this is damage: nanoseconds of three days, more faults than there is memory."""

PAYLOAD_WORDS = 6
"""Kept of a tracepoint's own fields, in 8-byte words: the common ones, and five of its own."""

WIDE_WORDS = PAYLOAD_WORDS + READ_PIECES
"""The same where sizes of a batch follow them."""

BATCH_EVENTS = tuple(f"{name}/{BATCHES}" for name in ("call-enter", "call-enter-bare"))
"""Events whose own fields go on with the sizes of a batch (collect/native/tracefs.py)."""


@dataclass(frozen=True, eq=False, repr=False)
class RawSamples(Table):
    """Sample columns in file order."""

    clock: Int64
    """Time, or the position in the file when the recording has no times."""
    pid: Int32
    tid: Int32
    cpu: Int32
    source: Int32
    """Index into the header's sources."""
    period: Int64
    """0 when not recorded."""
    left_out: Int64
    """Samples that this one stands for beside itself: those of its thread that a recording left out before it."""
    ip: UInt64
    addr: UInt64
    chain: Int32
    """Index into `Raw.chains`; NO_CHAIN without callchain or address."""
    unchained: Bool
    """Whether no callchain was recorded: it consists of the sample's own address, if that is known."""


@dataclass(frozen=True, eq=False, repr=False)
class Readings(Table):
    """Counters that were read when samples were taken, in file order."""

    row: Int64
    """Whose sample it was."""
    id: UInt64
    """Each counter has one, which names its event."""
    value: UInt64
    """What it counted since the recording began."""


class Layouts:
    """How the events known so far lay out their samples, and whose sample a record is."""

    def __init__(self, sources: list[EventSource]) -> None:
        self.each = [rec.sample_layout(source.attr) for source in sources]
        pairs = sorted((number, index) for index, source in enumerate(sources) for number in source.ids)
        self._ids = np.array([number for number, _ in pairs], np.uint64)
        self._id_sources = np.array([index for _, index in pairs], np.int32)
        self._identified = all(source.attr.sample_type & perf.SAMPLE_IDENTIFIER for source in sources)
        self.source_of_id = dict(pairs)
        self.wide = tuple(at for at, source in enumerate(sources) if source.name in BATCH_EVENTS)
        """Events whose own fields go on with the sizes of a batch."""

    def sources_of(self, words: UInt64, at: Int64, size: Int64) -> Int32:
        """Per sample, the index of its event; -1 for an id that no event has."""
        if len(self.each) <= 1:
            return np.full(len(at), len(self.each) - 1, np.int32)
        place = self.each[0].id
        if place is None or not len(self._ids):
            return np.zeros(len(at), np.int32)
        known = size > place
        # perf gives samples with id 0 to the first event.
        ids = words[np.where(known, at + place, 0)]
        return np.where(known, np.where(ids == 0, 0, self._of_ids(ids)), -1).astype(np.int32)

    def sources_of_trailers(self, last_words: UInt64) -> Int32:
        """Per record other than samples, the index of the event whose trailer it carries."""
        # Events may carry different trailers only where each ends in the id that says whose it is.
        if len(self.each) <= 1 or not self._identified or not len(self._ids):
            return np.zeros(len(last_words), np.int32)
        return np.maximum(self._of_ids(last_words), 0)

    def _of_ids(self, ids: UInt64) -> Int32:
        nearest = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[nearest] == ids, self._id_sources[nearest], -1).astype(np.int32)


class FilePart(NamedTuple):
    """Some bytes of a file."""

    begin: int
    size: int

    def read(self, file: int) -> bytes:
        """The bytes, from a file descriptor whose own position does not matter; OSError where they are gone."""
        data = os.pread(file, self.size, self.begin)
        if len(data) < self.size:
            raise OSError(errno.EIO, "it became shorter while it was read")
        return data


@dataclass(frozen=True)
class Chunk:
    """Samples that lie together."""

    records: FilePart | bytes
    """Where in the file their records are, others between them; of a compressed file the records."""
    starts: Int32
    """The byte of `records` at which each sample begins, ascending."""
    layouts: Layouts
    counted: int
    """Samples before this chunk, for recordings without times."""

    def words(self, file: int) -> tuple[UInt64, Int64]:
        """`words_of` its records, read from the open file where they are there."""
        data = self.records if isinstance(self.records, bytes) else self.records.read(file)
        return words_of(data, len(data), self.starts)


def sizes_of(words: UInt64, at: Int64) -> Int64:
    """How many words each record has, by its header."""
    return (words[at] >> np.uint64(48)).astype(np.int64) >> 3


def words_of(buffer: bytes | bytearray, end: int, starts: Int32) -> tuple[UInt64, Int64]:
    """buffer[:end] as 8-byte words, and the word at which each record of `starts` begins."""
    at = starts.astype(np.int64)
    if (at & 7).any():
        buffer, at = _aligned(buffer, starts)
        end = len(buffer)
    return np.frombuffer(buffer, "<u8", end >> 3), at >> 3


def _aligned(buffer: bytes | bytearray, starts: Int32) -> tuple[bytearray, Int64]:
    """The records at `starts` copied to 8-byte boundaries (records behind compressed ones may lie anywhere)."""
    pieces, places, position = [], [], 0
    for start in starts.tolist():
        (size,) = struct.unpack_from("<H", buffer, start + 6)
        padding = -size % 8
        pieces.append(buffer[start : start + size] + bytes(padding))
        places.append(position)
        position += size + padding
    return bytearray().join(pieces), np.array(places, np.int64)
