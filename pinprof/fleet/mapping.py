"""One capture becomes its tables: fetched, hashed, read, explained. Runs in any process, on any machine.

It never raises for what a capture holds: one that cannot be read is a row that says why.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path, PurePosixPath

from pinprof import analyze, read
from pinprof.base import files
from pinprof.base.errors import CaptureError, PinprofError, ToolMissing, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.fleet import tables
from pinprof.fleet.aggregate import bounded, rows_of
from pinprof.fleet.sources import Source, files_of, filesystem

_FEWEST_ROWS = 64
_CHUNK = 1 << 20


@dataclass(frozen=True)
class MappedCapture:
    """What one capture became."""

    path: str
    stamp: str
    capture: str
    """Digest of its content; of its path where there is none."""
    parts: dict[str, bytes] = field(default_factory=dict)
    """Table → Parquet; at most `tables.MOST_BYTES` together."""
    again: bool = False
    """Whether another try may end differently, so it is made in the next run."""


def map_source(source: Source, key: str = tables.KEY) -> MappedCapture:
    """The tables of one capture; UsageError where this process runs another pinprof than the one that asks."""
    if key != tables.KEY:
        raise UsageError(
            f"A worker has pinprof {tables.KEY.partition('-')[2]}, and {key.partition('-')[2]} requested the work.",
            "Install the same version on all workers.",
            "fleet-workers",
        )
    capture = here = ""
    try:
        with fetched(source) as path:
            here = str(path)
            capture = digest_of(path)
            return _mapped(source, capture, path)
    except MemoryError:
        return unreadable(source, capture, "There is not enough memory for it.", again=True)
    except (PinprofError, OSError) as error:
        again = isinstance(error, OSError | ToolMissing) or not capture
        reason = error.problem if isinstance(error, PinprofError) else str(error)
        return unreadable(source, capture, reason.replace(here, source.path) if here else reason, again=again)
    except Exception as error:
        return unreadable(source, capture, f"pinprof failed on it: {type(error).__name__}: {error}", again=not capture)


def unreadable(source: Source, capture: str, reason: str, *, again: bool) -> MappedCapture:
    """The row of a capture that became nothing else."""
    capture = capture or hashlib.blake2b(source.path.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    row = {"capture": capture, "state": "unreadable", "reason": reason, "again": again}
    return MappedCapture(source.path, source.stamp, capture, tables.packed({"captures": [row]}), again)


def digest_of(path: Path) -> str:
    """A digest of all that a capture holds, whatever it is called and wherever it lies; OSError."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(files_of(path)):
        if files.irregular(file):
            raise CaptureError(
                f"{file} is {files.irregular(file)}, not a file of a capture.",
                "Copy it with `cp -rL`.",
                "irregular-file",
            )
        name = file.relative_to(path).as_posix() if file != path else ""
        digest.update(f"{name}\0{file.stat().st_size}\0".encode("utf-8", "surrogateescape"))
        with file.open("rb") as content:
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def fetched(source: Source) -> Iterator[Path]:
    """A capture as a path: what an object store holds is copied for as long as the block runs."""
    if not source.keys:
        yield Path(source.path)
        return
    system, root = filesystem(source.url)
    with files.temporary_folder() as folder:
        target = folder / (PurePosixPath(root).name or "capture")
        for key in source.keys:
            inside = PurePosixPath(key[len(root) :].lstrip("/"))
            if ".." in inside.parts:
                raise CaptureError(
                    f"{source.path} refers to a file outside the capture.", "Copy it again.", "irregular-file"
                )
            place = target / inside
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                with system.open(key, "rb") as content, place.open("xb") as copy:
                    shutil.copyfileobj(content, copy, _CHUNK)
            except Exception as error:
                raise CaptureError(
                    f"{source.path} cannot be fetched: {error}.", "Check the store.", "fleet-store"
                ) from error
        yield target


def _mapped(source: Source, capture: str, path: Path) -> MappedCapture:
    analysis = analyze.analyze(read.read(path))
    size = sum(file.stat().st_size for file in files_of(path))
    rows = rows_of(analysis, capture, size)
    parts, most = tables.packed(rows), tables.MOST_ROWS
    while sum(map(len, parts.values())) > tables.MOST_BYTES and most > _FEWEST_ROWS:
        most //= 2
        parts = tables.packed({**rows, "costs": bounded(list(rows["costs"]), most)})
    return MappedCapture(source.path, source.stamp, capture, parts)
