"""The options of all commands that answer in one text or page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

FILE = click.Path(path_type=Path)
ALL_LINES = click.option(
    "--all", "all_lines", is_flag=True, help="Print all lines of the text. By default, it has at most 120."
)


def form_option(forms: Sequence[str], default: str = "text") -> Callable[[Any], Any]:
    """The option that chooses one of these forms."""
    meaning = f"Output format (default: by the ending of -o, otherwise {default})."
    return click.option("--format", "form", type=click.Choice(forms), help=meaning)


def most_lines(*, all_lines: bool) -> int | None:
    """How many lines a text may have; None for any number."""
    from pinprof.report.terminal import bounded

    return None if all_lines else bounded.MOST_LINES
