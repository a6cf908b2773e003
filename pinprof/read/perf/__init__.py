"""Linux perf's recordings, and those of the native collector: perf.data, the text of `perf script`, captures of them.

The readers are declared here, and import what reads when they read.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pinprof import store
from pinprof.read.reader import Certainty, Reader, by_head


def _later(name: str) -> Callable[..., Any]:
    """A function of this package, imported when it is called."""
    return lambda *given: pkgutil.resolve_name(f"{__name__}.{name}")(*given)


def _is_capture(path: Path, _head: bytes) -> Certainty:
    """Certain of a capture; of any other directory its reader says better than none what is missing."""
    if store.is_capture(path):
        return Certainty.CERTAIN
    return Certainty.MAYBE if path.is_dir() else Certainty.NO


DATA = Reader("perf.data", by_head(_later("header:is_perf_data"), Certainty.CERTAIN), _later("capture:read_file"))
SCRIPT = Reader("perf script text", by_head(_later("script:sniff")), _later("capture:read_script"), streams=True)
CAPTURE = Reader("capture directory", _is_capture, _later("capture:read_directory"), seal=_later("capture:seal"))
