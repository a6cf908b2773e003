"""A chunk of records → columns of its samples, and the call chains that those before it do not have.

All samples of one event have their fixed fields at the same places, so each field of a whole chunk is one numpy
gather. Several reducers may share a recording (workers.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import halves, packed
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data import perf_format as perf
from pinprof.data.gpu_functions import READ_PIECES
from pinprof.data.model import Bool, Int32, Int64, UInt64
from pinprof.read.perf import records as rec
from pinprof.read.perf.addresses import GUEST, UNKNOWN_KERNEL, DeferredChains, address_chains
from pinprof.read.perf.chains import ChainGatherer, Chains
from pinprof.read.perf.mappings import SpaceTable
from pinprof.read.perf.samples import (
    MAX_WEIGHT,
    PAYLOAD_WORDS,
    WIDE_WORDS,
    Chunk,
    Layouts,
    RawSamples,
    Readings,
    sizes_of,
)
from pinprof.read.perf.sequences import positions

_MAX_RECORD = 1 << 16
_REMEMBERED = 1 << 18
"""Chains after which a reducer begins anew, to bound its memory."""


@dataclass(frozen=True)
class Reduced:
    """What a chunk comes to."""

    samples: RawSamples
    """Whose `chain` counts in all chains of this reducer."""
    reducer: int
    """Which it was."""
    first: int
    """The number of the first of `chains`; at 0 the reducer begins anew."""
    chains: Chains | None
    """Those that it had not seen before; None where it numbers as the recording does."""
    payload: UInt64 | None
    """Tracepoints' own fields as rows of PAYLOAD_WORDS, one for each sample; None where no event has them."""
    batches: tuple[Int64, UInt64]
    """The samples that have sizes of a batch, and these: READ_PIECES columns."""
    readings: Readings
    missing: int
    """Samples whose user call chain was to come in a record of its own and did not."""
    unknown_records: int
    corrupt_bytes: int


class Reducer:
    """Turns chunks of one file into columns, and remembers the chains that it has passed on."""

    def __init__(
        self,
        file: int,
        spaces: SpaceTable,
        deferred: DeferredChains,
        chains: ChainGatherer | None = None,
        number: int = 0,
    ) -> None:
        """`file` is open; the others are those of the whole recording. Without `chains` it passes on those it finds.

        `number` tells it from others of the recording.
        """
        self._number = number
        self._file, self._spaces, self._deferred = file, spaces, deferred
        self._tells = chains is None
        self._chains = ChainGatherer() if chains is None else chains

    def reduced(self, chunk: Chunk) -> Reduced:
        """What a chunk comes to; OSError where the file can't be read."""
        (words, at), layouts = chunk.words(self._file), chunk.layouts.each
        size = sizes_of(words, at)
        source = chunk.layouts.sources_of(words, at, size)
        samples = RawSamples.of(len(at))
        chains = _ChunkChains(len(at))
        valid = np.zeros(len(at), np.bool_)
        payloads = _Payloads(len(at), chunk.layouts)
        readings = Readings.empty()
        for index, layout in enumerate(layouts):
            rows: NDArray[Any] | slice = np.flatnonzero(source == index) if len(layouts) > 1 else slice(None)
            begin, bound = at[rows], at[rows] + size[rows]
            behind = _gather(samples, chains, valid, rows, words, begin, size[rows], index, layout, chunk.counted)
            if layout.raw and len(behind):
                payloads.take(words, rows, behind, bound, index)
            if layout.read is not None and layout.read.id is not None:
                whole = np.flatnonzero(valid & (source == index))
                readings = readings.joined(_readings(words, whole, at[whole], size[whole], layout))
        version = self._spaces.version_of(samples.pid, samples.clock)
        if self._tells and len(self._chains) > _REMEMBERED:
            self._chains = ChainGatherer()
        first = len(self._chains)
        samples.chain[:] = self._chains.numbers_of(*chains.joined(samples.tid, self._deferred), version, self._spaces)
        unknown = source < 0
        if not valid.all():
            samples = samples.take(valid)
        return Reduced(
            RawSamples(**{name: packed(column) for name, column in vars(samples).items()}),
            self._number,
            first,
            self._chains.since(first) if self._tells else None,
            *payloads.of(valid),
            replace(readings, row=(np.cumsum(valid) - 1)[readings.row]),
            chains.missing,
            int(unknown.sum()),
            8 * int(size[~unknown & ~valid].sum()),
        )


