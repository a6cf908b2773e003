"""Which captures there are: in folders, behind globs, in object stores; with a stamp that changes when one does.

Nothing is read here but names, sizes and times of change. Links inside a folder are not followed: what lies behind them
is not in the folder.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pinprof.base.errors import CaptureError, UsageError, readable
from pinprof.base.lazy_dataclass import dataclass
from pinprof.fleet.packages import INSTALL, package
from pinprof.streams.store import MANIFEST, PARTIAL, SUFFIX

_FOLDER = (SUFFIX, SUFFIX + PARTIAL)
_FILE = re.compile(
    r"(.*\.pinprof\.(tar(\.(gz|xz|zst))?|tgz|txz)|(.*[._-])?perf\.data([._-][\w.-]*)?|.*\.nsys-rep|.*\.sqlite)(\.(gz|xz|zst))?"
)
"""Names of files in a folder that are recordings: packed captures, perf.data, reports of Nsight Systems."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_MAGIC = re.compile(r"[*?[]")


@dataclass(frozen=True)
class Source:
    """A capture, a perf.data file, or a report of Nsight Systems."""

    path: str
    """As people find it: a path, or a URL without credentials."""
    stamp: str
    """The same as long as it does not change."""
    url: str = ""
    """Of an object store, what opens it; empty for a path."""
    keys: tuple[str, ...] = ()
    """In an object store, every file of it."""


def sources_of(given: Iterable[str]) -> list[Source]:
    """The captures behind paths, globs and URLs, each once, ordered by path; CaptureError where there are none."""
    found: dict[str, Source] = {}
    for text in given:
        before = len(found)
        here = list(_remote(text) if _URL.match(text) and not text.startswith("file://") else _local(text))
        found |= {source.path: source for source in here}
        if not here and len(found) == before:
            raise CaptureError(
                f"{text} has no recordings.",
                "Give captures, folders or globs of them, or a URL such as s3://BUCKET/FOLDER.",
                "fleet-empty",
            )
    return [found[path] for path in sorted(found)]


def _local(text: str) -> Iterator[Source]:
    text = text.removeprefix("file://")
    path = Path(text)
    if not os.path.lexists(path) and _MAGIC.search(text):
        for match in sorted(glob.glob(text, recursive=True)):  # noqa: PTH207  # any pattern, absolute ones too
            yield from _below(Path(match), named=True)
        return
    if not path.exists():
        raise CaptureError(f"{path} does not exist.", "Give captures, or a folder of them.", "no-capture")
    yield from _below(path, named=True)


def _below(path: Path, *, named: bool = False) -> Iterator[Source]:
    """The recordings at a path; a file that was `named` is one whatever it is called."""
    if not path.is_dir():
        if named or _FILE.fullmatch(path.name):
            yield Source(str(path), _stamp_of_files([path]))
        return
    if path.name.endswith(_FOLDER) or (path / MANIFEST).is_file():
        yield Source(str(path), _stamp_of_files(sorted(files_of(path))))
        return
    with readable(path):
        entries = sorted(path.iterdir())
    for entry in entries:
        if not entry.is_symlink() and not entry.name.startswith("."):
            yield from _below(entry)


def files_of(path: Path) -> Iterator[Path]:
    """All files in a folder; the path itself where it is a file."""
    if not path.is_dir():
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (Path(folder, name) for name in names)


def _stamp_of_files(files: Sequence[Path]) -> str:
    lines = []
    for file in files:
        try:
            facts = file.lstat() if len(files) > 1 else file.stat()
            lines.append(f"{file}\0{facts.st_size}\0{facts.st_mtime_ns}\0{facts.st_ino}")
        except OSError:
            lines.append(f"{file}\0gone")
    return _digest(lines)


def _digest(lines: Iterable[str]) -> str:
    text = "\n".join(lines).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def filesystem(url: str) -> tuple[Any, str]:
    """Fsspec's file system of a URL, and the path in it; PinprofError where none is available."""
    core = package("fsspec.core", "An object store")
    try:
        system, root = core.url_to_fs(url)
    except ImportError as error:
        raise UsageError(
            f"{_scheme(url)} needs a package that is not installed: {error}.", INSTALL, "fleet-extra"
        ) from error
    except Exception as error:
        raise _unlistable(url, error) from error
    return system, str(root)


def _remote(url: str) -> Iterator[Source]:
    """The recordings below a URL, by one listing."""
    system, root = filesystem(url)
    try:
        roots = sorted(system.glob(root)) if _MAGIC.search(root) else [root]
        listed: dict[str, Mapping[str, Any]] = {}
        for one in roots:
            listed |= system.find(one, detail=True)
    except Exception as error:
        raise _unlistable(url, error) from error
    captures = {key.rpartition("/")[0] for key in listed if key.rpartition("/")[2] == MANIFEST}
    groups: dict[str, list[str]] = {}
    for key in sorted(listed):
        whole = _capture_around(key, captures)
        if whole or key in roots or _FILE.fullmatch(key.rpartition("/")[2]):
            groups.setdefault(whole or key, []).append(key)
    for name, keys in groups.items():
        shown = str(system.unstrip_protocol(name))
        lines = [f"{key[len(name) :]}\0{_version(listed[key])}" for key in keys]
        # What an object store calls a version is of the content: the same capture elsewhere has the same stamp.
        yield Source(shown, _digest(lines), shown, tuple(keys))


def _capture_around(key: str, captures: set[str]) -> str:
    """The capture's folder that a key lies in; empty without."""
    parts = key.split("/")
    for count in range(1, len(parts)):
        folder = "/".join(parts[:count])
        if folder in captures or parts[count - 1].endswith(_FOLDER):
            return folder
    return ""


def _version(facts: Mapping[str, Any]) -> str:
    tag = facts.get("ETag") or facts.get("etag") or facts.get("md5Hash")
    return f"{facts.get('size')}\0{tag or facts.get('mtime') or facts.get('LastModified') or facts.get('name')}"


def _scheme(url: str) -> str:
    return url.partition("://")[0] + "://"


def _unlistable(url: str, error: Exception) -> CaptureError:
    shown = re.sub(r"//[^/@]*@", "//", url)
    reason = re.sub(r"//[^/@\s]*@", "//", str(error)) or type(error).__name__
    return CaptureError(
        f"{shown} cannot be listed: {reason}.", "Check the name, the endpoint and the credentials.", "fleet-store"
    )
