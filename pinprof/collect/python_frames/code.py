"""A code object's function, file and lines, read from another process.

Source: Objects/locations.md (3.11 and later): entries whose first byte alone has its top bit set.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Mapping

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.python_frames.layout import InterpreterLayout
from pinprof.collect.python_frames.memory import gather, read, word

_TEXT, _BYTES = 1 << 28, 1 << 27
"""Flags of a type: str or bytes, or one that inherits from it (Include/object.h)."""
_LONGEST_TEXT = 4096
_LONGEST_TABLE = 1 << 20
_NO_LOCATION, _LONG, _NO_COLUMNS, _ONE_LINE = 15, 14, 13, range(10, 13)


@dataclass(frozen=True)
class Code:
    """One function as the interpreter holds it."""

    identity: tuple[int, ...]
    """Pointers of the object; another object at the same address has others."""
    function: str
    file: str
    first_line: int
    starts: tuple[int, ...]
    """Ascending instruction numbers at which another line begins …"""
    lines: tuple[int, ...]
    """… and that line; 0 for none."""
    bytecode: int
    """Address of the first instruction."""
    file_start: int
    """Address of the characters of the file's name …"""
    file_bytes: bytes
    """… and these."""

    def line(self, instruction: int) -> int:
        """The line of an instruction, by its number; what has none counts for the function's first."""
        row = bisect_right(self.starts, max(instruction, 0)) - 1
        return self.lines[row] or self.first_line if row >= 0 else self.first_line


def identity(pid: int, layout: InterpreterLayout, address: int) -> tuple[int, ...]:
    """What tells the code object at an address from others; LookupError where there is none."""
    return _identity(layout, read(pid, address, _identity_size(layout)))


def named_by(layout: InterpreterLayout, codes: Mapping[int, Code]) -> tuple[list[tuple[int, int]], bytes]:
    """The (address, bytes) of what names code objects at addresses, their files' names too, and what has to be there.

    Of two programs given as text one after the other, all pointers may be the same.
    """
    pieces, expected = [], []
    for address, code in codes.items():
        offsets = layout.filename, layout.qualified_name, layout.line_table
        pieces += [(address + offset, 8) for offset in offsets]
        pieces += [(address + layout.first_line, 4), (code.file_start, len(code.file_bytes))]
        expected.append(struct.pack("<QQQi", *code.identity) + code.file_bytes)
    return pieces, b"".join(expected)


def are_still(pid: int, layout: InterpreterLayout, codes: Mapping[int, Code]) -> bool:
    """Whether the same code objects are at these addresses, with the same files' names; by one system call."""
    pieces, expected = named_by(layout, codes)
    return gather(pid, pieces) == expected


def _identity_size(layout: InterpreterLayout) -> int:
    return max(layout.filename, layout.qualified_name, layout.line_table, layout.first_line) + 8


def _identity(layout: InterpreterLayout, raw: bytes) -> tuple[int, ...]:
    places = (layout.filename, layout.qualified_name, layout.line_table)
    first = struct.unpack_from("<i", raw, layout.first_line)[0]
    return (*(struct.unpack_from("<Q", raw, place)[0] for place in places), first)


def read_code(pid: int, layout: InterpreterLayout, address: int) -> Code:
    """The code object at an address; LookupError or ValueError where there is none.

    A program runs on while it is read, and where code was there may be anything of its memory by now: what is not a
    code object, a str or bytes where it should be reaches no recording.
    """
    kind = word(pid, address + layout.type_of)
    if read(pid, word(pid, kind + layout.type_name), 5) != b"code\0":
        raise ValueError("no code")
    known = identity(pid, layout, address)
    file, name, table, first = known
    places = _bytes(pid, layout, table)
    # Where a table was, there may be other bytes of the program by now, whose values no line number may show.
    starts, lines = line_starts(places, first) if _covers(places, _size(pid, layout, address)) else ((), ())
    function = text(pid, layout, name)
    start, data, encoding = _characters(pid, layout, file)
    path = data.decode(encoding, "replace")
    if identity(pid, layout, address) != known:
        raise ValueError("no code any more")
    return Code(known, function, path, first, starts, lines, address + layout.bytecode, start, data)


def _size(pid: int, layout: InterpreterLayout, address: int) -> int:
    """How many instructions code has: its `ob_size`, which follows its type."""
    return word(pid, address + layout.type_of + 8)


def _covers(table: bytes, instructions: int) -> bool:
    """Whether a location table describes this number of instructions; its entries begin with bytes from 128 on."""
    return sum((byte & 7) + 1 for byte in table if byte >= 128) == instructions


def bytecode_copy(pid: int, layout: InterpreterLayout, address: int, number: int) -> int:
    """The address of a thread's own copy of the bytecode (free-threaded builds from 3.14 on)."""
    return word(pid, word(pid, address + layout.bytecode_copies) + 8 + 8 * number)


def line_starts(table: bytes, first_line: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Instruction numbers at which another line begins, and the lines, of a location table."""
    line, instruction, place = first_line, 0, 0
    starts: list[int] = []
    lines: list[int] = []
    while place < len(table):
        head = table[place]
        kind, place = head >> 3 & 15, place + 1
        if kind in (_LONG, _NO_COLUMNS):
            line += _signed(table, place)
        elif kind in _ONE_LINE:
            line += kind - 10
        here = 0 if kind == _NO_LOCATION else line
        if not lines or lines[-1] != here:
            starts.append(instruction)
            lines.append(here)
        instruction += (head & 7) + 1
        while place < len(table) and table[place] < 128:
            place += 1
    return tuple(starts), tuple(lines)


def _signed(table: bytes, place: int) -> int:
    value = shift = 0
    while place < len(table):
        value |= (table[place] & 63) << shift
        shift += 6
        if not table[place] & 64:
            break
        place += 1
    return -(value >> 1) if value & 1 else value >> 1


def _is(pid: int, layout: InterpreterLayout, address: int, flag: int) -> bool:
    return bool(word(pid, word(pid, address + layout.type_of) + layout.type_flags) & flag)


def _bytes(pid: int, layout: InterpreterLayout, address: int) -> bytes:
    length = word(pid, address + layout.bytes_length)
    if length > _LONGEST_TABLE or not _is(pid, layout, address, _BYTES):
        raise ValueError("no table of lines")
    return read(pid, address + layout.bytes_start, length) if length else b""


def text(pid: int, layout: InterpreterLayout, address: int) -> str:
    """The str at an address; ValueError where there is none."""
    _, data, encoding = _characters(pid, layout, address)
    return data.decode(encoding, "replace")


def _characters(pid: int, layout: InterpreterLayout, address: int) -> tuple[int, bytes, str]:
    """Where the characters of a str are, these as they are, and how they are encoded."""
    head = read(pid, address, layout.text_wide)
    length = struct.unpack_from("<q", head, layout.text_length)[0]
    state = struct.unpack_from("<I", head, layout.text_state)[0] >> layout.text_shift
    width, compact, ascii_only = state & 7, state >> 3 & 1, state >> 4 & 1
    whole = width in (1, 2, 4) and compact and 0 <= length <= _LONGEST_TEXT
    if not whole or not _is(pid, layout, address, _TEXT):
        raise ValueError("no text")
    start = address + (layout.text_size if ascii_only else layout.text_wide)
    data = read(pid, start, length * width) if length else b""
    return start, data, {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width]
