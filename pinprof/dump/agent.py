"""What the agent knows of a process that runs under pinprof: memory that CUDA's calls have page-locked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pinprof.dump.system import MappedPlace
from pinprof.portions.inside_kept import InsideKept
from pinprof.streams.store import INSIDE

_LARGEST = 1 << 28
"""A file that takes seconds to read, in bytes."""


def pinned_bytes(places: Sequence[MappedPlace]) -> int | None:
    """In bytes, by the file that the agent has mapped; None where there is no agent, or it has much to say."""
    for path in {Path(place.path) for place in places if place.path.endswith(".bin")}:
        if path.parent.name == INSIDE:
            try:
                if path.stat().st_size > _LARGEST:
                    return None
                file = InsideKept(path)
                file.take()
            except (OSError, ValueError):
                continue
            return file.pinned_bytes
    return None
