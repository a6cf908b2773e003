"""NVTX ranges of any program without nsys: a library that NVTX itself loads into the program, and its environment.

    injection.c   the library: what NVTX is told goes into one file for each process
    build.py      building it

It comes with a package that was built where there was a C compiler. Otherwise it is compiled when it is first needed,
into the user's cache. Files that it writes are read by `read/nvtx/injection.py`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pinprof import store
from pinprof.collect import chosen
from pinprof.collect.collector import Collector, Setup, Tool
from pinprof.collect.nvtx import build
from pinprof.errors import ToolMissing

LIBRARY_VARIABLE = "NVTX_INJECTION64_PATH"
"""Environment variable of NVTX itself: the library to load."""
FOLDER_VARIABLE = "PINPROF_NVTX"
"""Environment variable: where the library writes, an absolute path."""

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def _join(setup: Setup) -> Sequence[Tool]:
    """Put the library into the program's environment, or note why not; unless a collector records NVTX itself."""
    given = os.environ.get(LIBRARY_VARIABLE)
    # Under another pinprof, both variables are that one's.
    nested = setup.environment.pop(FOLDER_VARIABLE, None) is not None
    if any(part.traces_cuda for part in chosen(setup.request)):
        return []
    if given is not None and not (nested and Path(given).name.startswith(build.LIBRARY_PREFIX)):
        reason = f"{LIBRARY_VARIABLE} is set: NVTX ranges go to that library, not into the capture."
    else:
        try:
            library = find_library()
            folder = (setup.directory / store.NVTX).resolve()
            folder.mkdir(exist_ok=True)
        except ToolMissing as error:
            reason = f"NVTX ranges are not recorded: {error}"
        except OSError as error:
            reason = f"NVTX ranges are not recorded: {error.strerror}."
        else:
            setup.environment.update({LIBRARY_VARIABLE: str(library), FOLDER_VARIABLE: str(folder)})
            setup.places.callback(_remove_empty, folder)
            return []
    if not setup.request.region_only:  # a scenario writes its ranges itself
        setup.notes.append(reason)
    return []


def _remove_empty(folder: Path) -> None:
    """Remove the folder of a program that said nothing through NVTX."""
    with contextlib.suppress(OSError):  # it holds files
        folder.rmdir()


def find_library() -> Path:
    """The library of this version, compiled now if need be; ToolMissing where it cannot be."""
    name = build.library_name()
    built = Path(__file__).with_name(name)
    if built.is_file():
        return built.resolve()
    if not build.compiler():
        raise ToolMissing(
            "pinprof was installed without its NVTX library, and there is no C compiler to build it.",
            "Install one (Debian: apt install gcc libc6-dev) and record again, or record with nsys.",
            "nvtx-library",
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "pinprof"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = cache.stat()
        if owner.st_uid != os.geteuid() or owner.st_mode & _OTHERS_MAY_WRITE:
            raise ToolMissing(
                f"The NVTX library is not built into {cache}, which others can write to.",
                "Set XDG_CACHE_HOME to a directory of your own.",
                "nvtx-library",
            )
        cached = cache / name
        return cached if cached.is_file() else build.compile_into(cache)
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[0]
        raise ToolMissing(
            f"The NVTX library could not be compiled: {said}.",
            "Install a C compiler with its headers (Debian: apt install gcc libc6-dev), or record with nsys.",
            "nvtx-library",
        ) from error
    except (OSError, RuntimeError) as error:
        raise ToolMissing(
            f"The NVTX library could not be built into {cache}: {error}.",
            "Set XDG_CACHE_HOME to a directory that you can write to.",
            "nvtx-library",
        ) from error


COLLECTOR = Collector(_join)
