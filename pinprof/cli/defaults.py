"""Options that a project's settings give to a command; what the command line says wins.

[tool.pinprof.record]                 in pyproject.toml; [record] in pinprof.toml
frequency = 1999
no-calibrate = true
label = ["team=vision"]

Keys are the names of options. A project's settings may come with sources from elsewhere, so options that name files or
replace them are for the command line alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pinprof.base import settings
from pinprof.base.errors import PinprofError, UsageError
from pinprof.base.terminal import say

_NEVER = ("force", "open", "output", "pid", "port", "rank", "serve", "share")
"""Options of one command line, with those that name files."""
_TRUSTED = "pinprof reads settings that only you and root can write."


def defaults_of(command: click.Command, name: str) -> dict[str, Any]:
    """Parameter → value, of the nearest settings. A file that is none to trust is left out, which is said.

    UsageError for keys and values that the command does not have, in the current directory. A file above it stops
    nothing, because it may be of another project, nor does one that is not TOML.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        return {}
    nearest = settings.nearest(here)
    for sentence in nearest.left_out:
        say(f"{sentence} {_TRUSTED}", error=True)
    if nearest.path is None:
        return {}
    try:
        return _of_file(nearest.path, command, name)
    except PinprofError as error:
        if nearest.path.parent == here and not isinstance(error, settings.NotToml):
            raise
        say(f"{error.problem} None of its settings are used.", error=True)
        return {}


def _of_file(path: Path, command: click.Command, name: str) -> dict[str, Any]:
    found = settings.settings_in(path) or {}
    settings.refuse_unknown(path, found)
    table = found.get(name, {})
    place = f"{path}, {settings.table_name(path, name)}"
    if not isinstance(table, Mapping):
        raise UsageError(f"{place} is not a table.", "Write one option per line below it.", "settings")
    return dict(_default(command, key, value, place) for key, value in table.items())


def _options(command: click.Command) -> dict[str, click.Option]:
    """Options that settings may give, by their long name."""
    return {
        long[2:]: option
        for option in command.params
        if isinstance(option, click.Option) and not isinstance(option.type, click.Path)
        for long in option.opts
        if long.startswith("--") and long[2:] not in _NEVER
    }


def _default(command: click.Command, key: str, value: object, place: str) -> tuple[str, Any]:
    options = _options(command)
    option = options.get(key)
    if option is None:
        given = any(f"--{key}" in parameter.opts for parameter in command.params)
        if given:
            raise UsageError(f"{place} has {key!r}.", f"Give --{key} on the command line only.", "settings")
        raise UsageError(f"{place} has an unknown key {key!r}.", settings.meant(key, options), "settings")
    if option.multiple != isinstance(value, list) or option.is_flag != isinstance(value, bool):
        wanted = 'a list, for example ["…"]' if option.multiple else "true or false" if option.is_flag else "one value"
        raise UsageError(f"{place}: {key} is not valid.", f"Write {wanted}.", "settings")
    # As on the command line: of a number that is not whole click would take the whole part.
    text: Any = (
        value if isinstance(value, bool) else [str(one) for one in value] if isinstance(value, list) else str(value)
    )
    try:
        option.type_cast_value(click.Context(command), text)
    except click.BadParameter as error:
        raise UsageError(
            f"{place}: {key} is not valid: {error.message}", f"See --{key} in --help.", "settings"
        ) from error
    assert option.name is not None
    return option.name, text
