"""Where a program will find CUDA: the files that hold its functions, and at which offsets.

The driver's libcuda, the runtime's libcudart, and the program itself, into which nvcc links the runtime by default.
Which of several copies the program loads is the dynamic linker's business: all of them are probed, by file.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from pinprof.collect.native.tracefs import ProbeSite
from pinprof.data.gpu_functions import EXPORTED, FUNCTIONS, is_traced, kind_of, plain_name
from pinprof.machine import elf_headers, linker_cache
from pinprof.machine.elf_headers import Headers

_LIBRARIES = ("libcuda.so.1", "libcudart.so.*")
_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64", "/usr/local/cuda/lib64", "/run/opengl-driver/lib",
)  # fmt: skip
"""Where drivers and containers put them, besides what the linker's cache knows."""
_LIBRARY = re.compile(rb" (/.*/libcuda(?:rt)?\.so(?:\..*)?)$", re.MULTILINE)
"""As a line of /proc/PID/maps ends."""
_LARGEST_SYMBOLS = 256 << 20
_NAME = re.compile(rf"({EXPORTED})(?=\0)".encode())

_FUNCTION = 2


def find_sites(executable: str, environment: Mapping[str, str], loaded: Iterable[Path] = ()) -> list[ProbeSite]:
    """Every watched CUDA function in the files that a program may load; empty where there is no CUDA.

    `loaded`: libraries of CUDA that it has loaded already.
    """
    files: dict[tuple[int, int], Path] = {}
    for path in (*_libraries(executable, environment), *loaded, Path(executable)):
        try:
            status = path.stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            files.setdefault((status.st_dev, status.st_ino), path.resolve())
    return [_site(path, offset, name) for path in files.values() for offset, name in functions_in(path)]


def loaded_by(pid: int) -> list[Path]:
    """CUDA's libraries that a process has mapped, by their paths, each once."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return []
    return [Path(os.fsdecode(path)) for path in dict.fromkeys(_LIBRARY.findall(maps))]


def _site(path: Path, offset: int, name: str) -> ProbeSite:
    role = FUNCTIONS[name]
    return ProbeSite(str(path), offset, kind_of(name), role.arguments, role.sizes, role.pieces, role.properties)


def functions_in(path: Path) -> list[tuple[int, str]]:
    """File offset and plain name of the watched functions that an ELF file defines; empty for any other file."""
    try:
        with path.open("rb") as file:
            return sorted(dict(_functions(file)).items())
    except (OSError, ValueError, IndexError, OverflowError, struct.error):
        return []


def _functions(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    headers = Headers(stream)
    for table in headers.sections if headers.wide else ():
        if table.kind not in (elf_headers.SYMTAB, elf_headers.DYNSYM):
            continue
        strings = headers.sections[table.link]
        if max(table.size, strings.size) > _LARGEST_SYMBOLS:
            continue
        found = {match.start(1): plain_name(match[1].decode()) for match in _NAME.finditer(headers.data(strings))}
        wanted = {place: name for place, name in found.items() if is_traced(name)}
        for place, info, section, value in headers.symbols(table) if wanted else ():
            if place in wanted and info & 0xF == _FUNCTION and 0 < section < len(headers.sections):
                there = headers.sections[section]
                yield value - there.address + there.offset, wanted[place]


def _libraries(executable: str, environment: Mapping[str, str]) -> Iterator[Path]:
    """CUDA's libraries where the linker, a container or the program's own Python would have them."""
    for name, path in linker_cache.libraries():
        if name == "libcuda.so.1" or name.startswith("libcudart.so."):
            yield path
    folders = [Path(folder) for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    # A virtual environment's interpreter is a link: its packages lie beside the link.
    packages = Path(executable).absolute().parent.parent.glob("lib/python3*/site-packages/nvidia/*/lib")
    for folder in (*folders, *map(Path, _FOLDERS), *packages):
        for name in _LIBRARIES:
            yield from folder.glob(name)
