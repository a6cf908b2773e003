"""The agent's files while the last seconds alone are kept: what later records need of those before, in bounded room.

Each kind of file says some things once: who calls, what memory was granted, which range is open, what a kernel is
called. A look reads what files have gained. What lies before all windows is given back to the file system when its
writer has left it, and the rest of a window's file is made of what is kept: all that is said once, and of the others
what has not ended by then. So a file that was cut reads as any other.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pinprof.base import files
from pinprof.base.columns import Bool
from pinprof.base.lazy_dataclass import dataclass
from pinprof.read import chunked_file
from pinprof.streams.records import between

Units = NDArray[np.void]
_PAGE, _MOST_UNITS_BYTES = 4096, 1 << 18


@dataclass
class AgentChunk:
    """A chunk of a file, as far as it is read."""

    place: int
    """Where it begins in the file, and …"""
    size: int
    """… how long it is, in bytes."""
    read: int = 0
    """Records."""
    last_ns: int = 0
    """When the last of what was read happened."""
    leaving: bool = False
    """Nobody writes into it any more."""
    left: bool = False
    """Nor did anybody when it was read last."""
    owner: Units | None = None
    """The record that says whose those are that come next."""

    def owners(self, units: Units, kind: int) -> Units:
        """For each of its next records the one that says whose it is, which are those of a kind."""
        known = self.owner if self.owner is not None else np.zeros(1, units.dtype)
        taken = np.maximum.accumulate(np.where(units["kind"] == kind, np.arange(1, len(units) + 1), 0))
        owners = np.concatenate([known, units])[taken]
        self.owner = owners[-1:] if len(owners) else known
        return owners


class AgentFile(ABC):
    """One file that grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = 0
        self.token = self.parent = 0
        self.ended = False
        """Its process has: nothing more is written."""

    @abstractmethod
    def look(self) -> None:
        """Read what it has gained."""

    @abstractmethod
    def give_back(self, before_ns: int) -> None:
        """Keep what later records need of what was before a time."""

    @abstractmethod
    def cut(self, begin_ns: int) -> bytes:
        """What the file would be if it had been begun at a time, which is not before that of `give_back`."""

    @property
    @abstractmethod
    def last_ns(self) -> int:
        """When the last of what it says happened."""

    def take(self) -> None:
        """Look, and notice first whether its process has ended: then this is the last look."""
        if not self.ended:
            self.ended = self.pid > 0 and not Path(f"/proc/{self.pid}").exists()
            self.look()


class ChunkedFile(AgentFile):
    """A file of chunks, each of which is one thread's at a time."""

    magic: ClassVar[bytes]
    header: ClassVar[np.dtype[np.void]]
    chunk: ClassVar[np.dtype[np.void]]
    record: ClassVar[np.dtype[np.void]]

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.head = b""
        """The page of the header, as it was first."""
        self._chunks: list[AgentChunk] = []
        self._end = self._given_back = 0
        self._last_ns = 0

    @property
    def last_ns(self) -> int:
        """When the last of what it says happened."""
        return self._last_ns

    @abstractmethod
    def gained(self, chunk: AgentChunk, units: Units) -> None:
        """Take in records; the chunk's owner is known where one of them says it."""

    def look(self) -> None:
        """Read what it has gained."""
        if not self.head and not self._begin():
            return
        with self.path.open("rb") as file:
            descriptor = file.fileno()
            self._find(descriptor)
            for chunk in self._chunks:
                if not chunk.left:
                    self._read(descriptor, chunk)
        self._last_ns = max([self._last_ns, *(chunk.last_ns for chunk in self._chunks)])

    def give_back(self, before_ns: int) -> None:
        """Keep what later records need of what was before a time."""
        self.forget(before_ns)
        kept = []
        for chunk in self._chunks:
            if chunk.last_ns < before_ns and (chunk.left or self.ended):
                files.forget(self.path, chunk.place, chunk.place + chunk.size)
            else:
                kept.append(chunk)
        self._chunks = kept

    @abstractmethod
    def forget(self, before_ns: int) -> None:
        """What has ended by a time is needed no more."""

    def units(self, chunk: AgentChunk) -> Units:
        """All records of a chunk that were read."""
        first = chunk.place + self.chunk.itemsize
        raw = between(self.path, first, first + chunk.read * self.record.itemsize)
        return np.frombuffer(raw, self.record)

    @property
    def remaining(self) -> Sequence[AgentChunk]:
        """Chunks that were not given back."""
        return self._chunks

    def _begin(self) -> bool:
        head = between(self.path, 0, _PAGE)
        header = chunked_file.header_of(head, self.magic, self.header)
        if header is None:
            return False
        self._end = chunked_file.first_chunk(header)
        self.head = head if self._end == _PAGE else between(self.path, 0, self._end)
        self.pid, self.token, self.parent = int(header["pid"]), int(header["token"]), int(header["parent"])
        return True

    def _find(self, descriptor: int) -> None:
        """Chunks that are new."""
        end = os.fstat(descriptor).st_size
        while self._end + self.chunk.itemsize <= end:
            head = self._head(descriptor, self._end)
            length = int(head["size"])
            if head["magic"] != chunked_file.CHUNK_MAGIC or length < _PAGE or length % _PAGE:
                break  # nobody has begun to use it
            self._chunks.append(AgentChunk(self._end, length))
            self._end += length

    def _head(self, descriptor: int, place: int) -> np.void:
        head: np.void = np.frombuffer(os.pread(descriptor, self.chunk.itemsize, place), self.chunk)[0]
        return head

    def _read(self, descriptor: int, chunk: AgentChunk) -> None:
        head = self._head(descriptor, chunk.place)
        room = (chunk.size - self.chunk.itemsize) // self.record.itemsize
        first, last = chunk.read, min(int(head["records"]), room)
        if last > first:
            width = self.record.itemsize
            raw = os.pread(descriptor, (last - first) * width, chunk.place + self.chunk.itemsize + first * width)
            units = np.frombuffer(raw, self.record)
            self.gained(chunk, units)
            chunk.read = first + len(units)
        chunk.left, chunk.leaving = chunk.leaving, bool(head["left"])


