"""What a recording took from memory and no reader uses is overwritten with zeros in place, so that it does not travel.

The kernel follows frame pointers. Code that keeps something else in that register leads it into data: each word that it
takes for a return address there is eight bytes of the program's memory. What the reader cannot find in a mapped file or
in code made at run time is such a word; to the reader all of them are one frame without a name, as zeros are.

So are fields of tracepoints that nobody reads (unread_fields.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path

import numpy as np

from pinprof.base import files
from pinprof.base.columns import ascending, halves, slices
from pinprof.base.errors import FormatError
from pinprof.data.model import Bool, Int32, Int64, UInt64
from pinprof.read.perf import records as rec
from pinprof.read.perf.addresses import GUEST
from pinprof.read.perf.chains import by_value
from pinprof.read.perf.chunk import chain_extent
from pinprof.read.perf.data import PerfRecording
from pinprof.read.perf.header import read_header
from pinprof.read.perf.mappings import NO_DSO, SpaceTable
from pinprof.read.perf.passes import TaskReader
from pinprof.read.perf.samples import FilePart, Layouts, sizes_of
from pinprof.read.perf.sequences import positions
from pinprof.read.perf.unread_fields import Called, UnreadFields, wakeups_among

_IDENTIFIER = 1
"""Words behind a record's header that say whose a sample is."""
_REGISTERS = 1 << 12 | 1 << 18
"""SAMPLE_REGS_USER, SAMPLE_REGS_INTR: stack_copies.py overwrites those that come with copies of stacks."""


def blank(recording: PerfRecording, called: Called | None = None) -> None:
    """Overwrite it in a recording's file; FormatError where samples are not laid out as pinprof's recorders write them.

    `called`: what the arguments of calls are; None where the recorder has read nothing else.
    """
    path, header, spaces, chunks = recording.path, recording.header, recording.raw.spaces, recording.raw.chunks
    fields = UnreadFields(header.sources, _threads(recording), called)
    if any(source.attr.sample_type & _REGISTERS for source in header.sources) and not recording.holds_stacks:
        raise _odd(path, header.data_offset, "copies of registers")
    with files.change(path) as file:
        rows: Iterable[Int64 | slice] = repeat(slice(None))
        if not chunks:
            tasks = TaskReader(read_header(file, str(path)))
            tasks.run(file)
            if tasks.inflated:
                raise _odd(path, header.data_offset, "compressed records")
            spaces, chunks = tasks.spaces(), tuple(tasks.chunks)
        else:
            rows = _concerned(recording, fields)
        count = (file.seek(0, 2) - header.data_offset) // 8
        if not chunks or count <= 0:
            return
        # Only pages with something to overwrite are touched.
        words = np.memmap(file, "<u8", "r+", header.data_offset, (count,))
        blanks = _Blanks(spaces, fields)
        for chunk, mine in zip(chunks, rows, strict=False):
            assert isinstance(chunk.records, FilePart)
            starts = chunk.starts[mine] + np.int64(chunk.records.begin - header.data_offset)
            if (starts & 7).any():
                raise _odd(path, chunk.records.begin, "records at odd places")
            blanks.put(words, starts >> 3, chunk.layouts)


def _concerned(recording: PerfRecording, fields: UnreadFields) -> Iterator[Int64 | slice]:
    """Per chunk of a recording, as read, the samples in which there is something to overwrite."""
    raw = recording.raw
    samples, chains = raw.samples, raw.chains
    nowhere = (chains.places.dso == NO_DSO) & (chains.places.offset != np.uint64(GUEST))
    before = np.append(0, np.cumsum(nowhere[chains.flat]))
    ends = np.cumsum(chains.length, dtype=np.int64)
    of_chain = np.append(before[ends] > before[ends - chains.length], False)
    # Where some were damaged it is not known which row is which.
    known = len(samples) == raw.chunks[-1].counted + len(raw.chunks[-1].starts)
    for chunk in raw.chunks:
        part = slice(chunk.counted, chunk.counted + len(chunk.starts))
        if known:
            yield np.flatnonzero(of_chain[samples.chain[part]] | fields.concern(recording, part))
        else:
            yield slice(None)


