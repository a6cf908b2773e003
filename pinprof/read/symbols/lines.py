"""Instructions of the program's own code to source lines and inlined functions: sealed ones, else from DWARF."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pinprof.base.errors import PinprofError
from pinprof.base.numbering import Numbering
from pinprof.data.model import Dso, Int32, UInt64
from pinprof.read.symbols.demangle import demangle
from pinprof.read.symbols.sealed import Run, SealedAddresses, SealedLines, SealedSymbols, UserKey, user_key

if TYPE_CHECKING:
    from pinprof.read.symbols.dwarf import DebugInformation, SourceFrame, TimeBudget

SECONDS = 2.0
"""For all look-ups of one recording; what is over keeps its function without a line."""


class LineResolver:
    """The lines of one capture.

    They are looked up when a capture is recorded, and sealed in it: other recordings have none, and read as fast.
    """

    def __init__(
        self,
        names: Numbering[str],
        candidates: Callable[[Dso], Iterator[tuple[Path, Path]]],
        sealed: SealedSymbols | None,
        *,
        recording: bool,
    ) -> None:
        """`candidates` says where a DSO's file may be, as (root of the debug files, path)."""
        self._runs, self._paths = Numbering[Run](), Numbering[str]()
        self.runs, self.paths = self._runs.items, self._paths.items
        self.left = sealed.lines.left if sealed else 0
        """Addresses for which there was no time."""
        self.wanted = recording or (sealed is not None and bool(sealed.lines.user))
        """Whether this capture can have lines at all."""
        self._names, self._candidates, self._sealed = names, candidates, sealed
        self._files: dict[UserKey, DebugInformation | None] = {}
        self._known: dict[UserKey, dict[int, int]] = {}
        self._budget: TimeBudget | None = None

    def user(self, dso: Dso, file_offsets: UInt64, name: Callable[[UInt64], Int32]) -> Int32:
        """Per offset its run, -1 where no line is known. `name` gives the names that the symbol table has."""
        if dso.kind != "file" or not self.wanted:
            return np.full(len(file_offsets), -1, np.int32)
        if self._sealed is not None:
            return self._from_sealed(self._sealed, user_key(dso, 0), file_offsets)
        from pinprof.read.symbols.dwarf import is_own_code

        if not is_own_code(dso):
            return np.full(len(file_offsets), -1, np.int32)
        known = self._known.setdefault(user_key(dso, 0), {})
        distinct, which = np.unique(file_offsets, return_inverse=True)
        unknown = np.array([offset for offset in distinct.tolist() if offset not in known], np.uint64)
        if len(unknown):
            known.update(self._look_up(dso, unknown, name))
        return np.array([known.get(offset, -1) for offset in distinct.tolist()], np.int32)[which.reshape(-1)]

    def seal(self, place: Int32) -> SealedLines:
        """Every answer given so far; `place` says where each name now stands."""
        by_path = sorted(range(len(self.paths)), key=self.paths.__getitem__)
        rank = {path: number for number, path in enumerate(by_path)}
        runs = [tuple((int(place[name]), rank[path], line) for name, path, line in run) for run in self.runs]
        by_run = sorted(range(len(runs)), key=runs.__getitem__)
        row = {run: number for number, run in enumerate(by_run)}
        user = {}
        for key, known in self._known.items():
            offsets = sorted(offset for offset, run in known.items() if run >= 0)
            if offsets:
                numbers = np.array([row[known[offset]] for offset in offsets], np.int32)
                user[key] = SealedAddresses(np.array(offsets, np.uint64), numbers)
        paths = tuple(self.paths[path] for path in by_path)
        return SealedLines(paths, tuple(runs[run] for run in by_run), self.left, user)

    def _from_sealed(self, sealed: SealedSymbols, key: UserKey, file_offsets: UInt64) -> Int32:
        if (addresses := sealed.lines.user.get(key)) is None:
            return np.full(len(file_offsets), -1, np.int32)
        rows = addresses.find(file_offsets)
        distinct, which = np.unique(np.where(rows >= 0, addresses.names[rows], -1), return_inverse=True)
        made = []
        for number in distinct.tolist():
            run = sealed.lines.runs[number] if number >= 0 else ()
            places = [(sealed.names[name], sealed.lines.paths[path], line) for name, path, line in run]
            made.append(self._run(places) if places else -1)
        return np.array(made, np.int32)[which.reshape(-1)]

    def _look_up(self, dso: Dso, offsets: UInt64, name: Callable[[UInt64], Int32]) -> dict[int, int]:
        """Offset → run, or -1."""
        from pinprof.read.symbols.dwarf import TimeBudget, library

        answers = dict.fromkeys(offsets.tolist(), -1)
        try:
            library()
        except (PinprofError, OSError):  # it cannot be built
            return answers
        self._budget = self._budget or TimeBudget(SECONDS)
        with self._budget as until:
            file = self._open(dso, until)
            runs = file.find(offsets, until) if file else []
            self.left += sum(run is None for run in runs)
            symbols = name(offsets).tolist() if any(runs) else []
            for offset, symbol, run in zip(offsets.tolist(), symbols, runs, strict=False):
                places = [(text, frame.path, frame.line) for text, frame in self._named(run or (), symbol) if text]
                if any(path and line for _, path, line in places):
                    answers[offset] = self._run(places)
        return answers

    def _named(self, run: tuple[SourceFrame, ...], symbol: int) -> Iterator[tuple[str, SourceFrame]]:
        """The functions of a run by the names that people know."""
        for depth, frame in enumerate(run):
            text = demangle(frame.function)
            if depth == len(run) - 1 and symbol >= 0:
                text = _better(text, self._names.items[symbol])
            yield text, frame

    def _open(self, dso: Dso, until: int) -> DebugInformation | None:
        from pinprof.read.symbols.dwarf import open_debug_information

        key = user_key(dso, 0)
        if key not in self._files:
            opened = (open_debug_information(path, dso.build_id, root, until) for root, path in self._candidates(dso))
            self._files[key] = next((file for file in opened if file is not None), None)
        return self._files[key]

    def _run(self, places: list[tuple[str, str, int]]) -> int:
        named = ((self._names.number(name), self._paths.number(path), line) for name, path, line in places)
        return self._runs.number(tuple(named))


def _better(function: str, symbol: str) -> str:
    """The debug information's name, but the symbol table's where that is the same with its scope and parameters."""
    qualified = re.search(rf"(^|::){re.escape(function)}($|[(<])", symbol)
    return symbol if not function or qualified else function
