"""Walking the records in the data section of a perf.data file.

The file is read in chunks of a few MiB; within a chunk, a plain loop walks from header to header, and in one step over
what needs no handler (`walked`). What becomes of the records is up to the two passes (passes.py).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from pinprof.data import perf_format as perf
from pinprof.data.model import Int32
from pinprof.read.perf import kernels
from pinprof.read.perf import records as rec
from pinprof.read.perf.header import EventSource, Header, name_sources
from pinprof.read.perf.kernels import FoundRecords
from pinprof.read.perf.samples import Chunk, FilePart, Layouts
from pinprof.read.reader import Progress, untold

if TYPE_CHECKING:
    from pinprof.read.perf.inflate import Inflater

_SAMPLE, _SWITCH, _SKIPPED = 1, 2, 3
"""What becomes of records that need no handler, as in `chains.c`."""
_OF_KIND = {
    **dict.fromkeys(rec.SKIPPED, _SKIPPED),
    perf.RECORD_SAMPLE: _SAMPLE,
    perf.RECORD_SWITCH: _SWITCH,
    perf.RECORD_SWITCH_CPU_WIDE: _SWITCH,
}
_EACH_KIND = np.array([_OF_KIND.get(kind, 0) for kind in range(256)], np.uint8)
CHUNK_BYTES = 4 << 20
_LARGEST_PIECE = (1 << 16) - 17
"""Compressed bytes that perf puts into one record at most (PERF_SAMPLE_MAX_SIZE less its header)."""


class RecordReader:
    """Walks records from a stream, and handles those that say how others are to be read; `run()` once."""

    def __init__(self, header: Header, progress: Progress = untold) -> None:
        self._header = header
        self._progress = progress
        self._layouts = Layouts(header.sources)
        self._unknown = self._corrupt = 0
        self._skip = 0
        self._inflater: Inflater | None = None
        self._inflated = bytearray()
        self._walking_inflated = False
        self._walked = 0
        self._broken = False
        self._begin = 0
        """Where in the file the chunk begins that is walked."""
        self._found = FoundRecords.within(0)
        self.samples = 0
        """How many there are, less those of the chunk that is walked."""

    def run(self, file: BinaryIO) -> None:
        """Read records from the data section's start to its end, or to the end of the file."""
        offset, size = self._header.data_offset, self._header.data_size
        available = max(file.seek(0, 2) - offset, 0)
        left = whole = available if size is None else min(size, available)
        file.seek(offset if available else 0)
        buffer = bytearray(CHUNK_BYTES)
        view = memoryview(buffer)
        kept = 0
        while True:
            count = read_into(file, view[kept : kept + min(len(buffer) - kept, left)])
            left -= count
            end = kept + count
            self._begin = file.tell() - end
            position = self._walk(buffer, end)
            self._progress(1 - left / max(whole, 1))
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

    def _walk(self, buffer: bytearray, end: int) -> int:
        """Handle every whole record in buffer[:end]; where the rest begins."""
        outer, self._found = self._found, FoundRecords.within(end)
        handlers, unpack = self._handlers(), perf.RECORD_HEADER.unpack_from
        position = 0
        while end - position >= 8:
            kind, misc, size = unpack(buffer, position)
            if kind in _OF_KIND and 8 <= size <= end - position:
                position = walked(buffer, position, end, self._found)
                continue
            if kind == perf.RECORD_COMPRESSED2:
                size = _whole_size(buffer, position, end, size)
            following = position + size
            if following > end or size < 8:
                # Without a length there is no way to the next record.
                self._broken = self._broken or size < 8
                break
            if (handler := handlers.get(kind)) is not None:
                if kind == perf.RECORD_HEADER_ATTR:
                    self._take_samples(buffer, end)
                try:
                    handler(misc, bytes(buffer[position + 8 : following]))
                except (struct.error, IndexError):
                    self._corrupt += size
            else:
                self._unknown += 1
            position = following
            self._found.walked += 1
            if self._skip or self._broken:
                break
        self._take_samples(buffer, end)
        if self._found.switch_count:
            self._take_switches(buffer, end, self._found.column("switches")[: self._found.switch_count])
        self._walked = self._found.walked
        self._found = outer
        return position

    def _take_samples(self, buffer: bytearray, end: int) -> None:
        """Hand on the samples found, and forget these."""
        if not (count := self._found.sample_count):
            return
        records = bytes(buffer[:end]) if self._walking_inflated else FilePart(self._begin, end)
        starts = self._found.column("samples")[:count].copy()
        self._take(Chunk(records, starts, self._layouts, self.samples), buffer)
        self.samples += count
        self._found.sample_count = 0

    def _take(self, chunk: Chunk, buffer: bytearray) -> None:
        """Take in samples; `buffer` begins with their records."""

    def _take_switches(self, buffer: bytearray, end: int, starts: Int32) -> None:
        """Take in the switch records at `starts`."""

    def _handlers(self) -> dict[int, Callable[[int, bytes], None]]:
        return {
            perf.RECORD_HEADER_ATTR: self._on_attr,
            perf.RECORD_EVENT_UPDATE: self._on_event_update,
            perf.RECORD_HEADER_FEATURE: self._on_feature,
            perf.RECORD_HEADER_BUILD_ID: self._on_build_id,
            perf.RECORD_AUXTRACE: self._on_payload,
            perf.RECORD_TRACING_DATA: self._on_tracing_data,
            perf.RECORD_COMPRESSED: self._on_compressed,
            perf.RECORD_COMPRESSED2: self._on_compressed2,
        }

    def _on_attr(self, _misc: int, body: bytes) -> None:
        """HEADER_ATTR: `perf_event_attr; u64 ids[]`."""
        attr = rec.parse_attr(body)
        (size,) = struct.unpack_from("<I", body, 4)
        size = size or 64
        ids = struct.unpack_from(f"<{max(len(body) - size, 0) // 8}Q", body, min(size, len(body)))
        self._header.sources.append(EventSource(attr, ids))
        self._layouts = Layouts(self._header.sources)

    def _on_event_update(self, _misc: int, body: bytes) -> None:
        """EVENT_UPDATE: `u64 type, id; …`; type 2 carries the event's name."""
        kind, number = struct.unpack_from("<QQ", body)
        if kind == 2 and number in self._layouts.source_of_id:
            self._header.sources[self._layouts.source_of_id[number]].name = rec.c_string(body, 16)

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
                if len(self._inflated) > CHUNK_BYTES:
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
            _, _, more = perf.RECORD_HEADER.unpack_from(packed)
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