def _threads(recording: PerfRecording) -> UInt64:
    """The program's, as far as other samples are theirs."""
    samples, numbers = recording.raw.samples, wakeups_among(recording.header.sources)
    found = [
        ascending(samples.tid[part][(samples.pid[part] > 0) & ~np.isin(samples.source[part], numbers)])
        for part in slices(len(samples))
    ]
    return ascending(np.concatenate([np.zeros(0, np.int32), *found])).astype(np.uint64)


class _Blanks:
    """Puts zeros into chunks of one recording."""

    def __init__(self, spaces: SpaceTable, fields: UnreadFields) -> None:
        self._spaces, self._fields = spaces, fields

    def put(self, words: UInt64, at: Int64, layouts: Layouts) -> None:
        """Into samples that begin at these words."""
        size = sizes_of(words, at)
        source = layouts.sources_of(words, at, size)
        _blank_behind(words, at, size, np.flatnonzero(source < 0), 1 + _IDENTIFIER)
        for index, layout in enumerate(layouts.each):
            rows = np.flatnonzero((source == index) & (size >= layout.tail))
            begin, end = at[rows], at[rows] + size[rows]
            behind, fits = begin + layout.tail, np.ones(len(rows), np.bool_)
            if layout.callchain:
                first, length = chain_extent(words, begin, end, fits, layout)
                behind = first + length
                _blank_behind(words, begin, end - begin, np.flatnonzero(~fits), layout.tail + 1)
                words[_no_code(words, first, length, self._versions(words, begin, layout), self._spaces)] = 0
            if layout.raw and layout.tid is not None:
                pid = halves(words[begin + layout.tid])[0].view(np.uint32).astype(np.int64)
                self._fields.blank(words, index, pid[fits], behind[fits], end[fits])

    def _versions(self, words: UInt64, begin: Int64, layout: rec.SampleLayout) -> Int32:
        if layout.tid is None or layout.time is None:
            return np.zeros(len(begin), np.int32)
        return self._spaces.version_of(halves(words[begin + layout.tid])[0], words[begin + layout.time].view(np.int64))


def _blank_behind(words: UInt64, begin: Int64, size: Int64, rows: Int64, kept: int) -> None:
    """All but the first words of samples that are not laid out as their event says, which nobody reads."""
    words[positions(begin[rows] + kept, np.maximum(size[rows] - kept, 0))] = 0


def _no_code(words: UInt64, first: Int64, length: Int64, version: Int32, spaces: SpaceTable) -> Int64:
    """Where in the words stands what the kernel took for an address of the program and is none."""
    place = positions(first, length)
    entries, ends = words[place], np.cumsum(length)
    begins = (ends - length)[length > 0]
    marker = entries >= np.uint64(rec.CONTEXT_LOWEST)
    # The program's part is the last; a chain without markers is told by its addresses.
    user = np.flatnonzero(entries == np.uint64(rec.CONTEXT_USER))
    inside = np.zeros(len(entries), np.bool_)
    inside[positions(user, ends[np.searchsorted(ends, user, side="right")] - user)] = True
    plain = begins[~marker[begins]]
    plain = positions(plain, ends[np.searchsorted(ends, plain, side="right")] - plain)
    inside[plain] = entries[plain] < np.uint64(rec.KERNEL_START)
    suspect = np.flatnonzero(inside & ~marker & (entries != 0))
    of_version = np.repeat(version, length)[suspect]
    known: Bool = np.zeros(len(suspect), np.bool_)
    for number, rows in by_value(of_version, np.arange(len(suspect))):
        known[rows] = spaces.find(number, entries[suspect[rows]])[0] != NO_DSO
    return place[suspect[~known]]


def _odd(path: Path, offset: int, found: str) -> FormatError:
    return FormatError(
        str(path),
        expected="samples as pinprof's recorders write them",
        found=f"{found}; bytes of the program's memory may still be in the file",
        offset=offset,
        remedy="Do not share this capture.",
        slug="program-memory",
    )
