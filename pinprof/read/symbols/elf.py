"""Function symbols of ELF files: `.symtab`, else the separate debug file's, else `.dynsym` and MiniDebugInfo.

Symbol tables are read as numpy arrays. Whatever is wrong with a file — cut, corrupt, big-endian, of another build — its
addresses stay unresolved: no name is better than a wrong one.

The vdso is an ELF image without a file, which the kernel maps into every process.

Sources: System V gABI chapters 4 and 5, perf `tools/perf/util/symbol-elf.c`, GDB manual "Separate Debug Files" and
"MiniDebugInfo".
"""

from __future__ import annotations

import io
import lzma
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Int32, UInt64
from pinprof.machine import elf_headers
from pinprof.machine.elf_headers import DYNSYM, SYMTAB, Headers
from pinprof.read.symbols.elf_symbols import Names, Symbols, SymbolTable, select_functions

MAX_MINI_DEBUG_BYTES = 256 << 20

_GNU_BUILD_ID = 3
_JUMP_SLOT = {elf_headers.X86_64: (7, 16), elf_headers.AARCH64: (1026, 32)}
"""Per machine: the relocation type of a lazy PLT entry, and the size of the `.plt` header. Entries are 16 bytes."""
_PLT_ENTRY = 16
_LONGEST_NAME, _OFTEN = 1 << 16, 256
"""Bytes of a name: a longer one is cut; and as many as most have."""
_SYMBOL = 24
"""Bytes of a 64-bit symbol, which begins with the place of its name."""
_TOP = 2**64 - 1

UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    TypeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
)
"""What is raised for headers that point outside the file, or hold unknown values."""

_RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])


@dataclass(frozen=True)
class ElfSymbols:
    """The functions of one ELF file, addressed by file offset."""

    build_id: str
    """Lower-case hex; empty when the file has none."""
    segments: tuple[tuple[int, int, int], ...]
    """Loaded parts as (file offset, virtual address, bytes in the file), executable ones first."""
    table: SymbolTable

    def is_build(self, build_id: str) -> bool:
        """Whether this is the build of an id, which is empty where nobody knows it."""
        return not build_id or same_build_id(self.build_id, build_id)

    def find(self, file_offsets: UInt64) -> Int32:
        """Per file offset the row of its symbol in `table`, -1 if it lies in none."""
        rows = np.full(len(file_offsets), -1, np.int32)
        open_rows = np.ones(len(file_offsets), bool)
        for offset, address, size in self.segments:
            inside = (
                open_rows & (file_offsets >= np.uint64(offset)) & (file_offsets - np.uint64(offset) < np.uint64(size))
            )
            if inside.any():
                rows[inside] = self.table.find(file_offsets[inside] - np.uint64(offset) + np.uint64(address))
            open_rows &= ~inside
        return rows

    def name(self, row: int) -> str:
        """The function's name as the linker knows it, without the version behind `@`."""
        name = self.table.name(row)
        unversioned, _, version = name.partition("@")
        return name if version in ("", "plt") or not unversioned else unversioned


Opening = Callable[[], AbstractContextManager[BinaryIO]]


