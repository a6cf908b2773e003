"""Another process's memory, read with process_vm_readv(2): many places with one system call."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

_WORD, _PIECE = struct.Struct("<Q"), struct.Struct("<QQ")
"""The second: `struct iovec`, where something begins and its bytes."""
_MOST = 1024
"""What one system call takes (IOV_MAX)."""
_libc = ctypes.CDLL(None, use_errno=True)


class Gone(Exception):
    """The process has ended, or its memory may not be read."""


class _Buffers:
    """What the system call reads from and writes into, the same at all calls.

    Arrays of ctypes have a type for each length: to make and forget one costs ten times as much as the call.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.held, self.remote, self.local = (ctypes.create_string_buffer(n) for n in (size, 16 * _MOST, 16))
        _PIECE.pack_into(self.local, 0, ctypes.addressof(self.held), size)


_buffers = _Buffers(1 << 16)


def gather(pid: int, places: Sequence[tuple[int, int]]) -> bytes:
    """What lies at these (address, bytes), 1,024 at most, end to end; where one is not mapped, what lies before it.

    For one thread at a time.
    """
    global _buffers
    size = 0
    for place, (start, length) in enumerate(places):
        _PIECE.pack_into(_buffers.remote, 16 * place, start, length)
        size += length
    if size > _buffers.size:
        _buffers = _Buffers(2 * size)
        return gather(pid, places)
    count = _libc.process_vm_readv(pid, _buffers.local, 1, _buffers.remote, len(places), 0)
    if count < 0 and ctypes.get_errno() in (errno.ESRCH, errno.EPERM, errno.ENOSYS):
        raise Gone(os.strerror(ctypes.get_errno()))
    return ctypes.string_at(_buffers.held, max(count, 0))


def refused() -> int:
    """The errno with which not even this process's own memory is read, as under a seccomp filter; 0 where it is."""
    own = ctypes.create_string_buffer(b"own", 3)
    try:
        return 0 if gather(os.getpid(), [(ctypes.addressof(own), 3)]) else ctypes.get_errno()
    except Gone:
        return ctypes.get_errno()


def read(pid: int, address: int, length: int) -> bytes:
    """The bytes there; LookupError where nothing is mapped."""
    found = gather(pid, [(address, length)]) if 0 < address < 1 << 48 else b""
    if len(found) < length:
        raise LookupError(f"nothing at {address:#x}")
    return found


def word(pid: int, address: int) -> int:
    """A pointer."""
    return int(_WORD.unpack(read(pid, address, 8))[0])
