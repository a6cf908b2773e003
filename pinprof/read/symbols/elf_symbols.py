"""Function symbols as sorted intervals over addresses, from the bytes of an ELF symbol table.

PyTorch's libraries have 400,000 functions with 80 MB of names: aliases are compared, and names read, of those alone
that somebody asks for.

Sources: System V gABI chapter 4 "Symbol Table", perf `tools/perf/util/symbol-elf.c` (elf_sym__filter) and
`symbol.c` (choose_best_symbol, symbols__fixup_end).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from pinprof.base.columns import Table, ascending
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int32, Int64, UInt8, UInt64

_SYM64 = np.dtype("<u4, u1, u1, <u2, <u8, <u8")
_SYM64.names = ("name", "info", "other", "section", "value", "size")
_SYM32 = np.dtype("<u4, <u4, <u4, u1, u1, <u2")
_SYM32.names = ("name", "value", "size", "info", "other", "section")

_NOTYPE, _FUNC, _GNU_IFUNC = 0, 2, 10
_LOCAL, _GLOBAL, _WEAK = 0, 1, 2
_UNDEF, _FIRST_RESERVED = 0, 0xFF00
_INTERNAL, _HIDDEN = 1, 2

_MAX_ENCLOSING = 64
"""How many symbols are walked back from an address to find one that encloses it: nested functions are few."""
_MAX_UNDERSCORES = 16
_TOP = ~np.uint64(0)

Names = Callable[[Sequence[int]], list[bytes]]
"""The names that begin at some places of a string section; empty ones where it can't be read."""


@dataclass(frozen=True, eq=False, repr=False)
class Symbols(Table):
    """Functions as a file lists them: in any order, and several at one address."""

    starts: UInt64
    ends: UInt64
    """Of one without a size, where it ends at the latest: it ends where another one starts."""
    sized: Bool
    binding: UInt8
    name_at: Int64
    names: Names
    stubs: bool = False
    """Whether they only jump to the functions of these names (`NAME@plt`)."""

    @classmethod
    def of_names(cls, starts: UInt64, ends: UInt64, names: Sequence[bytes]) -> Self:
        """Functions with a size, whose names are known."""
        count = len(starts)
        return cls(
            starts,
            ends,
            np.ones(count, np.bool_),
            np.full(count, _GLOBAL, np.uint8),
            np.arange(count),
            lambda places: [names[place] for place in places],
        )


