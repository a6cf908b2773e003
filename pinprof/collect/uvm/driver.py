"""/dev/nvidia-uvm-tools: the driver's event queue and counters of one address space of managed memory.

A descriptor of the device becomes a queue or a set of counters by one ioctl, which takes a descriptor of
/dev/nvidia-uvm that the program opened: it stands for the address space. The driver writes into memory of ours, and
keeps it, and the address space, until the descriptor of the device is closed.

Numbers and structures: kernel-open/nvidia-uvm/uvm_ioctl.h of NVIDIA/open-gpu-kernel-modules (515.43, 570.133, 580.65).
On Linux an ioctl's number is the plain one, and each structure ends with a status, 0 for success (NV_STATUS).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
import struct
import sys
from collections.abc import Iterable
from fcntl import ioctl
from pathlib import Path

from pinprof.data.uvm_events import COUNTERS, ENTRY_BYTES, EVENTS, PROCESSORS, UUID_BYTES

CONTROL_BYTES = 16 + 64 * 8
_GET_AHEAD, _GET_BEHIND, _, _PUT_BEHIND = range(4)
_DROPPED = 2
"""Place of the first of the numbers of lost events, among u64."""
DEVICE = Path("/dev/nvidia-uvm-tools")
MEMORY_DEVICE = "/dev/nvidia-uvm"
"""What programs with managed memory have open."""

INIT_TRACKER, SET_THRESHOLD, ENABLE_EVENTS, ENABLE_COUNTERS = 56, 57, 58, 60
UUID_TABLE, FLUSH_EVENTS, INIT_TRACKER_V2, UUID_TABLE_V2 = 64, 67, 76, 77

INIT = struct.Struct("=QQQ16sIIII")
"""queueBuffer, queueBufferSize (entries), controlBuffer, processor, allProcessors, uvmFd, rmStatus, padding."""
THRESHOLD = struct.Struct("=II")
FLAGS = struct.Struct("=QII")
"""eventTypeFlags or counterTypeFlags, rmStatus, padding."""
TABLE = struct.Struct("=QII")
"""tablePtr, and rmStatus; in older drivers (515.43) the number of entries stands before the status."""
FLUSH = struct.Struct("=I")

ENTRIES = 1 << 16
"""A queue's length, a power of two: 0.4 s at 150,000 events a second, in 4.5 MiB."""
_THRESHOLD = ENTRIES // 4
_UNTOUCHED = 0xFFFF_FFFF
ALL_COUNTERS = (1 << COUNTERS) - 1


class UvmRing:
    """The queue as it lies in memory, read without a system call: `announced`, `pieces` up to there, `release`.

    The control data are four u32 (get_ahead, get_behind, put_ahead, put_behind) and a u64 for each kind of event, how
    many of it found no room. The driver writes the entry at put_behind and steps on; it stops one entry before
    get_behind. All places are taken modulo the length, a power of two, as the driver takes them (uvm_tools.c:
    enqueue_event).
    """

    def __init__(self, control: memoryview, entries: memoryview, entry_bytes: int, length: int) -> None:
        """`length`: entries, a power of two."""
        self._places, self._dropped = control[:16].cast("I"), control[:CONTROL_BYTES].cast("Q")
        self._entries, self._size, self._mask = entries, entry_bytes, length - 1

    def announced(self) -> int:
        """Up to where the driver has written."""
        return self._places[_PUT_BEHIND] & self._mask

    def pieces(self, until: int) -> list[memoryview]:
        """The entries that are to be read, in order: one piece, or two where they go on at the front."""
        begin, until = self._places[_GET_BEHIND] & self._mask, until & self._mask
        spans = [(begin, until)] if begin <= until else [(begin, self._mask + 1), (0, until)]
        return [self._entries[first * self._size : last * self._size] for first, last in spans if first < last]

    def release(self, until: int) -> None:
        """Entries before this place may be written over."""
        self._places[_GET_AHEAD] = self._places[_GET_BEHIND] = until & self._mask

    @property
    def dropped(self) -> tuple[int, ...]:
        """Per kind how many events found no room."""
        return tuple(self._dropped[_DROPPED : _DROPPED + EVENTS])


class DriverRefused(Exception):
    """The driver did not do what it was asked for: `errno` is the system call's, or 0, and `status` the driver's."""

    def __init__(self, what: str, number: int = 0, status: int = 0) -> None:
        reason = os.strerror(number) if number else f"status {status:#x} of the driver"
        super().__init__(f"{what}: {reason}")
        self.errno, self.status = number, status


def call(descriptor: int, request: int, parameters: bytes, status_at: int, what: str) -> bytearray:
    """The structure after an ioctl; Refused when the system call fails, or the status says so."""
    answer = bytearray(parameters)
    try:
        ioctl(descriptor, request, answer, True)
    except OSError as error:
        raise DriverRefused(what, error.errno or errno.EIO) from error
    if status := _word(answer, status_at):
        raise DriverRefused(what, status=status)
    return answer


