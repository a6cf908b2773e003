"""The head of a perf.data file: event attributes with their ids, and the feature sections.

Source: `tools/perf/util/header.c`; `data/perf_format.py` has the layout. A size of 16 in the head means pipe mode:
attributes and features follow as records. The host name feature is deliberately not kept.
"""

from __future__ import annotations

import struct
from dataclasses import field
from typing import Any, BinaryIO

from pinprof.base.errors import FormatError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes
from pinprof.data import perf_format as perf
from pinprof.read.byte_source import ends_early
from pinprof.read.perf.records import Attr, c_string, parse_attr, parse_build_id

MAGICS = (perf.MAGIC, perf.MAGIC[::-1], b"PERFFILE")
"""What the first eight bytes of any perf.data may be: this order, the other byte order, perf before 2012."""

_PIPE_HEADER_SIZE = 16
_MIN_ATTR, _MAX_ATTR = 64, 4096
_MAX_FEATURE_BYTES = 64 << 20

_TEXTS = {
    perf.OSRELEASE: "kernel",
    perf.VERSION: "perf_version",
    perf.ARCH: "arch",
    perf.CPUDESC: "cpu",
}


@dataclass
class Features:
    """What the feature sections say that reading needs; empty where a file does not say."""

    facts: dict[str, Any] = field(default_factory=dict)
    """`kernel, arch, cpu, cpus, memory_bytes, perf_version`."""
    command: tuple[str, ...] = ()
    """perf's own command line."""
    event_names: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    """(name, ids) of each event."""
    build_ids: dict[str, str] = field(default_factory=dict)
    """Path → build id."""
    utc_offset_ns: int | None = None
    """CLOCK_DATA: wall clock minus sample clock, read by perf at one instant."""

    def add(self, bit: int, body: bytes) -> None:
        """Take in one feature section; struct.error or IndexError if it is shorter than its contents say."""
        if bit in _TEXTS:
            self.facts[_TEXTS[bit]] = _text(body, 0)[0]
        elif bit == perf.NRCPUS:
            self.facts["cpus"] = struct.unpack_from("<II", body)[1]
        elif bit == perf.TOTAL_MEM:
            self.facts["memory_bytes"] = struct.unpack_from("<Q", body)[0] * 1024
        elif bit == perf.CMDLINE:
            self.command = _texts(body)
        elif bit == perf.EVENT_DESC:
            self.event_names = _event_descriptions(body)
        elif bit == perf.BUILD_ID:
            self._add_build_ids(body)
        elif bit == perf.CLOCK_DATA:
            # `u32 version, clockid; u64 wall_clock_ns, clockid_time_ns`; the wall clock is gettimeofday's.
            version, _clockid, wall, clock = struct.unpack_from("<IIQQ", body)
            if version == 1 and max(wall, clock) < 1 << 62:
                self.utc_offset_ns = wall - clock

    def _add_build_ids(self, body: bytes) -> None:
        position = 0
        while position + perf.RECORD_HEADER.size <= len(body):
            _type, misc, size = perf.RECORD_HEADER.unpack_from(body, position)
            if size < 8 + 28:
                break
            path, build_id = parse_build_id(misc, body[position + 8 : position + size])
            self.build_ids[path] = build_id
            position += size


@dataclass
class EventSource:
    """One recorded event: its attribute, the ids its samples carry, its name where known."""

    attr: Attr
    ids: tuple[int, ...]
    name: str = ""


@dataclass
class Header:
    """The head of a file; in pipe mode `sources` and `features` start empty and fill while records are read."""

    sources: list[EventSource]
    features: Features
    data_offset: int
    data_size: int | None
    """None: until the end of the file (pipe mode, or a perf that was killed before it could fill this in)."""
    notes: list[str]
    damage: list[str] = field(default_factory=list)
    """Sentences about what of the file is missing."""


def is_perf_data(head: bytes) -> bool:
    """Whether a file that begins with these bytes is perf.data, of any byte order and age."""
    return head[:8] in MAGICS


def read_header(file: BinaryIO, path: str) -> Header:
    """Read the head of a perf.data file of known size; FormatError if it is none that this version reads."""
    head = file.read(perf.FILE_HEAD.size)
    magic, size = head[:8], int.from_bytes(head[8:16], "little")
    if magic == perf.MAGIC[::-1]:
        raise _format_error(
            path,
            "little-endian perf.data",
            "the other byte order",
            0,
            "Run `perf script` on the machine of the recording, and give pinprof the output.",
        )
    if magic != perf.MAGIC or len(head) < 16:
        raise _format_error(
            path,
            f"the magic {perf.MAGIC.decode()}",
            repr(magic) if magic else "an empty file",
            0,
            "Give a file that perf record wrote.",
        )
    if size == _PIPE_HEADER_SIZE:
        return Header([], Features(), _PIPE_HEADER_SIZE, None, [])
    if len(head) < perf.FILE_HEAD.size:
        raise _format_error(path, "a header of 104 bytes", f"{len(head)} bytes", len(head), _RECORD_AGAIN)
    _, _, attr_size, attrs_offset, attrs_size, data_offset, data_size, _, _, *bits = perf.FILE_HEAD.unpack(head)
    sources = _read_sources(file, path, attr_size, attrs_offset, attrs_size)
    header = Header(sources, Features(), data_offset, data_size or None, [])
    there = max(file.seek(0, 2) - data_offset, 0)
    if there < data_size:
        whole = f"{format_bytes(there)} of {format_bytes(data_size)} of records are there"
        header.damage.append(ends_early(whole))
    elif data_size:
        _read_features(file, header, sum(word << 64 * index for index, word in enumerate(bits)))
        name_sources(header)
    else:
        header.notes.append(
            "The recorder was killed before it finished this file: its samples are read to the end, but the machine "
            "facts, the command line and the build ids are missing."
        )
    return header


