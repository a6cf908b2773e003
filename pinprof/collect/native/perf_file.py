"""The perf.data file: its head while recording begins, records as the kernel made them, machine facts at the end.

    head        sizes, where attributes and records lie, which features follow
    ids         of each event, as many as it has instances
    attributes  `perf_event_attr; u64 ids_offset, ids_bytes`
    records     to the end of the file, until it is finished: a collector that dies leaves what reads
    features    a table of `u64 offset, bytes` for each feature bit, then their bodies

Source: `tools/perf/util/header.c`. The host name is left out.
"""

from __future__ import annotations

import os
import platform
import struct
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from pinprof.base import files
from pinprof.collect import clocks
from pinprof.collect.native import perf_event as pe
from pinprof.collect.native.events import CLOCK_MONOTONIC, EventSpec
from pinprof.data import perf_format as perf

_ATTR_ENTRY = pe.ATTR_SIZE + 16
_MOST_PIECES = 1024
"""IOV_MAX: writev(2) takes no more."""
_NAME_ALIGN = 64
_BUILD_ID_FIELD = 20

FINISHED_ROUND = perf.record(perf.RECORD_FINISHED_ROUND, 0, b"")
"""After all rings were read once: no later record is older than what was written before the round ahead of it."""


class PerfFile:
    """A perf.data file being written."""

    def __init__(self, path: Path, events: Sequence[tuple[EventSpec, Sequence[int]]]) -> None:
        """Write the head: every event with the ids of its instances."""
        self._events = events
        self._file = files.create(path)
        self._bits = 0
        ids = b"".join(_words(numbers) for _, numbers in events)
        self._attrs_offset = perf.FILE_HEAD.size + len(ids)
        self._data_offset = self._attrs_offset + _ATTR_ENTRY * len(events)
        self.data_bytes = 0
        self._write([self._head(), ids, *self._entries()])
        self.data_bytes = 0

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append whole records; OSError when the disk is full."""
        for first in range(0, len(pieces), _MOST_PIECES):
            self._write(pieces[first : first + _MOST_PIECES])

    def finish(self, features: dict[int, bytes]) -> None:
        """Append the features and fill in the head; the file is whole then."""
        end = self._data_offset + self.data_bytes
        bits = sorted(features)
        place = end + perf.SECTION.size * len(bits)
        table = []
        for bit in bits:
            table.append(perf.SECTION.pack(place, len(features[bit])))
            place += len(features[bit])
        size = self.data_bytes
        # What a full disk left of the last record is written over.
        os.lseek(self._file, end, os.SEEK_SET)
        self._write([*table, *(features[bit] for bit in bits)])
        self.data_bytes = size
        self._bits = sum(1 << bit for bit in bits)
        os.pwrite(self._file, self._head(), 0)

    def _entries(self) -> list[bytes]:
        """The attributes, with where each one's ids lie: all end to end behind the head."""
        entries, place = [], perf.FILE_HEAD.size
        for spec, numbers in self._events:
            entries.append(spec.attr.pack() + perf.SECTION.pack(place, 8 * len(numbers)))
            place += 8 * len(numbers)
        return entries

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def _head(self) -> bytes:
        return perf.FILE_HEAD.pack(
            perf.MAGIC,
            perf.FILE_HEAD.size,
            _ATTR_ENTRY,
            self._attrs_offset,
            _ATTR_ENTRY * len(self._events),
            self._data_offset,
            self.data_bytes,
            0,
            0,
            self._bits,
            0,
            0,
            0,
        )

    def _write(self, pieces: Sequence[bytes | memoryview]) -> None:
        wanted, written = sum(map(len, pieces)), 0
        while written < wanted:
            try:
                written += os.writev(self._file, _behind(pieces, written) if written else pieces)
            except OSError:
                self.data_bytes += _whole_records(b"".join(pieces)[:written])
                raise
        self.data_bytes += wanted


def _behind(pieces: Sequence[bytes | memoryview], written: int) -> list[memoryview]:
    """What is left of `pieces` after the first `written` bytes."""
    rest = []
    for piece in pieces:
        if written < len(piece):
            rest.append(memoryview(piece)[written:])
        written = max(written - len(piece), 0)
    return rest


def _whole_records(raw: bytes) -> int:
    """How many of the bytes are whole records."""
    return max((end for _, _, _, end in perf.records(raw)), default=0)


