"""Nsight Systems: its reports and exports, every version of their schema, alone and beside perf.

The reader of captures is declared here, and imports what reads when it reads: every capture is asked for it.
"""

from __future__ import annotations

from pathlib import Path

from pinprof.read.reader import Certainty, Reader, later
from pinprof.streams import store


def _is_capture(path: Path, _head: bytes) -> Certainty:
    """Certain of a capture with an export of nsys inside."""
    traced = store.is_capture(path) and (path / store.NSYS_SQLITE).is_file()
    return Certainty.CERTAIN if traced else Certainty.NO


CAPTURE = Reader(
    "capture with an Nsight Systems export",
    _is_capture,
    later(__name__, "capture:read_directory"),
    later(__name__, "capture:seal"),
)
