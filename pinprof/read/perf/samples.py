"""The samples of a perf.data file, gathered from buffers of records into columns.

All samples of one event have their fixed fields at the same places, so each field of a whole chunk is one numpy
gather. Callchains are kept as numbers of their distinct addresses, half the size they have in the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.columns import Table
from pinprof.cuda_functions import BATCHES, READ_PIECES
from pinprof.model import Bool, Int32, Int64, UInt64
from pinprof.read.interning import Interner
from pinprof.read.perf import records as rec
from pinprof.read.perf.header import EventSource

UNKNOWN_USER, GUEST, UNKNOWN_KERNEL = 0, rec.KERNEL_START - 1, rec.KERNEL_START
"""Addresses that stand for: a user frame whose address cannot be code, any guest frame, a kernel frame likewise.

No processor has user memory at the guest's; small numbers such as 1 are what broken frame pointers lead to.
"""

MAX_WEIGHT = 1 << 48
"""A period or a count beyond this is damage: nanoseconds of three days, more faults than there is memory."""

PAYLOAD_WORDS = 6
"""Kept of a tracepoint's own fields, in 8-byte words: the common ones, and five of its own."""

WIDE_WORDS = PAYLOAD_WORDS + READ_PIECES
"""The same where sizes of a batch stand behind them."""

_MAX_RECORD = 1 << 16
_MODE_USER, _MODE_KERNEL, _MODE_GUEST, _MODE_BY_VALUE = 0, 1, 2, 3


BATCH_EVENTS = tuple(f"{name}/{BATCHES}" for name in ("call-enter", "call-enter-bare"))
"""Events whose own fields go on with the sizes of a batch (collect/native/tracefs.py)."""


@dataclass(frozen=True, eq=False, repr=False)
class RawSamples(Table):
    """Sample columns in file order; a callchain is `Raw.chains[chain_start : chain_start + chain_length]`."""

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
    chain_start: Int64
    chain_length: Int32
    """0 without callchain or address."""
    unchained: Bool
    """Whether no callchain was recorded: it consists of the sample's own address, if that is known."""


