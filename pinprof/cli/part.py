"""The options that choose a part of a recording: `--after`, `--until`, `--range`, `--thread`, `--process`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pinprof.base.units import parse_duration_ns

if TYPE_CHECKING:
    from pinprof.analyze.selection import Selection
    from pinprof.data.model import Capture

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--after", metavar="TIME", help="Only the part after this time since the start, for example 2s."),
    click.option("--until", metavar="TIME", help="Only the part before this time, for example 10s."),
    click.option("--range", "range_names", multiple=True, metavar="NAME", help="Only inside this range. Repeatable."),
    click.option("--thread", "thread_names", multiple=True, metavar="NAME|TID", help="Only this thread. Repeatable."),
    click.option(
        "--process", "process_names", multiple=True, metavar="NAME|PID", help="Only this process. Repeatable."
    ),
)


def part_options(function: _Decorated) -> _Decorated:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def selected(given: dict[str, Any]) -> tuple[Selection | None, dict[str, Any]]:
    """The part that the options select, None for the whole recording; and the other options."""
    others = dict(given)
    after, until = (others.pop(name) for name in ("after", "until"))
    names = {name: others.pop(f"{name}_names") for name in ("range", "thread", "process")}
    if after is None and until is None and not any(names.values()):
        return None, others
    from pinprof.analyze.selection import Selection

    after_ns, until_ns = (None if time is None else parse_duration_ns(time) for time in (after, until))
    asked = Selection(after_ns, until_ns, names["range"], names["thread"], names["process"])
    asked.refuse_empty_time()
    return asked, others


def part_alone(capture: Capture, selection: Selection | None) -> Capture:
    """The selected part of a capture, without an analysis of the whole."""
    if selection is None:
        return capture
    from pinprof.analyze.ranges.spans import cut_at, cut_capture
    from pinprof.analyze.restriction import is_empty, part_of
    from pinprof.analyze.selection import resolve

    part = resolve(capture, selection)
    chosen = part_of(cut_capture(cut_at(capture, part.window.edges)[0], part.ranges), part)
    if is_empty(chosen):
        raise part.nothing()
    return chosen
