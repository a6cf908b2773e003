"""Compressed inputs: gzip, xz and zstd, known by their first bytes and unpacked in bounded pieces, all of it here.

Bounds, so that a small file cannot fill the memory or the disk: beyond SPARED_BYTES an input may unpack to MOST_RATIO
times its size, and to MOST_BYTES at most. Text of profilers comes to 5 to 200 times, recordings with copies of empty
stacks to 2,500. xz and zstd may ask for WINDOW_BYTES of memory.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from pinprof.base.errors import FormatError

SPARED_BYTES = 64 << 20
MOST_RATIO = 5000
MOST_BYTES = 64 << 30
WINDOW_BYTES = 256 << 20

_PIECE = 1 << 18
_WITH_GZIP_HEADER = 31
"""zlib's wbits for a gzip stream."""
_LONGEST_MAGIC = 6


class PackedError(ValueError):
    """Compressed data that are damaged, end early, or are more than may be; the text says which."""


class _Member:
    """One compressed stream, by a library's decompressor; a file may hold several, one after the other."""

    _stream: Any
    damaged: type[Exception]
    """What `plain` raises where the bytes are damaged."""

    @property
    def ended(self) -> bool:
        """Whether it is whole."""
        return bool(self._stream.eof)

    @property
    def behind(self) -> bytes:
        """The last packed bytes that follow its end."""
        return bytes(self._stream.unused_data)

    def plain(self, packed: bytes, size: int) -> Iterator[bytes]:
        """What packed bytes stand for, in pieces of at most about `size` bytes."""
        yield self._stream.decompress(packed, size)
        while not self._stream.eof and not self._stream.needs_input:
            yield self._stream.decompress(b"", size)


class _Gzip(_Member):
    damaged = zlib.error

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_WITH_GZIP_HEADER)

    def plain(self, packed: bytes, size: int) -> Iterator[bytes]:
        while packed and not self._stream.eof:
            yield self._stream.decompress(packed, size)
            packed = self._stream.unconsumed_tail


class _Xz(_Member):
    damaged = lzma.LZMAError

    def __init__(self) -> None:
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=WINDOW_BYTES)


class _Zstd(_Member):
    def __init__(self) -> None:
        # Imported here: few inputs are compressed with it.
        from pinprof.base.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

        self.damaged = ZstdError
        limit = WINDOW_BYTES.bit_length() - 1
        self._stream = ZstdDecompressor(options={DecompressionParameter.window_log_max: limit})


_MEMBERS: tuple[tuple[str, bytes, Callable[[], _Member]], ...] = (
    ("gzip", b"\x1f\x8b", _Gzip),
    ("xz", b"\xfd7zXZ\0", _Xz),
    ("zstd", b"\x28\xb5\x2f\xfd", _Zstd),
    # Frames that hold no data: what pzstd and seekable archives put between frames.
    *(("zstd", bytes([0x50 + number]) + b"\x2a\x4d\x18", _Zstd) for number in range(16)),
)
"""(what a format is called, how its members begin, what reads one)."""


def is_packed(head: bytes) -> bool:
    """Whether a file that begins with these bytes is compressed."""
    return _member(head) is not None


def plain_pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """What a compressed file holds, all its members, in pieces of some `size` bytes.

    PackedError where it is damaged or ends early. FormatError where it is more than may be.
    """
    packed_bytes = plain_bytes = 0
    name, member = "", None
    while packed := file.read(_PIECE):
        packed_bytes += len(packed)
        while packed:
            if member is None:
                # Tools fill files up with zeros.
                if name and not (packed := packed.lstrip(b"\0")):
                    break
                if len(packed) < _LONGEST_MAGIC:
                    packed += file.read(_LONGEST_MAGIC)
                if (found := _member(packed)) is None:
                    return  # As zcat does, what follows the last member is left out.
                name, member = found[0], found[1]()
            try:
                for plain in member.plain(packed, size):
                    plain_bytes += len(plain)
                    if plain_bytes > min(SPARED_BYTES + MOST_RATIO * packed_bytes, MOST_BYTES):
                        raise _too_large(file, plain_bytes)
                    if plain:
                        yield plain
            except member.damaged as error:
                what = "needs too much memory" if "emory" in str(error) else "corrupt"
                raise PackedError(f"{what} {name} data" if what == "corrupt" else f"{name} {what}") from error
            packed = member.behind if member.ended else b""
            member = None if member.ended else member
    if member is not None:
        raise PackedError(f"truncated {name} data")


def unpacked(data: bytes, limit: int) -> bytes:
    """The bytes of a small file, plain or compressed; PackedError where they are damaged or more than `limit`."""
    from io import BytesIO

    if not is_packed(data):
        return data
    pieces, size = [], 0
    for piece in plain_pieces(BytesIO(data), 1 << 20):
        size += len(piece)
        if size > limit:
            raise PackedError("it is too large")
        pieces.append(piece)
    return b"".join(pieces)


def _member(head: bytes) -> tuple[str, Callable[[], _Member]] | None:
    return next(((name, make) for name, magic, make in _MEMBERS if head.startswith(magic)), None)


def _too_large(file: BinaryIO, size: int) -> FormatError:
    return FormatError(
        getattr(file, "name", "the file"),
        expected=f"compressed data of at most {MOST_RATIO:,} times their size and {MOST_BYTES >> 30} GiB",
        found="more",
        offset=size,
        remedy="If that size is intended, unpack the file yourself and give pinprof the plain file.",
        slug="too-large",
    )
