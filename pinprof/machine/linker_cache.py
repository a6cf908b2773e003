"""What the dynamic linker finds by name: glibc's /etc/ld.so.cache.

Its header is `cache_file_new` of glibc's sysdeps/generic/dl-cache.h, since glibc 2.2; before 2.32 a table of an older
format stands in front of it. Offsets of texts count from the header.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

CACHE = Path("/etc/ld.so.cache")
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("=20s2I20x")
"""Magic, number of entries, length of texts."""
_ENTRY = struct.Struct("=i3IQ")
"""Flags, name, path, version of the system, hardware."""


def libraries() -> Iterator[tuple[str, Path]]:
    """Names of libraries and their files, in the linker's order; none where there is no such cache."""
    try:
        data = CACHE.read_bytes()
    except OSError:
        return
    data = data[max(data.find(_MAGIC), 0) :]
    if not data.startswith(_MAGIC) or len(data) < _HEADER.size:
        return
    _, count, _ = _HEADER.unpack_from(data)
    entries = data[_HEADER.size : _HEADER.size + count * _ENTRY.size]
    for _, name, path, _, _ in _ENTRY.iter_unpack(entries[: len(entries) // _ENTRY.size * _ENTRY.size]):
        yield os.fsdecode(_text(data, name)), Path(os.fsdecode(_text(data, path)))


def _text(data: bytes, at: int) -> bytes:
    return data[at : max(data.find(b"\0", at), at)]
