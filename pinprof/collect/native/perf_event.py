"""perf_event_open(2) without a compiler: the attribute as the kernel reads it, the system call, and the ioctls.

Sources: `include/uapi/linux/perf_event.h` (structures, flags, ioctls, record types), perf_event_open(2),
`include/uapi/asm-generic/ioctl.h` and `arch/powerpc/include/uapi/asm/ioctl.h` (how ioctl numbers are made),
`arch/*/entry/syscalls` (system call numbers).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from functools import cache

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data import perf_format as perf

# perf_sw_ids
SW_CPU_CLOCK, SW_PAGE_FAULTS, SW_CONTEXT_SWITCHES, SW_DUMMY = 0, 2, 3, 9

# The bits of perf_event_attr, in the order of its bit field.
DISABLED, INHERIT, EXCLUDE_KERNEL, EXCLUDE_HV = 1 << 0, 1 << 1, 1 << 5, 1 << 6
MMAP, COMM, FREQ = 1 << 8, 1 << 9, 1 << 10
TASK, MMAP_DATA = 1 << 13, 1 << 17
SAMPLE_ID_ALL, EXCLUDE_GUEST, EXCLUDE_CALLCHAIN_KERNEL = 1 << 18, 1 << 20, 1 << 21
MMAP2, COMM_EXEC, USE_CLOCKID, CONTEXT_SWITCH = 1 << 23, 1 << 24, 1 << 25, 1 << 26
BUILD_ID = 1 << 34
"""Since Linux 5.12; an older kernel refuses bits that it does not know with EINVAL."""

FLAG_FD_CLOEXEC = 8

ATTR_SIZE = 112
"""PERF_ATTR_SIZE_VER5, Linux 4.1: the last version that has a field used here."""
_ATTR = struct.Struct("<IIQQQQQIIQQQQIiQIHH")

_SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331, "loongarch64": 241}

_POWERPC = platform.machine().startswith("ppc")


def _ioctl(number: int, direction: int = 0, size: int = 0) -> int:
    """An ioctl of type `$`; `direction` 1 writes to the kernel, 2 reads from it."""
    if _POWERPC:  # three bits: none 1, read 2, write 4
        return {0: 1, 1: 4, 2: 2}[direction] << 29 | size << 16 | ord("$") << 8 | number
    return direction << 30 | size << 16 | ord("$") << 8 | number


IOC_ENABLE, IOC_DISABLE, IOC_SET_OUTPUT = _ioctl(0), _ioctl(1), _ioctl(5)
IOC_ID = _ioctl(7, 2, 8)


@dataclass(frozen=True)
class EventAttr:
    """`struct perf_event_attr`; fields not named here are 0."""

    type: int
    config: int
    sample_type: int
    period_or_freq: int = 0
    """A frequency in Hz where `flags` has FREQ, else the number of events for each sample."""
    flags: int = 0
    read_format: int = 0
    wakeup: int = 0
    """Bytes in the ring that wake its reader where `flags` has WATERMARK, else samples."""
    config1: int = 0
    config2: int = 0
    sample_regs_user: int = 0
    sample_stack_user: int = 0
    clockid: int = 0
    sample_max_stack: int = 0

    def pack(self) -> bytes:
        """The structure's bytes."""
        return _ATTR.pack(
            self.type,
            ATTR_SIZE,
            self.config,
            self.period_or_freq,
            self.sample_type,
            self.read_format,
            self.flags,
            self.wakeup,
            0,  # bp_type
            self.config1,
            self.config2,
            0,  # branch_sample_type
            self.sample_regs_user,
            self.sample_stack_user,
            self.clockid,
            0,  # sample_regs_intr
            0,  # aux_watermark
            self.sample_max_stack,
            0,
        )


def open_event(attr: EventAttr, pid: int, cpu: int, *, flags: int = FLAG_FD_CLOEXEC) -> int:
    """The file descriptor of a new event; OSError with the kernel's errno, ENOSYS on an unknown architecture."""
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    raw = ctypes.create_string_buffer(attr.pack(), ATTR_SIZE)
    file = int(_libc().syscall(number, raw, pid, cpu, -1, ctypes.c_ulong(flags)))
    if file < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return file


def event_id(file: int) -> int:
    """The id that the event's records carry."""
    number = bytearray(8)
    fcntl.ioctl(file, IOC_ID, number)
    return int.from_bytes(number, "little")


def enable(file: int) -> None:
    """Start an event, in the children that inherited it as well."""
    fcntl.ioctl(file, IOC_ENABLE, 0)


def disable(file: int) -> None:
    """Stop an event, in the children that inherited it as well."""
    fcntl.ioctl(file, IOC_DISABLE, 0)


def share_ring(file: int, owner: int) -> None:
    """Let an event write into the ring of another one of the same CPU and clock."""
    fcntl.ioctl(file, IOC_SET_OUTPUT, owner)


def count(file: int) -> int:
    """How often an event happened."""
    return int.from_bytes(os.read(file, 24)[:8], "little")


def lost_records(file: int, read_format: int) -> int:
    """How many records of an event found no room in its ring; 0 where the kernel does not count them."""
    if not read_format & perf.FORMAT_LOST:
        return 0
    # { u64 value; u64 id if FORMAT_ID; u64 lost }
    words = os.read(file, 24)
    return int.from_bytes(words[-8:], "little")


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
