"""The bytes of a file in bounded pieces, plain or gzip, however broken."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pinprof.errors import FormatError, readable

CHUNK = 4 << 20

_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\0"
_WITH_GZIP_HEADER = 31
"""zlib's wbits for a gzip stream."""


def unpacked(data: bytes, limit: int) -> bytes:
    """The bytes of a plain, gzip or xz file; EOFError where they end early or are more than `limit`.

    zlib.error or lzma.LZMAError where they are damaged.
    """
    unpack: Any
    if data.startswith(_GZIP):
        unpack = zlib.decompressobj(_WITH_GZIP_HEADER)
    elif data.startswith(_XZ):
        unpack = lzma.LZMADecompressor()
    else:
        return data
    unpacked: bytes = unpack.decompress(data, limit)
    if not unpack.eof:
        raise EOFError("the compressed data end early" if len(unpacked) < limit else "it is too large")
    return unpacked


@dataclass
class ByteSource:
    """A file to read once from its start; memory stays at one piece whatever the size or compression."""

    path: Path
    damage: str = ""
    """After reading: why the data ended early (`truncated gzip data`), empty when whole."""

    def chunks(self) -> Iterator[bytes]:
        """Pieces of at most CHUNK bytes, decompressed; broken gzip data ends early and is named in `damage`."""
        with readable(self.path, "Check the path."), self.path.open("rb") as file:
            start = file.read(2)
            file.seek(0)
            yield from self._gunzip(file) if start == _GZIP else iter(lambda: file.read(CHUNK), b"")

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
                    remedy="Record less, or export it as folded stacks, which are read as a stream.",
                    slug="too-large",
                )
            pieces.append(chunk)
        return b"".join(pieces)

    def _gunzip(self, file: BinaryIO) -> Iterator[bytes]:
        """Every member of a gzip file, one after the other, as zcat does."""
        stream = zlib.decompressobj(_WITH_GZIP_HEADER)
        pending = b""
        while data := pending or file.read(CHUNK):
            try:
                out = stream.decompress(data, CHUNK)
            except zlib.error:
                self.damage = "corrupt gzip data"
                return
            if out:
                yield out
            pending = stream.unconsumed_tail
            if stream.eof:
                pending = stream.unused_data or file.read(CHUNK)
                if not pending.startswith(_GZIP):
                    return
                stream = zlib.decompressobj(_WITH_GZIP_HEADER)
        self.damage = "truncated gzip data"
