"""File, line and inlined functions of addresses, from the DWARF of an ELF file; `dwarf.c` does the reading.

The debug information may lie in the file itself, in its separate debug file (build id, debug link) and, split, in
`.dwo` files or one `.dwp` beside it. Files are mapped, not read: memory is that of the pages touched and of sections
that are compressed. Whatever is damaged, of another build or too large costs lines and nothing else.

Sources: System V gABI chapter 4 "Section compression", DWARF 5 section 7.3.5 "DWARF package files",
gcc.gnu.org/wiki/DebugFissionDWP.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from pinprof.base.columns import UInt8, UInt64
from pinprof.base.zstd import ZstdDecompressor, ZstdError
from pinprof.data.model import Dso
from pinprof.machine import elf_headers
from pinprof.machine.elf_headers import SectionHeader
from pinprof.machine.libraries import DWARF
from pinprof.read.symbols.elf import UNREADABLE, Image, debug_files, open_regular, same_build_id

MAX_UNPACKED = 512 << 20
"""Bytes of all compressed sections of one file."""

_SECTIONS = ("info", "abbrev", "line", "str", "line_str", "ranges", "rnglists", "addr", "str_offsets")
"""In the order of `dwarf.c`."""
_INFO, _STR = 0, 3
_COLUMNS = {2: {1: 0, 3: 1, 4: 2, 6: 8}, 5: {1: 0, 3: 1, 4: 2, 6: 8, 8: 6}}
"""Version of a package's index → number of a column → place in `_SECTIONS`."""
_MOST_UNITS = 1 << 22
_MOST_AT_ONCE = 2048
"""Addresses of one unit that are looked up in one call."""
_ROOM = 8 << 20
_COMPRESSED, _ZLIB, _ZSTD = 0x800, 1, 2
_PIECE = 4 << 20
_HARMFUL = (*UNREADABLE, zlib.error, ZstdError, RecursionError)

_SYSTEM = re.compile(
    # System and vendor directories, installed packages, and by their names the runtimes of languages and of CUDA.
    r"/(usr/)?(lib|lib32|lib64|libx32|libexec|bin|sbin)/.*|/usr/local/(cuda|lib/python)[^/]*/.*|/opt/(nvidia|cuda)/.*|"
    r".*/(site|dist)-packages/.*|.*/lib/python\d[^/]*/.*|"
    r".*/ld[-.][^/]*|.*/lib(c|m|dl|rt|pthread|stdc\+\+|c\+\+|c\+\+abi|gcc_s|gomp|[ahlmt]san|ubsan|std-[0-9a-f]+|"
    r"python\d[\d.]*t?d?|cuda\w*|cublas\w*|cudnn\w*|cufft\w*|curand|cusolver\w*|cusparse\w*|cupti|nccl|"
    r"nv(idia|rtc|ToolsExt|[Jj]|ml)[\w-]*)[-.][^/]*|"
    r".*/python\d?(\.\d+)?t?d?",
    re.DOTALL,
)


def is_own_code(dso: Dso) -> bool:
    """Whether a DSO is the program's own: a file that belongs neither to the system nor to a language or CUDA.

    Debug information does not show it: distributions and conda ship libraries with it.
    """
    return dso.kind == "file" and dso.path.startswith("/") and _SYSTEM.fullmatch(dso.path) is None


class SourceFrame(NamedTuple):
    """One function at an address; inlined functions are frames of their own."""

    function: str
    """As the linker knows it, empty where the debug information names none."""
    path: str
    """As the compiler was given it, absolute where the unit says its directory."""
    line: int


Run = tuple[SourceFrame, ...]
"""What is at one address, innermost first; empty where nothing is known."""


class TimeBudget:
    """The time that looking up lines may take in all."""

    def __init__(self, seconds: float) -> None:
        self._left_ns = int(seconds * 1e9)
        self._since = 0

    def __enter__(self) -> int:
        """Until when, as monotonic_ns tells it."""
        self._since = time.monotonic_ns()
        return self._since + max(self._left_ns, 0)

    def __exit__(self, *_: object) -> None:
        self._left_ns -= time.monotonic_ns() - self._since


