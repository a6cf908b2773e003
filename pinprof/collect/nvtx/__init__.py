"""NVTX ranges of any program without nsys: a library that NVTX itself loads into the program, and its environment.

    injection.c   the library: what NVTX is told goes into one file for each process

`libraries.py` builds it. Files that it writes are read by `read/nvtx/injection.py`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pinprof import store
from pinprof.errors import ToolMissing
from pinprof.libraries import NVTX

LIBRARY_VARIABLE = "NVTX_INJECTION64_PATH"
"""Environment variable of NVTX itself: the library to load."""
FOLDER_VARIABLE = "PINPROF_NVTX"
"""Environment variable: where the library writes, an absolute path."""


@dataclass(frozen=True)
class Injection:
    """What the program's environment needs for its NVTX ranges to be recorded, or why they are not."""

    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def prepare(collectors: Collection[str], capture: Path) -> Injection:
    """Make the folder for the library's files inside a capture; nothing where nsys records NVTX already."""
    if "nsys" in collectors:
        return Injection()
    given = os.environ.get(LIBRARY_VARIABLE)
    # Under another pinprof, both variables are that one's.
    if given is not None and not (FOLDER_VARIABLE in os.environ and Path(given).name.startswith(NVTX.prefix)):
        return Injection(notes=(f"{LIBRARY_VARIABLE} is set: NVTX ranges go to that library, not into the capture.",))
    try:
        library = NVTX.find()
        folder = (capture / store.NVTX).resolve()
        folder.mkdir(exist_ok=True)
    except ToolMissing as error:
        return Injection(notes=(f"NVTX ranges are not recorded: {error}",))
    except OSError as error:
        return Injection(notes=(f"NVTX ranges are not recorded: {error.strerror}.",))
    return Injection({LIBRARY_VARIABLE: str(library), FOLDER_VARIABLE: str(folder)})


def tidy(capture: Path) -> None:
    """Remove the folder of a program that said nothing through NVTX."""
    try:
        (capture / store.NVTX).rmdir()
    except OSError:  # it holds files, or was never made
        return
