"""The option that asks for the whole of a text, shared by all commands that answer in one."""

from __future__ import annotations

import click

ALL_LINES = click.option(
    "--all", "all_lines", is_flag=True, help="Print all lines of the text. By default, it has at most 120."
)


def most_lines(*, all_lines: bool) -> int | None:
    """How many lines a text may have; None for any number."""
    from pinprof.report.terminal import bounded

    return None if all_lines else bounded.MOST_LINES
