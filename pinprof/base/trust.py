"""Whether nobody but this user and root can have written a file.

Groups count as others, except one that is the user's alone, as Debian and Red Hat give every user: files that users
make there are writable for it. Under sudo, the user who called it is trusted as well.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_ROOT = 0


def distrusted(path: Path) -> str:
    """Why a file is none to trust, as `user 1000 owns it`; empty where it is one, in a folder that is one."""
    try:
        for place, shown in ((path, "it"), (path.resolve(), "what it links to")):
            why = _other_writer(place.lstat(), shown) or _other_writer(place.parent.stat(), f"the folder of {shown}")
            if why:
                return why
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"
    return ""


def _other_writer(found: os.stat_result, shown: str) -> str:
    """Who else may write a file of this state, or put one in the place of another in a folder."""
    if found.st_uid not in _trusted():
        return f"user {found.st_uid} owns {shown}"
    if stat.S_ISLNK(found.st_mode) or (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
        return ""
    if found.st_mode & stat.S_IWOTH:
        return f"other users can write {shown}"
    if found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid, found.st_uid):
        return f"group {found.st_gid} can write {shown}"
    return ""


def _trusted() -> set[int]:
    caller = os.environ.get("SUDO_UID", "") if os.geteuid() == _ROOT else ""
    return {_ROOT, os.geteuid(), *([int(caller)] if caller.isascii() and caller.isdigit() else [])}


def _is_private(group: int, owner: int) -> bool:
    """Whether a group is a user's alone: it has its name, and no other member."""
    import grp
    import pwd

    try:
        entry, name = grp.getgrgid(group), pwd.getpwuid(owner).pw_name
    except KeyError:
        return False
    # Members of root's group may be anybody: containers run users without a name in it.
    return owner != _ROOT and entry.gr_name == name and set(entry.gr_mem) <= {name}
