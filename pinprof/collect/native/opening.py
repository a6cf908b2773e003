"""Files that nobody opens before we are ready: a process that opens one of them waits until `close`.

An event on a probed function makes the kernel wait a tenth of a second when it is closed, and there are eight. Most
programs load no CUDA, so the events are opened when a process opens one of CUDA's libraries: fanotify(7) holds that
process in its open(2) meanwhile, and not one call is missed. It needs CAP_SYS_ADMIN, as probes do. When this process
ends, however it ends, the kernel lets all go on (fanotify_release, fs/notify/fanotify/fanotify_user.c).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

_CLASS_CONTENT, _CLOEXEC, _NONBLOCK = 0x4, 0x1, 0x2
_MARK_ADD, _AT_FDCWD = 0x1, -100
_OPEN_PERM = 0x10000
"""include/uapi/linux/fanotify.h"""


class Opening:
    """A guard of files; `file` becomes readable when a process waits to open one of them."""

    def __init__(self, paths: Iterable[str]) -> None:
        """OSError where this process, or this kernel, cannot hold others."""
        libc = ctypes.CDLL(None, use_errno=True)
        self.file = _checked(libc.fanotify_init(_CLASS_CONTENT | _CLOEXEC | _NONBLOCK, os.O_RDONLY | os.O_CLOEXEC))
        try:
            for path in paths:
                mask = ctypes.c_uint64(_OPEN_PERM)
                _checked(libc.fanotify_mark(self.file, _MARK_ADD, mask, _AT_FDCWD, os.fsencode(path)))
        except OSError:
            self.close()
            raise

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
