"""`%load_ext pinprof`, then `%%pinprof [NAME] [--frequency HZ] [--height PX]`: records a cell and shows its report."""

from __future__ import annotations

import argparse
import html
import shlex
from typing import Any

from pinprof.errors import PinprofError, UsageError
from pinprof.terminal import say

_USAGE = "Write: %%pinprof [NAME] [--frequency HZ] [--height PX]."


class Page:
    """A report inside a notebook: the page in a frame of its own, which may run its script and nothing else."""

    def __init__(self, page: str, height: int) -> None:
        self._page, self._height = page, height

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self._page)}" sandbox="allow-scripts" width="100%" height="{self._height}" '
            'style="border: 1px solid #8884; border-radius: 6px" title="pinprof report"></iframe>'
        )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError(f"%%pinprof: {message}.", _USAGE, "magic")


def _arguments(line: str) -> argparse.Namespace:
    parser = _Parser("%%pinprof", add_help=False)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--frequency", type=int, default=999)
    parser.add_argument("--height", type=int, default=900)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%pinprof: {error}.", _USAGE, "magic") from error
    return parser.parse_args(words)


def load(shell: Any) -> None:
    """Add the magic to an IPython shell."""
    from pinprof import api

    def magic(line: str, cell: str) -> Page | None:
        """Record this cell and show its report."""
        try:
            options = _arguments(line)
            with api.record(" ".join(options.name) or "cell", frequency=options.frequency) as recording:
                # It prints the cell's output, and what the cell raises.
                shell.run_cell(cell)
            return Page(recording.result.page(), options.height)
        except PinprofError as error:
            say(f"pinprof: {error}")
            return None

    shell.register_magic_function(magic, magic_kind="cell", magic_name="pinprof")
