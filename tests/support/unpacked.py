"""All that a file says: itself, and whatever is packed inside it, however deep."""

from __future__ import annotations

import base64
import binascii
import io
import re
import sqlite3
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator

import zstandard

_BASE64 = re.compile(rb"[A-Za-z0-9+/]{40,}={0,2}|[A-Za-z0-9_-]{40,}={0,2}")
_DEPTH = 5
_MOST_BYTES = 1 << 30


def layers(data: bytes, depth: int = 0) -> Iterator[bytes]:
    """The bytes, and those of everything that can be unpacked from them."""
    yield data
    if depth >= _DEPTH:
        return
    for inner in _unpacked(data):
        yield from layers(inner, depth + 1)


def tells(data: bytes, secret: str) -> bool:
    """Whether the secret is in there: as it is, in UTF-16, as base64, or escaped, in any layer."""
    plain = secret.encode()
    spellings = [plain, secret.encode("utf-16-le"), secret.encode("utf-16-be"), *_as_base64(plain)]
    return any(spelling in text for layer in layers(data) for text in (layer, layer.lower()) for spelling in spellings)


def _unpacked(data: bytes) -> Iterator[bytes]:
    if data[:2] == b"\x1f\x8b":
        yield from _inflated(data, 31)
    elif data[:4] == b"\x28\xb5\x2f\xfd":
        yield zstandard.ZstdDecompressor().decompressobj().decompress(data)
    elif data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    elif data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            yield from (file.read() for member in archive if (file := archive.extractfile(member)))
    elif data[:16] == b"SQLite format 3\0":
        yield from _cells(data)
    elif data[:1] == b"\x78":
        yield from _inflated(data, 15)
    for run in _BASE64.findall(data):
        for decoded in _decoded(run):
            yield decoded
            yield from _inflated(decoded, -15)


def _inflated(data: bytes, window: int) -> Iterator[bytes]:
    """What zlib makes of it, also of several members one after the other; nothing when it is none."""
    while data:
        machine = zlib.decompressobj(window)
        try:
            text = machine.decompress(data, _MOST_BYTES)
        except zlib.error:
            return
        yield text
        data = machine.unused_data if machine.eof and window == 31 else b""


def _decoded(run: bytes) -> Iterator[bytes]:
    whole = run.rstrip(b"=")
    whole = whole[: len(whole) - (len(whole) % 4 == 1)]
    try:
        yield base64.b64decode(whole.translate(bytes.maketrans(b"-_", b"+/")) + b"=" * (-len(whole) % 4))
    except binascii.Error:
        return


def _cells(data: bytes) -> Iterator[bytes]:
    """Cells of every table that could be packed; what lies in the pages has been looked at as it is."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        base = sqlite3.connect(f"file:{file.name}?mode=ro", uri=True)
        try:
            for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for row in base.execute(f'SELECT * FROM "{table}"'):
                    yield from (cell for cell in row if isinstance(cell, bytes) and len(cell) > 16)
        finally:
            base.close()


def _as_base64(plain: bytes) -> list[bytes]:
    """How the bytes look in base64, whatever lies before and after them: without what those decide."""
    found = []
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + plain)
        found.append(text[(0, 2, 3)[shift] : len(text) - 4])
    return found
