"""The data section of a perf.data file → sample columns, raw callchains and task records, in one streaming pass.

The file is read in chunks of a few MiB; within a chunk, a plain loop walks the record headers and everything about
samples is numpy (samples.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from pinprof.model import Int32, Int64, UInt64
from pinprof.read.perf import records as rec
from pinprof.read.perf.deferred import DeferredChains
from pinprof.read.perf.header import EventSource, Header, name_sources
from pinprof.read.perf.off_cpu import Switches, SwitchGatherer
from pinprof.read.perf.samples import MAX_WEIGHT, RawSamples, SampleGatherer

if TYPE_CHECKING:
    from pinprof.read.perf.inflate import Inflater

_CHUNK_BYTES = 4 << 20
_LARGEST_PIECE = (1 << 16) - 17
"""Compressed bytes that perf puts into one record at most (PERF_SAMPLE_MAX_SIZE less its header)."""

TaskRecord = rec.MapRecord | rec.CommRecord | rec.ForkRecord


@dataclass
class Raw:
    """Everything that one pass over the records yields."""

    samples: RawSamples
    chains: Int32
    """Call chains end to end, each leaf first, as indices into `addresses`."""
    addresses: UInt64
    """Distinct addresses in call chains; those of the kernel are ≥ 2^63."""
    tasks: list[tuple[int, TaskRecord]]
    """(clock, record), in file order."""
    switches: Switches
    """Threads leaving processors and coming back; empty when not recorded."""
    exits: dict[tuple[int, int], int]
    """(pid, tid) → when that thread last ended."""
    payload: UInt64
    """Per sample its tracepoint's own fields (perf_samples.PAYLOAD_WORDS columns); no row without tracepoints."""
    batches: tuple[Int64, UInt64]
    """The samples that have sizes of a batch, and these (samples.py)."""
    areas: list[rec.DataArea]
    """Memory mapped without code, in file order; recordings of tracepoints only."""
    kernel_reference: tuple[str, int]
    """A kernel symbol (`_text` or `_stext`) and its address while recording; an empty name when not recorded."""
    lost_samples: int
    unknown_records: int
    corrupt_bytes: int
    timed: bool
    """Whether samples carry times."""


