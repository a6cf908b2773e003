"""`python without_perf.py [ERRNO] COMMAND …` runs a command that may not call perf_event_open."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_NUMBER = {"x86_64": 298, "aarch64": 241}
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ERRNO, _ALLOW = 0x00050000, 0x7FFF0000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def refuse(number: int = errno.EPERM) -> None:
    """From now on, for this process and all that it starts (seccomp(2), struct sock_filter)."""
    code = b"".join(
        struct.pack("HBBI", *step)
        for step in (
            (_LOAD, 0, 0, 0),
            (_EQUAL, 0, 1, _NUMBER[platform.machine()]),
            (_RETURN, 0, 0, _ERRNO | number),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(
        _SET_SECCOMP, _FILTER, ctypes.byref(_Program(4, code)), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    name, *command = sys.argv[1:] if hasattr(errno, sys.argv[1]) else ["EPERM", *sys.argv[1:]]
    refuse(getattr(errno, name))
    os.execvp(command[0], command)
