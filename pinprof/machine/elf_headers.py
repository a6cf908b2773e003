"""Headers of ELF files: what sections and segments there are; the standard library alone.

Recorders read them while a program waits, or runs, so that a tenth of a second to import a library would count. Only
little-endian files are read. Sources: System V gABI, chapters 4 and 5; elf(5).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

from pinprof.base.lazy_dataclass import dataclass

SYMTAB, NOTE, NOBITS, DYNSYM = 2, 7, 8, 11
"""Types of sections."""
LOAD = 1
INTERPRETER = 3
"""A type of segments; that of notes is `SEGMENT_NOTE`."""
SEGMENT_NOTE = 4
EXECUTABLE = 1
"""A flag of segments."""
CODE = 4
"""A flag of sections: SHF_EXECINSTR."""
ARM, X86_64, AARCH64 = 40, 62, 183
"""Machines."""

_IDENTITY = 16
_LAYOUTS = {
    1: tuple(map(struct.Struct, ("<HHIIIIIHHHHHH", "<10I", "<8I", "<IIIBBH"))),
    2: tuple(map(struct.Struct, ("<HHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IIQQQQQQ", "<IBBHQQ"))),
}
"""By class: e_type … e_shstrndx, and the headers of sections and segments, and symbols (elf(5))."""
_ELSEWHERE = 0xFFFF
"""SHN_XINDEX, PN_XNUM: the number is in the first section's header."""
_MOST = 1 << 20
"""Headers of a kind that are read; files of many thousand functions with a section each have less."""


@dataclass(frozen=True)
class SectionHeader:
    """One section header."""

    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int
    flags: int
    entry_size: int


@dataclass(frozen=True)
class Segment:
    """One program header."""

    kind: int
    flags: int
    offset: int
    address: int
    size: int
    """In the file."""


class Headers:
    """The headers of a file, and bounded access to its bytes."""

    def __init__(self, stream: BinaryIO) -> None:
        """ValueError or struct.error for what is no such file, or is cut or corrupt."""
        self.stream = stream
        self.size = stream.seek(0, os.SEEK_END)
        identity = self.bytes_at(0, _IDENTITY)
        if identity[:4] != b"\x7fELF" or len(identity) < _IDENTITY:
            raise ValueError("no ELF file")
        if identity[4] not in _LAYOUTS or identity[5] != 1:
            raise ValueError("big-endian, or of an unknown class")
        self.wide = identity[4] == 2
        header, self._section, self._segment, self._symbol = _LAYOUTS[identity[4]]
        fields = header.unpack(self.bytes_at(_IDENTITY, header.size))
        _, self.machine, _, _, segments_at, sections_at, _, _, segment_size, segments, section_size, sections, names = (
            fields
        )
        self.sections: list[SectionHeader] = []
        if sections_at:
            first = self._raw(self._section, sections_at, section_size, 1)[0]
            sections = sections or first[5]
            names = first[6] if names == _ELSEWHERE else names
            segments = first[7] if segments == _ELSEWHERE else segments
            rows = self._raw(self._section, sections_at, section_size, sections)
            texts = self.bytes_at(rows[names][4], rows[names][5]) if names < len(rows) else b""
            self.sections = [_section(row, texts) for row in rows]
        self.segments = [self._segment_of(row) for row in self._raw(self._segment, segments_at, segment_size, segments)]

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer when the file ends before."""
        if not 0 <= offset < self.size:
            return b""
        self.stream.seek(offset)
        return self.stream.read(min(size, self.size - offset))

    def data(self, section: SectionHeader) -> bytes:
        """Its bytes, as they are in the file."""
        return b"" if section.kind == NOBITS else self.bytes_at(section.offset, section.size)

    def section(self, name: str) -> SectionHeader | None:
        """The first section of a name."""
        return next((section for section in self.sections if section.name == name), None)

    def symbols(self, table: SectionHeader) -> Iterator[tuple[int, int, int, int]]:
        """(place of its name, info, section, value) of each symbol in a table."""
        raw = self.data(table)
        rows = self._symbol.iter_unpack(raw[: len(raw) // self._symbol.size * self._symbol.size])
        if self.wide:
            return ((name, info, section, value) for name, info, _, section, value, _ in rows)
        return ((name, info, section, value) for name, value, _, info, _, section in rows)

    def _raw(self, layout: struct.Struct, offset: int, entry: int, count: int) -> list[tuple[int, ...]]:
        if not count:
            return []
        if entry < layout.size or count > _MOST:
            raise ValueError("headers of an unknown form")
        raw = self.bytes_at(offset, entry * count)
        if len(raw) < entry * count:
            raise ValueError("headers extend beyond the end")
        return [layout.unpack_from(raw, entry * place) for place in range(count)]

    def _segment_of(self, row: tuple[int, ...]) -> Segment:
        if self.wide:
            kind, flags, offset, address, _, size, _, _ = row
        else:
            kind, offset, address, _, size, _, flags, _ = row
        return Segment(kind, flags, offset, address, size)


def _section(row: tuple[int, ...], names: bytes) -> SectionHeader:
    name, kind, flags, address, offset, size, link, _, _, entry_size = row
    text = names[name : names.find(b"\0", name)] if name < len(names) else b""
    return SectionHeader(text.decode("utf-8", "replace"), kind, address, offset, size, link, flags, entry_size)
