"""The bytes of a file in bounded pieces, plain or compressed, however broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pinprof.base.errors import FormatError, readable
from pinprof.base.lazy_dataclass import dataclass
from pinprof.read.packed import PackedError, is_packed, plain_pieces
from pinprof.read.reader import Progress, untold

CHUNK = 4 << 20


def ends_early(damage: str) -> str:
    """The sentence about a file whose data end too soon; empty for one that is whole."""
    return f"The file ends early: {damage}." if damage else ""


@dataclass
class ByteSource:
    """A file to read once from its start; memory stays at one piece whatever the size or compression."""

    path: Path
    progress: Progress = untold
    damage: str = ""
    """After reading: why the data ended early (`truncated gzip data`), empty when whole."""

    @property
    def packed(self) -> bool:
        """Whether the file is compressed."""
        with readable(self.path, "Check the path."), self.path.open("rb") as file:
            return is_packed(file.read(8))

    def chunks(self) -> Iterator[bytes]:
        """Pieces of some CHUNK bytes, decompressed; broken compressed data end early and are named in `damage`."""
        with readable(self.path, "Check the path."), self.path.open("rb") as file:
            head = file.read(8)
            size = max(file.seek(0, 2), 1)
            file.seek(0)
            try:
                for piece in plain_pieces(file, CHUNK) if is_packed(head) else iter(lambda: file.read(CHUNK), b""):
                    self.progress(file.tell() / size)
                    yield piece
            except PackedError as error:
                self.damage = str(error)

    def head(self, size: int) -> bytes:
        """The first bytes, for looking at what a file may be."""
        head = b""
        for chunk in self.chunks():
            head += chunk
            if len(head) >= size:
                break
        return head[:size]

    def whole(self, limit: int) -> bytes:
        """Everything at once; FormatError above `limit` bytes."""
        pieces, size = [], 0
        for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise FormatError(
                    str(self.path),
                    expected=f"at most {limit >> 20} MiB in a format that must be read at once",
                    found="more",
                    offset=limit,
                    remedy="Record less, or export folded stacks, which pinprof reads as a stream.",
                    slug="too-large",
                )
            pieces.append(chunk)
        return b"".join(pieces)
