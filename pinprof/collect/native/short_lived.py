"""What a thinned recording keeps of threads and processes that end before one of their samples is kept.

A program may start hundreds of short processes a second. Each has a dozen records of its own (what it maps, its name,
its end) and a few samples, which would fill any size.

    samples, waits      of such threads are pooled: one of them stands for as many as a step leaves out, chosen by
                        weight, with the weight of them all; a wait that becomes longer than its process lives makes
                        it begin earlier
    processes           their records are held back until a sample of theirs is kept, and dropped where none is
"""

from __future__ import annotations

import random
from dataclasses import field
from typing import Generic, TypeVar

from pinprof.base.lazy_dataclass import dataclass

Record = TypeVar("Record")


@dataclass
class Pool(Generic[Record]):
    """What many threads leave behind, as one of them at a time."""

    size: int = 0
    """How much there is of what steps count: samples, or nanoseconds of waits."""
    weight: int = 0
    chosen: Record | None = None

    def add(self, draw: random.Random, size: int, weight: int, record: Record) -> None:
        """More; it is the chosen one as often as it weighs."""
        self.size += size
        self.weight += weight
        if self.chosen is None or draw.random() * self.weight < weight:
            self.chosen = record

    def emptied(self) -> tuple[Record, int] | None:
        """(the chosen one, the weight of all), and nothing is left; None where there is nothing."""
        record, weight = self.chosen, self.weight
        self.size = self.weight = 0
        self.chosen = None
        return None if record is None else (record, weight)


@dataclass
class _Process:
    """One that began while records are thinned."""

    threads: set[int]
    records: list[bytes] = field(default_factory=list)
    shown: bool = False
    """Whether its records are written: a sample of its is, or it has started another process."""


class ShortLivedProcesses:
    """Those that began while records are thinned."""

    def __init__(self) -> None:
        self._held: dict[int, _Process] = {}
        self._early: set[int] = set()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held_bytes(self) -> int:
        """What would have to be written if all of them were shown."""
        return sum(sum(map(len, process.records)) for process in self._held.values())

    def forked(self, pid: int, parent: int, tid: int, record: bytes) -> list[bytes]:
        """A process or a thread began; what is to be written."""
        if pid == parent:
            if pid in self._held:
                self._held[pid].threads.add(tid)
            return self.take_record(pid, record)
        before = self.release(parent) if parent in self._held else []
        self._held[pid] = _Process({tid}, shown=pid in self._early)
        self._early.discard(pid)
        return [*before, *self.take_record(pid, record)]

    def take_record(self, pid: int, record: bytes) -> list[bytes]:
        """A record about a process; what is to be written."""
        process = self._held.get(pid)
        if process is None or process.shown:
            return [record]
        process.records.append(record)
        return []

    def held_records(self, pid: int) -> list[bytes] | None:
        """What is held back of a process; None where nothing is, for it began before, or is shown."""
        process = self._held.get(pid)
        return None if process is None or process.shown else list(process.records)

    def release(self, pid: int, *, early: bool = False) -> list[bytes]:
        """A sample of a process is kept; what is to be written first. `early`: its beginning may be still to come."""
        process = self._held.get(pid)
        if process is None:
            if early:
                self._early.add(pid)
            return []
        process.shown = True
        records, process.records = process.records, []
        return records

    def ended(self, pid: int, tid: int) -> None:
        """A thread has ended, and nothing of it is to come; with the last one goes what was held back."""
        process = self._held.get(pid)
        self._early.discard(pid)
        if process is not None:
            process.threads.discard(tid)
            if not process.threads:
                del self._held[pid]

    def flush(self) -> list[bytes]:
        """What is held back of those that still run; none is held back from now on."""
        records = [record for process in self._held.values() for record in process.records]
        self._held.clear()
        self._early.clear()
        return records
