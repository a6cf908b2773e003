"""The descriptors of /dev/nvidia-uvm in a program's processes, and copies of them for ourselves.

A process opens the device at cuInit, and a second time for the sake of its memory map; which of the two stands for the
address space, the driver says when it is asked. A forked process shares what its parent had open: one address space.
System calls: pidfd_open(2), pidfd_getfd(2) (Linux 5.6), kcmp(2).
"""

from __future__ import annotations

import ctypes
import os
import platform

from pinprof.collect.uvm.driver import MEMORY_DEVICE

_PIDFD_GETFD = 438
_KCMP = {"x86_64": 312, "aarch64": 272}
_KCMP_FILE = 0


def numbers(pid: int) -> list[int]:
    """The descriptors of the device in a process; none where it has ended, or is not ours to look at."""
    place, found = f"/proc/{pid}/fd", []
    try:
        listed = os.listdir(place)  # noqa: PTH208 - plain strings cost least
    except OSError:
        return []
    for number in listed:
        try:
            if os.readlink(f"{place}/{number}") == MEMORY_DEVICE:  # noqa: PTH115 - likewise
                found.append(int(number))
        except OSError:
            continue
    return sorted(found)


def copied(process: int, number: int) -> int:
    """Our copy of a descriptor of another process, which a pidfd names; OSError when that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    copy: int = libc.syscall(_PIDFD_GETFD, process, number, 0)
    if copy < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return copy


def impossible() -> str:
    """Why no descriptor can be copied on this machine, not even one of our own; empty where they can be."""
    try:
        process = os.pidfd_open(os.getpid())
    except OSError as error:
        return error.strerror or "unknown"
    try:
        os.close(copied(process, process))
    except OSError as error:
        return error.strerror or "unknown"
    finally:
        os.close(process)
    return ""


def same(first: int, second: int) -> bool:
    """Whether two of our descriptors are copies of one; also where the kernel does not say: nothing counts twice."""
    number = _KCMP.get(platform.machine())
    if number is None:
        return True
    pid = os.getpid()
    return int(ctypes.CDLL(None).syscall(number, pid, pid, _KCMP_FILE, first, second)) in (0, -1)
