"""A sign of life for work that takes long: on a terminal only, and gone when the work is done.

Where the work tells how far it is, the sign says how long it still takes.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinprof.read.reader import Progress

_SETTLED_S = 2.0
"""After this time the rate of a work is known well enough to say how long the rest takes."""


@contextlib.contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show `what` with a spinner on standard error while the block runs, which may change the words."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.text import Text

    from pinprof.report.terminal.console import PrintableConsole

    with PrintableConsole(stderr=True).status(Text(what)) as status:
        yield lambda text: status.update(Text(text))


@contextlib.contextmanager
def measured(what: str) -> Iterator[Progress]:
    """Show `what` likewise while the block runs, which tells how much of the work is done."""
    with working(what) as say:
        begun = time.monotonic()

        def show_part(part: float) -> None:
            spent = time.monotonic() - begun
            if spent >= _SETTLED_S and 0 < part < 1:
                say(f"{what}: {part:.0%}, {_rough(spent / part * (1 - part))} left")

        yield show_part


def _rough(seconds: float) -> str:
    """A time that nobody needs more precisely: `8 s`, `3 min`, `1 h 20 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
