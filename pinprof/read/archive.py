"""Packed captures and launches (`tar -cJf NAME.ranks.tar.xz NAME.ranks`), plain or compressed, unpacked for one run.

An archive is hostile input: it may hold files and folders alone, as a capture does, whose names stay inside the folder
that it is unpacked into; what is written is bounded as every compressed input is (`packed`), and so is their number.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pinprof.base import files
from pinprof.base.errors import CaptureError, readable
from pinprof.read.byte_source import ByteSource
from pinprof.read.packed import MOST_BYTES, MOST_RATIO, SPARED_BYTES, PackedError, is_packed, plain_pieces
from pinprof.read.unpacking import refuse_without_room, usual_bytes, write_sparse
from pinprof.streams import store

MOST_MEMBERS = 100_000
"""Files and folders; a capture has a few, and two for each process of the program."""
_USUAL_MEMBERS = 2000
_PIECE = 1 << 20
_DEEPEST = 4
"""The folder of a launch, a capture in it, a folder in that, and a file there."""
_HEAD_BYTES = 512
_MAGIC = slice(257, 262)
_MOST_NAME_BYTES = 1 << 16
"""The length of a name too long for its member's own head; tarfile reads it at once."""


def is_archive(path: Path) -> bool:
    """Whether a file, unpacked where it is compressed, begins as an archive of tar does."""
    with readable(path), path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        if is_packed(head):
            file.seek(0)
            head = b""
            try:
                for piece in plain_pieces(file, _HEAD_BYTES):
                    head += piece
                    if len(head) >= _HEAD_BYTES:
                        break
            except PackedError:
                return False
    return head[_MAGIC] == b"ustar"


def is_launch(path: Path) -> bool:
    """Whether a file is an archive of a launch's folder: its first member says so. CaptureError for a damaged one."""
    if not path.is_file() or not is_archive(path):
        return False
    with _described(str(path)):
        for _, member, parts in _members(path, str(path)):
            if parts and (len(parts) > 1 or member.isdir()):
                return parts[0].endswith(store.RANKS)
    return False


@contextmanager
def unpacked(path: Path, shown: str) -> Iterator[Path]:
    """The capture in an archive, or the folder of a launch, which goes when the block ends; `shown` is for messages.

    CaptureError where the archive holds neither, or anything that these do not.
    """
    with files.temporary_folder() as folder:
        place = folder / "capture"
        place.mkdir(files.PRIVATE_FOLDER)
        with _described(shown):
            size, usual = 0, usual_bytes(path)
            for number, (archive, member, parts) in enumerate(_members(path, shown)):
                before, size = size, size + member.size
                if before <= usual < size or number == _USUAL_MEMBERS:
                    _look_through(path, shown, place)
                _unpack(archive, member, place.joinpath(*parts))
        folders = [one for one in (place, *sorted(place.iterdir())) if one.is_dir()]
        found = [one for one in folders if store.is_capture(one)] or [
            one for one in folders[1:] if one.name.endswith(store.RANKS)
        ]
        if len(found) != 1:
            raise _refused(shown, "several captures" if found else "no capture")
        yield found[0]


@contextmanager
def _described(shown: str) -> Iterator[None]:
    """Errors of an archive as those of pinprof."""
    try:
        yield
    except (tarfile.TarError, ValueError, OverflowError, EOFError, RecursionError) as error:
        why = str(error).partition("\n")[0][:200] or "its headers are damaged"
        raise CaptureError(
            f"{shown} is a damaged archive: {why}.", "Copy it again from where it was packed.", "archive-damaged"
        ) from error
    except OSError as error:
        raise CaptureError(
            f"{shown} cannot be unpacked: {error.strerror}.",
            f"Unpack it yourself where there is enough space: tar -xf {Path(shown).name}",
            "archive-unpacking",
        ) from error


def _members(path: Path, shown: str) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo, list[str]]]:
    """The members with the parts of their names; CaptureError for one that no capture has."""
    source, size = ByteSource(path), 0
    most = min(SPARED_BYTES + MOST_RATIO * path.stat().st_size, MOST_BYTES)
    try:
        with tarfile.open(fileobj=_Stream(source), mode="r|", tarinfo=_Member) as archive:
            for number, member in enumerate(archive):
                parts = [part for part in member.name.split("/") if part not in ("", ".")]
                size += member.size
                if number >= MOST_MEMBERS:
                    raise _refused(shown, f"more than {MOST_MEMBERS:,} members")
                if size > most:
                    raise _refused(shown, f"more than {most:,} bytes, too many for its own size")
                if not (member.isdir() or member.isreg()) or member.sparse is not None:
                    raise _refused(shown, f"{member.name!r}, which is neither a file nor a folder")
                if member.name.startswith("/") or ".." in parts or len(parts) > _DEEPEST:
                    raise _refused(shown, f"{member.name!r}, which is not a path inside a capture")
                yield archive, member, parts
    except (tarfile.TarError, EOFError) as error:
        raise EOFError(source.damage or str(error)) from error
    if source.damage:
        raise EOFError(source.damage)


def _look_through(path: Path, shown: str, place: Path) -> None:
    """Read all of an archive without writing; CaptureError for what `unpacked` refuses, or where there is no room."""
    size, is_capture = 0, False
    for _, member, parts in _members(path, shown):
        size += member.size
        is_capture = is_capture or (parts[-1:] == [store.MANIFEST] and len(parts) <= 2 + parts[0].endswith(store.RANKS))
    if not is_capture:
        raise _refused(shown, "no capture")
    refuse_without_room(shown, size, place)


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if member.isdir():
        target.mkdir(files.PRIVATE_FOLDER, parents=True, exist_ok=True)
        return
    target.parent.mkdir(files.PRIVATE_FOLDER, parents=True, exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None
    with os.fdopen(files.create(target), "wb") as file:
        write_sparse(iter(lambda: content.read(_PIECE), b""), file)
        file.truncate(member.size)


def _refused(shown: str, what: str) -> CaptureError:
    return CaptureError(
        f"{shown} is an archive that has {what}.",
        "Give an archive of one capture, or of one launch: tar -cJf NAME.ranks.tar.xz NAME.ranks",
        "archive",
    )


class _Member(tarfile.TarInfo):
    """A member whose further heads, which are read at once, have a bounded size."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE) and self.size > _MOST_NAME_BYTES:
            raise tarfile.ReadError("a member's header is too large")
        return super()._proc_member(archive)  # type: ignore[misc]


class _Stream(io.RawIOBase):
    """The plain bytes of a file, as a stream of any number of them."""

    def __init__(self, source: ByteSource) -> None:
        self._pieces = source.chunks()
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; none at the end."""
        while not len(self._rest):
            if (piece := next(self._pieces, None)) is None:
                return b""
            self._rest = memoryview(piece)
        given, self._rest = self._rest[:size], self._rest[size:]
        return bytes(given)
