"""A sign of life for work that takes long: on a terminal only, and gone when the work is done."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


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
