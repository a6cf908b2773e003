"""Names from recorded programs as reports show them; `printable` is the filter that all output shares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pinprof.base.terminal import printable
from pinprof.data.spoken import spoken

__all__ = ["NO_CALLCHAIN", "event_label", "event_labels", "printable", "shortened", "shortened_place", "without_home"]

_HOME = re.compile(r"(?<![\w.~-])/(?:home|Users)/[^/\s:]+|(?<![\w./~-])/root(?=/)")

_PLACED = re.compile(r"(.+) \(([^()]+:\d+)\)")
"""`NAME (FILE:LINE)`."""
_LEAST_NAME = 5

_EVENT_LABELS = {
    "cpu-clock": "CPU time",
    "task-clock": "CPU time",
    "sched:sched_stat_runtime": "CPU time",
    "page-faults": "page faults",
    "off-cpu": "waits",
    "idle-threads": "idle threads",
    "recorder": "recorder overhead",
}
"""Event without its rate → what a reader calls it."""

NO_CALLCHAIN = "[no callchain]"
"""Stands for the stack of samples recorded without one."""


def event_label(name: str) -> str:
    """What a reader calls a sampled event: `CPU time` for `cpu-clock/freq=999/`; empty where nothing says more."""
    return _EVENT_LABELS.get(name) or _EVENT_LABELS.get(re.split("[/:]", name, maxsplit=1)[0], "")


def event_labels(names: Sequence[str]) -> dict[str, str]:
    """By event its label, and its own name where it has none, or two events of a recording would be called alike."""
    labels = [event_label(name) for name in names]
    return {
        name: label if label and labels.count(label) == 1 else name for name, label in zip(names, labels, strict=True)
    }


def shortened(name: str, width: int) -> str:
    """`printable`, with the middle of a name longer than `width` characters left out."""
    text = printable(name)
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def shortened_place(name: str, width: int) -> str:
    """A function and its place in at most `width` characters: the place is whole where it fits, else the function."""
    text = printable(name)
    placed = _PLACED.fullmatch(text)
    if len(text) <= width or placed is None:
        return shortened(spoken(text) if len(text) > width else text, width)
    function, place = spoken(placed[1]), placed[2].rpartition("/")[2]
    room = width - len(place) - len(" ()")
    if room >= _LEAST_NAME:
        return f"{shortened(function, room)} ({place})"
    return next((part for part in (place, function) if len(part) <= width), shortened(text, width))


def without_home(value: Any) -> Any:
    """The same facts with home directories written as `~`: they hold the user's name, and reports get shared."""
    if isinstance(value, str):
        return _HOME.sub("~", value)
    if isinstance(value, Mapping):
        return {key: without_home(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return tuple(without_home(entry) for entry in value)
    return value
