"""What a reader may be told beside the recording's path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the command line adds to a recording; each is found inside a capture directory by itself."""

    kallsyms: Path | None = None
    """A saved /proc/kallsyms of the recording boot, plain or gzip."""
    symfs: Path | None = None
    """A directory with the recording machine's files."""
    ranges: Path | None = None
    """NVTX ranges (`ranges.jsonl`)."""
    interpreter_frames: bool = False
    """Keep the Python interpreter's own functions in stacks that have Python functions."""
