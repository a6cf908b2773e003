"""Recordings of any known format → Capture: `read()` asks every reader what a path is, and the most certain one reads.

A capture directory is read stream by stream (directory.py).
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from pinprof.base import files
from pinprof.base.columns import ROWS_AT_ONCE, give_back
from pinprof.base.errors import CaptureError, PinprofError, readable, unreadable
from pinprof.data.model import Capture
from pinprof.data.time_window import TimeWindow
from pinprof.data.unnamed_runs import with_runs_apart
from pinprof.read.packed import is_packed
from pinprof.read.possible_times import with_possible_times
from pinprof.read.ranges import summable
from pinprof.read.reader import CAPTURES, Certainty, Reader, ReadOptions, Sealed
from pinprof.streams.store import refuse_links

if TYPE_CHECKING:
    from pinprof.read.convertible import Convertible

__all__ = ["READERS", "Certainty", "ReadOptions", "Reader", "read", "read_fresh", "seal_symbols"]

READERS: tuple[str, ...] = (
    "pinprof.read.perf:DATA",
    "pinprof.read.directory:CAPTURE",
    "pinprof.read.nsys.export:READER",
    "pinprof.read.nsys.tool:READER",
    "pinprof.read.formats.speedscope:READER",
    "pinprof.read.formats.chrome_trace:READER",
    "pinprof.read.formats.cpuprofile:READER",
    "pinprof.read.formats.pprof:READER",
    "pinprof.read.perf:SCRIPT",
    "pinprof.read.formats.folded:READER",
)
"""Where each format's `Reader` is; a module is imported when its reader is asked, none after a certain answer."""

_HEAD_BYTES = 1 << 16


def read(path: str | Path, options: ReadOptions = ReadOptions()) -> Capture:
    """The capture in a directory, file or packed directory; `-` is standard input, which may be a pipe.

    CaptureError for what cannot be read or recorded nothing, FormatError for bytes that are not what their format says.
    """
    path = Path(path)
    with _seekable(path) as place:
        if place.is_dir():
            return _whole(_read(path, place, options), path, options)
        from pinprof.read import archive

        if not archive.is_archive(place):
            capture = _whole(_read(path, place, options), path, options)
        else:
            if archive.is_launch(place):
                raise CaptureError(
                    f"{path} holds the ranks of a launch, not one capture.",
                    f"Unpack it, and give one of its captures: tar -xf {path.name}",
                    "ranks",
                )
            with archive.unpacked(place, str(path)) as folder, _shown_as(path, folder):
                capture = replace(_whole(_read(folder, folder, options), folder, options), path=str(path))
    if len(capture.samples) > ROWS_AT_ONCE:
        capture.samples.unload()
        give_back()
    options.progress(1)
    return capture


def _whole(capture: Capture, path: Path, options: ReadOptions) -> Capture:
    """What was recorded, with what explains it; `path` is what it is called."""
    from pinprof.read.directory import with_context

    if options.torch:
        from pinprof.read import torch_memory

        capture = replace(capture, torch=torch_memory.load(options.torch))
    capture = _as_recorded(_with_summable_ranges(with_runs_apart(capture)))
    if capture.traced is not None:
        capture = replace(capture, traced=_with_summable_ranges(capture.traced))
    return with_possible_times(with_context(capture, path, options))


def _as_recorded(capture: Capture) -> Capture:
    """The capture without ranges and work of the GPU from before or after the recorded part of the program's run."""
    times = capture.manifest.outcome.get("recorded_ns")
    if not isinstance(times, Sequence) or len(times) != 2 or capture.clock.source != "monotonic":
        return capture
    return TimeWindow(*times).begun(capture)


def _with_summable_ranges(capture: Capture) -> Capture:
    ranges, notes = summable(capture.ranges)
    return replace(capture, ranges=ranges).with_notes(*notes) if notes else capture


def _read(path: Path, place: Path, options: ReadOptions) -> Capture:
    """The capture as its reader makes it."""
    reader = _reader_of(place, str(path))
    from pinprof.read.byte_source import ends_early

    with _decompressed(place, reader) as (file, damage), _shown_as(path, file):
        capture = reader.read(file, options)
    capture = capture.with_damage(ends_early(damage))
    return capture if file == path else replace(capture, path=str(path))


@contextmanager
def _shown_as(path: Path, copy: Path) -> Iterator[None]:
    """Errors name the path that was given, not that of a temporary copy."""
    try:
        yield
    except PinprofError as error:
        error.problem = error.problem.replace(str(copy), str(path))
        raise


def seal_symbols(directory: Path) -> Sealed:
    """Resolve every address in a capture just recorded on this machine, and store the symbols inside it."""
    from pinprof.read import directory as captures

    refuse_links(directory)
    return captures.seal(directory)


def read_fresh(directory: Path, options: ReadOptions = ReadOptions()) -> tuple[Capture, Callable[[], Sealed]]:
    """Read a capture just recorded on this machine, as `read` does; what it returns beside seals it, as `seal_symbols`.

    So addresses are resolved once, for those who explain a capture at once.
    """
    from pinprof.read import directory as captures

    refuse_links(directory)
    reading = captures.Reading(directory, options, fresh=True)
    capture = _whole(captures.read_streams(reading), directory, options)
    options.progress(1)
    return capture, reading.seal