def _gather(
    chunk: RawSamples,
    chains: _ChunkChains,
    valid: Bool,
    rows: NDArray[Any] | slice,
    words: UInt64,
    at: Int64,
    size: Int64,
    index: int,
    layout: rec.SampleLayout,
    counted: int,
) -> Int64:
    """Fill one event's rows of the columns, and mark those whose fields lie within their record.

    Where in the words each sample's callchain ends; empty when no record is whole.
    """
    fits = size >= layout.tail
    if not fits.any():
        return np.zeros(0, np.int64)
    base = np.where(fits, at, 0)
    bound = np.where(fits, at + size, 0)

    def column(place: int | None) -> UInt64:
        return words[base + place] if place is not None else _zeros(len(at))

    time = column(layout.time)
    period = column(layout.period)
    fits &= (time < np.uint64(rec.KERNEL_START)) & (period < np.uint64(MAX_WEIGHT))
    identity = column(layout.tid)
    chunk.clock[rows] = time.view(np.int64)
    if layout.time is None:
        chunk.clock[rows] = (np.arange(len(chunk.clock)) + counted)[rows]
    chunk.pid[rows], chunk.tid[rows] = halves(identity)
    no_cpu = layout.cpu is None
    place = column(layout.cpu)
    chunk.cpu[rows] = -1 if no_cpu else place.astype(np.uint32).view(np.int32)
    # The kernel leaves the upper half 0 (struct perf_sample_data); the native collector counts in it (thinning.py).
    chunk.left_out[rows] = (place >> np.uint64(32)).view(np.int64)
    chunk.source[rows] = index
    chunk.period[rows] = period.view(np.int64)
    chunk.ip[rows] = column(layout.ip)
    chunk.addr[rows] = column(layout.addr)
    behind = base + layout.tail
    chunk.unchained[rows] = True
    entries, length = _zeros(0), np.zeros(len(at), np.int64)
    promised = np.zeros(len(at), np.bool_)
    if layout.callchain:
        first, length = chain_extent(words, base, bound, fits, layout)
        behind = first + length
        entries, length, chain, cookies = address_chains(words, first, length)
        if len(chain):
            chains.promise(np.arange(len(chunk))[rows][chain], cookies)
            promised[chain] = True
        chunk.unchained[rows] = (length == 0) & ~promised
    if layout.ip is not None:
        alone = np.flatnonzero(fits & (length == 0) & ~promised & (chunk.ip[rows] != 0))
        if len(alone):
            entries = np.insert(entries, (np.cumsum(length) - length)[alone], _own(words, base[alone], layout.ip))
            length[alone] = 1
    chains.put(rows, entries, length)
    valid[rows] = fits
    return behind


class _ChunkChains:
    """The call chains of a chunk's samples, as they are found event by event."""

    def __init__(self, count: int) -> None:
        self.missing = 0
        self._start, self._length = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._pieces: list[UInt64] = []
        self._filled = 0
        self._promises: list[tuple[Int64, UInt64]] = []

    def put(self, rows: NDArray[Any] | slice, entries: UInt64, length: Int64) -> None:
        """Addresses of some samples, end to end."""
        self._start[rows] = self._filled + np.cumsum(length) - length
        self._length[rows] = length
        self._pieces.append(entries)
        self._filled += len(entries)

    def promise(self, rows: Int64, cookies: UInt64) -> None:
        """Samples whose user call chain comes in a record of its own, and the cookie that it has."""
        self._promises.append((rows, cookies))

    def joined(self, tid: Int32, deferred: DeferredChains) -> tuple[UInt64, Int32]:
        """All addresses in the order of the samples, and how many each has; with callers that came later."""
        if len(self._pieces) == 1 and not self._promises:
            return self._pieces[0], self._length.astype(np.int32)
        pieces, starts, lengths = self._pieces, [self._start], [self._length]
        for rows, cookies in self._promises:
            entries, length = deferred.of(tid[rows], cookies)
            self.missing += int((length < 0).sum())
            length = np.maximum(length, 0)
            start, more = np.zeros_like(self._start), np.zeros_like(self._length)
            start[rows], more[rows] = self._filled + np.cumsum(length) - length, length
            pieces = [*pieces, entries]
            starts.append(start)
            lengths.append(more)
            self._filled += len(entries)
        each = np.stack(lengths, 1)
        return (
            np.concatenate([_zeros(0), *pieces])[positions(np.stack(starts, 1).reshape(-1), each.reshape(-1))],
            each.sum(1).astype(np.int32),
        )


