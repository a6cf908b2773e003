"""Another process's memory, read with process_vm_readv(2): many places with one system call."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

_WORD = struct.Struct("<Q")
_libc = ctypes.CDLL(None, use_errno=True)


class Gone(Exception):
    """The process has ended, or its memory may not be read."""


class _Piece(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Gather:
    """Places in another process, read repeatedly into one buffer, end to end."""

    def __init__(self, pid: int, places: Sequence[tuple[int, int]]) -> None:
        """`places`: (address, bytes), at most as many as one system call takes (IOV_MAX, 1024)."""
        self.size = sum(length for _, length in places)
        self.buffer = bytearray(self.size)
        self._held = (ctypes.c_char * self.size).from_buffer(self.buffer)
        remote = (_Piece * len(places))(*(_Piece(*place) for place in places))
        local = (_Piece * 1)(_Piece(ctypes.addressof(self._held), self.size))
        self._arguments = (
            ctypes.c_int(pid),
            local,
            ctypes.c_ulong(1),
            remote,
            ctypes.c_ulong(len(places)),
            ctypes.c_ulong(0),
        )

    def read(self) -> bool:
        """Fill the buffer; False where a place is not mapped any more, with what lies before it read."""
        count = _libc.process_vm_readv(*self._arguments)
        if count < 0 and ctypes.get_errno() in (errno.ESRCH, errno.EPERM, errno.ENOSYS):
            raise Gone(os.strerror(ctypes.get_errno()))
        return bool(count == self.size)


def refused() -> int:
    """The errno with which not even this process's own memory is read, as under a seccomp filter; 0 where it is."""
    own = ctypes.create_string_buffer(b"own", 3)
    try:
        return 0 if Gather(os.getpid(), [(ctypes.addressof(own), 3)]).read() else ctypes.get_errno()
    except Gone:
        return ctypes.get_errno()


def read(pid: int, address: int, length: int) -> bytes:
    """The bytes there; LookupError where nothing is mapped."""
    place = Gather(pid, [(address, length)])
    if not 0 < address < 1 << 48 or not place.read():
        raise LookupError(f"nothing at {address:#x}")
    return bytes(place.buffer)


def word(pid: int, address: int) -> int:
    """A pointer."""
    return int(_WORD.unpack(read(pid, address, 8))[0])