def load_sealing() -> None:
    """Import what `seal_symbols` needs, so that it takes less time."""
    for name in ("perf.capture", "symbols.elf", "symbols.dwarf"):
        importlib.import_module(f"{__name__}.{name}")


def _readers() -> Iterator[Reader]:
    return map(_resolved, READERS)


_resolved: Callable[[str], Reader] = cache(pkgutil.resolve_name)


def _reader_of(path: Path, shown: str) -> Reader:
    """The reader of a file or directory; `shown` is its path in messages."""
    refuse_links(path)
    head = b"" if path.is_dir() else _head(path, shown)
    chosen, certainty = None, Certainty.NO
    for reader in _readers():
        answer = reader.certainty(path, head)
        if answer > certainty:
            chosen, certainty = reader, answer
        if certainty == Certainty.CERTAIN:
            break
    known = _foreign(shown, head, certainty) if head else None
    if chosen is not None and known is None:
        return chosen
    if known is None and _is_program(path, head):
        raise CaptureError(
            f"{shown} is not a recording.", f"Did you mean `pinprof record -- {_runs(shown)}`?", "not-a-recording"
        )
    if known is not None:
        raise CaptureError(f"{shown} is {known.what}, which pinprof can't read.", known.remedy, "unknown-format")
    formats = ", ".join(reader.name for reader in _readers() if reader.name != CAPTURES)
    raise CaptureError(
        f"{shown} is not a recording: it begins with {repr(head[:16])[1:]}.",
        f"Give a capture directory, or one of these: {formats}.",
        "unknown-format",
    )


def _foreign(shown: str, head: bytes, certainty: Certainty) -> Convertible | None:
    """What a file is that no reader can be as certain of; None if that is not known."""
    if certainty == Certainty.CERTAIN:
        return None
    from pinprof.read import convertible

    named = convertible.known_binary(PurePath(shown), head)
    return named or (convertible.known_shape(PurePath(shown), head) if certainty <= Certainty.MAYBE else None)


def _is_program(path: Path, head: bytes) -> bool:
    """Whether a file is a script or an executable, which somebody wanted to record."""
    return path.suffix in (".py", ".sh", ".ipynb") or head.startswith((b"#!", b"\x7fELF"))


def _runs(shown: str) -> str:
    """The command that runs a program."""
    word = shlex.quote(shown)
    interpreter = {".py": "python", ".sh": "bash"}.get(PurePath(shown).suffix)
    if interpreter is None and "/" not in shown:
        word = f"./{word}"
    return f"{interpreter} {word}" if interpreter else word


def _head(file: Path, shown: str) -> bytes:
    """How a file begins, unpacked where it is compressed text; CaptureError if it is empty or cannot be read."""
    with readable(shown), file.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    if not head:
        raise CaptureError(
            f"{shown} is empty: its recorder ended before it wrote anything.",
            "Record again.",
            "empty-file",
        )
    if is_packed(head):
        from pinprof.read.byte_source import ByteSource

        head = ByteSource(file).head(_HEAD_BYTES)
    return head


@contextmanager
def _decompressed(path: Path, reader: Reader) -> Iterator[tuple[Path, str]]:
    """A file as its reader takes it, which may be a temporary plain copy; and why a compressed one ends early."""
    from pinprof.read.byte_source import ByteSource
    from pinprof.read.unpacking import write_plain

    if reader.streams or path.is_dir() or not ByteSource(path).packed:
        yield path, ""
        return
    with files.temporary_folder() as folder:
        # Nsight Systems looks at what a report is called.
        copy = folder / re.sub(r"\.(gz|xz|zst)$", "", path.name)
        with readable(path):
            damage = write_plain(path, copy)
        yield copy, damage


def _meant(path: Path) -> str:
    """The newest capture beside a path whose name begins alike: captures are named by their program and the time."""
    stem = path.name.removesuffix(".pinprof")
    alike = [each for each in path.parent.glob("*.pinprof") if stem and each.name.startswith(stem)]
    newest = max(alike, key=lambda each: (each.stat().st_mtime, each.name), default=None)
    return f"Did you mean {newest}?" if newest else ""


@contextmanager
def _seekable(path: Path) -> Iterator[Path]:
    """The path of a file or directory, else a temporary copy of what standard input or a pipe delivers."""
    if path.is_dir():
        yield path
        return
    piped = str(path) == "-"
    try:
        regular = not piped and stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        raise CaptureError(
            f"{path} does not exist.", _meant(path) or "Give a capture directory or a perf.data file.", "no-capture"
        ) from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if regular:
        yield path
        return
    with files.temporary_folder() as folder:
        copy = folder / "input"
        with (
            os.fdopen(files.create(copy), "wb") as target,
            readable(path),
            nullcontext(sys.stdin.buffer) if piped else path.open("rb") as source,
        ):
            shutil.copyfileobj(source, target)
        yield copy
