"""Records of perf by which later samples are read: who there is, what it is called, and where its code lies.

None is kept of a process that has ended, so a program that starts processes for days needs as much room as those that
run. A file has the records of one processor after those of another: the beginning of a process may follow its end, in
the same round of the rings or in the next. So one that has ended is forgotten a round later.
"""

from __future__ import annotations

import struct
from dataclasses import field

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data import perf_format as perf

_MOST_MAPPINGS = 1 << 14
"""A process that makes code at ever new places keeps the latest."""
_IDENTITY, _FAMILY, _START = struct.Struct("<ii"), struct.Struct("<iiiiQ"), struct.Struct("<Q")
"""`pid, tid` of most records; `pid, ppid, tid, ptid, time` of FORK and EXIT; behind a mapping's identity its begin."""
_BODY = perf.RECORD_HEADER.size
_WANTED = frozenset({perf.RECORD_MMAP, perf.RECORD_MMAP2, perf.RECORD_COMM, perf.RECORD_FORK, perf.RECORD_EXIT})

_Numbered = tuple[int, bytes]
"""A record, and which in the order of the file."""


@dataclass
class _Process:
    parent: int = 0
    """Whose mappings it was forked with, until it executes another program; 0 for nobody's."""
    mapped: dict[int, _Numbered] = field(default_factory=dict)
    """By where they begin, the latest last."""
    named: dict[int, _Numbered] = field(default_factory=dict)
    """By thread."""
    forked: dict[int, _Numbered] = field(default_factory=dict)
    """By thread."""
    threads: set[int] = field(default_factory=set)


class Tasks:
    """What is kept of the records so far."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._heirs: dict[int, set[int]] = {}
        """By process those that have it as `parent`."""
        self._gone: dict[tuple[int, int], int] = {}
        """By (pid, tid) when threads ended, ns on the recording's clock, in this round and the one before."""
        self._before: tuple[tuple[int, int], ...] = ()
        """Those that had ended before this round."""
        self._count = 0

    def records(self) -> bytes:
        """Those of what has not ended, in the order of the file."""
        kept = (
            numbered
            for process in self._processes.values()
            for table in (process.mapped, process.named, process.forked)
            for numbered in table.values()
        )
        return b"".join(record for _, record in sorted(kept))

    def take(self, raw: bytes) -> int:
        """Take in records, up to one that is damaged or cut short; how many bytes these are."""
        taken = 0
        for kind, misc, place, taken in perf.records(raw):
            if kind == perf.RECORD_FINISHED_ROUND:
                self._end_round()
            # Mappings without code have no sample in them.
            elif kind in _WANTED and not (kind == perf.RECORD_MMAP2 and misc & perf.MISC_MMAP_DATA):
                self._count += 1
                self._take(kind, misc, (self._count, raw[place:taken]))
        return taken

    def _end_round(self) -> None:
        """Forget what had ended before this round."""
        for pid, tid in self._before:
            self._gone.pop((pid, tid))
            if (process := self._processes.get(pid)) is not None and not process.threads:
                self._forget(pid, process)
        self._before = tuple(self._gone)

    def _take(self, kind: int, misc: int, numbered: _Numbered) -> None:
        record = numbered[1]
        if kind in (perf.RECORD_FORK, perf.RECORD_EXIT):
            pid, parent, tid, _, time = _FAMILY.unpack_from(record, _BODY)
            (self._fork if kind == perf.RECORD_FORK else self._exit)(pid, parent, tid, time, numbered)
            return
        pid, tid = _IDENTITY.unpack_from(record, _BODY)
        process = self._processes.setdefault(pid, _Process())
        if kind == perf.RECORD_COMM:
            if (pid, tid) not in self._gone:
                process.threads.add(tid)
            process.named[tid] = numbered
            if misc & perf.MISC_COMM_EXEC:
                process.mapped.clear()
                process.forked.pop(tid, None)
                self._inherit(pid, process, 0)
            return
        (start,) = _START.unpack_from(record, _BODY + _IDENTITY.size)
        process.mapped.pop(start, None)
        process.mapped[start] = numbered
        if len(process.mapped) > _MOST_MAPPINGS:
            del process.mapped[next(iter(process.mapped))]

    def _fork(self, pid: int, parent: int, tid: int, time: int, numbered: _Numbered) -> None:
        process, ended = self._processes.get(pid), time <= self._gone.get((pid, tid), -1)
        if process is not None and pid != parent and not ended and not process.threads:
            self._forget(pid, process)  # its pid is another's now
        process = self._processes.setdefault(pid, _Process())
        if pid != parent:
            self._inherit(pid, process, parent)
        process.forked[tid] = numbered
        if not ended:
            process.threads.add(tid)

    def _exit(self, pid: int, _parent: int, tid: int, time: int, _numbered: _Numbered) -> None:
        self._gone[pid, tid] = time
        if (process := self._processes.get(pid)) is not None:
            process.threads.discard(tid)
            if tid != pid:
                process.named.pop(tid, None)
                process.forked.pop(tid, None)

    def _forget(self, pid: int, ended: _Process) -> None:
        """Forget one that has ended; those that it has forked go on with its code, as if they had mapped it."""
        del self._processes[pid]
        parent = ended.parent
        self._inherit(pid, ended, 0)
        for child in self._heirs.pop(pid, ()):
            process = self._processes[child]
            inherited = {start: _renamed(one, child) for start, one in ended.mapped.items()}
            process.mapped = inherited | process.mapped
            self._inherit(child, process, parent)
            process.forked.pop(child, None)
            if child not in process.named and pid in ended.named:
                process.named[child] = _renamed(ended.named[pid], child)

    def _inherit(self, pid: int, process: _Process, parent: int) -> None:
        """From now on a process has another one's mappings."""
        if (before := self._heirs.get(process.parent)) is not None:
            before.discard(pid)
            if not before:
                del self._heirs[process.parent]
        process.parent = parent
        if parent:
            self._heirs.setdefault(parent, set()).add(pid)


def _renamed(numbered: _Numbered, pid: int) -> _Numbered:
    number, record = numbered
    identity = _IDENTITY.pack(pid, pid)
    return number, record[:_BODY] + identity + record[_BODY + len(identity) :]