_RECORD_AGAIN = "The file is truncated or damaged. Copy it again, or record again."


def name_sources(header: Header) -> None:
    """Give each source the name that EVENT_DESC has for its ids."""
    by_id = {number: name for name, ids in header.features.event_names for number in ids}
    for index, source in enumerate(header.sources):
        if source.ids:
            source.name = source.name or by_id.get(source.ids[0], "")
        elif index < len(header.features.event_names):
            source.name = source.name or header.features.event_names[index][0]


def _read_sources(file: BinaryIO, path: str, attr_size: int, offset: int, size: int) -> list[EventSource]:
    entry_size = attr_size
    if not _MIN_ATTR + 16 <= entry_size <= _MAX_ATTR:
        raise _format_error(
            path, f"attribute entries of {_MIN_ATTR + 16} to {_MAX_ATTR} bytes", f"{entry_size}", 16, _RECORD_AGAIN
        )
    table = _read_at(file, offset, min(size, entry_size * 4096))
    if not table or len(table) < size or size % entry_size:
        raise _format_error(
            path,
            f"an attribute table of {size} bytes in entries of {entry_size}",
            f"{len(table)}",
            offset,
            _RECORD_AGAIN,
        )
    sources = []
    for start in range(0, len(table), entry_size):
        attr = parse_attr(table[start : start + entry_size - 16])
        ids_offset, ids_size = perf.SECTION.unpack_from(table, start + entry_size - 16)
        ids = _read_at(file, ids_offset, min(ids_size, 1 << 24))
        sources.append(EventSource(attr, struct.unpack_from(f"<{len(ids) // 8}Q", ids)))
    return sources


def _read_features(file: BinaryIO, header: Header, bits: int) -> None:
    """Read the feature sections behind the data; a note where they are missing or damaged."""
    assert header.data_size is not None
    present = [bit for bit in range(256) if bits >> bit & 1]
    table = _read_at(file, header.data_offset + header.data_size, 16 * len(present))
    damaged = len(table) < 16 * len(present)
    for index, bit in enumerate(present[: len(table) // 16]):
        offset, size = perf.SECTION.unpack_from(table, 16 * index)
        body = _read_at(file, offset, min(size, _MAX_FEATURE_BYTES))
        damaged = damaged or len(body) < size
        try:
            header.features.add(bit, body)
        except (struct.error, IndexError):
            damaged = True
    if damaged:
        header.damage.append(
            "The sections after the samples are missing or damaged, so machine facts, event names or build ids may "
            "be missing."
        )


def _event_descriptions(body: bytes) -> list[tuple[str, tuple[int, ...]]]:
    """EVENT_DESC: `u32 nr, attr_size` and per event `attr[attr_size]; u32 nr_ids; string name; u64 ids[]`."""
    count, attr_size = struct.unpack_from("<II", body)
    position = 8
    names = []
    for _ in range(min(count, 4096)):
        (id_count,) = struct.unpack_from("<I", body, position + attr_size)
        name, position = _text(body, position + attr_size + 4)
        ids = struct.unpack_from(f"<{min(id_count, len(body) // 8)}Q", body, position)
        position += 8 * id_count
        names.append((name, ids))
    return names


def _texts(body: bytes) -> tuple[str, ...]:
    (count,) = struct.unpack_from("<I", body)
    position, words = 4, []
    for _ in range(min(count, len(body) // 4)):
        word, position = _text(body, position)
        words.append(word)
    return tuple(words)


def _text(body: bytes, position: int) -> tuple[str, int]:
    """A string as perf writes it (`u32 length; char text[length]`, padded with NULs), and where the next item is."""
    (length,) = struct.unpack_from("<I", body, position)
    end = position + 4 + length
    if end > len(body):
        raise IndexError(f"a string of {length} bytes at {position} leaves its section of {len(body)}")
    return c_string(body, position + 4, end), end


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    """Up to `size` bytes at an offset, fewer where the file ends."""
    if offset >= file.seek(0, 2):
        return b""
    file.seek(offset)
    return file.read(size)


def _format_error(path: str, expected: str, found: str, offset: int, remedy: str) -> FormatError:
    return FormatError(path, expected=expected, found=found, offset=offset, remedy=remedy, slug="perf-data-format")
