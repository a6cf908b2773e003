"""What a stream is: one recorded file of a capture, or a folder with one file for each process, and all it needs.

A stream names its functions as `module:name`, which are imported when they are called: streams are below the rooms that
record and read, and a program is started without what reads.
"""

from __future__ import annotations

import pkgutil
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pinprof.base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Stream:
    """One recorded file."""

    name: str
    """The name of its file or folder in the capture, or a pattern (`fnmatch`) of names."""
    holds: str
    """What is in it."""
    writer: str
    """The module that writes it, or starts the tool that does."""
    read: str = ""
    """`(capture, path, reading) → capture` adds it to the capture; empty where another stream's function reads it too.

    `reading` is a `pinprof.read.directory.Reading`.
    """
    cut: str = ""
    """`(source, target, window)` writes what a window of time has of it (window.py); empty where a window has none."""
    scrub: str = ""
    """The `Scrub` that makes a copy fit for others (scrubs.py); a capture with a file without one is not shared."""
    folder: bool = False
    """Whether it is a folder of `*.bin`, one for each process or address space."""
    alone: bool = False
    """Whether others are read into it: its `read` is given None where no such stream was read before.

    Where a capture has no such stream, the others are read into an empty one.
    """
    context: bool = False
    """Whether `read` comes after all others, and for recordings of any format, with None where there is no file."""

    def of(self, directory: Path) -> Path | None:
        """Its file or folder in a capture; None when the capture does not have it."""
        path = directory / self.name
        return path if (path.is_dir() if self.folder else path.is_file()) else None

    def files(self, directory: Path) -> list[Path]:
        """Its files in a capture."""
        path = directory / self.name
        found = path.glob("*.bin") if self.folder else (path,)
        return sorted(path for path in found if path.is_file())

    def owns(self, name: str) -> bool:
        """Whether a file of a capture, by its path in there, is one of its files."""
        return fnmatchcase(name, self._pattern) and name.count("/") == self._pattern.count("/")

    @property
    def _pattern(self) -> str:
        return f"{self.name}/*.bin" if self.folder else self.name


def found(place: str) -> Any:
    """What a stream names as `module:name`."""
    return pkgutil.resolve_name(place)
