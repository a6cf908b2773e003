"""Records of what tasks did and mapped, with their times, packed: a recording may have millions of them.

A record of Python has a tuple, and a number of its own for each address and time; a row here has 53 bytes. Texts are
kept once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np

from pinprof.base.numbering import Numbering
from pinprof.read.perf.mappings import TaskRecord
from pinprof.read.perf.records import CommRecord, DataArea, ForkRecord, MapRecord

_Record = TypeVar("_Record", TaskRecord, DataArea)

_ROW = struct.Struct("<qBiiiiQQQi")
"""Time, kind, four numbers of processes and threads, three of 64 bits, and the number of a text."""
_FIELDS = np.dtype({"names": ["time", "kind"], "formats": ["<i8", "u1"], "offsets": [0, 8], "itemsize": _ROW.size})
_LAST = 2**64 - 1
_MAP, _COMM, _EXEC, _LISTED, _FORK, _AREA = range(6)


class PackedRecords(Generic[_Record]):
    """(time, record) in the order in which they were added, until they are sorted."""

    def __init__(self) -> None:
        self._rows = bytearray()
        self._texts = Numbering[tuple[str, str]]()

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    def __iter__(self) -> Iterator[tuple[int, _Record]]:
        """A record at a time; nothing may be added meanwhile."""
        texts = self._texts.items
        for time, kind, pid, tid, parent, parent_tid, start, end, more, text in _ROW.iter_unpack(self._rows):
            record: MapRecord | CommRecord | ForkRecord | DataArea
            if kind == _MAP:
                record = MapRecord(pid, start, end, more, *texts[text])
            elif kind == _AREA:
                record = DataArea(time, pid, tid, start, end, more >> 32, more & 0xFFFFFFFF, texts[text][0])
            elif kind in (_COMM, _EXEC):
                record = CommRecord(pid, tid, texts[text][0], kind == _EXEC)
            else:
                record = ForkRecord(pid, parent, tid, parent_tid, kind == _FORK)
            yield time, record  # type: ignore[misc]

    def add(self, time: int, record: _Record) -> None:
        """Take in a record."""
        number = self._texts.number
        if isinstance(record, MapRecord):
            pid, start, end, offset, path, build_id = record
            row = (_MAP, pid, 0, 0, 0, start, end, offset, number((path, build_id)))
        elif isinstance(record, CommRecord):
            kind = _EXEC if record.exec else _COMM
            row = (kind, record.pid, record.tid, 0, 0, 0, 0, 0, number((record.name, "")))
        elif isinstance(record, ForkRecord):
            pid, parent, tid, parent_tid, clones = record
            row = (_FORK if clones else _LISTED, pid, tid, parent, parent_tid, 0, 0, 0, 0)
        else:
            _, pid, tid, start, end, protection, flags, path = record
            # Damaged records may say more than there are addresses.
            row = (_AREA, pid, tid, 0, 0, start, min(end, _LAST), protection << 32 | flags, number((path, "")))
        self._rows += _ROW.pack(time, *row)

    def sort(self) -> None:
        """Put them in the order of time; those of one time stay as they are."""
        rows = np.frombuffer(self._rows, _FIELDS)
        if bool((rows["time"][1:] < rows["time"][:-1]).any()):
            self._keep(np.argsort(rows["time"], kind="stable"))

    def drop_mappings(self) -> None:
        """Forget what was mapped."""
        self._keep(np.flatnonzero(np.frombuffer(self._rows, _FIELDS)["kind"] != _MAP))

    def _keep(self, places: np.ndarray) -> None:
        rows = np.frombuffer(self._rows, np.dtype((np.void, _ROW.size)))
        self._rows = bytearray(rows[places])
