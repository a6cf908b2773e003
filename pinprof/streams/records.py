"""Files of records, cut: the perf.data of a recording that goes on, and its calls.data."""

from __future__ import annotations

import struct
from pathlib import Path

_HEAD = struct.Struct("<8s12Q")
_DATA_OFFSET, _DATA_SIZE, _FEATURES = 5, 6, slice(9, 13)
"""Fields of the head (collect/native/perf_file.py)."""
_RECORD = struct.Struct("<IHH")
_KEPT = frozenset({1, 3, 7, 10})
"""MMAP, COMM, FORK and MMAP2: what later samples are read by (perf_event.h)."""
_MAPS_DATA = 1 << 13
"""PERF_RECORD_MISC_MMAP_DATA: a mapping without code, which no sample is in."""
_LOST = 2
_ENTRY = struct.Struct("<QQ")
"""Where a feature lies, and how many bytes it has."""


class RecordsFile:
    """A file of records that grows, and what is kept of it for those that come later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept = bytearray()
        """Among the records up to `gathered`, those that later ones are read by."""
        self.head = b""
        self.gathered = 0

    @property
    def size(self) -> int:
        """How far it goes."""
        return size(self.path)

    def begin(self) -> None:
        """Read the head, once it is written."""
        if not self.head:
            self.gathered = _HEAD.unpack(between(self.path, 0, _HEAD.size))[_DATA_OFFSET]
            self.head = between(self.path, 0, self.gathered)

    def keep_until(self, place: int) -> None:
        """Gather what is kept of the records up to a place, which lies between records."""
        self.begin()
        if place > self.gathered:
            self._keep(between(self.path, self.gathered, place))
            self.gathered = place

    def _keep(self, records: bytes) -> None:
        place, unpack = 0, _RECORD.unpack_from
        while place + _RECORD.size <= len(records):
            kind, misc, length = unpack(records, place)
            if length < _RECORD.size:
                break
            if kind in _KEPT and not misc & _MAPS_DATA:
                self.kept += records[place : place + length]
            place += length


def composed(head: bytes, *records: bytes | bytearray) -> bytes:
    """A whole file: `head` is one without records, with what lies behind them (features) or without."""
    fields = list(_HEAD.unpack_from(head))
    start, added = fields[_DATA_OFFSET], sum(map(len, records))
    end = start + fields[_DATA_SIZE]
    fields[_DATA_SIZE] = added
    count = sum(word.bit_count() for word in fields[_FEATURES])
    table = end + _ENTRY.size * count
    moved = [
        _ENTRY.pack(offset - end + start + added, length) for offset, length in _ENTRY.iter_unpack(head[end:table])
    ]
    return b"".join((_HEAD.pack(*fields), head[_HEAD.size : start], *records, *moved, head[table:] if count else b""))


def lost(count: int, event: int = 0) -> bytes:
    """A record that says how many found no room, in the ring of an event (0: the first one); none for 0."""
    body = struct.pack("<QQ", event, count)
    return _RECORD.pack(_LOST, 0, _RECORD.size + len(body)) + body if count else b""


def between(path: Path, first: int, last: int) -> bytes:
    """The bytes of a file from one place to another."""
    with path.open("rb") as file:
        file.seek(first)
        return file.read(last - first)


def size(path: Path) -> int:
    """The size of a file; 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
