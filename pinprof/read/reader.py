"""What a reader is: a format's name, how certain it is that a path is of the format, and how such a path is read."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import IntEnum
from pathlib import Path
from typing import Any

from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Capture
from pinprof.read.symbols.kept import KeptSymbols

Progress = Callable[[float], None]
"""Receives which part of a work is done: from 0 to 1, and never less than before."""


def untold(_part: float) -> None:
    """The progress that nobody looks at."""


def portion(progress: Progress, begin: float, end: float) -> Progress:
    """The progress of a work that is one portion, from `begin` to `end`, of another."""
    return lambda part: progress(begin + part * (end - begin))


@dataclass(frozen=True)
class ReadOptions:
    """What the command line adds to a recording; each is found inside a capture directory by itself."""

    kallsyms: Path | None = None
    """A saved /proc/kallsyms of the recording boot."""
    symfs: Path | None = None
    """A directory with the recording machine's files."""
    ranges: Path | None = None
    """NVTX ranges (`ranges.jsonl`)."""
    torch: tuple[Path, ...] = ()
    """Files of PyTorch about its memory: a snapshot, counts of the pinned allocator."""
    interpreter_frames: bool = False
    """Keep the Python interpreter's own functions in stacks that have Python functions."""
    kept: KeptSymbols | None = None
    """Symbol tables that captures share, of one boot where these have no symbols of their own."""
    progress: Progress = untold
    """How far the reading is, as far as the format lets its reader tell."""


class Certainty(IntEnum):
    """How certain a reader is that a path is of its format. The most certain one reads it, of equals the first."""

    NO = 0
    MAYBE = 1
    """Its shape is one that other formats have too, such as lines that end in a number."""
    LIKELY = 2
    """It has the format's keys or header lines, or a container's magic number: what other formats rarely have."""
    CERTAIN = 3
    """It has a magic number or files that no other format has."""


@dataclass(frozen=True)
class Sealed:
    """What is known of the processes in a capture that was just recorded."""

    processes: frozenset[int] = frozenset()
    """The program's, as far as samples are recorded with them."""
    running: Mapping[int, str] = field(default_factory=dict)
    """By name, those of them whose end is not recorded."""


CAPTURES = "capture directory"
"""What pinprof records is called."""


@dataclass(frozen=True)
class Reader:
    """One input format."""

    name: str
    """What a recording of this format is called in messages."""
    certainty: Callable[[Path, bytes], Certainty]
    """The answer for a path and its first 64 KiB, fewer if it is shorter, decompressed; none of a directory."""
    read: Callable[[Path, ReadOptions], Capture]
    """The capture; CaptureError for what cannot be read, FormatError for bytes that are not what the format says."""
    streams: bool = False
    """Whether it reads from start to end and decompresses on the way; other readers are given a plain file."""


def by_head(
    sniff: Callable[[bytes], bool], certainty: Certainty = Certainty.LIKELY
) -> Callable[[Path, bytes], Certainty]:
    """The certainty of a format that is known by how its files begin."""
    return lambda _, head: certainty if head and sniff(head) else Certainty.NO


def later(package: str, place: str) -> Callable[..., Any]:
    """A function of a package, `module:name`, imported when it is called: who is asked need not be able to read."""
    return lambda *given: pkgutil.resolve_name(f"{package}.{place}")(*given)
