"""The C libraries of this package: built when it is installed (setup.py), else once for the user who needs one.

Standard library only, and no other module of pinprof except when a library is missing: setup.py loads this file by its
path.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_PACKAGE = _HERE.parent
_HEADER = _HERE / "cursor.h"
"""What the sources share."""
_COMPILER_S = 120.0
"""A compiler takes a second for each."""
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")


@dataclass(frozen=True)
class Library:
    """A library made of C files."""

    title: str
    """As messages call it."""
    source: Path
    prefix: str
    """Begins its file name; a hash of the sources follows, so that another version's library is not taken for it."""
    link: tuple[str, ...]
    headers: tuple[Path, ...] = ()
    """Beside `cursor.h`."""
    parts: tuple[Path, ...] = ()
    """Its other C files."""

    @property
    def name(self) -> str:
        """Its file name on this machine."""
        return self.name_on(platform.machine())

    def name_on(self, machine: str) -> str:
        """Its file name on a machine of another processor."""
        sources = b"".join(path.read_bytes() for path in (self.source, _HEADER, *self.headers, *self.parts))
        made_of = sources + " ".join((*_FLAGS, *self.link, machine)).encode()
        return f"{self.prefix}{hashlib.sha256(made_of).hexdigest()[:12]}.so"

    def compile_into(self, folder: Path, machine: str = "") -> Path:
        """Compile it into a folder, whole or not at all; OSError or SubprocessError when that fails.

        `machine`: what the compiler compiles for, where that is not this machine.
        """
        target = folder / self.name_on(machine or platform.machine())
        with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as place:
            made = Path(place) / target.name
            sources = map(str, (self.source, *self.parts))
            command = [*compiler(), *_FLAGS, f"-I{_HERE}", *sources, *self.link, "-o", str(made)]
            # A signal ends the compiler before it can remove its temporary files: they go with the place.
            own = {**os.environ, "TMPDIR": place}
            subprocess.run(
                command,
                check=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=own,
                timeout=_COMPILER_S,
            )
            made.replace(target)
        return target

    def find(self) -> Path:
        """The library of this version, compiled now if need be; ToolMissing where it cannot be."""
        from pinprof.base import cache
        from pinprof.base.errors import ToolMissing
        from pinprof.machine.process_limits import few_left

        built = self.source.with_name(self.name)
        if built.is_file():
            return self._usable(built.resolve())
        if not compiler():
            raise ToolMissing(
                f"pinprof was installed without its {self.title}, and there is no C compiler to build it.",
                "Install one (Debian: apt install gcc libc6-dev) and record again, or record with nsys.",
                "c-library",
            )
        folder = cache.place()
        try:
            if not cache.made_private(folder):
                raise ToolMissing(
                    f"The {self.title} was not built in {folder}, because other users can write there.",
                    "Set XDG_CACHE_HOME to a directory of your own.",
                    "c-library",
                )
            cached = folder / self.name
            if cached.is_file():
                return self._usable(cached)
            if (left := few_left()) is not None:
                # Parts of a compiler that can't start others wait for ever.
                raise ToolMissing(
                    f"The {self.title} was not built, because only {left} more processes can be started here.",
                    "Raise the limit (`ulimit -u`, `docker run --pids-limit`) once.",
                    "c-library",
                )
            return self._usable(self.compile_into(folder))
        except subprocess.CalledProcessError as error:
            said = (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[0]
            raise ToolMissing(
                f"The {self.title} could not be compiled: {said}.",
                "Install a C compiler with its headers (Debian: apt install gcc libc6-dev), or record with nsys.",
                "c-library",
            ) from error
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            raise ToolMissing(
                f"The {self.title} could not be built in {folder}: {getattr(error, 'strerror', '') or error}.",
                "Set XDG_CACHE_HOME to a directory that you can write to.",
                "c-library",
            ) from error

    def _usable(self, path: Path) -> Path:
        """The library, as code that programs may map; ToolMissing where its file system forbids that."""
        from pinprof.base.errors import ToolMissing

        with path.open("rb") as file:
            try:
                mmap.mmap(file.fileno(), 1, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
            except PermissionError as error:
                raise ToolMissing(
                    f"The {self.title} can't be loaded from {path.parent}, which is mounted with noexec.",
                    "Set XDG_CACHE_HOME to a folder from which programs may run.",
                    "c-library",
                ) from error
        return path


def compiler() -> tuple[str, ...]:
    """The C compiler's command, `$CC` or the first of the usual names; empty where there is none."""
    given = tuple(shlex.split(os.environ.get("CC", "")))
    for command in (given, ("cc",), ("gcc",), ("clang",)):
        if command and shutil.which(command[0]):
            return command
    return ()


def target_machine() -> str:
    """What the C compiler compiles for, as `uname -m` says it there; this machine where it is none of MACHINES."""
    try:
        # zig answers, and then ends with status 1 where the target names a version of glibc.
        ask = [*compiler(), "-dumpmachine"]
        said = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=_COMPILER_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    machine = said.partition("-")[0]
    return machine if machine in MACHINES else platform.machine()


MACHINES = ("x86_64", "aarch64")
"""Processors for which wheels are built, on machines of either."""

_RELRO = ("-Wl,-z,relro,-z,now",)
_CFI = _HERE / "cfi.h"
UNWINDING = Library(
    "unwinding library", _PACKAGE / "collect" / "native" / "unwind.c", "libpinprof_unwind.", _RELRO, (_CFI,)
)
DWARF = Library("library of line numbers", _PACKAGE / "read" / "symbols" / "dwarf.c", "libpinprof_dwarf.", _RELRO)
CHAINS = Library("library of call chains", _PACKAGE / "read" / "perf" / "chains.c", "libpinprof_chains.", _RELRO)
FRAMES = Library(
    "library of Python frames", _PACKAGE / "collect" / "python_frames" / "frames.c", "libpinprof_frames.", _RELRO
)
_AGENT = _PACKAGE / "inside" / "agent.c"
INSIDE = Library(
    "agent",
    _AGENT,
    "libpinprof_inside.",
    # nodelete: what it answered calls with outlives any dlclose. Before glibc 2.34, dlsym is libdl's.
    ("-fno-omit-frame-pointer", "-Wl,-z,nodelete,-z,relro,-z,now,--no-as-needed", "-ldl"),
    (*sorted(_AGENT.parent.glob("*.h")), _CFI),
    tuple(path for path in sorted(_AGENT.parent.glob("*.c")) if path != _AGENT),
)
LIBRARIES = (UNWINDING, DWARF, CHAINS, FRAMES, INSIDE)
