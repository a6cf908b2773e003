"""Compressed files as plain temporary copies: a small file that stands for a large one writes nothing large untried.

What is usual is written at once. Where a file grows far beyond that, all of it is unpacked first without writing, so
that what is damaged, too large (`packed`) or more than there is room for is refused before. Zeros take no room on the
disk: runs of them become holes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from pinprof.base import files
from pinprof.base.errors import CaptureError
from pinprof.read.byte_source import ByteSource
from pinprof.read.packed import SPARED_BYTES

USUAL_RATIO = 20
"""By which recordings are compressed, about."""
_BLOCK = 1 << 16


def usual_bytes(path: Path) -> int:
    """What a compressed file may hold without being looked at first."""
    return SPARED_BYTES + USUAL_RATIO * path.stat().st_size


def write_plain(path: Path, copy: Path) -> str:
    """Write what a compressed file holds into a new file; why it ends early, empty where it is whole.

    FormatError where it is more than may be, CaptureError where it is more than there is room for.
    """
    source, usual, size = ByteSource(path), usual_bytes(path), 0
    with os.fdopen(files.create(copy), "wb") as target:
        for chunk in source.chunks():
            if size <= usual < size + len(chunk):
                refuse_without_room(path, sum(map(len, ByteSource(path).chunks())), copy.parent)
            size += len(chunk)
            write_sparse((chunk,), target)
        target.truncate(size)
    return source.damage


def refuse_without_room(shown: object, size: int, folder: Path) -> None:
    """CaptureError where a folder's disk has no room for `size` bytes."""
    free = shutil.disk_usage(folder).free
    if size > free:
        raise CaptureError(
            f"{shown} unpacks to {size:,} bytes, and {folder} has room for {free:,}.",
            "Set TMPDIR to a folder with enough space, or unpack it yourself.",
            "archive-unpacking",
        )


def write_sparse(chunks: Iterable[bytes], target: BinaryIO) -> None:
    """Write bytes, blocks of zeros as holes; where they end with one, the file is as long once it is truncated."""
    for chunk in chunks:
        for start in range(0, len(chunk), _BLOCK):
            block = chunk[start : start + _BLOCK]
            if block.count(0) == len(block):
                target.seek(len(block), 1)
            else:
                target.write(block)
