"""Files that nobody opens before we are ready: a process that opens one of them waits until `close`.

An event on a probed function makes the kernel wait a tenth of a second when it is closed, and there are eight. Most
programs load no CUDA, so the events are opened when a process opens one of CUDA's libraries: fanotify(7) holds that
process in its open(2) meanwhile, and not one call is missed. It needs CAP_SYS_ADMIN, as probes do. When this process
ends, however it ends, the kernel lets all go on (fanotify_release, fs/notify/fanotify/fanotify_user.c).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable

_CLASS_CONTENT, _CLOEXEC, _NONBLOCK, _REPORT_TID = 0x4, 0x1, 0x2, 0x100
_MARK_ADD, _AT_FDCWD = 0x1, -100
_OPEN_PERM = 0x10000
"""include/uapi/linux/fanotify.h"""
_EVENT = struct.Struct("=IBBHQii")
"""`u32 event_len; u8 vers, reserved; u16 metadata_len; u64 mask; s32 fd, pid`."""
_MOST_BYTES = 4096


class Opening:
    """A guard of files; `file` becomes readable when a process waits to open one of them."""

    def __init__(self, paths: Iterable[str]) -> None:
        """OSError where this process, or this kernel, cannot hold others."""
        libc = ctypes.CDLL(None, use_errno=True)
        flags = _CLASS_CONTENT | _CLOEXEC | _NONBLOCK
        self._tells_threads = True
        try:
            self.file = _checked(libc.fanotify_init(flags | _REPORT_TID, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno != errno.EINVAL:  # before Linux 4.20
                raise
            self._tells_threads = False
            self.file = _checked(libc.fanotify_init(flags, os.O_RDONLY | os.O_CLOEXEC))
        try:
            for path in paths:
                mask = ctypes.c_uint64(_OPEN_PERM)
                _checked(libc.fanotify_mark(self.file, _MARK_ADD, mask, _AT_FDCWD, os.fsencode(path)))
        except OSError:
            self.close()
            raise

    def waiting(self) -> frozenset[int]:
        """The threads that wait to open one, as far as the kernel says."""
        threads = set()
        try:
            packed = os.read(self.file, _MOST_BYTES)
        except OSError:
            return frozenset()
        for size, *_, file, thread in _EVENT.iter_unpack(packed[: len(packed) // _EVENT.size * _EVENT.size]):
            assert size == _EVENT.size, "no more was asked for"
            if file >= 0:
                os.close(file)
            threads.add(thread)
        return frozenset(threads if self._tells_threads else ())

    def close(self) -> None:
        """Let everybody open them, those who wait first of all."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
