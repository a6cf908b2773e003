"""Building the injection library: when the package is built (setup.py), else once for the user who records.

Standard library only, and no other module of pinprof: setup.py loads this file by its path.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("injection.c")
LIBRARY_PREFIX = "libpinprof_nvtx."

_FLAGS = (
    *("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"),
    # nodelete: threads that end call into it, so it may never be unloaded.
    "-Wl,-z,nodelete,-z,relro,-z,now",
)


def library_name() -> str:
    """The library's file name; it names the source, so that a library of another version is not taken for it."""
    made_of = SOURCE.read_bytes() + " ".join((*_FLAGS, platform.machine())).encode()
    return f"{LIBRARY_PREFIX}{hashlib.sha256(made_of).hexdigest()[:12]}.so"


def compiler() -> tuple[str, ...]:
    """The C compiler's command, `$CC` or the first of the usual names; empty where there is none."""
    given = tuple(shlex.split(os.environ.get("CC", "")))
    for command in (given, ("cc",), ("gcc",), ("clang",)):
        if command and shutil.which(command[0]):
            return command
    return ()


def compile_into(folder: Path) -> Path:
    """Compile the library into a folder, whole or not at all; OSError or CalledProcessError when that fails."""
    target = folder / library_name()
    with tempfile.TemporaryDirectory(dir=folder, prefix=".nvtx-") as place:
        made = Path(place) / target.name
        command = [*compiler(), *_FLAGS, str(SOURCE), "-o", str(made)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        made.replace(target)
    return target