def chain_extent(words: UInt64, base: Int64, bound: Int64, fits: Bool, layout: rec.SampleLayout) -> tuple[Int64, Int64]:
    """First word and number of words of each callchain; clears `fits` where it leaves its record."""
    last = len(words) - 1
    place = base + layout.tail
    if layout.read is not None:
        place = place + layout.read.before + layout.read.each * _counters(words, place, layout.read)
    fits &= place < bound
    length = np.minimum(words[np.minimum(place, last)], np.uint64(_MAX_RECORD)).astype(np.int64)
    fits &= place + 1 + length <= bound
    return place + 1, np.where(fits, length, 0)


def _counters(words: UInt64, place: Int64, read: rec.ReadLayout) -> Int64:
    """How many counters the READ fields at `place` have."""
    if not read.group:
        return np.ones(len(place), np.int64)
    return np.minimum(words[np.minimum(place, len(words) - 1)], np.uint64(_MAX_RECORD)).astype(np.int64)


def _readings(words: UInt64, rows: Int64, at: Int64, size: Int64, layout: rec.SampleLayout) -> Readings:
    """The counters that were read at the samples `rows`, whose records begin `at` words."""
    read = layout.read
    assert read is not None
    assert read.id is not None
    place = at + layout.tail
    first = place + read.before
    count = np.clip(_counters(words, place, read), 0, np.maximum(at + size - first, 0) // read.each)
    value = positions(first, count * read.each)[:: read.each]
    return Readings(np.repeat(rows, count), words[value + read.id], words[value])


def _own(words: UInt64, base: Int64, place: int) -> UInt64:
    """The addresses at which the samples at `base` were taken, as callchains would say them."""
    mode = (words[base] >> np.uint64(32)) & np.uint64(perf.MISC_CPUMODE_MASK)
    address = words[base + place]
    # Kernels of 32 bits lie where programs of 64 bits may: the record says that it is the kernel.
    low = (mode == np.uint64(perf.MISC_KERNEL)) & (address < np.uint64(UNKNOWN_KERNEL))
    address = np.where(low, np.uint64(UNKNOWN_KERNEL), address)
    return np.where(np.isin(mode, perf.MISC_GUEST), np.uint64(GUEST), address)


class _Payloads:
    """The fields of their own that a chunk's samples of tracepoints have, as they are found event by event."""

    def __init__(self, count: int, layouts: Layouts) -> None:
        self._layouts = layouts
        self._words = np.zeros((count, PAYLOAD_WORDS), np.uint64) if any(each.raw for each in layouts.each) else None
        self._wide = np.zeros(count, np.bool_)
        self._sizes = np.zeros((count if layouts.wide else 0, READ_PIECES), np.uint64)

    def take(self, words: UInt64, rows: NDArray[Any] | slice, place: Int64, bound: Int64, index: int) -> None:
        """The RAW data at `place` of one event's samples, whose records end at `bound`."""
        assert self._words is not None
        wide = index in self._layouts.wide
        found = _payload(words, place, bound, WIDE_WORDS if wide else PAYLOAD_WORDS)
        self._words[rows] = found[:, :PAYLOAD_WORDS]
        if wide:
            self._wide[rows], self._sizes[rows] = True, found[:, PAYLOAD_WORDS:]

    def of(self, valid: Bool) -> tuple[UInt64 | None, tuple[Int64, UInt64]]:
        """`payload` and `batches` of some samples, see Reduced."""
        batches = np.flatnonzero(self._wide[valid]), self._sizes[np.flatnonzero(valid & self._wide)]
        return None if self._words is None else self._words[valid], batches


def _payload(words: UInt64, place: Int64, bound: Int64, count: int) -> UInt64:
    """The first words of RAW data, which is `u32 bytes; char data[bytes]`: half a word off."""
    wanted = place[:, None] + np.arange(count + 1)
    raw = np.where(wanted < bound[:, None], words[np.minimum(wanted, len(words) - 1)], np.uint64(0))
    half = np.uint64(32)
    return np.asarray((raw[:, :-1] >> half) | (raw[:, 1:] << half))


def _zeros(count: int) -> UInt64:
    return np.zeros(count, np.uint64)
