"""What processes have mapped, so that the address of a page fault says what it is of.

    "maps": [[start, end, Mapped], …]     of a process, in a line of memory.jsonl; neighbours that are alike are one

A list holds until the next one of its process. Reading /proc/PID/maps takes the lock of the address space, so it is
read at the first samples and then once a second at most, within COST, and a list that has not changed is not written.
A process that records itself lists its mappings where a recording, or a portion of one, begins and ends.
Records of every mapping would tell more, but a program that allocates in a loop would fill its recording with them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pinprof.base import files
from pinprof.collect.placement import maps_of
from pinprof.data.mapped import Mapped, mapped_as

FIRST_S, LONGEST_S, COST, LIMIT_S = 0.1, 1.0, 0.001, 0.05
"""Seconds between the first two looks at a process, and at most later; its share of a core; what it may take."""
LEAST_BYTES, MOST = 1 << 18, 512
"""The least size of what is listed, and how much of it is."""

_MAPPING = re.compile(rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) (?!---)...([sp]) \S+ \S+ \d+ *([^\n]*)$", re.MULTILINE)

Row = tuple[int, int, int]
"""Start, end and `Mapped`."""


@dataclass
class _Process:
    due: float = 0.0
    interval: float = FIRST_S
    written: tuple[Row, ...] = ()


class Mappings:
    """Chooses when to look at a process, and lists what it has mapped."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self.spent = 0.0
        """Seconds of a core, in all."""

    def look(self, pid: int, now: float) -> tuple[Row, ...]:
        """What a process has mapped; empty where that is not due, not known or as it was last said."""
        process = self._processes.setdefault(pid, _Process())
        if now < process.due:
            return ()
        begin = time.thread_time()
        rows = listed(maps_of(pid, time.monotonic() + LIMIT_S))
        took = time.thread_time() - begin
        self.spent += took
        process.due = now + max(process.interval, took / COST)
        process.interval = min(2 * process.interval, LONGEST_S)
        if rows == process.written:
            return ()
        process.written = rows
        return rows

    def keep(self, pids: list[int]) -> None:
        """Forget all other processes."""
        self._processes = {pid: one for pid, one in self._processes.items() if pid in pids}


class OwnMappings:
    """Lists of what this process has mapped, for recordings of itself: nobody watches its memory meanwhile."""

    def __init__(self, path: Path) -> None:
        """`path`: the memory log; nothing is written where it cannot be."""
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = files.append(path)

    def write(self) -> None:
        """What is mapped now."""
        if self._file >= 0:
            pid = os.getpid()
            rows = listed(maps_of(pid, time.monotonic() + LIMIT_S))
            line = {"t": time.monotonic_ns(), "machine": {}, "processes": [{"pid": pid, "maps": rows}]}
            with contextlib.suppress(OSError):
                os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """No more lists."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def listed(maps: bytes) -> tuple[Row, ...]:
    """The large mappings of `/proc/PID/maps`, ascending."""
    joined: list[Row] = []
    for match in _MAPPING.finditer(maps):
        start, end = int(match[1], 16), int(match[2], 16)
        kind = mapped_as(match[4].decode("utf-8", "replace"), shared=match[3] == b"s")
        if joined and joined[-1][1:] == (start, kind):
            joined[-1] = (joined[-1][0], end, kind)
        elif kind != Mapped.UNKNOWN:
            joined.append((start, end, int(kind)))
    large = sorted((row for row in joined if row[1] - row[0] >= LEAST_BYTES), key=lambda row: row[0] - row[1])
    return tuple(sorted(islice(large, MOST)))