class Image(Headers):
    """An ELF file opened for reading: its headers, and what they lead to."""

    def __init__(self, stream: BinaryIO, again: Opening = io.BytesIO) -> None:
        """`again` opens it for names, which are read later."""
        super().__init__(stream)
        self._again = again
        loads = [segment for segment in self.segments if segment.kind == elf_headers.LOAD]
        loads.sort(key=lambda segment: not segment.flags & elf_headers.EXECUTABLE)
        self.loads = tuple((segment.offset, segment.address, segment.size) for segment in loads)

    def build_id(self) -> str:
        """The GNU build id in hex, from the note sections, or from the note segments of a file without sections."""
        places = [(s.offset, s.size) for s in self.sections if s.kind == elf_headers.NOTE]
        places = places or [(s.offset, s.size) for s in self.segments if s.kind == elf_headers.SEGMENT_NOTE]
        for offset, size in places:
            notes = self.bytes_at(offset, min(size, 1 << 16))
            at = 0
            while at + 12 <= len(notes):
                name_size, size, kind = struct.unpack_from("<III", notes, at)
                name_at, value_at = at + 12, at + 12 + (name_size + 3 & ~3)
                if kind == _GNU_BUILD_ID and notes[name_at : name_at + name_size] == b"GNU\0":
                    return notes[value_at : value_at + size].hex()
                at = value_at + (size + 3 & ~3)
        return ""

    def functions(self, kind: int) -> Symbols | None:
        """Functions of the symbol table of a section type, SYMTAB or DYNSYM; None where it has none."""
        for section in self.sections:
            if section.kind == kind and section.link < len(self.sections):
                ends = [min(s.address + s.size, _TOP) if s.flags & elf_headers.CODE else 0 for s in self.sections]
                found = select_functions(
                    self.data(section),
                    *self._names(section.link),
                    ends,
                    wide=self.wide,
                    thumb=self.machine == elf_headers.ARM,
                )
                return found if len(found) else None
        return None

    def plt(self) -> Symbols | None:
        """Entries of the procedure linkage table as `NAME@plt`, for x86-64 and arm64."""
        relocations, dynsym = self.section(".rela.plt"), self.section(".dynsym")
        stubs, header = self.section(".plt.sec"), 0
        slot_type, lazy_header = _JUMP_SLOT.get(self.machine, (0, 0))
        if stubs is None:
            stubs, header = self.section(".plt"), lazy_header
        if not (slot_type and self.wide and relocations and dynsym and stubs and dynsym.link < len(self.sections)):
            return None
        data = self.data(relocations)
        rows = np.frombuffer(data, _RELA, len(data) // _RELA.itemsize)[: stubs.size // _PLT_ENTRY]
        symbols = self.data(dynsym)
        name_at = np.frombuffer(symbols, np.uint32)[: len(symbols) // _SYMBOL * _SYMBOL // 4 : _SYMBOL // 4]
        symbol = (rows["info"] >> np.uint64(32)).astype(np.int64)
        slot = np.flatnonzero((rows["info"] & np.uint64(0xFFFF_FFFF) == slot_type) & (symbol < len(name_at)))
        starts = np.uint64(stubs.address + header) + (slot * _PLT_ENTRY).astype(np.uint64)
        every = np.ones(len(slot), np.bool_)
        return Symbols(
            starts,
            starts + np.uint64(_PLT_ENTRY),
            every,
            every.astype(np.uint8),
            name_at[symbol[slot]].astype(np.int64),
            self._names(dynsym.link)[0],
            stubs=True,
        )

    def _names(self, number: int) -> tuple[Names, int]:
        """What reads the names of a string section, and its size."""
        section = self.sections[number]
        size = 0 if section.kind == elf_headers.NOBITS else max(min(section.size, self.size - section.offset), 0)
        return partial(_names_in, self._again, section.offset, size), size

    def mini_debug(self) -> Symbols | None:
        """Functions of `.gnu_debugdata`: an xz-compressed ELF file with the symbols that `.dynsym` leaves out."""
        section = self.section(".gnu_debugdata")
        if section is not None:
            with suppress(*UNREADABLE):
                inner = lzma.LZMADecompressor().decompress(self.data(section), MAX_MINI_DEBUG_BYTES)
                return Image(io.BytesIO(inner), partial(io.BytesIO, inner)).functions(SYMTAB)
        return None

    def debug_link(self) -> str:
        """File name in `.gnu_debuglink`, empty if there is none."""
        section = self.section(".gnu_debuglink")
        name = self.data(section).split(b"\0", 1)[0] if section else b""
        return "" if b"/" in name else os.fsdecode(name)


def _names_in(again: Opening, offset: int, size: int, places: Sequence[int]) -> list[bytes]:
    """Names at ascending places of a string section."""
    names = []
    with suppress(*UNREADABLE), again() as stream:
        for place in places:
            stream.seek(offset + place)
            left = min(size - place, _LONGEST_NAME)
            name, end, _ = stream.read(min(left, _OFTEN)).partition(b"\0")
            if not end:
                name += stream.read(max(left - len(name), 0)).partition(b"\0")[0]
            names.append(name)
    return names + [b""] * (len(places) - len(names))


def read_elf(path: Path, root: Path) -> ElfSymbols | None:
    """Functions of an ELF file; None if it is none or cannot be read.

    Separate debug files are looked for below `root`.
    """
    with suppress(*UNREADABLE), open_regular(path) as stream:
        image = Image(stream, partial(_opened_again, path, identity(os.fstat(stream.fileno()))))
        build_id = image.build_id()
        functions = image.functions(SYMTAB) or _debug_file_functions(path, image, build_id, root)
        parts = [functions] if functions else [image.functions(DYNSYM), image.mini_debug()]
        return ElfSymbols(build_id, image.loads, SymbolTable(*filter(None, [*parts, image.plt()])))
    return None


def read_elf_bytes(data: bytes) -> ElfSymbols | None:
    """As read_elf, for an image in memory: the vdso."""
    with suppress(*UNREADABLE):
        image = Image(io.BytesIO(data), partial(io.BytesIO, data))
        functions = image.functions(SYMTAB) or image.functions(DYNSYM)
        return ElfSymbols(image.build_id(), image.loads, SymbolTable(*filter(None, [functions])))
    return None


def identity(status: os.stat_result) -> tuple[int, ...]:
    """What tells a file from another one, and from what it is once somebody has written to it."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def same_build_id(one: str, other: str) -> bool:
    """Whether two build ids agree; perf files older than 5.13 pad shorter ones with zeros to 20 bytes."""
    return one == other or one.ljust(40, "0") == other.ljust(40, "0")


def debug_files(path: Path, image: Image, root: Path) -> Iterator[Path]:
    """Where the separate debug file of an image may be: by its build id, then by its debug link."""
    if build_id := image.build_id():
        yield root / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    if link := image.debug_link():
        beside = path.parent
        yield from (beside / link, beside / ".debug" / link)
        yield root / "usr/lib/debug" / str(path.absolute().parent).lstrip("/") / link


def _debug_file_functions(path: Path, image: Image, build_id: str, root: Path) -> Symbols | None:
    """Functions of the separate debug file with the same build id, if one is installed."""
    for candidate in debug_files(path, image, root) if build_id else ():
        with suppress(*UNREADABLE), open_regular(candidate) as stream:
            debug = Image(stream, partial(_opened_again, candidate, identity(os.fstat(stream.fileno()))))
            if debug.build_id() == build_id and (functions := debug.functions(SYMTAB)):
                return functions
    return None


@contextmanager
def _opened_again(path: Path, known: tuple[int, ...]) -> Iterator[BinaryIO]:
    """The same file; OSError where it is another one by now."""
    with open_regular(path) as stream:
        if identity(os.fstat(stream.fileno())) != known:
            raise OSError("another file")
        yield stream


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """A regular file opened for reading; OSError otherwise: a recording may name devices and pipes as if mapped."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:  # noqa: PTH123 — Path.open takes no descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        yield stream


_VDSO = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) .*\[vdso\]$", re.MULTILINE)


def own_vdso() -> bytes:
    """The image mapped into this process, which is the running kernel's for its word size; empty if there is none."""
    try:
        match = _VDSO.search(Path("/proc/self/maps").read_bytes())
        if match is None:
            return b""
        start, end = int(match[1], 16), int(match[2], 16)
        with Path("/proc/self/mem").open("rb") as memory:
            memory.seek(start)
            return memory.read(end - start)
    except OSError:
        return b""
