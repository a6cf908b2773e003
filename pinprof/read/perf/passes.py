"""The two passes over the records of a perf.data file: what tasks did, and then the samples.

perf writes the buffers of processors one after another, so a mapping may follow the samples that need it. The
first pass takes in what is not a sample, and where samples are; the second reduces these to columns and distinct call
chains, a chunk at a time, so that memory grows with these and not with the file. What is compressed is walked twice.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pinprof.base.columns import Int32, Int64, UInt64, halves
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data import perf_format as perf
from pinprof.read.perf import records as rec
from pinprof.read.perf.addresses import DeferredChains
from pinprof.read.perf.chains import ChainGatherer, Chains
from pinprof.read.perf.gatherer import SampleGatherer
from pinprof.read.perf.header import Header, read_header
from pinprof.read.perf.mappings import AddressSpaces, SpaceTable, Spells, TaskRecord, spells_of
from pinprof.read.perf.off_cpu import Switches, SwitchGatherer
from pinprof.read.perf.packed_records import PackedRecords
from pinprof.read.perf.pauses import Pauses
from pinprof.read.perf.samples import MAX_WEIGHT, Chunk, RawSamples, Readings, sizes_of, words_of
from pinprof.read.perf.stream import CHUNK_BYTES, RecordReader, read_into
from pinprof.read.perf.workers import reducing
from pinprof.read.reader import Progress, portion, untold

_FIRST_PASS, _BOTH_PASSES = 0.3, 0.9
"""Their part of the time that reading takes, about; what is left goes into stacks and symbols."""


@dataclass
class Raw:
    """Everything that the records of a file yield."""

    samples: RawSamples
    chains: Chains
    spaces: SpaceTable
    tasks: PackedRecords[TaskRecord]
    """In the order of time; mappings only of recordings of tracepoints or of data addresses."""
    switches: Switches
    """Threads leaving processors and coming back; empty when not recorded."""
    pauses: Pauses
    """When sampling was paused, though switches were recorded."""
    exits: dict[tuple[int, int], int]
    """(pid, tid) → when that thread last ended."""
    payload: UInt64
    """Per sample its tracepoint's own fields (perf_samples.PAYLOAD_WORDS columns); no row without tracepoints."""
    batches: tuple[Int64, UInt64]
    """The samples that have sizes of a batch, and these (samples.py)."""
    readings: Readings
    """Counters that were read at the samples."""
    areas: PackedRecords[rec.DataArea]
    """Memory mapped without code, in the order of time; recordings of tracepoints or of data addresses only."""
    kernel_reference: tuple[str, int]
    """A kernel symbol (`_text` or `_stext`) and its address while recording; an empty name when not recorded."""
    lost_samples: int
    losses: tuple[rec.Loss, ...]
    """By ring, in file order."""
    lost_by_source: Mapping[int, int]
    """How many records each event lost, as counted in the end: nothing of a file that is cut short."""
    unknown_records: int
    corrupt_bytes: int
    timed: bool
    """Whether samples carry times."""
    chunks: tuple[Chunk, ...] = ()
    """Where the samples lie in the file, if that was asked for; none where some are compressed."""


def read_records(
    file: BinaryIO, path: Path, progress: Progress = untold, *, as_recorded: bool = False, placed: bool = False
) -> tuple[Header, Raw]:
    """The head of a file and all its records; `placed`: with where its samples lie (`Raw.chunks`).

    Where perf has yet to make the samples' call chains there are no samples, or with `as_recorded` those without them.
    """
    header = read_header(file, str(path))
    tasks, chains = TaskReader(header, portion(progress, 0, _FIRST_PASS)), ChainGatherer()
    if not as_recorded and any(source.attr.needs_unwinding for source in header.sources):
        first = TaskReader(header).kernel_reference(file)
        spaces = tasks.spaces()
        with reducing(file.fileno(), 0, spaces, tasks.deferred, chains) as (reduce, ahead):
            none = tasks.joined(spaces, SampleGatherer(reduce, ahead, 0, chains))
        return header, replace(none, kernel_reference=first)
    tasks.run(file)
    spaces = tasks.spaces()
    with reducing(file.fileno(), tasks.samples, spaces, tasks.deferred, chains) as (reduce, ahead):
        gatherer = SampleGatherer(reduce, ahead, tasks.samples, chains)
        progress = portion(progress, _FIRST_PASS, _BOTH_PASSES)
        kept: tuple[Chunk, ...] = ()
        if tasks.inflated:
            file.seek(0)
            SampleReader(read_header(file, str(path)), gatherer, progress).run(file)
        else:
            count = len(tasks.chunks)
            kept = tuple(tasks.chunks) if placed else ()
            while tasks.chunks:
                gatherer.take(tasks.chunks.popleft())
                progress(1 - len(tasks.chunks) / count)
        gatherer.finish()
    return header, replace(tasks.joined(spaces, gatherer), chunks=kept)


