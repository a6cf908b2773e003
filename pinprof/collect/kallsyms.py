"""The kernel's symbols, copied while they are true: addresses change with every boot and every module loaded.

Written before the program runs, so that a disk that fills up while recording cannot lose them, and again after it when
modules came or went meanwhile.
"""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from pinprof import files
from pinprof.collect.native.existing import reference_symbol
from pinprof.store import KALLSYMS

SOURCE = Path("/proc/kallsyms")
_MODULES = Path("/proc/modules")
_LEVEL = 1
"""Fast: 5 to 9 MB of text in a tenth of a second, a quarter of its size."""


def save(directory: Path) -> str:
    """Write `kallsyms.gz`; returns a note for the manifest when kernel frames will have no names, else empty."""
    if not addresses_shown():
        return hidden_note()
    target = directory / KALLSYMS
    # No file name and no time in the header: the same symbols give the same bytes.
    with (
        SOURCE.open("rb") as source,
        files.replacing(target) as raw,
        gzip.GzipFile("", "wb", _LEVEL, raw, 0) as stream,
    ):
        shutil.copyfileobj(source, stream, 1 << 20)
    return ""


def modules() -> frozenset[str]:
    """The names of the loaded kernel modules."""
    try:
        return frozenset(line.split(" ", 1)[0] for line in _MODULES.read_text().splitlines())
    except OSError:
        return frozenset()


def hidden_note() -> str:
    """Why kernel frames have no names here, and the fix."""
    return (
        "The kernel hides its addresses (kptr_restrict), so kernel frames have no names: record as root, "
        "or `sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1`."
    )


def addresses_shown() -> bool:
    """Whether kallsyms shows real addresses: a kernel that hides them prints zeros (kernel/kallsyms.c)."""
    return reference_symbol(SOURCE)[1] != 0
