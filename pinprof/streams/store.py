"""The capture directory `NAME.pinprof/`: the only thing that passes from collecting to reading.

`pinprof.streams.STREAMS` has its files.

It is written under `NAME.pinprof.partial` and renamed when whole. An interrupted one keeps that name, is marked in
its manifest (`outcome.state`), and still reads.

Schema history: 1 — first version.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from pinprof import __version__
from pinprof.base import files, shapes
from pinprof.base.errors import CaptureError, CollectError, unreadable, unwritable
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.manifest import SHAPE, Manifest

SCHEMA_VERSION = 1

MANIFEST = "manifest.json"
PERF_DATA = "perf.data"
PERF_SCRIPT = "perf-script.txt.gz"
KALLSYMS = "kallsyms.zst"
SYMBOLS = "symbols.json.gz"
RANGES = "ranges.jsonl"
MEMORY = "memory.jsonl"
NVTX = "nvtx"
GPU = "gpu"
INSIDE = "inside"
UVM = "uvm"
PYTHON_STACKS = "python-stacks.jsonl.gz"
RATES = "rates.json"
LOG = "collector.log"
CALLS_DATA = "calls.data"
CALLS_LOG = "calls.log"
NSYS_SQLITE = "nsys.sqlite"
NSYS_REPORT = "nsys.nsys-rep"

SUFFIX = ".pinprof"
PARTIAL = ".partial"
RANKS = ".ranks"
"""How the folder of a launch ends."""

_TAKEN = -2
RESERVE = ".reserve"
_RESERVE_BYTES = 256 * 1024
"""Held while recording and given back before the manifest is written, so that a full disk cannot lose a capture."""


_MOST_NUMBERS = 100_000


class NameTaken(CollectError):
    """Something else has the name of a capture."""


@dataclass(frozen=True)
class CaptureWriter:
    """A capture directory being written; `finish()` makes it whole."""

    path: Path
    """The directory to write into, `NAME.pinprof.partial`."""
    target: Path
    """Its final name."""
    manifest: Manifest
    """The first one."""
    lock: int = -1
    """Held while it is written, so that nobody takes it for one that was left behind; -1 where that cannot be."""

    @classmethod
    def create(
        cls,
        target: Path,
        manifest: Manifest,
        *,
        force: bool = False,
        numbered: Callable[[int], Path] | None = None,
    ) -> Self:
        """Make the directory with a first manifest; CollectError if it cannot be, or if it exists and not `force`.

        With `numbered`, a name that is taken gives way to number 2, 3, … of it, whoever else looks for one meanwhile.
        """
        for number in range(2, _MOST_NUMBERS):
            try:
                return cls._created(captured(target), manifest, force=force)
            except NameTaken:
                if numbered is None:
                    raise
                target, force = numbered(number), False
        raise NameTaken(f"{target} exists already.", "Give another name with -o.", "output")

    @classmethod
    def _created(cls, target: Path, manifest: Manifest, *, force: bool) -> Self:
        partial = target.with_name(target.name + PARTIAL)
        for existing in (target, partial):
            if os.path.lexists(existing):
                _remove(existing, force=force)
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(partial, error) from error
        try:
            partial.mkdir(files.PRIVATE_FOLDER)
        except FileExistsError as error:
            raise NameTaken(f"{partial} exists already.", "Give another name with -o.", "output") from error
        except OSError as error:
            raise _unwritable(partial, error) from error
        if os.path.lexists(target):  # another recording got this name, and so made room for the partial one
            files.remove_empty(partial)
            raise NameTaken(f"{target} exists already.", "Give another name with -o.", "output")
        writer = cls(partial, target, manifest, _locked(partial))
        try:
            files.written(partial / RESERVE, bytes(_RESERVE_BYTES))
            write_manifest(partial, manifest)
        except BaseException as error:
            writer.discard()
            if not isinstance(error, OSError):  # broken off
                raise
            raise _unwritable(partial, error) from error
        return writer

    @property
    def ranges(self) -> Path:
        """Where the recorded program writes its ranges; absolute."""
        return (self.path / RANGES).resolve()

    def discard(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._unlock()

    def release_reserve(self) -> None:
        """Give the reserved bytes back, before the last files are written."""
        (self.path / RESERVE).unlink(missing_ok=True)

    def finish(self, manifest: Manifest) -> Path:
        """Write the final manifest, rename the directory to its final name and return that.

        Where something else has that name by now, the capture is whole under the name that it has.
        """
        self.release_reserve()
        write_manifest(self.path, manifest)
        try:
            self.path.rename(self.target)
        except OSError:
            return self.path
        finally:
            self._unlock()
        return self.target

    def _unlock(self) -> None:
        if self.lock >= 0:
            # By itself, because processes that were forked meanwhile hold the same lock.
            fcntl.flock(self.lock, fcntl.LOCK_UN)
            os.close(self.lock)


def _remove(existing: Path, *, force: bool) -> None:
    """Make room for a capture; CollectError where it may not be removed, or another pinprof is writing it."""
    if not force:
        remedy = "Give another name with -o, or --force to replace it."
        raise NameTaken(f"{existing} exists already.", remedy, "output")
    if existing.is_symlink() or not is_capture(existing):
        problem = f"{existing} is not a pinprof capture, so --force does not replace it."
        raise NameTaken(problem, "Give another name with -o.", "output")
    lock = _locked(existing)
    try:
        if lock == _TAKEN:
            problem = f"{existing} is in use by another pinprof, so --force does not replace it."
            remedy = "Give every recording its own name. Leave out -o to name the ranks of a launch automatically."
            raise NameTaken(problem, remedy, "output")
        shutil.rmtree(existing)
    except OSError as error:
        raise NameTaken(f"{existing} cannot be removed: {error.strerror}.", "Give another name.", "output") from error
    finally:
        if lock >= 0:
            os.close(lock)


def _locked(directory: Path) -> int:
    """A lock on a directory as a descriptor; `_TAKEN` while another process has it, -1 where there are no locks."""
    try:
        file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        return _TAKEN if error.errno == errno.EWOULDBLOCK else -1
    return file


def _unwritable(partial: Path, error: OSError) -> CollectError:
    return unwritable(f"The capture {partial}", error, "With -o, choose a writable place with enough space.")


def file_name(name: str) -> str:
    """A program's name as a part of file names."""
    return (re.sub(r"[^\w.+-]", "_", name).lstrip(".-") or "program")[:60]


