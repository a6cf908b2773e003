"""Function symbols as sorted intervals over addresses, from the bytes of an ELF symbol table.

Sources: System V gABI chapter 4 "Symbol Table", perf `tools/perf/util/symbol-elf.c` (elf_sym__filter) and
`symbol.c` (choose_best_symbol, symbols__fixup_end).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Table
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool, Int32, Int64, UInt64

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


@dataclass(frozen=True, eq=False, repr=False)
class SymbolTable(Table):
    """Functions ordered by address, one row per distinct start; half-open intervals [starts, ends) that may nest."""

    starts: UInt64
    ends: UInt64
    name_at: Int64
    """Byte offset of each NUL-terminated name in `strings`."""
    stub: Bool
    """Whether it only jumps to the function of this name (`NAME@plt`)."""
    strings: bytes = b""

    @classmethod
    def of_names(cls, starts: UInt64, size: int, names: Sequence[bytes]) -> Self:
        """Functions of one size at distinct ascending addresses."""
        lengths = np.array([0, *(len(name) + 1 for name in names)], np.int64)
        strings = b"".join(name + b"\0" for name in names)
        return cls(starts, starts + np.uint64(size), np.cumsum(lengths)[:-1], np.zeros(len(starts), np.bool_), strings)

    @classmethod
    def merged(cls, tables: Sequence[SymbolTable]) -> Self:
        """All functions of several tables; at one address the first table's."""
        # Tables of one file may have their names in common.
        strings = {id(table.strings): table.strings for table in tables}
        shifts = dict(zip(strings, np.cumsum([0, *map(len, strings.values())]).tolist(), strict=False))
        starts = np.concatenate([table.starts for table in tables])
        kept = np.unique(starts, return_index=True)[1]
        return cls(
            starts[kept],
            np.concatenate([table.ends for table in tables])[kept],
            np.concatenate([table.name_at + shifts[id(table.strings)] for table in tables])[kept],
            np.concatenate([table.stub for table in tables])[kept],
            next(iter(strings.values()), b"") if len(strings) < 2 else b"".join(strings.values()),
        )

    def find(self, addresses: UInt64) -> Int32:
        """Per address the row of the innermost function around it, -1 if there is none."""
        rows = np.searchsorted(self.starts, addresses, side="right").astype(np.int32) - np.int32(1)
        for _ in range(_MAX_ENCLOSING):
            missed = np.flatnonzero(rows >= 0)
            missed = missed[self.ends[rows[missed]] <= addresses[missed]]
            if not missed.size:
                return rows
            rows[missed] -= 1
        rows[missed] = -1
        return rows

    def name(self, row: int) -> str:
        """The function's name as the file spells it."""
        at = int(self.name_at[row])
        return self.strings[at : self.strings.find(b"\0", at)].decode("utf-8", "replace") + "@plt" * bool(
            self.stub[row]
        )


def select_functions(
    symbols: bytes, strings: bytes, code_ends: Sequence[int], *, wide: bool, thumb: bool
) -> SymbolTable:
    """Functions among the symbols of a table, chosen among aliases as perf does.

    `symbols` and `strings` are the bytes of the symbol section and of its string section. `code_ends` holds, per
    section of the file, the end address of executable ones and 0 for others. `wide` selects 64-bit symbols. `thumb`
    clears bit 0 of function addresses, which on 32-bit ARM marks the Thumb instruction set.
    """
    layout = _SYM64 if wide else _SYM32
    rows = np.frombuffer(symbols, layout, len(symbols) // layout.itemsize)
    size_of_names, strings = len(strings), strings if strings.endswith(b"\0") else strings + b"\0"
    chars = np.frombuffer(strings, np.uint8)
    kind, section = rows["info"] & 0xF, rows["section"]
    named = (rows["name"] > 0) & (rows["name"] < size_of_names)
    code_end = np.array([*code_ends, 0], np.uint64)
    in_code = code_end[np.minimum(section, len(code_ends))] > 0
    function = ((kind == _FUNC) | (kind == _GNU_IFUNC)) & (section != _UNDEF)
    # Labels of hand-written assembly, which have neither type nor size; arm64's mapping symbols begin with $.
    label = (kind == _NOTYPE) & in_code & (section < _FIRST_RESERVED)
    label &= (rows["other"] & 3 != _HIDDEN) & (rows["other"] & 3 != _INTERNAL)
    label &= chars[np.minimum(rows["name"], len(strings) - 1)] != ord("$")
    rows = rows[named & (function | label)]

    start = rows["value"].astype(np.uint64)
    if thumb:
        start &= ~np.uint64(1)
    size = rows["size"].astype(np.uint64)
    name_at = rows["name"].astype(np.int64)
    order = np.argsort(start, kind="stable")
    first = np.append(True, np.diff(start[order]) != 0)[: len(order)]
    several = ~first | ~np.append(first[1:], True)[: len(order)]
    alike = order[several]
    order[several] = alike[_best_first(start[alike], size[alike], rows["info"][alike] >> 4, name_at[alike], chars)]
    order = order[first]
    start, size, section = start[order], size[order], rows["section"][order].astype(np.int64)

    section_end = code_end[np.minimum(section, len(code_ends))]
    section_end = np.where(section_end > start, section_end, _TOP)
    following = np.minimum(np.append(start[1:], _TOP)[: len(start)], section_end)
    end = np.where(size > 0, np.where(start + size > start, start + size, _TOP), following)
    return SymbolTable(start, end, name_at[order], np.zeros(len(start), np.bool_), strings)


def _best_first(
    start: UInt64, size: UInt64, binding: NDArray[np.uint8], name_at: Int64, chars: NDArray[np.uint8]
) -> Int64:
    """Order by address and, at one address, perf's choice first.

    It prefers a symbol with a size, then one that is not weak, global, with fewer leading underscores, and with the
    longest name.
    """
    underscores = np.zeros(len(start), np.int8)
    leading = np.arange(len(start))
    for column in range(_MAX_UNDERSCORES):
        at = name_at[leading] + column
        leading = leading[(at < len(chars)) & (chars[np.minimum(at, len(chars) - 1)] == ord("_"))]
        underscores[leading] += 1
    terminators = np.flatnonzero(chars == 0)
    length = terminators[np.searchsorted(terminators, name_at)] - name_at
    return np.lexsort((-length, underscores, binding != _GLOBAL, binding == _WEAK, size == 0, start))