def walked(buffer: bytearray, position: int, end: int, found: FoundRecords) -> int:
    """Walk from the record at `position` to one that needs a handler or is not whole: where that begins."""
    if (library := kernels.library()) is not None:
        columns = np.frombuffer(buffer, np.uint8).ctypes.data, position, end, _EACH_KIND.ctypes.data
        return int(library.pinprof_perf_walk(*columns, ctypes.byref(found)))
    samples, switches = found.column("samples"), found.column("switches")
    while end - position >= 8:
        kind, _, size = perf.RECORD_HEADER.unpack_from(buffer, position)
        if not 8 <= size <= end - position or (what := _OF_KIND.get(kind)) is None:
            break
        if what == _SAMPLE:
            samples[found.sample_count] = position
            found.sample_count += 1
        elif what == _SWITCH:
            switches[found.switch_count] = position
            found.switch_count += 1
        found.walked += 1
        position += size
    return position


def _whole_size(buffer: bytearray, position: int, end: int, size: int) -> int:
    """The size of a COMPRESSED2 record, whose own 16 bits may have overflowed.

    perf (6.16, record__pushfn in builtin-record.c) writes all records that one ring buffer compressed to as one: with
    the sum of their sizes, and without padding where that does not fit.
    """
    if end - position < 16:
        return size
    whole = 16 + int(struct.unpack_from("<Q", buffer, position + 8)[0])
    overflowed = (1 << 16) - 8 < whole <= CHUNK_BYTES // 2 and (whole + 7 & ~7) % (1 << 16) == size
    return whole if overflowed else size


def read_into(file: BinaryIO, view: memoryview) -> int:
    """Fill a buffer from a file; fewer bytes only at its end."""
    count = 0
    while count < len(view):
        got = file.readinto(view[count:])  # type: ignore[attr-defined]
        if not got:
            break
        count += got
    return count
