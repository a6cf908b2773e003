"""What is made once and kept for the user, in $XDG_CACHE_HOME/pinprof (default ~/.cache/pinprof).

C libraries where pinprof was installed without them, and the parts of pages that are the same in every page. Whatever
is kept is found by a hash of what it was made of, so another version makes its own. What lies there is loaded as code:
a folder that other users can write to, or that is another user's, is not used.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from pinprof.base import files

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def place() -> Path:
    """Where the folder is; RuntimeError for a user without a home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "pinprof"


def made_private(folder: Path) -> bool:
    """Make the folder where it is missing; whether it is this user's alone. OSError where it cannot be made."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = folder.stat()
    return owner.st_uid == os.geteuid() and not owner.st_mode & _OTHERS_MAY_WRITE


def folder() -> Path | None:
    """The folder, made if need be; None where nothing can be kept."""
    try:
        found = place()
        return found if made_private(found) and os.access(found, os.W_OK) else None
    except (OSError, RuntimeError):
        return None


def kept(name: str, sources: bytes, make: Callable[[], str]) -> str:
    """What `make` returns for these sources: as it was kept, else made now, and kept where that is possible."""
    where = folder()
    if where is None:
        return make()
    file = where / f"{name}-{hashlib.sha256(sources).hexdigest()[:24]}"
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError):
        text = make()
    try:
        files.written(file, text)
    except OSError:
        return text
    return text