def features(
    events: Sequence[tuple[EventSpec, Sequence[int]]],
    *,
    version: str,
    command: Sequence[str],
    kernel_build_id: bytes,
    times_ns: tuple[int, int],
) -> dict[int, bytes]:
    """The feature sections: of this machine what reading needs, its name not among it; `times_ns` first and last."""
    wall_ns, clock_ns = clocks.both_ns()
    resolution_ns = max(round(time.clock_getres(time.CLOCK_MONOTONIC) * 1e9), 1)
    sections = {
        perf.OSRELEASE: _string(os.uname().release),
        perf.VERSION: _string(version),
        perf.ARCH: _string(platform.machine()),
        perf.NRCPUS: struct.pack("<II", os.sysconf("SC_NPROCESSORS_CONF"), os.sysconf("SC_NPROCESSORS_ONLN")),
        perf.CPUDESC: _string(_processor()),
        perf.TOTAL_MEM: struct.pack("<Q", os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024),
        perf.CMDLINE: struct.pack("<I", len(command)) + b"".join(map(_string, command)),
        perf.EVENT_DESC: _event_descriptions(events),
        perf.SAMPLE_TIMES: struct.pack("<QQ", *times_ns),
        perf.CLOCKID: struct.pack("<Q", resolution_ns),
        perf.CLOCK_DATA: struct.pack("<IIQQ", 1, CLOCK_MONOTONIC, wall_ns, clock_ns),
    }
    if kernel_build_id:
        sections[perf.BUILD_ID] = _kernel_build_id(kernel_build_id)
    return sections


def lost_samples(spec: EventSpec, number: int, count: int) -> bytes:
    """A LOST_SAMPLES record: how many records of the event with id `number` found no room."""
    body = struct.pack("<Q", count) + trailer(spec, number)
    return perf.record(perf.RECORD_LOST_SAMPLES, 0, body)


def paused(spec: EventSpec, number: int, time_ns: int, *, on: bool) -> bytes:
    """That an event is paused at a time, or goes on: the kernel's record THROTTLE, or UNTHROTTLE, without a stream."""
    body = struct.pack("<QQQ", time_ns, number, 0) + trailer(spec, number, time_ns=time_ns)
    return perf.record(perf.RECORD_THROTTLE if on else perf.RECORD_UNTHROTTLE, 0, body)


def trailer(spec: EventSpec, number: int = 0, pid: int = 0, tid: int = 0, time_ns: int = 0) -> bytes:
    """The `sample_id` at the end of a record that is no sample (perf_event.h, struct sample_id)."""
    kind = spec.attr.sample_type
    fields = (
        (perf.SAMPLE_TID, struct.pack("<ii", pid, tid)),
        (perf.SAMPLE_TIME, struct.pack("<Q", time_ns)),
        (perf.SAMPLE_ID, struct.pack("<Q", number)),
        (perf.SAMPLE_STREAM_ID, bytes(8)),
        (perf.SAMPLE_CPU, bytes(8)),
        (perf.SAMPLE_IDENTIFIER, struct.pack("<Q", number)),
    )
    return b"".join(raw for bit, raw in fields if kind & bit)


def _event_descriptions(events: Sequence[tuple[EventSpec, Sequence[int]]]) -> bytes:
    """`u32 count, attr_size` and per event `attr; u32 ids; string name; u64 ids[]`."""
    parts = [struct.pack("<II", len(events), pe.ATTR_SIZE)]
    for spec, numbers in events:
        parts += [spec.attr.pack(), struct.pack("<I", len(numbers)), _string(spec.name), _words(numbers)]
    return b"".join(parts)


def _kernel_build_id(build_id: bytes) -> bytes:
    """One entry of the BUILD_ID feature: `header; s32 pid; u8 id[20], size, pad[3]; char filename[]`."""
    name = _padded(b"[kernel.kallsyms]")
    misc = perf.MISC_KERNEL | perf.MISC_BUILD_ID_SIZE
    identity = build_id[:_BUILD_ID_FIELD].ljust(_BUILD_ID_FIELD, b"\0") + bytes([min(len(build_id), 20), 0, 0, 0])
    return perf.record(0, misc, struct.pack("<i", -1) + identity + name)


def _string(text: str) -> bytes:
    """As perf writes strings: `u32 length`, then the text padded with NULs."""
    raw = _padded(text.encode("utf-8", "surrogateescape"))
    return struct.pack("<I", len(raw)) + raw


def _padded(text: bytes) -> bytes:
    return text + bytes(_NAME_ALIGN - len(text) % _NAME_ALIGN)


def _words(numbers: Iterable[int]) -> bytes:
    return b"".join(struct.pack("<Q", number) for number in numbers)


def _processor() -> str:
    """The processor's name, where the kernel tells one; Arm kernels tell numbers only."""
    try:
        with Path("/proc/cpuinfo").open("rb") as lines:
            for line in lines:
                name, _, value = line.partition(b":")
                if name.strip() in (b"model name", b"Model", b"cpu"):
                    return value.strip().decode("utf-8", "replace")
    except OSError:
        pass
    return platform.processor() or platform.machine()
