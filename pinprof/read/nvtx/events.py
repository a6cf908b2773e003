"""The events of all processes of a capture as columns, and the texts that their numbers stand for.

A forked child knows the domains and registered strings of its parent and does not write them again: what
its own file does not define is looked up in its parent's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pinprof.base.columns import Int32, Int64, UInt64
from pinprof.read.nvtx.file import EventTable, NvtxFile, NvtxKind

NAMELESS = "(no name)"

_ANCESTORS = 1000
"""Generations of forks that are followed: damaged files may claim to be each other's parents."""

_Definitions = Mapping[tuple[int, int], str]


class NvtxEvents:
    """The columns of all files after one another; within a file, each thread's events are in order."""

    def __init__(self, files: Sequence[NvtxFile]) -> None:
        self.files = files
        sizes = [len(file.events) for file in files]
        self.file: Int64 = np.repeat(np.arange(len(files)), sizes)
        self.pid: Int32 = np.repeat(np.array([file.pid for file in files], np.int32), sizes)
        self.table = EventTable.empty().joined(*(file.events for file in files))
        first = np.cumsum([0, *(len(file.texts) for file in files)])
        self._text = np.where(self.table.text >= 0, self.table.text + first[self.file], -1)
        self._texts = [text for file in files for text in file.texts]
        self._file_of = {file.token: number for number, file in enumerate(files)}
        self._string, self._domain = self._definitions(NvtxKind.STRING), self._definitions(NvtxKind.DOMAIN)

    def names(self, rows: Int64) -> tuple[str, ...]:
        """The text of each event, given by itself or registered."""
        registered = self._shown(rows, self.table.registered, self._string, lambda _: NAMELESS)
        texts = self._text[rows].tolist()
        return tuple(
            (self._texts[text] or NAMELESS) if text >= 0 else string
            for text, string in zip(texts, registered, strict=True)
        )

    def domains(self, rows: Int64) -> tuple[str, ...]:
        """The name of each event's domain; the default domain's is empty."""
        return tuple(self._shown(rows, self.table.domain, self._domain, lambda key: f"domain {key}" if key else ""))

    def _definitions(self, kind: NvtxKind) -> _Definitions:
        """(file, id) → the text that a process gave it; the last one counts."""
        rows = np.flatnonzero((self.table.kind == kind) & (self._text >= 0))
        columns = (self.file[rows].tolist(), self.table.value[rows].tolist(), self._text[rows].tolist())
        return {(file, number): self._texts[text] for file, number, text in zip(*columns, strict=True)}

    def _shown(self, rows: Int64, key: UInt64, given: _Definitions, otherwise: Callable[[int], str]) -> list[str]:
        """Per event the text of its id, as its process or the nearest ancestor defined it."""
        index, first = numbered(self.file[rows], key[rows])
        distinct = zip(self.file[rows[first]].tolist(), key[rows[first]].tolist(), strict=True)
        texts = [self._inherited(given, file, number) or otherwise(number) for file, number in distinct]
        return [texts[number] for number in index.tolist()]

    def _inherited(self, given: _Definitions, file: int, key: int) -> str | None:
        for _ in range(_ANCESTORS):
            if (file, key) in given:
                return given[file, key]
            parent = self._file_of.get(self.files[file].parent)
            if parent is None:
                return None
            file = parent
        return None


def numbered(file: Int64, key: UInt64) -> tuple[Int64, Int64]:
    """Per row the number of its (file, key) among the distinct ones, and per distinct one the first row."""
    keys, index = np.unique(key, return_inverse=True)
    # Not np.unique(axis=…), which compares rows one by one.
    _, first, number = np.unique(file * max(1, len(keys)) + index, return_index=True, return_inverse=True)
    return number.astype(np.int64), first.astype(np.int64)