class SampleGatherer:
    """Grows the sample columns chunk by chunk; `sources_changed()` before the first chunk."""

    def __init__(self) -> None:
        self.layouts: list[rec.SampleLayout] = []
        self.source_of_id: dict[int, int] = {}
        self.count = 0
        """Samples met so far."""
        self.unknown_records = self.corrupt_bytes = 0
        self._ids: UInt64 = _zeros(0)
        self._id_sources: Int32 = np.empty(0, np.int32)
        self._chunks: list[RawSamples] = []
        self._addresses = Interner()
        self._chains: list[Int32] = []
        self._chained = 0
        self._payloads: list[UInt64] = []
        self._wide_sources: tuple[int, ...] = ()
        self._wide: list[tuple[Int64, UInt64]] = []
        self._kept = 0
        self._promises: list[tuple[Int64, UInt64]] = []

    @property
    def addresses(self) -> UInt64:
        """Distinct addresses in callchains."""
        return self._addresses.keys

    def sources_changed(self, sources: list[EventSource]) -> None:
        """Derive layouts and the id table from the events known by now."""
        self.layouts = [rec.sample_layout(source.attr) for source in sources]
        self._wide_sources = tuple(at for at, source in enumerate(sources) if source.name in BATCH_EVENTS)
        pairs = sorted((number, index) for index, source in enumerate(sources) for number in source.ids)
        self._ids = np.array([number for number, _ in pairs], np.uint64)
        self._id_sources = np.array([index for _, index in pairs], np.int32)
        self.source_of_id = dict(pairs)

    def result(self) -> tuple[RawSamples, Int32]:
        """All samples, and their callchains end to end; the gatherer is empty afterwards."""
        return _joined_samples(self._chunks), _joined_chains(self._chains)

    def payload(self) -> UInt64:
        """Tracepoints' own fields as rows of PAYLOAD_WORDS, one for each sample where any event has them, else none."""
        return np.concatenate(self._payloads) if self._payloads else _zeros(0).reshape(0, PAYLOAD_WORDS)

    def batches(self) -> tuple[Int64, UInt64]:
        """The samples that have sizes of a batch, and these: READ_PIECES columns."""
        none = (np.zeros(0, np.int64), _zeros(0).reshape(0, READ_PIECES))
        rows, sizes = zip(*(none, *self._wide), strict=True)
        return np.concatenate(rows), np.concatenate(sizes)

    def promised(self) -> tuple[Int64, UInt64]:
        """The samples whose user call chain comes in a record of its own, and the cookie that it will have."""
        none = (np.zeros(0, np.int64), _zeros(0))
        rows, cookies = zip(*(none, *self._promises), strict=True)
        return np.concatenate(rows), np.concatenate(cookies)

    def number(self, addresses: UInt64) -> Int32:
        """Addresses as callchains hold them."""
        return self._addresses.ids(addresses)

    def take(self, buffer: bytearray, end: int, starts: list[int]) -> None:
        """Turn the samples at `starts` into columns."""
        words, at = words_of(buffer, end, starts)
        size = (words[at] >> np.uint64(48)).astype(np.int64) >> 3
        source = self._sources_of(words, at, size)
        promises, wide = len(self._promises), len(self._wide)
        chunk = RawSamples.of(len(at))
        valid = np.zeros(len(at), np.bool_)
        payload = np.zeros((len(at), PAYLOAD_WORDS), np.uint64) if any(entry.raw for entry in self.layouts) else None
        for index, layout in enumerate(self.layouts):
            rows: NDArray[Any] | slice = np.flatnonzero(source == index) if len(self.layouts) > 1 else slice(None)
            end_of_chain = self._gather(chunk, valid, rows, words, at[rows], size[rows], index, layout)
            if payload is not None and layout.raw and len(end_of_chain):
                if index in self._wide_sources:
                    whole = _payload(words, end_of_chain, at[rows] + size[rows], WIDE_WORDS)
                    payload[rows] = whole[:, :PAYLOAD_WORDS]
                    self._wide.append((np.arange(len(at))[rows], whole[:, PAYLOAD_WORDS:]))
                else:
                    payload[rows] = _payload(words, end_of_chain, at[rows] + size[rows])
        if not valid.all():
            known = source >= 0
            self.unknown_records += int((~known).sum())
            self.corrupt_bytes += 8 * int(size[known & ~valid].sum())
            chunk = chunk.take(valid)
        if payload is not None:
            self._payloads.append(payload[valid])
        place = self._kept + np.cumsum(valid) - 1
        self._wide[wide:] = [(place[row[valid[row]]], sizes[valid[row]]) for row, sizes in self._wide[wide:]]
        if len(self._promises) > promises:
            self._promises[promises:] = [(place[row], cookie) for row, cookie in self._promises[promises:]]
        self._kept += len(chunk.clock)
        self.count += len(starts)
        self._chunks.append(chunk)

    def _sources_of(self, words: UInt64, at: Int64, size: Int64) -> Int32:
        """Per sample, the index of its event; -1 for an id that no event has."""
        if len(self.layouts) <= 1:
            return np.full(len(at), len(self.layouts) - 1, np.int32)
        place = self.layouts[0].id
        if place is None or not len(self._ids):
            return np.zeros(len(at), np.int32)
        known = size > place
        ids = words[np.where(known, at + place, 0)]
        nearest = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        known &= (self._ids[nearest] == ids) | (ids == 0)
        # perf gives samples with id 0 to the first event.
        return np.where(known, np.where(ids == 0, 0, self._id_sources[nearest]), -1).astype(np.int32)

    def _gather(
        self,
        chunk: RawSamples,
        valid: Bool,
        rows: NDArray[Any] | slice,
        words: UInt64,
        at: Int64,
        size: Int64,
        index: int,
        layout: rec.SampleLayout,
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
            chunk.clock[rows] = (np.arange(len(chunk.clock)) + self.count)[rows]
        chunk.pid[rows] = (identity & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)
        chunk.tid[rows] = (identity >> np.uint64(32)).astype(np.uint32).view(np.int32)
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
            first, length = _chain_extent(words, base, bound, fits, layout)
            behind = first + length
            entries, length, chain, cookies = address_chains(words, first, length)
            if len(chain):
                self._promises.append((np.arange(len(chunk.clock))[rows][chain], cookies))
                promised[chain] = True
            chunk.unchained[rows] = (length == 0) & ~promised
        if layout.ip is not None:
            alone = np.flatnonzero(fits & (length == 0) & ~promised & (chunk.ip[rows] != 0))
            entries = np.insert(entries, (np.cumsum(length) - length)[alone], _own(words, base[alone], layout.ip))
            length[alone] = 1
        self._chains.append(self._addresses.ids(entries))
        chunk.chain_start[rows] = self._chained + np.cumsum(length) - length
        chunk.chain_length[rows] = length
        self._chained += len(entries)
        valid[rows] = fits
        return behind


def _joined_samples(chunks: list[RawSamples]) -> RawSamples:
    """All chunks as one, column by column; empties the list, so that memory holds little more than the samples once."""
    columns = [dict(vars(chunk)) for chunk in (RawSamples.empty(), *chunks)]
    chunks.clear()
    return RawSamples(**{name: np.concatenate([each.pop(name) for each in columns]) for name in tuple(columns[0])})


def _joined_chains(chunks: list[Int32]) -> Int32:
    """The same for the callchains."""
    end = sum(map(len, chunks))
    chains = np.empty(end, np.int32)
    while chunks:
        chunk = chunks.pop()
        chains[end - len(chunk) : end] = chunk
        end -= len(chunk)
    return chains


def _chain_extent(
    words: UInt64, base: Int64, bound: Int64, fits: Bool, layout: rec.SampleLayout
) -> tuple[Int64, Int64]:
    """First word and number of words of each callchain; clears `fits` where it leaves its record."""
    last = len(words) - 1
    place = base + layout.tail + layout.read_words
    if layout.read_group_words is not None:
        before, each = layout.read_group_words
        counters = np.minimum(words[np.minimum(place, last)], np.uint64(_MAX_RECORD)).astype(np.int64)
        place = place + before + each * counters
    fits &= place < bound
    length = np.minimum(words[np.minimum(place, last)], np.uint64(_MAX_RECORD)).astype(np.int64)
    fits &= place + 1 + length <= bound
    return place + 1, np.where(fits, length, 0)


def _own(words: UInt64, base: Int64, place: int) -> UInt64:
    """The addresses at which the samples at `base` were taken, as callchains would say them."""
    mode = (words[base] >> np.uint64(32)) & np.uint64(rec.MISC_CPUMODE_MASK)
    return np.where(np.isin(mode, rec.MISC_GUEST), np.uint64(GUEST), words[base + place])


def _payload(words: UInt64, place: Int64, bound: Int64, count: int = PAYLOAD_WORDS) -> UInt64:
    """The first words of RAW data, which is `u32 bytes; char data[bytes]`: half a word off."""
    wanted = place[:, None] + np.arange(count + 1)
    raw = np.where(wanted < bound[:, None], words[np.minimum(wanted, len(words) - 1)], np.uint64(0))
    half = np.uint64(32)
    return np.asarray((raw[:, :-1] >> half) | (raw[:, 1:] << half))


def address_chains(words: UInt64, first: Int64, length: Int64) -> tuple[UInt64, Int64, Int64, UInt64]:
    """The addresses of all chains end to end without their context markers, and each chain's length without them; the
    chains whose user part comes later, and their cookies (deferred.py).

    Addresses that contradict their context (a user frame with a kernel address is a forged or torn frame) and guest
    addresses, which mean nothing to the host's symbols, are replaced by the stand-ins at the top of this module.
    """
    ends = np.cumsum(length)
    begins = ends - length
    total = int(ends[-1]) if len(ends) else 0
    entries = words[np.arange(total) + np.repeat(first - begins, length)]
    later = np.flatnonzero(entries == np.uint64(rec.CONTEXT_USER_DEFERRED))
    later_chain = np.searchsorted(ends, later, side="right")
    has_cookie = later + 1 < ends[later_chain]
    later_chain, cookie_at = later_chain[has_cookie], later[has_cookie] + 1
    cookies = entries[cookie_at]
    entries[cookie_at] = rec.CONTEXT_USER
    markers = np.flatnonzero(entries >= np.uint64(rec.CONTEXT_LOWEST))
    # Segments of one mode begin at each marker, and at each chain that does not begin with one.
    plain = begins[(length > 0)]
    plain = plain[entries[plain] < np.uint64(rec.CONTEXT_LOWEST)]
    marker_values = entries[markers]
    modes = np.full(len(markers), _MODE_GUEST, np.uint8)
    modes[marker_values == np.uint64(rec.CONTEXT_KERNEL)] = _MODE_KERNEL
    modes[marker_values == np.uint64(rec.CONTEXT_USER)] = _MODE_USER
    if len(plain):
        starts = np.concatenate([markers, plain])
        modes = np.concatenate([modes, np.full(len(plain), _MODE_BY_VALUE, np.uint8)])
        order = np.argsort(starts, kind="stable")
        starts, modes = starts[order], modes[order]
    else:
        starts = markers
    mode = np.repeat(modes, np.diff(starts, append=total))
    keep = np.ones(total, np.bool_)
    keep[markers] = False
    entries, mode = entries[keep], mode[keep]
    odd = mode != (entries >= np.uint64(rec.KERNEL_START))
    if odd.any():
        entries[odd & (mode == _MODE_USER)] = UNKNOWN_USER
        entries[odd & (mode == _MODE_KERNEL)] = UNKNOWN_KERNEL
        entries[mode == _MODE_GUEST] = GUEST
    inside = np.searchsorted(markers, ends) - np.searchsorted(markers, begins)
    return entries, length - inside, later_chain, cookies


def words_of(buffer: bytearray, end: int, starts: list[int]) -> tuple[UInt64, Int64]:
    """buffer[:end] as 8-byte words, and the word at which each record of `starts` begins."""
    at = np.array(starts, np.int64)
    if (at & 7).any():
        buffer, at = _aligned(buffer, starts)
        end = len(buffer)
    return np.frombuffer(buffer, "<u8", end >> 3), at >> 3


def _aligned(buffer: bytearray, starts: list[int]) -> tuple[bytearray, Int64]:
    """The records at `starts` copied to 8-byte boundaries (records behind compressed ones may lie anywhere)."""
    pieces, places, position = [], [], 0
    for start in starts:
        (size,) = struct.unpack_from("<H", buffer, start + 6)
        padding = -size % 8
        pieces.append(buffer[start : start + size] + bytes(padding))
        places.append(position)
        position += size + padding
    return bytearray().join(pieces), np.array(places, np.int64)


def _zeros(count: int) -> UInt64:
    return np.zeros(count, np.uint64)