def open_device() -> int:
    """A new descriptor of the device; OSError."""
    return os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)


class Queue:
    """The events of one address space, from `enable` until `close`."""

    def __init__(self, uvm: int) -> None:
        """`uvm`: our copy of the program's descriptor. Refused when it is none that can be followed, or not yet."""
        self._memory = mmap.mmap(-1, ENTRIES * max(ENTRY_BYTES.values()))
        self._control = mmap.mmap(-1, max(CONTROL_BYTES, mmap.PAGESIZE))
        try:
            self.descriptor = open_device()
        except OSError as error:
            raise DriverRefused(f"open {DEVICE}", error.errno or errno.EIO) from error
        try:
            self.layout = self._become_queue(uvm)
            call(self.descriptor, SET_THRESHOLD, THRESHOLD.pack(_THRESHOLD, 0), 4, "set the queue's threshold")
        except DriverRefused:
            os.close(self.descriptor)
            raise
        self.ring = UvmRing(memoryview(self._control), memoryview(self._memory), ENTRY_BYTES[self.layout], ENTRIES)
        self._poll = select.poll()
        self._poll.register(self.descriptor, select.POLLIN)

    def _become_queue(self, uvm: int) -> int:
        """The layout of its entries: the newest one that the driver has."""
        given = INIT.pack(address(self._memory), ENTRIES, address(self._control), bytes(16), 1, uvm, 0, 0)
        try:
            call(self.descriptor, INIT_TRACKER_V2, given, 48, "make an event queue")
        except DriverRefused as error:
            if error.errno != errno.EINVAL:
                raise
        else:
            return 2
        call(self.descriptor, INIT_TRACKER, given, 48, "make an event queue of the first layout")
        return 1

    def enable(self, kinds: Iterable[int]) -> None:
        """Have events of these kinds written; Refused."""
        call(self.descriptor, ENABLE_EVENTS, FLAGS.pack(_mask(kinds), 0, 0), 8, "enable events")

    def flush(self) -> None:
        """Have the driver take the queue's lock once: what was announced before is in memory after."""
        self._poll.poll(0)

    def close(self) -> None:
        """End; the driver lets go of the memory and of the address space."""
        os.close(self.descriptor)


class Counters:
    """The driver's counters of one address space, summed over processors, from now until `close`."""

    def __init__(self, uvm: int) -> None:
        """Refused when there are none."""
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        try:
            self._descriptor = open_device()
        except OSError as error:
            raise DriverRefused(f"open {DEVICE}", error.errno or errno.EIO) from error
        given = INIT.pack(0, 0, address(self._memory), bytes(16), 1, uvm, 0, 0)
        try:
            call(self._descriptor, INIT_TRACKER, given, 48, "make counters")
            call(self._descriptor, ENABLE_COUNTERS, FLAGS.pack(ALL_COUNTERS, 0, 0), 8, "enable counters")
        except DriverRefused:
            os.close(self._descriptor)
            raise

    def values(self) -> tuple[int, ...]:
        """What each has counted (uvm_events.Counter)."""
        return struct.unpack_from(f"={COUNTERS}Q", self._memory)

    def close(self) -> None:
        """End."""
        os.close(self._descriptor)


def flush(uvm: int) -> None:
    """Have the driver write events of work that has ended and whose end it has not looked for yet; Refused."""
    call(uvm, FLUSH_EVENTS, FLUSH.pack(0), 0, "flush events")


def processors(uvm: int, layout: int) -> bytes:
    """The UUIDs of the address space's processors by number, the CPU's first, zeros where there is none; Refused."""
    table = ctypes.create_string_buffer(PROCESSORS * UUID_BYTES)
    place = ctypes.addressof(table)
    if layout == 2:
        call(uvm, UUID_TABLE_V2, TABLE.pack(place, 0, 0), 8, "read the processors")
    else:
        answer = bytearray(TABLE.pack(place, PROCESSORS // 8 + 1, _UNTOUCHED))
        try:
            ioctl(uvm, UUID_TABLE, answer, True)
        except OSError as error:
            raise DriverRefused("read the processors", error.errno or errno.EIO) from error
        last = _word(answer, 12)
        if status := _word(answer, 8) if last == _UNTOUCHED else last:
            raise DriverRefused("read the processors", status=status)
    return table.raw


def address(memory: mmap.mmap) -> int:
    """Where a mapping lies."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _mask(kinds: Iterable[int]) -> int:
    return sum(1 << kind for kind in kinds)


def _word(structure: bytearray, at: int) -> int:
    return int.from_bytes(structure[at : at + 4], sys.byteorder)
