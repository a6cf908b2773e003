"""Where an interpreter keeps its threads, frames and code: the offsets of a CPython version.

From 3.13 on the interpreter says so itself, at the beginning of `_PyRuntime` (_Py_DebugOffsets); for 3.11 and 3.12 the
offsets are those of their headers, which did not change within a version. Older ones do not note the kernel's thread
id, and PyPy has no such frames. Sources: Include/internal/pycore_{runtime,debug_offsets,frame,code}.h of 3.11 to 3.15.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pinprof.base.lazy_dataclass import dataclass
from pinprof.collect.proc import contents
from pinprof.collect.python_frames.memory import Gone, read, word
from pinprof.machine import elf_headers
from pinprof.machine.elf_headers import Headers

_COOKIE = b"xdebugpy"
_NAMED = re.compile(rb"/(?:libpython3\.\d+[a-z]*\.so[^/\n]*|python[\d.]*t?d?|uwsgi)$", re.MULTILINE)
"""The end of a line of `maps`, of a file that may hold an interpreter."""
_INTERPRETER = re.compile(rb"/((?:python|pypy)[\d.]*t?d?(?:-c)?|lib(?:python|pypy)[\d.]+\w*\.so[^/\n]*)$", re.MULTILINE)
_PAGE = 4096


@dataclass(frozen=True)
class InterpreterLayout:
    """Offsets in bytes; 0 where this version has no such field."""

    version: tuple[int, int]
    interpreters: int
    """In `_PyRuntime`: the first interpreter."""
    next_interpreter: int
    threads: int
    """In an interpreter: its first thread."""
    next_thread: int
    native_id: int
    chunk: int
    """In a thread: the piece of memory that its innermost frames lie in; its end of use follows."""
    frame: int
    """In a thread: the innermost frame; to 3.12 a `_PyCFrame`, which has it at `frame_in_cframe`."""
    frame_in_cframe: int | None
    code: int
    """In a frame: the code object, its lowest bits a tag."""
    previous: int
    instruction: int
    owner: int
    locals: int
    bytecode_copy: int
    """In a frame: the number of the thread's own copy of the bytecode (free-threaded builds)."""
    filename: int
    """In a code object."""
    qualified_name: int
    line_table: int
    first_line: int
    bytecode: int
    bytecode_copies: int
    text_state: int
    """In a str."""
    text_length: int
    text_size: int
    """Bytes of an ASCII str's header: its characters follow."""
    text_wide: int
    """Bytes of any other str's header, likewise."""
    text_shift: int
    """Bit of the state at which its kind begins."""
    bytes_length: int
    bytes_start: int
    type_of: int
    """In any object: its type."""
    type_name: int
    """In a type."""
    type_flags: int


_3_11 = InterpreterLayout(
    (3, 11), interpreters=40, next_interpreter=0, threads=16, next_thread=8, native_id=160, chunk=296, frame=56,
    frame_in_cframe=8, code=32, previous=48, instruction=56, owner=69, locals=72, bytecode_copy=0, filename=112,
    qualified_name=128, line_table=136, first_line=72, bytecode=184, bytecode_copies=0, text_state=32, text_length=16,
    text_size=48, text_wide=72, text_shift=2, bytes_length=16, bytes_start=32,
    type_of=8, type_name=24, type_flags=168,
)  # fmt: skip
_3_12 = replace(
    _3_11, version=(3, 12), threads=72, native_id=144, chunk=232, frame_in_cframe=0, code=0, previous=8, owner=70,
    first_line=68, bytecode=192, text_size=40, text_wide=56,
)  # fmt: skip
FIXED = {layout.version: layout for layout in (_3_11, _3_12)}
"""By version, of those that do not describe themselves."""

STRUCTURES = {
    13: (
        "runtime: size finalizing interpreters; interpreter: size id next threads gc modules sys builtins gil state "
        "enabled locked holder; thread: size prev next interp frame id native_id chunk status; "
        "frame: size previous code instruction locals owner; "
        "code: size filename name qualname linetable firstlineno argcount names kinds bytecode; "
        "object: size type; type: size name repr flags; tuple: 3; list: 3; dict: 3; float: 2; long: 3; "
        "bytes: size length start; "
        "str: size state length ascii"
    ),
    14: (
        "runtime: size finalizing interpreters; interpreter: size id next threads main gc modules sys builtins gil "
        "state enabled locked holder generation copies; "
        "thread: size prev next interp frame id native_id chunk status; "
        "frame: size previous code instruction locals owner top copy; "
        "code: size filename name qualname linetable firstlineno argcount names kinds bytecode copies; "
        "object: size type; type: size name repr flags; tuple: 3; list: 3; set: 4; dict: 3; float: 2; long: 3; "
        "bytes: size length start; "
        "str: size state length ascii"
    ),
    15: (
        "runtime: size finalizing interpreters; interpreter: size id next threads main gc modules sys builtins gil "
        "state enabled locked holder generation copies; "
        "thread: size prev next interp frame base last sequence id native_id chunk status gil wanted exception state; "
        "exception: 1; frame: size previous code instruction locals owner top copy; "
        "code: size filename name qualname linetable firstlineno argcount names kinds bytecode copies; "
        "object: size type; type: size name repr flags more cache; heap: 2; tuple: 3; list: 3; set: 4; dict: 3; "
        "float: 2; long: 3; "
        "bytes: size length start; "
        "str: size state length ascii"
    ),
}
"""Per minor version the fields of _Py_DebugOffsets behind cookie, version and free_threaded; numbers are skipped."""
_OFFSETS_BYTES = 1024


