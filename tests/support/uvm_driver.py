"""A stand-in for /dev/nvidia-uvm-tools: takes its ioctls, and writes events and counters into the caller's memory.

It does what uvm_tools.c of NVIDIA/open-gpu-kernel-modules (580.65) does with a queue: the indices that the reader left
in the control data are taken modulo the length, and one entry always stays free.
"""

from __future__ import annotations

import ctypes
import errno
import os
from dataclasses import dataclass, field
from typing import Any

from tests.support import uvm_layout as layout

INVALID, ILLEGAL = 0x1F, 0x16


@dataclass
class Tracker:
    """What an opened device has become."""

    entry: int
    length: int
    entries: int
    control: Any
    enabled: int = 0


@dataclass
class Driver:
    """The whole driver; `newest` is the last layout that it knows."""

    newest: int = 2
    refuses: set[tuple[int, int]] = field(default_factory=set)
    """Device and inode of descriptors that stand for no address space."""
    queues: list[Tracker] = field(default_factory=list)
    counters: list[Any] = field(default_factory=list)
    flushed: int = 0
    late: tuple[bytes, ...] = ()
    """Events of work whose end is noticed when they are asked for."""
    uuids: bytes = bytes(16) + bytes(range(16))
    _trackers: dict[int, Tracker] = field(default_factory=dict)

    def ioctl(self, descriptor: int, request: int, structure: bytearray, _mutate: bool) -> int:
        """fcntl.ioctl."""
        if request in (56, 76):
            self._init(descriptor, request, structure)
        elif request == 57:
            structure[4:8] = bytes(4)
        elif request in (58, 59, 60, 61):
            given = layout.FLAGS.from_buffer(structure)
            tracker = self._trackers.get(descriptor)
            if tracker is None:
                given.status = INVALID
            elif request in (58, 60):
                tracker.enabled |= given.flags
            else:
                tracker.enabled &= ~given.flags
        elif request == 64 or (request == 77 and self.newest == 2):
            self._table(request, structure)
        elif request == 67:
            self.flushed += 1
            for number in range(len(self.queues)):
                self.writes(*self.late, queue=number)
            self.late = ()
        else:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return 0

    def _init(self, descriptor: int, request: int, structure: bytearray) -> None:
        if request == 76 and self.newest < 2:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        given = layout.INIT.from_buffer(structure)
        kind = os.fstat(given.uvm_fd)
        if (kind.st_dev, kind.st_ino) in self.refuses:
            given.status = ILLEGAL
            return
        if not given.queue_buffer_size:
            self.counters.append((ctypes.c_uint64 * 10).from_address(given.control_buffer))
            self._trackers[descriptor] = Tracker(0, 0, 0, None)
            return
        if given.control_buffer % 4096 or given.queue_buffer % 4096:
            given.status = INVALID
            return
        self._trackers[descriptor] = tracker = Tracker(
            72 if request == 76 else 64,
            given.queue_buffer_size,
            given.queue_buffer,
            layout.CONTROL.from_address(given.control_buffer),
        )
        self.queues.append(tracker)

    def _table(self, request: int, structure: bytearray) -> None:
        if request == 77:
            ctypes.memmove(layout.TABLE.from_buffer(structure).table, self.uuids, len(self.uuids))
        else:
            old = layout.OLD_TABLE.from_buffer(structure)
            ctypes.memmove(old.table, self.uuids, len(self.uuids))
            old.count, old.status = len(self.uuids) // 16, 0

    def writes(self, *events: bytes, queue: int = -1) -> None:
        """Events happen."""
        tracker = self.queues[queue]
        for event in (event for event in events if len(event) == tracker.entry):
            write(tracker.control, tracker.entries, tracker.length, tracker.entry, event, tracker.enabled)


def write(control: Any, entries: int, length: int, size: int, event: bytes, enabled: int = -1) -> None:
    """One event, as the driver writes it at `entries`."""
    assert len(event) == size
    if not enabled >> event[0] & 1:
        return
    mask = length - 1
    get, put = control.get_behind & mask, control.put_behind & mask
    if (length + get - put) & mask == 1:
        control.dropped[event[0]] += 1
        return
    ctypes.memmove(entries + put * size, event, size)
    control.put_ahead = control.put_behind = (put + 1) & mask
