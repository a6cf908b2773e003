"""Files of records, cut: the perf.data of a recording that goes on, and its calls.data."""

from __future__ import annotations

from pathlib import Path

from pinprof.data import perf_format as perf
from pinprof.streams.tasks import Tasks

_FINISHED_ROUND = perf.record(perf.RECORD_FINISHED_ROUND, 0, b"")

_PIECE = 1 << 16
"""Bytes that are read at a time, as many as a record has at most: however rarely somebody looks, it takes no more
memory; and so little that glibc does not map memory for it alone, after which it would make holes in the heap."""
HEAD = ".head"
"""Ends the name of a file beside a growing one: what it has without records, with the features that name its events."""


class RecordsFile:
    """A file of records that grows, and what is kept of it for those that come later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tasks = Tasks()
        self.begins = self.gathered = self._whole = self._first = 0

    @property
    def size(self) -> int:
        """How far its whole records go, in bytes: one may be written at this moment. All of it behind a damaged one."""
        written = size(self.path)
        if written < perf.FILE_HEAD.size:
            return 0
        self.begin()
        if ended := perf.FILE_HEAD.unpack(between(self.path, 0, perf.FILE_HEAD.size))[perf.DATA_SIZE]:
            written = min(written, self._first + ended)
        if written > self._whole and between(self.path, written - len(_FINISHED_ROUND), written) == _FINISHED_ROUND:
            self._whole = written
        behind = between(self.path, self._whole, written)
        end = max((end for _, _, _, end in perf.records(behind)), default=0)
        if len(behind) >= end + perf.RECORD_HEADER.size:
            _, _, length = perf.RECORD_HEADER.unpack_from(behind, end)
            end = len(behind) if length < perf.RECORD_HEADER.size else end
        self._whole += end
        return self._whole

    def begin(self) -> None:
        """Find its first record, once the head is written."""
        if not self._first:
            self._first = perf.FILE_HEAD.unpack(between(self.path, 0, perf.FILE_HEAD.size))[perf.DATA_OFFSET]
            self.begins = self.gathered = self._whole = self._first

    @property
    def head(self) -> bytes:
        """The file without records, with the names of its events where they are written by now."""
        described = self.path.with_name(self.path.name + HEAD)
        return described.read_bytes() if described.exists() else between(self.path, 0, self._first)

    @property
    def kept(self) -> bytes:
        """Among the records up to `gathered`, those that later ones are read by: of what has not ended by then."""
        return self._tasks.records()

    def keep_until(self, place: int) -> None:
        """Gather what is kept of the records up to a place, which lies between records."""
        self.begin()
        while self.gathered < place:
            piece = between(self.path, self.gathered, min(self.gathered + _PIECE, place))
            # Nothing is read behind a damaged record.
            self.gathered = self.gathered + taken if (taken := self._tasks.take(piece)) else place


def composed(head: bytes, *records: bytes | bytearray) -> bytes:
    """A whole file: `head` is one without records, with what lies behind them (features) or without."""
    fields = list(perf.FILE_HEAD.unpack_from(head))
    start, added = fields[perf.DATA_OFFSET], sum(map(len, records))
    end = start + fields[perf.DATA_SIZE]
    fields[perf.DATA_SIZE] = added
    count = sum(word.bit_count() for word in fields[perf.FEATURES])
    table = end + perf.SECTION.size * count
    moved = [
        perf.SECTION.pack(offset - end + start + added, length)
        for offset, length in perf.SECTION.iter_unpack(head[end:table])
    ]
    return b"".join(
        (
            perf.FILE_HEAD.pack(*fields),
            head[perf.FILE_HEAD.size : start],
            *records,
            *moved,
            head[table:] if count else b"",
        )
    )


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
