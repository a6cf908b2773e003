"""Pinning memory with io_uring registered buffers: `pin_user_pages` for real, without a device.

io_uring_setup(2), io_uring_register(2) IORING_REGISTER_BUFFERS; kernel: io_uring/rsrc.c io_sqe_buffer_register →
io_pin_pages → pin_user_pages_fast(FOLL_WRITE | FOLL_LONGTERM). The ring itself is never used for I/O.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from pathlib import Path
from typing import Self

from pinprof.base.errors import ScenarioError
from pinprof.base.units import format_bytes

from . import libc

_SETUP, _REGISTER = 425, 427
"""System call numbers, the same on every architecture since they were added in 5.1."""
_REGISTER_BUFFERS, _UNREGISTER_BUFFERS = 0, 1
_PARAMS_BYTES = 120
"""sizeof(struct io_uring_params), include/uapi/linux/io_uring.h."""
_MAX_BUFFER_BYTES = 1 << 30
"""The kernel refuses larger single buffers with EFAULT."""
_DISABLED = Path("/proc/sys/kernel/io_uring_disabled")


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Ring:
    """An io_uring that holds one range of memory pinned at a time; a context manager."""

    def __init__(self) -> None:
        try:
            self._file = libc.syscall("io_uring_setup", _SETUP, 1, ctypes.create_string_buffer(_PARAMS_BYTES))
        except OSError as error:
            raise _refused(error) from error
        os.set_inheritable(self._file, False)
        self._registered = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pin(self, address: int, size_bytes: int) -> None:
        """Pin the pages of a range, creating those that do not exist yet."""
        starts = range(0, size_bytes, _MAX_BUFFER_BYTES)
        buffers = (_Iovec * len(starts))(
            *(_Iovec(address + start, min(_MAX_BUFFER_BYTES, size_bytes - start)) for start in starts)
        )
        pointer = ctypes.addressof(buffers)
        try:
            libc.syscall("io_uring_register", _REGISTER, self._file, _REGISTER_BUFFERS, pointer, len(starts))
        except OSError as error:
            raise _not_pinned(error, size_bytes) from error
        self._registered = True

    def unpin(self) -> None:
        """Release the pins."""
        if self._registered:
            self._registered = False
            libc.syscall("io_uring_register", _REGISTER, self._file, _UNREGISTER_BUFFERS, None, 0)

    def close(self) -> None:
        """Release the pins and the ring; does nothing the second time."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)


def _refused(error: OSError) -> ScenarioError:
    try:
        sysctl = f"kernel.io_uring_disabled = {_DISABLED.read_text('ascii').strip()}"
    except OSError:
        sysctl = "this kernel has no sysctl kernel.io_uring_disabled"
    if error.errno == errno.ENOMEM:
        sysctl += f"; {_limit()}"
    if error.errno in (errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        remedy = "Raise the limit that it names: `ulimit -l` for locked memory, `ulimit -n` for open files."
    else:
        remedy = "Run `pinprof doctor`, which says how to permit it here."
    problem = "This system does not permit io_uring, which the scenario needs to pin memory"
    return ScenarioError(f"{problem} ({error.strerror}; {sysctl}).", remedy, "io-uring")


def _not_pinned(error: OSError, size_bytes: int) -> ScenarioError:
    return ScenarioError(
        f"{format_bytes(size_bytes)} cannot be pinned ({error.strerror}; {_limit()}).",
        "Raise `ulimit -l` (RLIMIT_MEMLOCK), run with CAP_IPC_LOCK, or give a smaller --size.",
        "memlock",
    )


def _limit() -> str:
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return f"the limit of locked memory is {'unlimited' if limit == resource.RLIM_INFINITY else format_bytes(limit)}"
