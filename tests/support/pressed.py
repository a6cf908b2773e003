"""Places where memory is short: control groups with a limit, and files that lie on the disk."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MIB = 1 << 20
_GROUPS = Path("/sys/fs/cgroup")
_V2 = (_GROUPS / "cgroup.controllers").exists()


class Unable(Exception):
    """This machine has no such place; the text says why."""


def written(path: Path, size: int) -> Path:
    """A file on a disk that forgets what is in memory when asked to.

    Raises:
        Unable: files of this file system stay in memory.
    """
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(4096) * (MIB // 4096))
        file.flush()
        os.fsync(file.fileno())
    if in_memory(path) > 0.1:
        raise Unable("files of this file system stay in memory")
    return path


def in_memory(path: Path) -> float:
    """The share of a file's pages that lie in memory once it was dropped from there."""
    size = path.stat().st_size
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) as mapping:
            pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
            address = ctypes.addressof(start := ctypes.c_char.from_buffer(mapping))
            ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages)
            del start
    return sum(page & 1 for page in pages) / len(pages)


@contextmanager
def limited(limit: int) -> Iterator[Path]:
    """A control group whose members may use so many bytes, as a folder; it has to be empty again at the end.

    Raises:
        Unable: no control group can be made here, or none with a limit.
    """
    group = (_GROUPS if _V2 else _GROUPS / "memory") / f"pinprof-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise Unable(f"no control groups can be made: {error}") from error
    try:
        try:
            (group / ("memory.max" if _V2 else "memory.limit_in_bytes")).write_text(str(limit))
        except OSError as error:
            raise Unable(f"no memory limit can be set: {error}") from error
        yield group
    finally:
        group.rmdir()


def inside(group: Path, *command: str | Path) -> list[str]:
    """A command that runs in a control group."""
    return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group), *map(str, command)]
