"""Where pages of a CUDA program's memory lie: the NUMA node of single pages of large mappings, and huge or small.

    "pages": [[address, node, huge], …]     of a process, in a line of memory.jsonl

/proc/PID/numa_maps and smaps walk the page tables of all memory under the lock of the address space: seconds, where a
process holds hundreds of GB. So single pages are asked for, at random places that are spread evenly over each large
mapping. move_pages(2) without a target says on which node a page lies, and the ioctl PAGEMAP_SCAN (Linux 6.7) whether
it is mapped as a huge page. Neither touches or moves a page.

A process is looked at when its resident memory has changed and no longer changes, and at moments that become rarer, but
only while it has CUDA's driver loaded. That takes COST of a core at most, and one look ends after LIMIT_S. Whether a
process has loaded the driver by now is asked ever more rarely whatever changes, for its list of mappings alone takes a
fifth of a millisecond.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import random
import re
import struct
import time
from collections.abc import Iterator, Mapping

from pinprof.base.lazy_dataclass import dataclass

COST, LIMIT_S = 0.002, 0.02
LEAST_BYTES = 4 << 20
"""The size of a mapping; and by how much resident memory changes for a look."""
MOST_MAPPINGS, LEAST_POINTS, MORE_POINTS = 32, 16, 256
"""The largest ones are looked at; pages of each, and how many more are shared among them by their size."""
FIRST_S, LONGEST_S = 1.0, 20.0
"""After this time a process is looked at again though nothing changed; it doubles up to the longest."""
SHARE_OF_LIFE, LONGEST_GAP_S = 0.01, 20.0
"""Looks at a process are this part of its time apart, at most the longest gap: a long recording has few of them."""
ABSENT, UNKNOWN = -1, -2
"""Values of `node`: there is no page; it is not known."""
UNKNOWN_SIZE = -1
"""Of `huge`, which is 0 or 1 where it is known."""

Point = tuple[int, int, int]
"""Address, node, huge."""
Area = tuple[int, int, bool]
"""Start and end of a mapping, and whether it is a device's: the kernel may not know pages there that exist."""

_MOVE_PAGES = {"x86_64": 279, "aarch64": 239, "riscv64": 239, "loongarch64": 239}.get(platform.machine())
_SCAN_BYTES, _IS_HUGE = 96, 1 << 6
_PAGEMAP_SCAN = 3 << 30 | _SCAN_BYTES << 16 | ord("f") << 8 | 16
_CHUNK, _MOST_MAPS = 1 << 16, 4 << 20
_AREA = re.compile(rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) rw\S* \S+ \S+ \d+ *(/dev/(?!zero|shm/))?", re.MULTILINE)
_DRIVER = re.compile(rb"/libcuda\.so[.\d]*( \(deleted\))?$", re.MULTILINE)


@dataclass
class _Process:
    """When a process is looked at next."""

    since: float
    before: int = 0
    """Its resident memory when it was last asked for,"""
    seen: int = 0
    """and at the last look."""
    looked: float = 0.0
    interval: float = FIRST_S
    had_pages: bool = True
    """The last look found some: it has CUDA's driver loaded, and large memory."""