class SymbolTable:
    """Functions ordered by address, one row per distinct start; half-open intervals that may nest."""

    def __init__(self, *parts: Symbols) -> None:
        """At one address the first part's functions count."""
        parts = parts or (Symbols.of_names(np.zeros(0, np.uint64), np.zeros(0, np.uint64), ()),)
        self._parts = parts
        self._until, self._sized, self._binding, self._name_at = (
            np.concatenate([getattr(part, column) for part in parts])
            for column in ("ends", "sized", "binding", "name_at")
        )
        self._part = np.repeat(np.arange(len(parts), dtype=np.uint8), [len(part) for part in parts])
        starts = np.concatenate([part.starts for part in parts])
        self._order = np.argsort(starts, kind="stable")
        starts = starts[self._order]
        self._first = np.flatnonzero(np.append(True, starts[1:] != starts[:-1])[: len(starts)])
        self._counts = np.diff(np.append(self._first, len(starts)))
        self.starts: UInt64 = starts[self._first]
        next_start = np.repeat(np.append(self.starts[1:], _TOP)[: len(self.starts)], self._counts)
        ends, sized = self._until[self._order], self._sized[self._order]
        ends = np.where(sized, ends, np.minimum(next_start, ends))
        self._reach = np.maximum.accumulate(np.maximum.reduceat(ends, self._first))
        """Per row, where it and all functions before it have ended, whichever of their symbols counts."""
        self._ends = np.zeros(len(self.starts), np.uint64)
        self._chosen = np.full(len(self.starts), -1, np.int64)
        self._names: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self.starts)

    def find(self, addresses: UInt64) -> Int32:
        """Per address the row of the innermost function around it, -1 if there is none, or it has no name."""
        rows = np.searchsorted(self.starts, addresses, side="right").astype(np.int32) - np.int32(1)
        missed = np.arange(len(rows))
        for _ in range(_MAX_ENCLOSING):
            missed = missed[rows[missed] >= 0]
            lost = self._reach[rows[missed]] <= addresses[missed]
            rows[missed[lost]] = -1
            missed = missed[~lost]
            self._choose(rows[missed])
            missed = missed[self._ends[rows[missed]] <= addresses[missed]]
            if not missed.size:
                break
            rows[missed] -= 1
        rows[missed] = -1
        distinct, which = np.unique(rows, return_inverse=True)
        found = distinct[distinct >= 0]
        unread = [row for row in found.tolist() if row not in self._names]
        self._names.update(zip(unread, self._read(self._chosen[unread]), strict=True))
        named: Int32 = np.array([row if self._names.get(row) else -1 for row in distinct.tolist()], np.int32)
        return np.asarray(named[which.reshape(-1)])

    def name(self, row: int) -> str:
        """The name of a function that `find` has found, as the file spells it."""
        return self._names[row].decode("utf-8", "replace")

    def _choose(self, rows: Int32) -> None:
        """Choose among the symbols of some functions, as perf does.

        It prefers a symbol with a size, then one that is not weak, global, with fewer leading underscores, and with the
        longest name.
        """
        rows = ascending(rows[self._chosen[rows] < 0])
        if not rows.size:
            return
        counts = self._counts[rows]
        row = np.repeat(rows, counts)
        symbol = self._order[np.arange(len(row)) + np.repeat(self._first[rows] + counts - np.cumsum(counts), counts)]
        ends, sized, binding = self._until[symbol], self._sized[symbol], self._binding[symbol]
        underscores, length = np.zeros((2, len(row)), np.int32)
        several = np.flatnonzero(np.repeat(counts > 1, counts))
        for place, name in zip(several.tolist(), self._read(symbol[several]), strict=True):
            underscores[place] = min(len(name) - len(name.lstrip(b"_")), _MAX_UNDERSCORES)
            length[place] = len(name)
        order = np.lexsort(
            (-length, underscores, binding != _GLOBAL, binding == _WEAK, ~sized, self._part[symbol], row)
        )
        best = order[np.searchsorted(row, rows)]
        next_start = np.append(self.starts, _TOP)[rows + 1]
        self._ends[rows] = np.where(sized[best], ends[best], np.minimum(next_start, ends[best]))
        self._chosen[rows] = symbol[best]

    def _read(self, symbols: Int64) -> list[bytes]:
        """Their names, `NAME@plt` for those of stubs."""
        names = [b""] * len(symbols)
        for number, part in enumerate(self._parts):
            here = np.flatnonzero(self._part[symbols] == number)
            here = here[np.argsort(self._name_at[symbols[here]])]  # a file is read from its start to its end
            texts = part.names(self._name_at[symbols[here]].tolist()) if here.size else ()
            for place, name in zip(here.tolist(), texts, strict=True):
                names[place] = name + b"@plt" if name and part.stubs else name
        return names


def select_functions(
    symbols: bytes, names: Names, size_of_names: int, code_ends: Sequence[int], *, wide: bool, thumb: bool
) -> Symbols:
    """Functions among the symbols of a table.

    `symbols` are the bytes of the symbol section, `names` reads its string section. `code_ends` holds, per section of
    the file, the end address of executable ones and 0 for others. `wide` selects 64-bit symbols. `thumb` clears bit 0
    of function addresses, which on 32-bit ARM marks the Thumb instruction set.
    """
    layout = _SYM64 if wide else _SYM32
    rows = np.frombuffer(symbols, layout, len(symbols) // layout.itemsize)
    kind, section = rows["info"] & 0xF, rows["section"]
    named = (rows["name"] > 0) & (rows["name"] < size_of_names)
    code_end = np.array([*code_ends, 0], np.uint64)
    in_code = code_end[np.minimum(section, len(code_ends))] > 0
    function = ((kind == _FUNC) | (kind == _GNU_IFUNC)) & (section != _UNDEF)
    # Labels of hand-written assembly, which have neither type nor size; arm64's mapping symbols begin with $.
    label = named & (kind == _NOTYPE) & in_code & (section < _FIRST_RESERVED)
    label &= (rows["other"] & 3 != _HIDDEN) & (rows["other"] & 3 != _INTERNAL)
    if label.any():
        places, which = np.unique(rows["name"][label], return_inverse=True)
        mapping = np.array([name.startswith(b"$") for name in names(places.tolist())])
        label[label] = ~mapping[which.reshape(-1)]
    rows = rows[named & (function | label)]

    start = rows["value"].astype(np.uint64)
    if thumb:
        start &= ~np.uint64(1)
    size = rows["size"].astype(np.uint64)
    section_end = code_end[np.minimum(rows["section"], len(code_ends))]
    end = np.where(size > 0, start + size, section_end)
    binding, name_at = (rows["info"] >> 4).astype(np.uint8), rows["name"].astype(np.int64)
    return Symbols(start, np.where(end > start, end, _TOP), size > 0, binding, name_at, names)
