"""Records of mappings and processes as `perf script` prints them (--show-mmap-events, --show-task-events)."""

from __future__ import annotations

import re
from array import array

import numpy as np

from pinprof.read.perf.fault_mappings import Change, mapped_at
from pinprof.read.perf.records import CommRecord, DataArea, ForkRecord

_MAPS = re.compile(
    r"\s*(?P<pid>\d{1,9})/(?P<tid>\d{1,9}):\s+\[0x(?P<start>[0-9a-f]{1,16})\(0x(?P<length>[0-9a-f]{1,16})\) @ [^\]]*\]:"
    r"\s+(?P<access>[r-][w-][x-][sp]) (?P<path>.*)"
)
_FORKS = re.compile(r"\((?P<pid>\d{1,9}):(?P<tid>\d{1,9})\):\((?P<parent>\d{1,9}):(?P<parent_tid>\d{1,9})\)")
_EXECUTES = re.compile(r" exec: (?P<name>.{0,64}):(?P<pid>\d{1,9})/(?P<tid>\d{1,9})\s*")
_SHARED, _PRIVATE = 1, 2


class PrintedRecords:
    """What the text says of mappings, by how many samples came before."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._knows_data = self._lost = False

    def add(self, kind: str, rest: str, samples: int) -> None:
        """Take a record; `samples` is how many came before."""
        if kind in ("LOST", "LOST_SAMPLES"):
            self._lost = True
        elif kind == "MMAP2" and (maps := _MAPS.fullmatch(rest)):
            start, access = int(maps["start"], 16), maps["access"]
            self._knows_data |= access[2] != "x"
            pid, tid, end = int(maps["pid"]), int(maps["tid"]), start + int(maps["length"], 16)
            flags = _SHARED if access[3] == "s" else _PRIVATE
            self._changes.append((samples, DataArea(samples, pid, tid, start, end, 0, flags, maps["path"].strip())))
        elif kind == "FORK" and (forks := _FORKS.match(rest)):
            pid, tid, parent, parent_tid = map(int, forks.groups())
            self._changes.append((samples, ForkRecord(pid, parent, tid, parent_tid, clones=True)))
        elif kind == "COMM" and (execs := _EXECUTES.fullmatch(rest)):
            self._changes.append((samples, CommRecord(int(execs["pid"]), int(execs["tid"]), execs["name"], exec=True)))

    def mapped(self, pid: array[int], address: array[int]) -> array[int]:
        """What the samples' data addresses lie in (`Mapped`), in the order of the text; empty where nothing says it:
        mappings may be among lost records.
        """
        if not self._knows_data or self._lost:
            return array("B")
        rows, pids = np.arange(len(pid)), np.array(pid, np.int32)
        found = mapped_at(rows, pids, np.array(address, np.uint64), self._changes)
        return array("B", found.tobytes())
