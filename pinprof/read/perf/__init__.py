"""Linux perf's recordings, and those of the native collector: perf.data, the text of `perf script`, captures of them.

The readers are declared here, and import what reads when they read.
"""

from __future__ import annotations

from pathlib import Path

from pinprof.read.reader import Certainty, Reader, by_head, later
from pinprof.streams import store


def _is_capture(path: Path, _head: bytes) -> Certainty:
    """Certain of a capture; of any other directory its reader says better than none what is missing."""
    if store.is_capture(path):
        return Certainty.CERTAIN
    return Certainty.MAYBE if path.is_dir() else Certainty.NO


DATA = Reader(
    "perf.data",
    by_head(later(__name__, "header:is_perf_data"), Certainty.CERTAIN),
    later(__name__, "capture:read_file"),
)
SCRIPT = Reader(
    "perf script text",
    by_head(later(__name__, "script:sniff")),
    later(__name__, "capture:read_script"),
    streams=True,
)
CAPTURE = Reader(
    "capture directory",
    _is_capture,
    later(__name__, "capture:read_directory"),
    seal=later(__name__, "capture:seal"),
)
