"""Inputs as files: what failed once lies in tests/fuzz/kept and runs in every test run.

`kept/NAME OF THE TARGET/SIGNATURE`: the file itself, or a .tar.xz of an input of several files.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.seeds import Files

KEPT = Path(__file__).parent / "kept"
_ARCHIVE = ".tar.xz"


def save(files: Files, folder: Path, target: str, signature: str) -> Path:
    """Store an input; the file it is in."""
    place = folder / target / signature
    place.parent.mkdir(parents=True, exist_ok=True)
    if len(files) == 1:
        (name,) = files
        place = place.with_name(f"{signature}-{name}")
        place.write_bytes(files[name])
        return place
    place = place.with_name(signature + _ARCHIVE)
    with tarfile.open(place, "w:xz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return place


def load(place: Path) -> dict[str, bytes]:
    """The input that a file holds."""
    if not place.name.endswith(_ARCHIVE):
        return {place.name: place.read_bytes()}
    with tarfile.open(place) as archive:
        members = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        return {name: file.read() for name, file in members.items() if file is not None}


def kept() -> Iterator[tuple[str, Path]]:
    """(target, file) of every input that is kept."""
    for folder in sorted(path for path in KEPT.iterdir() if path.is_dir()) if KEPT.is_dir() else ():
        for place in sorted(folder.iterdir()):
            yield folder.name, place