class AgentFiles:
    """All files of the agent in the directory of a recording."""

    def __init__(self, directory: Path, shortened: dict[Path, Callable[[int], bytes]]) -> None:
        """`shortened` gets one entry for each (streams/window.py)."""
        from pinprof.portions.gpu_kept import GpuKept
        from pinprof.portions.inside_kept import InsideKept
        from pinprof.portions.nvtx_kept import NvtxKept
        from pinprof.streams.store import GPU, INSIDE, NVTX

        self._kinds: dict[Path, type[AgentFile]] = {
            directory / INSIDE: InsideKept, directory / GPU: GpuKept, directory / NVTX: NvtxKept,
        }  # fmt: skip
        self._shortened = shortened
        self._files: dict[Path, AgentFile] = {}

    def look(self) -> None:
        """Read what they have gained."""
        for folder, kind in self._kinds.items():
            for path in folder.glob("*.bin"):
                if path not in self._files:
                    self._files[path] = kind(path)
                    self._shortened[path] = self._files[path].cut
        for file in self._files.values():
            file.take()

    def of(self, kind: type[Any]) -> Iterator[Any]:
        """The files of a kind."""
        return (file for file in self._files.values() if isinstance(file, kind))

    def give_back(self, before_ns: int) -> None:
        """What was before a time and is needed no more; files of processes that have ended before, whole."""
        parents = {(type(file), file.parent) for file in self._files.values() if not file.ended}
        for path, file in list(self._files.items()):
            if file.ended and file.last_ns < before_ns and (type(file), file.token) not in parents:
                path.unlink(missing_ok=True)
                del self._files[path], self._shortened[path]
            else:
                file.give_back(before_ns)


class Pending:
    """Records by when they happened, and of those before a time what has not ended by then."""

    def __init__(self, empty: Units, surviving: Callable[[Units], Units]) -> None:
        """`surviving`: those of some records, by time, that have not ended."""
        self._surviving = surviving
        self._kept = empty
        self._new: list[tuple[int, Units]] = []
        """Others, with the first of the times."""

    def add(self, records: Units) -> None:
        """Records that were read; they have the fields `ns`, and `at` for their order."""
        if len(records):
            self._new.append((int(records["ns"].min()), records))

    def at(self, before_ns: int) -> Units:
        """What has not ended by a time."""
        early = [batch[batch["ns"] < before_ns] for first, batch in self._new if first < before_ns]
        return self._joined(early)

    def forget(self, before_ns: int) -> None:
        """Keep of what was before a time only that."""
        early = [batch for first, batch in self._new if first < before_ns]
        if early:
            # All of it: what has ended may have been read before what it ended.
            self._new = [(first, batch) for first, batch in self._new if first >= before_ns]
            self._kept = self._joined([batch[batch["ns"] < before_ns] for batch in early])
            for batch in early:
                self.add(batch[batch["ns"] >= before_ns])

    def _joined(self, batches: Sequence[Units]) -> Units:
        known = np.concatenate([self._kept, *batches])
        return self._surviving(known[np.argsort(known["at"], kind="stable")])


def last_of_each(*key: NDArray[Any]) -> Bool:
    """Which rows are the last ones of those with the same key, of several columns."""
    count = len(key[0])
    last = np.zeros(count, np.bool_)
    if count:
        order = np.lexsort((np.arange(count), *key))
        sorted_key = [column[order] for column in key]
        ends = np.append(np.any([column[1:] != column[:-1] for column in sorted_key], axis=0), True)
        last[order[ends]] = True
    return last


def in_chunks(layout: np.dtype[np.void], blocks: Sequence[bytes], record: int) -> Iterator[bytes]:
    """Chunks with blocks of records, none of which is divided; `layout` is that of their heads."""
    held: list[bytes] = []
    length = 0
    for block in [*blocks, b""]:
        if length and (not block or length + len(block) > _MOST_UNITS_BYTES):
            yield whole_chunk(layout, length // record, b"".join(held))
            held, length = [], 0
        held.append(block)
        length += len(block)


def whole_chunk(layout: np.dtype[np.void], count: int, content: bytes) -> bytes:
    """A chunk that begins with `count` records."""
    head = np.zeros(1, layout)
    whole = -(-(layout.itemsize + len(content)) // _PAGE) * _PAGE
    head["magic"], head["size"], head["records"] = chunked_file.CHUNK_MAGIC, whole, count
    return (head.tobytes() + content).ljust(whole, b"\0")
