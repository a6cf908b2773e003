"""The vdso: an ELF image without a file, which the kernel maps into every process."""

from __future__ import annotations

import re
from pathlib import Path

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