def of_process(pid: int) -> tuple[InterpreterLayout, int] | None:
    """The layout of a process's interpreter and the address of its `_PyRuntime`; None where there is none we know."""
    for path, start, offset in _images(pid):
        try:
            place = _runtime_of(path, _identity(path))
            if place is None:
                continue
            address, version, pages = place
            base = start - next((virtual for file, virtual in pages if file == offset), 0)
            layout = _layout(pid, base + address, base + version if version else 0)
        except (OSError, LookupError, Gone):
            continue
        if layout is not None:
            return layout, base + address
    return None


def interpreter_name(pid: int) -> str:
    """The file that says that a process runs Python, known or not; empty where none does."""
    found = _INTERPRETER.search(contents(f"/proc/{pid}/maps"))
    return found[1].decode("utf-8", "replace") if found else ""


def _images(pid: int) -> list[tuple[str, int, int]]:
    """(path that opens it, first address, its offset) of each file that may hold an interpreter."""
    images: dict[str, tuple[str, int, int]] = {}
    maps = contents(f"/proc/{pid}/maps")
    for named in _NAMED.finditer(maps):
        span, _, offset, _, _, name = maps[maps.rfind(b"\n", 0, named.start()) + 1 : named.end()].split(None, 5)
        path = f"/proc/{pid}/root{os.fsdecode(name)}"
        images.setdefault(path, (path, int(span.partition(b"-")[0], 16), int(offset, 16)))
    return sorted(images.values(), key=lambda image: "libpython" not in image[0])


def _identity(path: str) -> tuple[int, int, int]:
    status = Path(path).stat()
    return status.st_dev, status.st_ino, status.st_mtime_ns


@lru_cache(maxsize=64)
def _runtime_of(path: str, _identity: tuple[int, int, int]) -> tuple[int, int, list[tuple[int, int]]] | None:
    """A file's `_PyRuntime`, `Py_Version` (0 unknown) and (file page, virtual page) of what is loaded; or None."""
    try:
        with Path(path).open("rb") as stream:
            elf = Headers(stream)
            section = elf.section(".PyRuntime")
            if section is None or not elf.wide:
                return None
            pages = [
                (part.offset & -_PAGE, part.address & -_PAGE) for part in elf.segments if part.kind == elf_headers.LOAD
            ]
            return section.address, _version_address(elf), pages
    except (ValueError, IndexError, struct.error):
        return None


def _version_address(elf: Headers) -> int:
    """The address of `Py_Version`, which the dynamic linker finds; 0 where there is none."""
    table = next((section for section in elf.sections if section.kind == elf_headers.DYNSYM), None)
    if table is None:
        return 0
    place = elf.data(elf.sections[table.link]).find(b"\0Py_Version\0") + 1
    return next((value for at, _, _, value in elf.symbols(table) if at == place), 0) if place else 0


def _layout(pid: int, runtime: int, version_at: int) -> InterpreterLayout | None:
    head = read(pid, runtime, _OFFSETS_BYTES)
    if head.startswith(_COOKIE):
        return described(head)
    version = word(pid, version_at) if version_at else 0
    return FIXED.get((version >> 24 & 0xFF, version >> 16 & 0xFF))


def places(minor: int) -> dict[str, int]:
    """Where `_PyRuntime` of a version 3.`minor` says each offset (`frame.code` …), in bytes from its beginning."""
    found: dict[str, int] = {}
    for part in STRUCTURES[minor].split("; "):
        name, _, members = part.partition(": ")
        for member in members.split() if not members.isdecimal() else range(int(members)):
            found[f"{name}.{member}"] = 24 + 8 * len(found)
    return found


def described(head: bytes) -> InterpreterLayout | None:
    """The layout that an interpreter describes in the first bytes of its `_PyRuntime`; None for a later version."""
    _, number, free_threaded, *values = struct.unpack_from(f"<{len(head) // 8}Q", head)
    version = number >> 24 & 0xFF, number >> 16 & 0xFF
    if version[0] != 3 or version[1] not in STRUCTURES:
        return None
    # The three words in front are cookie, version and free_threaded.
    fields = {name: values[place // 8 - 3] for name, place in places(version[1]).items()}
    wide = fields["str.ascii"] + 16
    return InterpreterLayout(
        version=version,
        interpreters=fields["runtime.interpreters"],
        next_interpreter=fields["interpreter.next"],
        threads=fields["interpreter.threads"],
        next_thread=fields["thread.next"],
        native_id=fields["thread.native_id"],
        chunk=fields["thread.chunk"],
        frame=fields["thread.frame"],
        frame_in_cframe=None,
        code=fields["frame.code"],
        previous=fields["frame.previous"],
        instruction=fields["frame.instruction"],
        owner=fields["frame.owner"],
        locals=fields["frame.locals"],
        bytecode_copy=fields.get("frame.copy", 0) if free_threaded else 0,
        filename=fields["code.filename"],
        qualified_name=fields["code.qualname"],
        line_table=fields["code.linetable"],
        first_line=fields["code.firstlineno"],
        bytecode=fields["code.bytecode"],
        bytecode_copies=fields.get("code.copies", 0) if free_threaded else 0,
        text_state=fields["str.state"],
        text_length=fields["str.length"],
        text_size=fields["str.ascii"],
        text_wide=wide,
        text_shift=8 if free_threaded and version >= (3, 14) else 2,
        bytes_length=fields["bytes.length"],
        bytes_start=fields["bytes.start"],
        type_of=fields["object.type"],
        type_name=fields["type.name"],
        type_flags=fields["type.flags"],
    )
