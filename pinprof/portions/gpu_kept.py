"""The agent's file of the GPU's work while the last seconds alone are kept: names of kernels are given once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pinprof.base import files
from pinprof.portions.agent_files import AgentFile, Units
from pinprof.read.cupti_file import HEADER, LONGEST_NAME, MAGIC, RECORD, VERSION, CuptiKind
from pinprof.streams.records import between


class GpuKept(AgentFile):
    """One process's."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._names: list[bytes] = []
        """Their records, with the texts behind them."""
        self._read = self._begins = HEADER.itemsize
        self._places: deque[tuple[int, int]] = deque()
        """(place, time): what lies before a place had ended by a time."""
        self._last_ns = 0

    @property
    def last_ns(self) -> int:
        """When the last of what it says happened."""
        return self._last_ns

    def look(self) -> None:
        """Read what it has gained."""
        head = between(self.path, 0, HEADER.itemsize)
        if len(head) < HEADER.itemsize:
            return
        header = np.frombuffer(head, HEADER)[0]
        if header["magic"] != MAGIC or header["version"] != VERSION:
            return
        self.pid = int(header["pid"])
        rows = self._rows(self._read, HEADER.itemsize + int(header["written"]))
        names = list(_names(rows))
        if names and names[-1].stop > len(rows):
            rows = rows[: names.pop().start]  # its text is still to come
        self._names += [rows[one].tobytes() for one in names]
        self._read += len(rows) * RECORD.itemsize
        self._last_ns = max(self._last_ns, int(_work(rows)["end_ns"].max(initial=0)))
        self._places.append((self._read, self._last_ns))

    def give_back(self, before_ns: int) -> None:
        """Keep what later records need of what was before a time."""
        place = self._begins
        while self._places and self._places[0][1] < before_ns:
            place = self._places.popleft()[0]
        if place > self._begins:
            files.forget(self.path, self._begins, place)
            self._begins = place

    def cut(self, begin_ns: int) -> bytes:
        """What the file would be if it had been begun at a time."""
        head = np.frombuffer(between(self.path, 0, HEADER.itemsize), HEADER).copy()
        rows = self._rows(self._begins, self._read)
        rows = _work(rows)
        kept = b"".join(self._names) + rows[rows["end_ns"] >= begin_ns].tobytes()
        head["written"] = len(kept)
        return head.tobytes() + kept

    def _rows(self, first: int, last: int) -> Units:
        raw = between(self.path, first, last)
        return np.frombuffer(raw[: len(raw) // RECORD.itemsize * RECORD.itemsize], RECORD)


def _names(rows: Units) -> Iterator[slice]:
    """Where records lie that name kernels, with the texts behind them."""
    behind = 0
    for at in np.flatnonzero(rows["kind"] == CuptiKind.NAME).tolist():
        length = int(rows["bytes"][at])
        if at >= behind and length <= LONGEST_NAME:
            behind = at + 1 - (-length // RECORD.itemsize)
            yield slice(at, behind)


def _work(rows: Units) -> Units:
    """The other records."""
    kept = np.ones(len(rows), np.bool_)
    for one in _names(rows):
        kept[one] = False
    return rows[kept]
