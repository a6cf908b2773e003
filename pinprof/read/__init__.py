"""Recordings of any known format → Capture: `read()` looks at what a path is and calls the right reader.

READERS is asked in order; the first whose `sniff` knows the first bytes of the file reads it. A capture directory is
read through the perf.data inside it, with the symbols, kernel symbols and ranges that lie beside it.
"""

from __future__ import annotations

import importlib
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from pinprof import store
from pinprof.errors import CaptureError, FormatError
from pinprof.model import Capture
from pinprof.read.options import ReadOptions
from pinprof.store import MEMORY, PYTHON_STACKS
from pinprof.units import format_counted

__all__ = ["READERS", "ReadOptions", "Reader", "read", "seal_symbols"]

_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Reader:
    """One input format."""

    name: str
    """What a file of this format is called in messages."""
    sniff: Callable[[bytes], bool]
    """Whether a file that begins with these bytes (at least 64 KiB, or all of it) is of this format."""
    read: Callable[[Path, ReadOptions], Capture]


def _sniff_perf_data(head: bytes) -> bool:
    from pinprof.read.perf.header import MAGICS

    return head[:8] in MAGICS


def _read_perf_data(path: Path, options: ReadOptions) -> Capture:
    from pinprof.read.perf import capture as perf_capture

    return perf_capture.read_file(path, options)


def _sniff_perf_script(head: bytes) -> bool:
    from pinprof.read.perf import script as perf_script

    return perf_script.sniff(head)


def _read_perf_script(path: Path, options: ReadOptions) -> Capture:
    from pinprof.read.perf import capture as perf_capture

    return perf_capture.read_script(path, options)


def _foreign(name: str, module: str, *, takes_options: bool = False) -> Reader:
    """Another tool's format, read by `read/<module>.py`, which is imported when first asked."""

    def sniff(head: bytes) -> bool:
        return bool(importlib.import_module(f"pinprof.read.{module}").sniff(head))

    def read_file(path: Path, options: ReadOptions) -> Capture:
        arguments = (path, options) if takes_options else (path,)
        return cast("Capture", importlib.import_module(f"pinprof.read.{module}").read(*arguments))

    return Reader(name, sniff, read_file)


READERS: tuple[Reader, ...] = (
    Reader("perf.data", _sniff_perf_data, _read_perf_data),
    _foreign("Nsight Systems export", "nsys.export", takes_options=True),
    _foreign("Nsight Systems report", "nsys.tool", takes_options=True),
    _foreign("speedscope file", "formats.speedscope"),
    _foreign("Chrome trace", "formats.chrome_trace"),
    _foreign("pprof profile", "formats.pprof"),
    Reader("perf script text", _sniff_perf_script, _read_perf_script),
    _foreign("folded stacks", "formats.folded"),
)


def read(path: str | Path, options: ReadOptions = ReadOptions()) -> Capture:
    """The capture in a directory or file; `-` is standard input, which may be a pipe.

    CaptureError for what cannot be read or is no recording, FormatError for bytes that are not what their format says.
    """
    from pinprof.read import machine_rates
    from pinprof.read.python import frames as python_frames

    path = Path(path)
    capture = _read(path, options)
    stacks = path / PYTHON_STACKS
    capture = python_frames.settle(
        capture, stacks if stacks.is_file() else None, keep_interpreter=options.interpreter_frames
    )
    if (path / MEMORY).is_file():
        from pinprof.read.memory import read_memory

        log = read_memory(path / MEMORY)
        capture = replace(capture, memory=log)
        if log is not None and log.bad_lines:
            what = format_counted(log.bad_lines, "unreadable line", "unreadable lines")
            capture = capture.with_notes(f"{what} of the memory log left out.")
    return machine_rates.brought(capture, path)


def _read(path: Path, options: ReadOptions) -> Capture:
    """The capture as its reader makes it."""
    if path.is_dir():
        from pinprof.read.nsys import capture as nsys_capture
        from pinprof.read.nsys import export as nsys_export
        from pinprof.read.perf import capture as perf_capture

        if nsys_export.sniff_directory(path):
            return nsys_export.read(path, options)
        if nsys_capture.is_traced(path):
            return nsys_capture.read_directory(path, options)
        if not store.is_capture(path) and _in_pieces(path):
            raise CaptureError(
                f"{path} is a recording of `perf record --threads`, which lies in several files.",
                "Record without --threads, or give pinprof what `perf script -i` prints of it.",
                "not-a-capture",
            )
        return perf_capture.read_directory(path, options)
    with _seekable(path) as file:
        reader = _reader_of(file, str(path))
        capture = reader.read(file, options)
    return capture if file == path else replace(capture, path=str(path))


def _in_pieces(directory: Path) -> bool:
    """Whether a directory is what `perf record --threads` writes in place of a file."""
    try:
        with (directory / "data").open("rb") as stream:
            return _sniff_perf_data(stream.read(8))
    except OSError:
        return False


def seal_symbols(directory: Path) -> frozenset[int]:
    """Resolve every address in a capture just recorded on this machine, and store the symbols inside it.

    Returns the pids of the program's processes, as far as samples are recorded with them.
    """
    from pinprof.read.nsys import capture as nsys_capture
    from pinprof.read.perf import capture as perf_capture

    if nsys_capture.is_traced_only(directory):
        nsys_capture.seal(directory)
        return frozenset()
    return perf_capture.seal(directory)


def _reader_of(file: Path, shown: str) -> Reader:
    try:
        with file.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError as error:
        raise _unreadable(shown, error) from error
    if not head:
        raise CaptureError(
            f"{shown} is empty.",
            "The recording was cut off before its first byte; record again.",
            "empty-file",
        )
    if head[:2] == b"\x1f\x8b":
        # Compressed text (perf script output, folded stacks); perf.data is not stored compressed.
        from pinprof.read.byte_source import ByteSource

        head = ByteSource(file).head(_HEAD_BYTES)
    for reader in READERS:
        if reader.sniff(head):
            return reader
    raise FormatError(
        shown,
        expected=", ".join(reader.name for reader in READERS) + " or a capture directory",
        found=repr(head[:16]),
        offset=0,
        remedy="Give a recording that pinprof or perf wrote.",
        slug="unknown-format",
    )


@contextmanager
def _seekable(path: Path) -> Iterator[Path]:
    """The path itself if it is a regular file, else a temporary copy of what standard input or a pipe delivers."""
    piped = str(path) == "-"
    try:
        regular = not piped and stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        raise CaptureError(
            f"{path} does not exist.", "Give a capture directory or a perf.data file.", "no-capture"
        ) from None
    except (OSError, ValueError) as error:
        raise _unreadable(str(path), error) from error
    if regular:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="pinprof-") as copy:
        try:
            if piped:
                shutil.copyfileobj(sys.stdin.buffer, copy)
            else:
                with path.open("rb") as source:
                    shutil.copyfileobj(source, copy)
        except OSError as error:
            raise _unreadable(str(path), error) from error
        copy.flush()
        yield Path(copy.name)


def _unreadable(shown: str, error: OSError | ValueError) -> CaptureError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return CaptureError(f"{shown} cannot be read: {reason}.", "Check the path and its permissions.", "no-capture")