class RecordReader:
    """Walks records from a stream; `run()` once, then `result()`."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._samples = SampleGatherer()
        self._samples.sources_changed(header.sources)
        self._deferred = DeferredChains()
        self._switches = SwitchGatherer()
        self._switches.sources_changed(header.sources)
        self._tasks: list[tuple[int, TaskRecord]] = []
        self._exits: dict[tuple[int, int], int] = {}
        self._areas: list[rec.DataArea] = []
        self._kernel_reference = ("", 0)
        self._lost_records = self._lost_samples = 0
        self._unknown = self._corrupt = 0
        self._skip = 0
        self._inflater: Inflater | None = None
        self._inflated = bytearray()
        self._walking_inflated = False
        self._walked = 0
        self._broken = False
        self._starts: list[int] = []

    def run(self, file: BinaryIO) -> None:
        """Read records from the data section's start to its end, or to the end of the file."""
        offset, size = self._header.data_offset, self._header.data_size
        available = max(file.seek(0, 2) - offset, 0)
        left = available if size is None else min(size, available)
        file.seek(offset if available else 0)
        buffer = bytearray(_CHUNK_BYTES)
        view = memoryview(buffer)
        kept = 0
        while True:
            count = _read_into(file, view[kept : kept + min(len(buffer) - kept, left)])
            left -= count
            end = kept + count
            position = self._walk(buffer, end)
            kept = end - position
            buffer[:kept] = buffer[position:end]
            if self._skip:
                # The payload behind an AUXTRACE or TRACING_DATA record: not records.
                inside = min(self._skip, kept)
                buffer[: kept - inside] = buffer[inside:kept]
                kept -= inside
                ahead = min(self._skip - inside, left)
                file.seek(ahead, 1)
                left -= ahead
                self._skip = 0
            elif self._broken or not count:
                break
        self._corrupt += kept + left + len(self._inflated)
        if self._broken:
            self._header.notes.append("The samples are damaged. Everything after the damaged position is lost.")
        elif size is not None and available < size:
            self._header.notes.append(
                f"The file is truncated: {size - available:,} of {size:,} bytes of samples are missing."
            )

    def kernel_reference(self, file: BinaryIO) -> tuple[str, int]:
        """`Raw.kernel_reference` from the first chunk alone: perf lists what is mapped before it samples."""
        offset, size = self._header.data_offset, self._header.data_size
        if offset < file.seek(0, 2):
            file.seek(offset)
            buffer = bytearray(min(_CHUNK_BYTES, _CHUNK_BYTES if size is None else size))
            self._walk(buffer, _read_into(file, memoryview(buffer)))
        return self._kernel_reference

    def result(self) -> Raw:
        """Everything read."""
        timed = all(layout.time is not None for layout in self._samples.layouts)
        samples, chains, missing = self._deferred.joined(self._samples, *self._samples.result())
        if missing:
            self._header.notes.append(f"{missing:,} samples lack their callers in the program, which were lost.")
        return Raw(
            samples=samples,
            chains=chains,
            addresses=self._samples.addresses,
            tasks=self._tasks,
            switches=self._switches.result(),
            exits=self._exits,
            payload=self._samples.payload(),
            batches=self._samples.batches(),
            areas=self._areas,
            kernel_reference=self._kernel_reference,
            # LOST counts records of any kind that found no room, LOST_SAMPLES the same loss as each event saw it.
            lost_samples=max(self._lost_records, self._lost_samples),
            unknown_records=self._unknown + self._samples.unknown_records,
            corrupt_bytes=self._corrupt + self._samples.corrupt_bytes,
            timed=timed,
        )

    def _walk(self, buffer: bytearray, end: int) -> int:
        """Handle every whole record in buffer[:end]; where the rest begins."""
        starts: list[int] = []
        outer = self._starts
        self._starts = starts
        switches: list[int] = []
        append, append_switch = starts.append, switches.append
        unpack = rec.RECORD_HEADER.unpack_from
        handlers = self._handlers()
        position = walked = 0
        while end - position >= 8:
            kind, misc, size = unpack(buffer, position)
            if kind == rec.COMPRESSED2:
                size = _whole_size(buffer, position, end, size)
            following = position + size
            if following > end or size < 8:
                # Without a length there is no way to the next record.
                self._broken = self._broken or size < 8
                break
            if kind == rec.SAMPLE:
                append(position)
            elif kind in (rec.SWITCH, rec.SWITCH_CPU_WIDE):
                append_switch(position)
            elif (handler := handlers.get(kind)) is not None:
                if kind == rec.HEADER_ATTR and starts:
                    self._samples.take(buffer, end, starts)
                    starts.clear()
                try:
                    handler(misc, bytes(buffer[position + 8 : following]))
                except (struct.error, IndexError):
                    self._corrupt += size
            elif kind not in rec.SKIPPED:
                self._unknown += 1
            position = following
            walked += 1
            if self._skip or self._broken:
                break
        if starts:
            self._samples.take(buffer, end, starts)
        if switches:
            self._corrupt += self._switches.take(buffer, end, switches)
        self._starts = outer
        self._walked = walked
        return position

    def _handlers(self) -> dict[int, Callable[[int, bytes], None]]:
        return {
            rec.MMAP: self._on_mmap,
            rec.MMAP2: self._on_mmap2,
            rec.COMM: lambda misc, body: self._add_task(rec.parse_comm(misc, body), body),
            rec.FORK: lambda misc, body: self._add_task(rec.parse_fork(misc, body), body),
            rec.EXIT: self._on_exit,
            rec.CALLCHAIN_DEFERRED: self._on_deferred,
            rec.LOST: self._on_lost,
            rec.LOST_SAMPLES: self._on_lost_samples,
            rec.HEADER_ATTR: self._on_attr,
            rec.EVENT_UPDATE: self._on_event_update,
            rec.HEADER_FEATURE: self._on_feature,
            rec.HEADER_BUILD_ID: self._on_build_id,
            rec.AUXTRACE: self._on_payload,
            rec.TRACING_DATA: self._on_tracing_data,
            rec.COMPRESSED: self._on_compressed,
            rec.COMPRESSED2: self._on_compressed2,
        }

    def _on_mmap(self, misc: int, body: bytes) -> None:
        if misc & rec.MISC_CPUMODE_MASK == rec.MISC_KERNEL and not self._kernel_reference[0]:
            image, _, symbol = rec.c_string(body, 32).rpartition("]")
            if image == "[kernel.kallsyms":
                # perf writes the address of the symbol that it appends to the name as page offset.
                self._kernel_reference = (symbol, struct.unpack_from("<Q", body, 24)[0])
        record = rec.parse_mmap(misc, body)
        if record is not None:
            self._add_task(record, body)

    def _on_mmap2(self, misc: int, body: bytes) -> None:
        if misc & rec.MISC_MMAP_DATA and any(layout.raw for layout in self._samples.layouts):
            self._areas.append(rec.parse_data_map(self._clock(body), body))
        record = rec.parse_mmap2(misc, body)
        if record is not None:
            self._add_task(record, body)

    def _add_task(self, record: TaskRecord, body: bytes) -> None:
        self._tasks.append((self._clock(body), record))

    def _trailer(self, body: bytes) -> rec.SampleLayout:
        """The layout of a record's sample_id trailer."""
        layout = self._samples.layouts[0]
        attr = self._header.sources[0].attr
        if (
            len(self._samples.layouts) > 1
            and attr.sample_type & rec.IDENTIFIER
            and attr.sample_id_all
            and len(body) >= 8
        ):
            (number,) = struct.unpack_from("<Q", body, len(body) - 8)
            layout = self._samples.layouts[self._samples.source_of_id.get(number, 0)]
        return layout

    def _clock(self, body: bytes) -> int:
        """The time in a record's sample_id trailer; its place among the samples when the recording has no times."""
        if not self._samples.layouts:
            return 0
        layout = self._trailer(body)
        if layout.time is None:
            return self._samples.count + len(self._starts)
        if layout.trailer_time is None or len(body) < 8 * layout.trailer_time:
            return 0
        (time,) = struct.unpack_from("<Q", body, len(body) - 8 * layout.trailer_time)
        # perf marks the absence of a time by all ones; listings of what existed before the recording carry zero.
        return int(time) if time < rec.KERNEL_START else 0

    def _on_exit(self, _misc: int, body: bytes) -> None:
        """EXIT: `u32 pid, ppid, tid, ptid; u64 time`."""
        pid, _, tid = struct.unpack_from("<iii", body)
        self._exits[pid, tid] = self._clock(body)

    def _on_deferred(self, _misc: int, body: bytes) -> None:
        """CALLCHAIN_DEFERRED: a call chain, of the thread that its trailer names."""
        place = self._trailer(body).trailer_tid if self._samples.layouts else None
        if place is None or len(body) < 8 * place:
            raise IndexError("a call chain of no thread")
        self._deferred.take(struct.unpack_from("<i", body, len(body) - 8 * place + 4)[0], body[: len(body) - 8 * place])

    def _on_lost(self, _misc: int, body: bytes) -> None:
        self._lost_records += _count(body, 8)

    def _on_lost_samples(self, misc: int, body: bytes) -> None:
        if not misc & rec.MISC_LOST_SAMPLES_BPF:
            # With that flag they were filtered out on request.
            self._lost_samples += _count(body, 0)

    def _on_attr(self, _misc: int, body: bytes) -> None:
        """HEADER_ATTR: `perf_event_attr; u64 ids[]`."""
        attr = rec.parse_attr(body)
        (size,) = struct.unpack_from("<I", body, 4)
        size = size or 64
        ids = struct.unpack_from(f"<{max(len(body) - size, 0) // 8}Q", body, min(size, len(body)))
        self._header.sources.append(EventSource(attr, ids))
        self._samples.sources_changed(self._header.sources)
        self._switches.sources_changed(self._header.sources)

    def _on_event_update(self, _misc: int, body: bytes) -> None:
        """EVENT_UPDATE: `u64 type, id; …`; type 2 carries the event's name."""
        kind, number = struct.unpack_from("<QQ", body)
        if kind == 2 and number in self._samples.source_of_id:
            self._header.sources[self._samples.source_of_id[number]].name = rec.c_string(body, 16)

    def _on_feature(self, _misc: int, body: bytes) -> None:
        """HEADER_FEATURE: `u64 feature; …`."""
        (bit,) = struct.unpack_from("<Q", body)
        self._header.features.add(bit, body[8:])
        name_sources(self._header)

    def _on_build_id(self, misc: int, body: bytes) -> None:
        path, build_id = rec.parse_build_id(misc, body)
        self._header.features.build_ids[path] = build_id

    def _on_payload(self, _misc: int, body: bytes) -> None:
        """AUXTRACE: `u64 size; …`, then a payload of that size outside the record."""
        (self._skip,) = struct.unpack_from("<Q", body)

    def _on_tracing_data(self, _misc: int, body: bytes) -> None:
        """TRACING_DATA: `u32 size`, then a payload of that size, padded to 8 bytes."""
        (size,) = struct.unpack_from("<I", body)
        self._skip = (size + 7) & ~7

    def _on_compressed(self, _misc: int, body: bytes) -> None:
        """COMPRESSED: the next piece of compressed records (inflate.py)."""
        if self._walking_inflated:
            raise IndexError("compressed records inside compressed ones")
        # Imported here: most recordings are not compressed.
        from pinprof.read.perf.inflate import DamagedData, Inflater

        self._inflater = self._inflater or Inflater()
        try:
            for plain in self._inflater.pieces(body):
                self._inflated += plain
                if len(self._inflated) > _CHUNK_BYTES:
                    self._walk_inflated(self._inflater)
                if self._inflater.forged:
                    self._broken = True
                    return
        except DamagedData as damage:
            self._corrupt += damage.lost_bytes
        self._walk_inflated(self._inflater)

    def _on_compressed2(self, misc: int, body: bytes) -> None:
        """COMPRESSED2 (perf 6.16 and later): `u64 size`, `size` bytes as in COMPRESSED, padding to 8 bytes."""
        (size,) = struct.unpack_from("<Q", body)
        if size > len(body) - 8:
            raise IndexError(f"{size} compressed bytes in a record of {len(body)}")
        packed = body[8 : 8 + size]
        pieces = [packed[:_LARGEST_PIECE]]
        packed = packed[_LARGEST_PIECE:]
        while len(packed) > 16:
            _, _, more = rec.RECORD_HEADER.unpack_from(packed)
            pieces.append(packed[16:more])
            packed = packed[max(more, 16) :]
        self._on_compressed(misc, b"".join(pieces))

    def _walk_inflated(self, inflater: Inflater) -> None:
        """Handle the whole records among the inflated bytes."""
        self._walking_inflated = True
        position = self._walk(self._inflated, len(self._inflated))
        self._walking_inflated = False
        inflater.records += self._walked
        del self._inflated[:position]


def _whole_size(buffer: bytearray, position: int, end: int, size: int) -> int:
    """The size of a COMPRESSED2 record, whose own 16 bits may have overflowed.

    perf (6.16, record__pushfn in builtin-record.c) writes all records that one ring buffer compressed to as one: with
    the sum of their sizes, and without padding where that does not fit.
    """
    if end - position < 16:
        return size
    whole = 16 + int(struct.unpack_from("<Q", buffer, position + 8)[0])
    overflowed = (1 << 16) - 8 < whole <= _CHUNK_BYTES // 2 and (whole + 7 & ~7) % (1 << 16) == size
    return whole if overflowed else size


def _count(body: bytes, offset: int) -> int:
    """A loss count; a count beyond any real loss is damage."""
    (count,) = struct.unpack_from("<Q", body, offset)
    if count >= MAX_WEIGHT:
        raise IndexError(f"a loss of {count} records")
    return int(count)


def _read_into(file: BinaryIO, view: memoryview) -> int:
    """Fill a buffer from a file; fewer bytes only at its end."""
    count = 0
    while count < len(view):
        got = file.readinto(view[count:])  # type: ignore[attr-defined]
        if not got:
            break
        count += got
    return count
