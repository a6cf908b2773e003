"""Symbols of code made at run time, from the `/tmp/perf-PID.map` that a just-in-time compiler writes.

A line is `START SIZE NAME`, the numbers hexadecimal without prefix and absolute addresses of the process; the name
may hold spaces. Later lines replace earlier ones at the same address. Source: kernel
`tools/perf/Documentation/jit-interface.txt`.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import numpy as np

from pinprof.read.symbols.elf_symbols import Symbols, SymbolTable

MAX_BYTES = 256 << 20

_LINE = re.compile(rb"^(?:0x)?([0-9a-fA-F]{1,16})[ \t]+(?:0x)?([0-9a-fA-F]{1,16})[ \t]+([^\0\r\n]+)", re.MULTILINE)
_TOP = 2**64 - 1


def load_perf_map(path: Path) -> SymbolTable:
    """Functions of a perf map; empty if there is none, or if it belongs to neither root nor the current user.

    Anyone may create files in /tmp, so perf refuses the maps of others too (symbol.c, dso__load_perf_map).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return SymbolTable()
    with open(descriptor, "rb") as stream:  # noqa: PTH123 — Path.open takes no descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()):
            return SymbolTable()
        return parse_perf_map(stream.read(MAX_BYTES))


def parse_perf_map(text: bytes) -> SymbolTable:
    """Functions of a perf map's text; lines that are none are skipped."""
    functions: dict[int, tuple[int, bytes]] = {}
    for start_digits, size_digits, name in _LINE.findall(text):
        start = int(start_digits, 16)
        functions[start] = min(start + int(size_digits, 16), _TOP), name.rstrip()
    starts = sorted(functions)
    ends, names = zip(*(functions[start] for start in starts), strict=True) if starts else ((), ())
    return SymbolTable(Symbols.of_names(np.array(starts, np.uint64), np.array(ends, np.uint64), names))
