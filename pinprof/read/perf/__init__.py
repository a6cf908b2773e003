"""Linux perf's recordings, and those of the native collector: perf.data, the text of `perf script`, captures of them.

The readers are declared here, and import what reads when they read.
"""

from __future__ import annotations

from pinprof.read.reader import Certainty, Reader, by_head, later

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
