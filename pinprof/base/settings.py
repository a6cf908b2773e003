"""A project's settings: `pinprof.toml`, or `[tool.pinprof]` of `pyproject.toml`, and which of these files holds them.

[[budget]]            [[tool.pinprof.budget]]     what `pinprof check` allows (check/budgets.py)
[record]              [tool.pinprof.record]       options of a command (cli/defaults.py)
[pytest]              [tool.pinprof.pytest]       for the plugin
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pinprof.base import trust
from pinprof.base.errors import PinprofError, UsageError, readable
from pinprof.base.lazy_dataclass import dataclass

OWN, SHARED = "pinprof.toml", "pyproject.toml"
BUDGET, PYTEST = "budget", "pytest"
COMMANDS = ("record", "run", "report")
"""Commands whose options settings may give."""
_KNOWN = (BUDGET, PYTEST, *COMMANDS)
_MOST_BYTES = 1 << 20


class NotToml(UsageError):
    """A file that says nothing to anybody, as while it is edited or merged."""


@dataclass(frozen=True)
class Nearest:
    """What a folder's settings are."""

    path: Path | None
    """The file with settings that is nearest; None if there is none."""
    left_out: tuple[str, ...] = ()
    """A sentence for each nearer file that is none to trust."""


def nearest(folder: Path) -> Nearest:
    """The file with settings in this folder or the nearest one above it: up to the repository's root, or the home.

    A file counts only if nobody but this user and root can have written it.
    """
    left_out: list[str] = []
    for place in (folder, *folder.parents):
        for name in (OWN, SHARED):
            path = place / name
            if (content := _content(path)) is None or (name == SHARED and not _is_of_pinprof(path, content)):
                continue
            if not (why := trust.distrusted(path)):
                return Nearest(path, tuple(left_out))
            left_out.append(f"{path} is left out: {why}.")
        if place == _home() or os.path.lexists(place / ".git"):
            break
    return Nearest(None, tuple(left_out))


def _content(path: Path) -> bytes | None:
    """The first bytes of a file; None if there is none that can be read: folders above may be closed to this user."""
    try:
        if path.is_file():
            with path.open("rb") as file:
                return file.read(_MOST_BYTES + 1)
    except OSError:
        pass
    return None


def _is_of_pinprof(path: Path, content: bytes) -> bool:
    """Whether a file of several tools has settings for pinprof, or may have some where it is not TOML."""
    try:
        return b"pinprof" in content and settings_in(path) is not None
    except PinprofError:
        return True


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (RuntimeError, OSError):  # the user has none
        return None


def settings_in(path: Path) -> Mapping[str, object] | None:
    """The settings of a file; None if a file of several tools has none for pinprof. UsageError if it is not TOML."""
    import tomllib  # the command line starts without it

    with readable(path, slug="settings"), path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise UsageError(
            f"{path} is too large for settings: more than 1 MiB.", f"Use a {OWN} with settings alone.", "settings"
        )
    try:
        document: Mapping[str, object] = tomllib.loads(content.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise NotToml(f"{path} is not valid TOML: {error}.", "Fix it there.", "settings") from error
    tools = document.get("tool")
    own = tools.get("pinprof") if isinstance(tools, Mapping) else None
    if isinstance(own, Mapping):
        return own
    return None if path.name == SHARED else document


def refuse_unknown(path: Path, settings: Mapping[str, object]) -> None:
    """UsageError for a table that no part of pinprof reads."""
    for name in settings:
        if name not in _KNOWN:
            raise UsageError(
                f"{path} has a table {name!r} that pinprof does not know.", meant(name, _KNOWN), "settings"
            )


def meant(name: str, known: Iterable[str]) -> str:
    """The known name that is most like one that is not, or all known names."""
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(name.replace("_", "-"), names, 1)
    return f"Did you mean {near[0]!r}?" if near else f"Known names are {', '.join(names)}."


def table_name(path: Path, name: str) -> str:
    """How a table is written in a file: `[record]` or `[tool.pinprof.record]`."""
    return f"[tool.pinprof.{name}]" if path.name == SHARED else f"[{name}]"