class SampleReader(RecordReader):
    """The pass over the samples of a file with compressed records; everything else is known."""

    def __init__(self, header: Header, gatherer: SampleGatherer, progress: Progress) -> None:
        super().__init__(header, progress)
        self._gatherer = gatherer

    def _take(self, chunk: Chunk, buffer: bytearray) -> None:
        self._gatherer.take(chunk)


class TaskReader(RecordReader):
    """The pass over everything but samples, of which it takes in where they are and when each process has some."""

    def __init__(self, header: Header, progress: Progress = untold) -> None:
        super().__init__(header, progress)
        self.deferred = DeferredChains()
        self._switches = SwitchGatherer()
        self._turns: list[tuple[int, bool]] = []
        """(time, whether sampling is paused from then on)."""
        self._tasks = PackedRecords[TaskRecord]()
        self._exits: dict[tuple[int, int], int] = {}
        self._areas = PackedRecords[rec.DataArea]()
        self._kernel_reference = ("", 0)
        self._losses: list[rec.Loss] = []
        self._lost_by_source: Counter[int] = Counter()
        self.chunks: deque[Chunk] = deque()
        """All samples; none where some are compressed."""
        self._spells: list[tuple[Int32, Int64, Int64]] = []

    @property
    def inflated(self) -> bool:
        """Whether there were compressed records."""
        return self._inflater is not None

    def spaces(self) -> SpaceTable:
        """What is mapped where and when; once, at the end."""
        self._tasks.sort()
        self._areas.sort()
        spaces = AddressSpaces(Spells(self._spells))
        for time, record in self._tasks:
            spaces.apply(time, record, self._header.features.build_ids)
        if not self._of_memory:
            self._tasks.drop_mappings()
        return spaces.table()

    def joined(self, spaces: SpaceTable, gatherer: SampleGatherer) -> Raw:
        """Everything read, by both passes."""
        samples, chains = gatherer.result()
        if gatherer.missing:
            self._header.notes.append(f"{gatherer.missing:,} samples lost their callers in the program.")
        return Raw(
            samples=samples,
            chains=chains,
            spaces=spaces,
            tasks=self._tasks,
            switches=self._switches.result(),
            pauses=Pauses.between(self._turns),
            exits=self._exits,
            payload=gatherer.payload(),
            batches=gatherer.batches(),
            readings=gatherer.readings(),
            areas=self._areas,
            kernel_reference=self._kernel_reference,
            # LOST counts records of any kind that found no room, LOST_SAMPLES the same loss as each event saw it.
            lost_samples=max(sum(loss.lost for loss in self._losses), self._lost_by_source.total()),
            losses=tuple(self._losses),
            lost_by_source=self._lost_by_source,
            unknown_records=self._unknown + gatherer.unknown_records,
            corrupt_bytes=self._corrupt + gatherer.corrupt_bytes,
            timed=all(layout.time is not None for layout in self._layouts.each),
        )

    @property
    def _of_memory(self) -> bool:
        """Whether somebody may ask what is mapped at an address of data."""
        return any(layout.raw or layout.addr is not None for layout in self._layouts.each)

    def kernel_reference(self, file: BinaryIO) -> tuple[str, int]:
        """`Raw.kernel_reference` from the first chunk alone: perf lists what is mapped before it samples."""
        offset, size = self._header.data_offset, self._header.data_size
        if offset < file.seek(0, 2):
            file.seek(offset)
            buffer = bytearray(min(CHUNK_BYTES, CHUNK_BYTES if size is None else size))
            self._walk(buffer, read_into(file, memoryview(buffer)))
        return self._kernel_reference

    def _take(self, chunk: Chunk, buffer: bytearray) -> None:
        """Note the times of samples; a time that is not one does no harm."""
        if self.inflated:
            self.chunks.clear()
        else:
            self.chunks.append(chunk)
        words, at = words_of(buffer, len(buffer), chunk.starts)
        size = sizes_of(words, at)
        source = self._layouts.sources_of(words, at, size)
        number = self.samples + np.arange(len(at))
        for index, layout in enumerate(self._layouts.each):
            rows = np.flatnonzero((source == index) & (size >= layout.tail))
            time = number[rows] if layout.time is None else words[at[rows] + layout.time].view(np.int64)
            identity = words[at[rows] + layout.tid] if layout.tid is not None else np.zeros(len(rows), np.uint64)
            if len(rows):
                self._spells.append(spells_of(halves(identity)[0], time, timed=layout.time is not None))

    def _take_switches(self, buffer: bytearray, end: int, starts: Int32) -> None:
        self._corrupt += self._switches.take(buffer, end, starts, self._layouts)

    def _handlers(self) -> dict[int, Callable[[int, bytes], None]]:
        return super()._handlers() | {
            perf.RECORD_MMAP: self._on_mmap,
            perf.RECORD_MMAP2: self._on_mmap2,
            perf.RECORD_COMM: lambda misc, body: self._add_task(rec.parse_comm(misc, body), body),
            perf.RECORD_FORK: lambda misc, body: self._add_task(rec.parse_fork(misc, body), body),
            perf.RECORD_EXIT: self._on_exit,
            perf.RECORD_THROTTLE: lambda _, body: self._on_turn(body, paused=True),
            perf.RECORD_UNTHROTTLE: lambda _, body: self._on_turn(body, paused=False),
            perf.RECORD_CALLCHAIN_DEFERRED: self._on_deferred,
            perf.RECORD_LOST: self._on_lost,
            perf.RECORD_LOST_SAMPLES: self._on_lost_samples,
        }

    def _on_mmap(self, misc: int, body: bytes) -> None:
        if misc & perf.MISC_CPUMODE_MASK == perf.MISC_KERNEL and not self._kernel_reference[0]:
            image, _, symbol = rec.c_string(body, 32).rpartition("]")
            if image == "[kernel.kallsyms":
                # perf writes the address of the symbol that it appends to the name as page offset.
                self._kernel_reference = (symbol, struct.unpack_from("<Q", body, 24)[0])
        record = rec.parse_mmap(misc, body)
        if record is not None:
            self._add_task(record, body)

    def _on_mmap2(self, misc: int, body: bytes) -> None:
        if misc & perf.MISC_MMAP_DATA and self._of_memory:
            clock = self._clock(body)
            self._areas.add(clock, rec.parse_data_map(clock, body))
        record = rec.parse_mmap2(misc, body)
        if record is not None:
            self._add_task(record, body)

    def _add_task(self, record: TaskRecord, body: bytes) -> None:
        self._tasks.add(self._clock(body), record)

    def _trailer(self, body: bytes) -> rec.SampleLayout:
        """The layout of a record's sample_id trailer."""
        layout = self._layouts.each[0]
        attr = self._header.sources[0].attr
        if (
            len(self._layouts.each) > 1
            and attr.sample_type & perf.SAMPLE_IDENTIFIER
            and attr.sample_id_all
            and len(body) >= 8
        ):
            (number,) = struct.unpack_from("<Q", body, len(body) - 8)
            layout = self._layouts.each[self._layouts.source_of_id.get(number, 0)]
        return layout

    def _clock(self, body: bytes) -> int:
        """The time in a record's sample_id trailer; its place among the samples when the recording has no times."""
        if not self._layouts.each:
            return 0
        layout = self._trailer(body)
        if layout.time is None:
            return self.samples + self._found.sample_count
        if layout.trailer_time is None or len(body) < 8 * layout.trailer_time:
            return 0
        (time,) = struct.unpack_from("<Q", body, len(body) - 8 * layout.trailer_time)
        # perf marks the absence of a time by all ones; listings of what existed before the recording carry zero.
        return int(time) if time < rec.KERNEL_START else 0

    def _on_exit(self, _misc: int, body: bytes) -> None:
        """EXIT: `u32 pid, ppid, tid, ptid; u64 time`."""
        pid, _, tid = struct.unpack_from("<iii", body)
        self._exits[pid, tid] = self._clock(body)

    def _on_turn(self, body: bytes, *, paused: bool) -> None:
        """THROTTLE, UNTHROTTLE: `u64 time, id, stream_id`; without a stream it is pinprof's recorder that says so."""
        time, _, stream = struct.unpack_from("<QQQ", body)
        if not stream and time < rec.KERNEL_START:
            self._turns.append((time, paused))

    def _on_deferred(self, _misc: int, body: bytes) -> None:
        """CALLCHAIN_DEFERRED: a call chain, of the thread that its trailer names."""
        place = self._trailer(body).trailer_tid if self._layouts.each else None
        if place is None or len(body) < 8 * place:
            raise IndexError("a call chain of no thread")
        self.deferred.take(struct.unpack_from("<i", body, len(body) - 8 * place + 4)[0], body[: len(body) - 8 * place])

    def _on_lost(self, _misc: int, body: bytes) -> None:
        """LOST: `u64 id, lost`; id 0 is the first event's."""
        count, (number,) = _count(body, 8), struct.unpack_from("<Q", body)
        place, cpu = self._trailer(body).trailer_cpu if self._layouts.each else None, -1
        if place is not None and len(body) >= 16 + 8 * place:
            (cpu,) = struct.unpack_from("<i", body, len(body) - 8 * place)
        source = self._layouts.source_of_id.get(number, -1 if number else 0)
        self._losses.append(rec.Loss(self._clock(body) if cpu >= 0 else 0, cpu, source, count))

    def _on_lost_samples(self, misc: int, body: bytes) -> None:
        """LOST_SAMPLES: `u64 lost`; its trailer says of which event."""
        if not misc & perf.MISC_LOST_SAMPLES_BPF:
            # With that flag they were filtered out on request.
            number = struct.unpack_from("<Q", body, len(body) - 8)[0] if len(body) > 8 else 0
            self._lost_by_source[self._layouts.source_of_id.get(number, 0)] += _count(body, 0)


def _count(body: bytes, offset: int) -> int:
    """A loss count; a count beyond any real loss is damage."""
    (count,) = struct.unpack_from("<Q", body, offset)
    if count >= MAX_WEIGHT:
        raise IndexError(f"a loss of {count} records")
    return int(count)
