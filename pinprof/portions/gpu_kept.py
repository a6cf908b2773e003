"""The agent's file of the GPU's work while the last seconds alone are kept: names of kernels are given once."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np

from pinprof.base import files
from pinprof.portions.agent_files import AgentFile
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
        names = np.flatnonzero(rows["kind"] == CuptiKind.NAME)
        behind = end = 0
        for at in names.tolist():
            length = int(rows["bytes"][at])
            if at < behind or length > LONGEST_NAME or int(rows["name"][at]) != len(self._names) + 1:
                continue  # bytes of a text
            behind = at + 1 - (-length // RECORD.itemsize)
            if behind > len(rows):
                end = len(rows) - at  # its text is still to come
                break
            self._names.append(rows[at:behind].tobytes())
        rows = rows[: len(rows) - end]
        self._read += len(rows) * RECORD.itemsize
        sound = rows["kind"] <= max(CuptiKind)
        self._last_ns = max(self._last_ns, min(int(rows["end_ns"][sound].max(initial=0)), int(header["saved_ns"])))
        self._places.append((self._read, self._last_ns))

    def give_back(self, before_ns: int) -> None:
        """Of what was before a time, keep what later records need."""
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
        text = np.zeros(len(rows), np.bool_)
        for at in np.flatnonzero(rows["kind"] == CuptiKind.NAME).tolist():
            if not text[at] and int(rows["bytes"][at]) <= LONGEST_NAME:
                text[at : at + 1 - (-int(rows["bytes"][at]) // RECORD.itemsize)] = True
        kept = b"".join(self._names) + rows[~text & (rows["end_ns"] >= begin_ns)].tobytes()
        head["written"] = len(kept)
        return head.tobytes() + kept

    def _rows(self, first: int, last: int) -> np.ndarray[tuple[int, ...], np.dtype[np.void]]:
        raw = between(self.path, first, last)
        return np.frombuffer(raw[: len(raw) // RECORD.itemsize * RECORD.itemsize], RECORD)
