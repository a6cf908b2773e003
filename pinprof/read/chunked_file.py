"""Files that a library inside a program writes: a header, then chunks of pages, each with records of one thread.

The writer may have been killed at any instruction, the disk may have been full, and the file may be of a hostile
program: what is no whole chunk is left out.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

T = TypeVar("T")
Bytes = mmap.mmap | bytes

VERSION = 1
HEADER = [
    ("magic", "S8"),
    ("version", "<u4"),
    ("pid", "<u4"),
    ("token", "<u8"),
    ("parent", "<u8"),
    ("opened_ns", "<u8"),
    ("lost", "<u8"),
    ("size", "<u4"),
    ("stop", "<u4"),
]
"""What every header begins with."""
CHUNK_MAGIC = b"PINPCHNK"
CHUNK = [("magic", "S8"), ("size", "<u4"), ("records", "<u4")]
"""What every chunk begins with."""
_PAGE, _LARGEST_CHUNK, _LARGEST_FILE = 4096, 1 << 20, 1 << 31


def load(path: Path, parse: Callable[[Bytes], T | None]) -> T | None:
    """What a file has; None for one that is no such file, or cannot be read."""
    if not path.is_file() or path.stat().st_size > _LARGEST_FILE:  # to open a FIFO would wait for a writer
        return None
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return parse(data)
    except (OSError, ValueError):  # mmap refuses an empty file
        return None


def header_of(data: Bytes, magic: bytes, layout: np.dtype[np.void]) -> np.void | None:
    """A file's header; None where it does not begin like one of this version."""
    if len(data) < layout.itemsize or data[:8] != magic:
        return None
    header: np.void = np.frombuffer(data[: layout.itemsize], layout)[0]
    return header if header["version"] == VERSION else None


def first_chunk(header: np.void) -> int:
    """Where chunks begin."""
    size = int(header["size"])
    return size if _is_size(size) else _PAGE


def chunks(data: Bytes, start: int, layout: np.dtype[np.void], record: int) -> Iterator[tuple[int, int, int] | None]:
    """(start, size, records) of every chunk, with None for each that lacks some, and for each page that is neither in a
    chunk nor empty; `record` is how large one is.
    """
    while start + layout.itemsize <= len(data):
        head = np.frombuffer(data[start : start + layout.itemsize], layout)[0]
        size = int(head["size"])
        if head["magic"] == CHUNK_MAGIC and _is_size(size):
            there = min(size, len(data) - start)
            room = (there - layout.itemsize) // record
            if int(head["records"]) > room:
                yield None
            yield start, there, min(int(head["records"]), room)
            start += size
        else:
            # Reserved by a writer that was killed before it began to use it, or damaged.
            if any(data[start : start + _PAGE]):
                yield None
            start += _PAGE


def _is_size(size: int) -> bool:
    return _PAGE <= size <= _LARGEST_CHUNK and size % _PAGE == 0