class Placement:
    """Chooses when to look at which process, and looks."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._due = 0.0
        self._refused = _MOVE_PAGES is None
        self.spent = 0.0
        """Seconds of a core, in all."""

    def look(self, resident: Mapping[int, int], now: float) -> tuple[int, list[Point]] | None:
        """The process that is due and its pages; None where nothing is. `resident`: bytes by process."""
        if self._refused:
            return None
        chosen = self._chosen(resident, now)
        if chosen is None:
            return None
        process, begin = self._processes[chosen], time.thread_time()
        grown = process.had_pages and abs(resident[chosen] - process.seen) >= LEAST_BYTES
        process.interval = FIRST_S if grown else min(2 * process.interval, LONGEST_S)
        process.seen, process.looked = resident[chosen], now
        points = list(self._pages(chosen, time.monotonic() + LIMIT_S))
        spent = time.thread_time() - begin
        self.spent += spent
        self._due = now + spent / COST
        if points and not process.had_pages:
            process.interval = FIRST_S
        process.had_pages = bool(points)
        return (chosen, points) if points else None

    def _chosen(self, resident: Mapping[int, int], now: float) -> int | None:
        """Among the processes that are due, the one that was looked at longest ago."""
        due = []
        self._processes = {pid: process for pid, process in self._processes.items() if pid in resident}
        for pid, size in resident.items():
            process = self._processes.setdefault(pid, _Process(now))
            steady = abs(size - process.before) < LEAST_BYTES
            process.before = size
            passed, gap = now - process.looked, min(SHARE_OF_LIFE * (now - process.since), LONGEST_GAP_S)
            changed = process.had_pages and steady and abs(size - process.seen) >= LEAST_BYTES
            if passed >= gap and (changed or passed >= max(process.interval, gap)):
                due.append((process.looked, pid))
        return min(due)[1] if due and now >= self._due else None

    def _pages(self, pid: int, until: float) -> Iterator[Point]:
        areas = _areas(maps_of(pid, until))[:MOST_MAPPINGS]
        total = sum(end - start for start, end, _ in areas)
        if not areas:
            return
        try:
            pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pagemap = -1
        try:
            for start, end, device in areas:
                if self._refused or time.monotonic() > until:
                    return
                places = _places(start, end, LEAST_POINTS + MORE_POINTS * (end - start) // total)
                for place, node in zip(places, self._nodes(pid, places), strict=False):
                    if node >= 0:
                        yield place, node, _huge(pagemap, place)
                    else:
                        yield place, ABSENT if node == -errno.ENOENT and not device else UNKNOWN, UNKNOWN_SIZE
        finally:
            if pagemap >= 0:
                os.close(pagemap)

    def _nodes(self, pid: int, places: list[int]) -> list[int]:
        """By page its node, or a negative number of an error; none where the kernel does not say."""
        count = len(places)
        found = (ctypes.c_int * count)()
        pages = (ctypes.c_void_p * count)(*places)
        call = ctypes.CDLL(None, use_errno=True).syscall
        if call(_MOVE_PAGES, pid, ctypes.c_ulong(count), pages, None, found, 0) < 0:
            # ESRCH: the process has ended. A container may not let the call pass, and a kernel not have it.
            self._refused = ctypes.get_errno() in (errno.ENOSYS, errno.EPERM)
            return []
        return list(found)


def maps_of(pid: int, until: float) -> bytes:
    """The process's mappings, those at the lowest addresses where reading takes too long."""
    chunks, size = [], 0
    try:
        with open(f"/proc/{pid}/maps", "rb", buffering=0) as file:  # noqa: PTH123 - plain strings cost least
            while size < _MOST_MAPS and time.monotonic() < until and (chunk := file.read(_CHUNK)):
                chunks.append(chunk)
                size += len(chunk)
    except OSError:
        return b""
    # The kernel hands out whole lines.
    return b"".join(chunks)


def _areas(maps: bytes) -> list[Area]:
    """The large mappings that may be written, the largest first; none without CUDA's driver."""
    if not _DRIVER.search(maps):
        return []
    found = [(int(match[1], 16), int(match[2], 16), match[3] is not None) for match in _AREA.finditer(maps)]
    return sorted((area for area in found if area[1] - area[0] >= LEAST_BYTES), key=lambda area: area[0] - area[1])


def _places(start: int, end: int, count: int) -> list[int]:
    """Pages at random places, one in each of `count` equal parts: no regular pattern of nodes can hide from them."""
    pages = (end - start) // mmap.PAGESIZE
    count = min(count, pages)
    offsets = (int((part + random.random()) * pages / count) for part in range(count))
    return [start + min(offset, pages - 1) * mmap.PAGESIZE for offset in offsets]


def _huge(pagemap: int, place: int) -> int:
    """Whether a page is mapped as a huge one: 0, 1 or UNKNOWN_SIZE."""
    if pagemap < 0:
        return UNKNOWN_SIZE
    region = (ctypes.c_uint64 * 3)()
    end = place + mmap.PAGESIZE
    asked = struct.pack("=12Q", _SCAN_BYTES, 0, place, end, 0, ctypes.addressof(region), 1, 0, 0, _IS_HUGE, 0, _IS_HUGE)
    try:
        return int(fcntl.ioctl(pagemap, _PAGEMAP_SCAN, bytearray(asked), True) > 0)
    except OSError:
        return UNKNOWN_SIZE
