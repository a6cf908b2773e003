"""Every file that pinprof writes is made here: never through a link, never into something that lay there before.

`replacing` and `written` make a new file beside its place and give it its name once it is whole, so whoever looks sees
the old file or the new one. Captures are private: they hold addresses of the kernel, paths and command lines.
`temporary_folder` makes the folders that only serve a run, and removes those of runs that were killed.

Recorded programs import this with `pinprof.scenario`, so what few need is imported where it is needed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, cast

PRIVATE = 0o600
"""For its owner alone: captures, and what is made of them, show command lines and paths."""
PRIVATE_FOLDER = 0o700

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHANGED = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_STANDARD = ("/dev/stdout", "/dev/stderr")

_PREFIX = "pinprof-"
_LOCK = ".of-a-run"
"""In a temporary folder: held by the process that made it, so a folder whose lock is free is nobody's."""


def create(path: Path) -> int:
    """Descriptor of a new file, for writing; FileExistsError when anything has that name, a dangling link too."""
    return os.open(path, _NEW, PRIVATE)


def append(path: Path | str) -> int:
    """Descriptor of a regular file to append to, which is made where there is none; OSError for anything else."""
    return _regular(os.open(path, _APPENDED, PRIVATE), path)


def change(path: Path) -> BinaryIO:
    """A regular file that exists, to read and write in place; OSError for anything else."""
    return os.fdopen(_regular(os.open(path, _CHANGED), path), "r+b")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of what has its name when the block ends; an error leaves nothing of it."""
    partial = path.with_name(f".{_PREFIX}{os.urandom(8).hex()}.partial")
    with os.fdopen(create(partial), "wb") as file:
        try:
            yield file
            file.flush()
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def written(path: Path, content: bytes | str) -> None:
    """Write a whole file in one step, in place of what has its name."""
    with replacing(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


def copied(source: Path, target: Path) -> None:
    """Copy a file's content in one step, in place of what has the target's name."""
    import shutil

    with source.open("rb") as content, replacing(target) as file:
        shutil.copyfileobj(content, file, 1 << 20)


def forget(path: Path, first: int, last: int) -> None:
    """Give back the disk blocks of a part of a file, whose size stays: zeros are read there from now on.

    What the file system cannot give back, it keeps (fallocate(2), FALLOC_FL_PUNCH_HOLE).
    """
    keep_size, punch_hole = 1, 2
    with contextlib.suppress(OSError), change(path) as file:
        _fallocate()(file.fileno(), keep_size | punch_hole, first, last - first)


@cache
def _fallocate() -> Callable[[int, int, int, int], int]:
    """The system's; each library object has types of its own, which Python does not forget at once."""
    import ctypes

    function = ctypes.CDLL(None).fallocate
    function.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long
    return function


def is_stream(path: Path) -> bool:
    """Whether a path names something to write to and not a file: a pipe, a terminal, `/dev/null`, `/dev/stdout`."""
    there = path.absolute()
    if there.is_relative_to("/dev/fd") or there.is_relative_to("/proc") or str(there) in _STANDARD:
        return True
    return path.exists() and not path.is_file()


def stream(path: Path) -> BinaryIO:
    """What such a path names, opened for writing; nothing is made."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CLOEXEC), "wb")


def irregular(path: Path) -> str:
    """What a directory's entry is that is neither file nor directory (`a symbolic link`, `a FIFO`); empty otherwise."""
    mode = path.lstat().st_mode
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return next((name for is_kind, name in kinds if is_kind(mode)), "a device")


@contextlib.contextmanager
def temporary_folder(within: str | None = None) -> Iterator[Path]:
    """A private folder `pinprof-…` that goes when the block ends, or in the next run when this one is killed.

    It lies in the system's place for such folders, or `within`.
    """
    import shutil
    import tempfile

    place = Path(within or tempfile.gettempdir())
    _remove_left_behind(place)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        lock = create(folder / _LOCK)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # no locks here: a run that has them must not take it for one that was left behind
            (folder / _LOCK).unlink(missing_ok=True)
            break
        # Another run may have found it before it was locked.
        if os.fstat(lock).st_nlink:
            break
        os.close(lock)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_empty(folder: Path) -> None:
    """Remove a folder that holds nothing; one that holds files stays."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def nameless() -> BinaryIO:
    """A file without a name, to write and read, which is gone when nobody has it open or mapped."""
    import tempfile

    # The operating system's own way (O_TMPFILE), or a name that is removed at once.
    return cast("BinaryIO", tempfile.TemporaryFile(prefix=_PREFIX))


def _remove_left_behind(place: Path) -> None:
    """Remove this user's temporary folders whose runs have ended without doing so."""
    import shutil

    for folder in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                ours = os.fstat(lock).st_uid == folder.lstat().st_uid == os.geteuid() and not folder.is_symlink()
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if ours:
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _regular(file: int, path: Path | str) -> int:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "It is not a regular file", str(path))
    return file
