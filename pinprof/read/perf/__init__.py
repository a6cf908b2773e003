"""Linux perf's recordings, and those of the native collector: perf.data, the text of `perf script`, captures of them.

The readers are declared here, and import what reads when they read.
"""

from __future__ import annotations

from pathlib import Path

from pinprof import store
from pinprof.model import Capture
from pinprof.read.reader import Certainty, Reader, ReadOptions, by_head


def _is_data(head: bytes) -> bool:
    from pinprof.read.perf.header import is_perf_data

    return is_perf_data(head)


def _is_script(head: bytes) -> bool:
    from pinprof.read.perf.script import sniff

    return sniff(head)


def _is_capture(path: Path, _head: bytes) -> Certainty:
    """Certain of a capture; of any other directory its reader says better than none what is missing."""
    if store.is_capture(path):
        return Certainty.CERTAIN
    return Certainty.MAYBE if path.is_dir() else Certainty.NO


def _read_data(path: Path, options: ReadOptions) -> Capture:
    from pinprof.read.perf.capture import read_file

    return read_file(path, options)


def _read_script(path: Path, options: ReadOptions) -> Capture:
    from pinprof.read.perf.capture import read_script

    return read_script(path, options)


def read_capture(directory: Path, options: ReadOptions) -> Capture:
    """A capture directory's samples, and what lies beside them."""
    from pinprof.read.perf.capture import read_directory

    return read_directory(directory, options)


def seal(directory: Path) -> frozenset[int]:
    """Store the symbols of a capture's addresses inside it; the pids of the program's processes."""
    from pinprof.read.perf import capture

    return capture.seal(directory)


DATA = Reader("perf.data", by_head(_is_data, Certainty.CERTAIN), _read_data)
SCRIPT = Reader("perf script text", by_head(_is_script), _read_script)
CAPTURE = Reader("capture directory", _is_capture, read_capture, seal)
