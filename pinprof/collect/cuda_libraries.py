"""Where a program will find CUDA: the files that hold its functions, and at which offsets.

The driver's libcuda, the runtime's libcudart, and the program itself, into which nvcc links the runtime by default.
Which of several copies the program loads is the dynamic linker's business: all of them are probed, by file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from pinprof.collect import host
from pinprof.collect.native.tracefs import Site
from pinprof.cuda_functions import FUNCTIONS, plain_name

_LIBRARIES = ("libcuda.so.1", "libcudart.so.*")
_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64", "/usr/local/cuda/lib64", "/run/opengl-driver/lib",
)  # fmt: skip
"""Where drivers and containers put them, besides what the linker's cache knows."""
_LARGEST_SYMBOLS = 256 << 20
_NAME = re.compile(rb"(cu(?:da)?[A-Z]\w{0,60})(?=\0)")

_EHDR = np.dtype([("skip", "V40"), ("shoff", "<u8"), ("flags", "<u4"), ("sizes", "<u2", 3), ("entry", "<u2"),
                  ("count", "<u2"), ("names", "<u2")])  # fmt: skip
_SHDR = np.dtype([("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("addr", "<u8"), ("offset", "<u8"),
                  ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8")])  # fmt: skip
_SYM = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_SYMTAB, _DYNSYM, _FUNCTION = 2, 11, 2


def find_sites(executable: str, environment: Mapping[str, str]) -> list[Site]:
    """Every watched CUDA function in the files that a program may load; empty where there is no CUDA."""
    files: dict[tuple[int, int], Path] = {}
    for path in (*_libraries(executable, environment), Path(executable)):
        try:
            status = path.stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            files.setdefault((status.st_dev, status.st_ino), path.resolve())
    return [Site(str(path), offset) for path in files.values() for offset in functions_in(path)]


def functions_in(path: Path) -> list[int]:
    """The file offsets of the watched functions that an ELF file defines; empty for any other file."""
    try:
        with path.open("rb") as file:
            return sorted(set(_functions(file.fileno())))
    except (OSError, ValueError, IndexError, OverflowError):
        return []


def _functions(file: int) -> Iterator[int]:
    head = os.pread(file, _EHDR.itemsize, 0)
    if head[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return
    header = np.frombuffer(head, _EHDR)[0]
    sections = np.frombuffer(os.pread(file, int(header["count"]) * _SHDR.itemsize, int(header["shoff"])), _SHDR)
    for table in sections[np.isin(sections["type"], (_SYMTAB, _DYNSYM))]:
        strings = sections[int(table["link"])]
        if max(int(table["size"]), int(strings["size"])) > _LARGEST_SYMBOLS:
            continue
        names = os.pread(file, int(strings["size"]), int(strings["offset"]))
        wanted = [match.start(1) for match in _NAME.finditer(names) if plain_name(match[1].decode()) in FUNCTIONS]
        if not wanted:
            continue
        symbols = np.frombuffer(os.pread(file, int(table["size"]), int(table["offset"])), _SYM)
        defined = (symbols["info"] & 0xF == _FUNCTION) & (symbols["section"] > 0) & (symbols["section"] < len(sections))
        chosen = symbols[defined & np.isin(symbols["name"], wanted)]
        place = sections[chosen["section"]]
        yield from (chosen["value"] - place["addr"] + place["offset"]).tolist()


def _libraries(executable: str, environment: Mapping[str, str]) -> Iterator[Path]:
    """CUDA's libraries where the linker, a container or the program's own Python would have them."""
    yield from _in_linker_cache()
    folders = [Path(folder) for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    # A virtual environment's interpreter is a link: its packages lie beside the link.
    packages = Path(executable).absolute().parent.parent.glob("lib/python3*/site-packages/nvidia/*/lib")
    for folder in (*folders, *map(Path, _FOLDERS), *packages):
        for name in _LIBRARIES:
            yield from folder.glob(name)


def _in_linker_cache() -> Iterator[Path]:
    listing = host.ran("/sbin/ldconfig", "-p")
    for line in listing.stdout.splitlines() if listing else ():
        name, arrow, path = line.strip().partition(" => ")
        if arrow and name.startswith(("libcuda.so.1 ", "libcudart.so.")):
            yield Path(path)
