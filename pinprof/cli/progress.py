"""A sign of life for work that takes long: on a terminal only, and gone when the work is done."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show `what` with a spinner on standard error while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