class _CSection(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_void_p), ("size", ctypes.c_uint64))


class _CStarts(ctypes.Structure):
    _fields_ = (("offsets", ctypes.c_void_p), ("count", ctypes.c_size_t))


@cache
def library() -> ctypes.CDLL:
    """The C library; ToolMissing where it cannot be built."""
    loaded = ctypes.CDLL(str(DWARF.find()))
    word, size, pointer = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
    loaded.pinprof_dwarf_units.argtypes = (pointer, pointer, size, pointer, pointer, size, word)
    loaded.pinprof_dwarf_split.argtypes = (pointer, word, pointer, size)
    loaded.pinprof_dwarf_lines.argtypes = (pointer, pointer, pointer, word, pointer, size, pointer, size, word)
    for function in ("units", "split", "lines"):
        getattr(loaded, f"pinprof_dwarf_{function}").restype = size
    return loaded


class _Sections:
    """The sections of one file, as `dwarf.c` takes them."""

    def __init__(self, parts: Sequence[UInt8]) -> None:
        self.parts = parts
        self.table = (_CSection * len(parts))(*(_CSection(part.ctypes.data, len(part)) for part in parts))

    @classmethod
    def of(cls, stream: BinaryIO, image: Image, until: int, suffix: str = "") -> _Sections | None:
        """Those of an image; None where it has no debug information. Raises what `_HARMFUL` lists."""
        names = {section.name: section for section in image.sections if section.kind != elf_headers.NOBITS}
        if not {f".debug_info{suffix}", f".zdebug_info{suffix}"} & names.keys():
            return None
        mapped = _mapped(stream)
        room, parts = MAX_UNPACKED, []
        for name in _SECTIONS:
            section = names.get(f".debug_{name}{suffix}") or names.get(f".zdebug_{name}{suffix}")
            part = np.zeros(0, np.uint8)
            if section is not None:
                part = mapped[section.offset : section.offset + section.size]
                if packed := _packed(section, part):
                    part = _unpacked(*packed, part, room, until)
                    room -= len(part)
            parts.append(part)
        return cls(parts)


def _mapped(stream: BinaryIO) -> UInt8:
    return np.frombuffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _packed(section: SectionHeader, part: UInt8) -> tuple[int, int, int] | None:
    """How a section is compressed: the method, bytes of its head, and its size when unpacked; None if it is not."""
    if section.flags & _COMPRESSED:
        kind, _, size = struct.unpack_from("<IIQ", part[:24].tobytes())
        return kind, 24, size
    if section.name.startswith(".zdebug"):
        magic, size = struct.unpack_from(">4sQ", part[:12].tobytes())
        if magic != b"ZLIB":
            raise ValueError("unknown compression")
        return _ZLIB, 12, size
    return None


