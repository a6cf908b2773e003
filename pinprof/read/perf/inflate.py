"""The zstd data in perf's COMPRESSED records: what they hold end to end is a stream of records.

perf writes one frame without an end; where recordings were put together, or a newer perf ends its frames, several
follow each other, with zeros between them that fill a record up.

Bounds: a hostile file may blow up small data. Recordings of real programs come to 5 to 50 bytes for a compressed one,
but copies of an empty stack are worth next to nothing: 64 KiB of them for 27 bytes were seen. Neither such a
number of bytes nor few bytes for a record are a sign of forgery.
"""

from __future__ import annotations

from collections.abc import Iterator

from pinprof.base.zstd import ZstdDecompressor, ZstdError

MOST_INFLATION = 10_000
"""Plain bytes for a compressed one, beyond `SPARED_BYTES`."""
SPARED_BYTES = 16 << 20
SPARED_RECORDS = 1 << 20
"""Records beyond one for each compressed byte."""

_PIECE_BYTES = 512
"""Compressed bytes inflated in one go: zstd's best is 128 KiB for 4 bytes."""


class DamagedData(ValueError):
    """Bytes that are no zstd data."""

    def __init__(self, lost_bytes: int) -> None:
        super().__init__(f"{lost_bytes} bytes cannot be inflated")
        self.lost_bytes = lost_bytes


class Inflater:
    """Inflates the data of one file in order."""

    def __init__(self) -> None:
        self._frame: ZstdDecompressor | None = None
        self._packed_bytes = self._plain_bytes = 0
        self.records = 0
        """How many records the plain bytes have held so far; whoever walks them counts."""

    @property
    def forged(self) -> bool:
        """Whether a few bytes stand for more than any recording has."""
        too_long = self._plain_bytes > MOST_INFLATION * self._packed_bytes + SPARED_BYTES
        return too_long or self.records > self._packed_bytes + SPARED_RECORDS

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        """The plain bytes in bounded pieces; DamagedData where the rest is not readable."""
        self._packed_bytes += len(packed)
        for start in range(0, len(packed), _PIECE_BYTES):
            piece = packed[start : start + _PIECE_BYTES]
            while piece:
                if self._frame is None:
                    if not (piece := piece.lstrip(b"\0")):
                        break
                    self._frame = ZstdDecompressor()
                try:
                    plain = self._frame.decompress(piece)
                except ZstdError:
                    self._frame = None
                    raise DamagedData(len(packed) - start) from None
                piece = self._frame.unused_data if self._frame.eof else b""
                if self._frame.eof:
                    self._frame = None
                self._plain_bytes += len(plain)
                yield plain