def default_name(name: str) -> Path:
    """`NAME-YYYYmmdd-HHMMSS.pinprof` in the current directory."""
    return Path(f"{file_name(name)}-{datetime.now().astimezone():%Y%m%d-%H%M%S}{SUFFIX}")


def numbered_name(path: Path, number: int) -> Path:
    """`NAME-2.pinprof` for number 2 of a capture."""
    target = captured(path)
    return target.with_name(f"{target.name.removesuffix(SUFFIX)}-{number}{SUFFIX}")


def new_manifest(**facts: Any) -> Manifest:
    """A manifest of this version; fields not given are empty."""
    empty: dict[str, Any] = {"command": (), "scenario": {}, "host": {}, "collectors": (), "outcome": {}}
    return Manifest(schema_version=SCHEMA_VERSION, tool_version=__version__, **(empty | facts))


def captured(path: Path) -> Path:
    """The path of a capture that is given with or without its suffix."""
    return path if path.name.endswith(SUFFIX) else path.with_name(path.name + SUFFIX)


def is_capture(path: Path) -> bool:
    """Whether a path is a directory with a manifest."""
    return (path / MANIFEST).is_file()


def refuse_links(directory: Path) -> None:
    """CaptureError where a capture holds a link, a FIFO or a device: what it says would come from somewhere else.

    Such a capture was not written by pinprof, and reading it could read any file of the reader's, or wait for ever.
    """
    if not os.path.lexists(directory / MANIFEST):
        return
    try:
        for folder, names, others in os.walk(directory, onerror=_raise):
            for name in (*names, *others):
                if kind := files.irregular(Path(folder, name)):
                    raise CaptureError(
                        f"{Path(folder, name)} is {kind}, not a file of a capture.",
                        "If you trust its target, copy the capture with `cp -rL`; otherwise remove it.",
                        "irregular-file",
                    )
    except OSError as error:
        raise unreadable(directory, error) from error


def _raise(error: OSError) -> None:
    raise error


def part(directory: Path, name: str) -> Path | None:
    """A file of a capture; None when the capture does not have it."""
    path = directory / name
    return path if path.is_file() else None


def _not_a_capture(path: Path) -> CaptureError:
    """What to say of a folder without a manifest: which captures are in it."""
    inside = [each for each in path.glob(f"*{SUFFIX}*") if not each.is_dir() or (each / MANIFEST).is_file()]
    if inside:
        newest = max(inside, key=lambda each: (each.stat().st_mtime, each.name))
        count = "one capture" if len(inside) == 1 else f"{len(inside)} captures"
        return CaptureError(
            f"{path if path.name else 'This folder'} has {count} in it.",
            f"Report on the newest: `pinprof report {shlex.quote(str(newest))}`. "
            f"Compare all: `pinprof fleet {shlex.quote(str(path))}`.",
            "not-a-capture",
        )
    return CaptureError(
        f"{path if path.name else 'This folder'} has no {MANIFEST}, so it is not a pinprof capture.",
        "Give the directory that `pinprof record` wrote, or a perf.data file.",
        "not-a-capture",
    )


def read_manifest(path: Path) -> Manifest:
    """The manifest of a capture directory; CaptureError if there is none, or of a schema this version cannot read."""
    try:
        raw = shapes.read(path / MANIFEST)
    except FileNotFoundError:
        raise _not_a_capture(path) from None
    except (OSError, ValueError) as error:
        raise CaptureError(
            f"{path / MANIFEST} cannot be read: {error}.",
            f"The samples may be intact. Try `pinprof report {path / PERF_DATA}`.",
            "manifest",
        ) from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise CaptureError(
            f"{path} has capture schema version {version!r:.40}; pinprof {__version__} reads version {SCHEMA_VERSION}.",
            "Read it with the pinprof version that wrote it, or install a newer pinprof.",
            "schema-version",
        )
    known = SHAPE.fit(raw)
    return Manifest(
        schema_version=SCHEMA_VERSION,
        tool_version=known.get("tool_version") or "unknown",
        command=tuple(known.get("command") or ()),
        scenario=known.get("scenario") or {},
        host=known.get("host") or {},
        collectors=tuple(known.get("collectors") or ()),
        outcome=known.get("outcome") or {},
        labels=known.get("labels") or {},
    )


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step, so that a reader never sees half of one."""
    files.written(directory / MANIFEST, json.dumps(asdict(manifest), indent=1, ensure_ascii=True) + "\n")


def rewrite_manifest(path: Path) -> None:
    """Leave in a manifest what this version knows of one."""
    write_manifest(path.parent, read_manifest(path.parent))