def _unpacked(kind: int, head: int, size: int, part: UInt8, room: int, until: int) -> UInt8:
    """The bytes of a compressed section; ValueError for one that is larger than it says, than the room, or too late."""
    if size > room or kind not in (_ZLIB, _ZSTD):
        raise ValueError("a section is too large, or its compression unknown")
    made, filled = np.empty(size, np.uint8), 0
    for piece in _pieces(kind, part[head:].tobytes()):
        if filled + len(piece) > size or time.monotonic_ns() > until:
            raise ValueError("a section holds more than it says, or takes too long")
        made[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
        filled += len(piece)
    return made[:filled]


def _pieces(kind: int, packed: bytes) -> Iterator[bytes]:
    """Unpacked bytes, at most 64 MiB in one piece."""
    if kind == _ZSTD:
        stream = ZstdDecompressor()
        yield stream.decompress(packed, _PIECE)
        while not stream.eof and not stream.needs_input:
            yield stream.decompress(b"", _PIECE)
    else:
        unpack = zlib.decompressobj()
        for start in range(0, len(packed), 1 << 16):
            yield unpack.decompress(packed[start : start + (1 << 16)])


class DebugInformation:
    """The debug information of one ELF file, addressed by offsets in the file that was executed."""

    def __init__(self, path: Path, root: Path, image: Image, sections: _Sections) -> None:
        self._path, self._root = path, root
        self._segments = image.loads
        self._sections = sections
        self._package: _Package | None = None
        self._looked_for_package = False

    def find(self, file_offsets: UInt64, until: int) -> list[Run | None]:
        """Per offset its functions; None where the time was over before. `until` is of monotonic_ns."""
        if not len(file_offsets):
            return []
        distinct, which = np.unique(self._addresses(file_offsets), return_inverse=True)
        runs: list[Run | None] = [()] * len(distinct)
        owners = np.full(len(distinct), -1, np.int64)
        starts = np.zeros(min(len(self._sections.parts[_INFO]) // 16 + 1, _MOST_UNITS), np.uint64)
        columns = distinct.ctypes.data, len(distinct), owners.ctypes.data, starts.ctypes.data, len(starts)
        count = library().pinprof_dwarf_units(self._sections.table, *columns, until)
        units = _CStarts(starts.ctypes.data, count)
        if time.monotonic_ns() >= until:
            runs = [None] * len(distinct)
        order = np.argsort(owners, kind="stable")
        bounds = np.flatnonzero(np.diff(owners[order], prepend=-2, append=2**62))
        for first, last in pairwise(bounds.tolist()):
            if (unit := int(owners[order[first]])) >= 0:
                rows = order[first:last]
                split = self._split(unit, until)
                for start in range(0, len(rows), _MOST_AT_ONCE):
                    part = rows[start : start + _MOST_AT_ONCE]
                    made = self._in_unit(unit, split, units, distinct[part], until)
                    for row, run in zip(part.tolist(), made, strict=True):
                        runs[row] = run
        return [runs[row] for row in which.reshape(-1).tolist()]

    def _addresses(self, file_offsets: UInt64) -> UInt64:
        """Virtual addresses; 0, where no code is, for offsets outside every loaded part."""
        addresses = np.zeros(len(file_offsets), np.uint64)
        for offset, address, size in reversed(self._segments):
            inside = (file_offsets >= np.uint64(offset)) & (file_offsets - np.uint64(offset) < np.uint64(size))
            addresses[inside] = file_offsets[inside] - np.uint64(offset) + np.uint64(address)
        return addresses

    def _in_unit(
        self, unit: int, split: _Sections | None, units: _CStarts, addresses: UInt64, until: int
    ) -> Sequence[Run | None]:
        if time.monotonic_ns() >= until:
            return [None] * len(addresses)
        out = np.empty(_ROOM, np.uint8)
        filled = library().pinprof_dwarf_lines(
            self._sections.table,
            split.table if split else None,
            ctypes.addressof(units),
            unit,
            addresses.ctypes.data,
            len(addresses),
            out.ctypes.data,
            len(out),
            until,
        )
        if filled:
            return list(_runs(out[:filled].tobytes(), len(addresses)))
        if time.monotonic_ns() >= until:
            return [None] * len(addresses)
        if len(addresses) == 1:
            return [()]
        # Too little room, most likely for names; or a unit that cannot be read, which is told as quickly.
        half = len(addresses) // 2
        parts = addresses[:half].copy(), addresses[half:].copy()
        return [run for part in parts for run in self._in_unit(unit, split, units, part, until)]

    def _split(self, unit: int, until: int) -> _Sections | None:
        """The sections of a unit's split part; None where it has none, or that is not here."""
        out = ctypes.create_string_buffer(1 << 16)
        filled = library().pinprof_dwarf_split(self._sections.table, unit, out, len(out))
        if not filled:
            return None
        identity = int.from_bytes(out.raw[:8], "little")
        directory, name = (os.fsdecode(text) for text in out.raw[8:filled].split(b"\0")[:2])
        if (package := self._find_package(until)) and (split := package.unit(identity)):
            return split
        compiled, beside = self._root / directory.lstrip("/"), self._path.parent
        for place in (compiled / name, beside / name, beside / Path(name).name):
            with suppress(*_HARMFUL), open_regular(place) as stream:
                if sections := _Sections.of(stream, Image(stream), until, ".dwo"):
                    return sections
        return None

    def _find_package(self, until: int) -> _Package | None:
        if not self._looked_for_package:
            self._looked_for_package = True
            place = self._path.with_name(self._path.name + ".dwp")
            with suppress(*_HARMFUL), open_regular(place) as stream:
                self._package = _Package.of(stream, Image(stream), until)
        return self._package


class _Package:
    """A `.dwp`: the split parts of all units in one file."""

    def __init__(self, sections: _Sections, index: bytes) -> None:
        self._sections = sections
        version, columns, rows, slots = struct.unpack_from("<4I", index)
        version &= 0xFFFF  # DWARF 5 has two bytes for it, and two of padding
        hashes = np.frombuffer(index, "<u8", slots, 16)
        numbers = np.frombuffer(index, "<u4", slots, 16 + 8 * slots)
        words = np.frombuffer(index, "<u4", (2 * rows + 1) * columns, 16 + 12 * slots).reshape(-1, columns)
        known = _COLUMNS.get(version, {})
        self._columns = [(column, known[kind]) for column, kind in enumerate(words[0].tolist()) if kind in known]
        self._offsets, self._sizes = words[1 : rows + 1], words[rows + 1 :]
        self._rows = {
            int(unit): int(number) - 1 for unit, number in zip(hashes, numbers, strict=True) if 0 < number <= rows
        }

    @classmethod
    def of(cls, stream: BinaryIO, image: Image, until: int) -> _Package | None:
        """That of an image; None if it is none. Raises what `_HARMFUL` lists."""
        sections, index = _Sections.of(stream, image, until, ".dwo"), image.section(".debug_cu_index")
        return cls(sections, image.data(index)) if sections and index else None

    def unit(self, identity: int) -> _Sections | None:
        """The sections of one unit."""
        row = self._rows.get(identity)
        if row is None:
            return None
        parts = [np.zeros(0, np.uint8)] * len(_SECTIONS)
        parts[_STR] = self._sections.parts[_STR]
        for column, place in self._columns:
            start = int(self._offsets[row, column])
            parts[place] = self._sections.parts[place][start : start + int(self._sizes[row, column])]
        return _Sections(parts)


def open_debug_information(path: Path, build_id: str, root: Path, until: int) -> DebugInformation | None:
    """That of an ELF file; None if it has none, cannot be read, or has another build id than the one expected.

    `build_id` is lower-case hex, empty when not known. Separate debug files are looked for below `root`.
    """
    with suppress(*_HARMFUL), open_regular(path) as stream:
        image = Image(stream)
        image_id = image.build_id()
        if not image.wide or (build_id and not same_build_id(image_id, build_id)):
            return None
        if sections := _Sections.of(stream, image, until):
            return DebugInformation(path, root, image, sections)
        for place in debug_files(path, image, root) if image_id else ():
            with suppress(*_HARMFUL), open_regular(place) as beside:
                debug = Image(beside)
                if debug.build_id() == image_id and (sections := _Sections.of(beside, debug, until)):
                    return DebugInformation(path, root, image, sections)
    return None


def _runs(raw: bytes, count: int) -> Iterator[Run]:
    """What `pinprof_dwarf_lines` wrote."""
    at = 0
    for _ in range(count):
        (frames,) = struct.unpack_from("<I", raw, at)
        at += 4
        run = []
        for _ in range(frames):
            (line,) = struct.unpack_from("<I", raw, at)
            name_end = raw.index(b"\0", at + 4)
            path_end = raw.index(b"\0", name_end + 1)
            name = raw[at + 4 : name_end].decode("utf-8", "replace")
            path = raw[name_end + 1 : path_end].decode("utf-8", "replace")
            run.append(SourceFrame(name, os.path.normpath(path) if path else "", line))
            at = path_end + 1
        yield tuple(run)
