"""The events of all processes of a capture as columns, and the texts that their numbers stand for.

A forked child knows the domains, categories and registered strings of its parent and does not write them again: what
its own file does not define is looked up in its parent's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.data.model import Int32, Int64, UInt8, UInt64
from pinprof.read.nvtx.file import NvtxFile, NvtxKind

NAMELESS = "(no name)"

_ANCESTORS = 1000
"""Generations of forks that are followed: damaged files may claim to be each other's parents."""
_LOW = 0xFFFF_FFFF

_Definitions = Mapping[tuple[int, int], str]


class NvtxEvents:
    """The columns of all files after one another; within a file, each thread's events are in order."""

    def __init__(self, files: Sequence[NvtxFile]) -> None:
        self.files = files
        sizes = [len(file) for file in files]
        self.file: Int64 = np.repeat(np.arange(len(files)), sizes)
        self.pid: Int32 = np.repeat(np.array([file.pid for file in files], np.int32), sizes)
        self.time_ns: Int64 = _joined([file.time_ns for file in files], np.int64)
        self.tid: Int32 = _joined([file.tid for file in files], np.int32)
        self.kind: UInt8 = _joined([file.kind for file in files], np.uint8)
        self.value: UInt64 = _joined([file.value for file in files], np.uint64)
        self.domain: UInt64 = _joined([file.domain for file in files], np.uint64)
        self.category: UInt64 = _joined([file.category for file in files], np.uint64)
        self._registered: UInt64 = _joined([file.registered for file in files], np.uint64)
        first = np.cumsum([0, *(len(file.texts) for file in files)])
        own = [np.where(file.text >= 0, file.text + first[number], -1) for number, file in enumerate(files)]
        self._text: Int64 = _joined(own, np.int64)
        self._texts = [text for file in files for text in file.texts]
        self._file_of = {file.token: number for number, file in enumerate(files)}
        self._categories = self.domain << np.uint64(32) | self.category
        self._string = self._definitions(NvtxKind.STRING, self.value)
        self._domain = self._definitions(NvtxKind.DOMAIN, self.value)
        self._category = self._definitions(NvtxKind.CATEGORY, self._categories)

    def __len__(self) -> int:
        return len(self.time_ns)

    def names(self, rows: Int64) -> tuple[str, ...]:
        """The text of each event, given by itself or registered."""
        registered = self._shown(rows, self._registered, self._string, lambda _: NAMELESS)
        texts = self._text[rows].tolist()
        return tuple(
            (self._texts[text] or NAMELESS) if text >= 0 else string
            for text, string in zip(texts, registered, strict=True)
        )

    def domains(self, rows: Int64) -> tuple[str, ...]:
        """The name of each event's domain; the default domain's is empty."""
        return tuple(self._shown(rows, self.domain, self._domain, lambda key: f"domain {key}" if key else ""))

    def categories(self, rows: Int64) -> tuple[str, ...]:
        """The name of each event's category, or its number; empty for none."""

        def numbered(key: int) -> str:
            return str(key & _LOW) if key & _LOW else ""

        return tuple(self._shown(rows, self._categories, self._category, numbered))

    def _definitions(self, kind: NvtxKind, key: UInt64) -> _Definitions:
        """(file, id) → the text that a process gave it; the last one counts."""
        rows = np.flatnonzero((self.kind == kind) & (self._text >= 0))
        columns = (self.file[rows].tolist(), key[rows].tolist(), self._text[rows].tolist())
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


def _joined(parts: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *(part.astype(dtype) for part in parts)])


def numbered(file: Int64, key: UInt64) -> tuple[Int64, Int64]:
    """Per row the number of its (file, key) among the distinct ones, and per distinct one the first row."""
    keys, index = np.unique(key, return_inverse=True)
    # Not np.unique(axis=…), which compares rows one by one.
    _, first, number = np.unique(file * max(1, len(keys)) + index, return_index=True, return_inverse=True)
    return number.astype(np.int64), first.astype(np.int64)
