"""A program's environment with a cure. What the user has set stays: a cure adds to it, or is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pinprof.base.lazy_dataclass import dataclass

PRELOAD = "LD_PRELOAD"


@dataclass(frozen=True)
class Setting:
    """One variable, or one entry of a variable that lists several."""

    name: str
    value: str
    separator: str = ""
    """What stands between the entries `key=value` or `key:value` of a list; empty where the variable is one value."""
    between: str = "="
    """What stands between key and value of an entry."""
    others: tuple[str, ...] = ()
    """Names under which the user may have the same list: the first that is set takes the entry."""

    @property
    def text(self) -> str:
        """As a shell takes it."""
        return f"{self.name}={self.value}"


def added(given: Mapping[str, str], settings: Sequence[Setting], library: Path | None) -> Mapping[str, str] | str:
    """The variables that a cure changes, with their new values; else why it cannot be added, in one sentence.

    Entries of a list join those that are there. One that is there already, with this value or another, is the user's.
    """
    changed: dict[str, str] = {}
    same = 0
    for setting in settings:
        name = next((one for one in (setting.name, *setting.others) if given.get(one)), setting.name)
        now = changed.get(name, given.get(name, ""))
        if not setting.separator:
            if now and now != setting.value:
                return f"{name} is already set to {now}."
            same += bool(now)
            changed[name] = setting.value
            continue
        there = dict(entry.partition(setting.between)[::2] for entry in now.split(setting.separator) if entry)
        key, _, value = setting.value.partition(setting.between)
        if key in there and there[key] != value:
            return f"{name} has {key}{setting.between}{there[key]} already."
        same += key in there
        changed[name] = now if key in there else setting.separator.join(filter(None, (now, setting.value)))
    if settings and same == len(settings) and not library:
        return "It is set already."
    if library:
        if set(str(library)) & set(" :"):
            return f"The loader can't load libraries from {library.parent}: the path has a space or a colon."
        # Last: what the user preloads stands before it.
        changed[PRELOAD] = ":".join(filter(None, (given.get(PRELOAD, ""), str(library))))
    return changed
