"""The notebook magic `%%pinprof`: `%load_ext pinprof` stores what reports share, each cell shows its own report.

    %%pinprof [NAME] [--frequency HZ] [--height PX] [--whole]

If a cell fails or is too short for a report, one line says so instead.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from pathlib import Path
from typing import Any

from pinprof.analyze.evidence import LEAST_NS
from pinprof.base.errors import PinprofError, UsageError
from pinprof.base.terminal import say
from pinprof.base.units import format_ns
from pinprof.report.page import notebook
from pinprof.result import Result

_USAGE = "Write: %%pinprof [NAME] [--frequency HZ] [--height PX] [--whole]."
_OPTIONS = ("--frequency", "--height", "--whole")
_SHORTEST = 120
"""Pixels."""


class Loaded:
    """The output of `%load_ext pinprof`: the parts that all reports of a notebook share."""

    def _repr_html_(self) -> str:
        return notebook.shared()

    def __repr__(self) -> str:
        return "pinprof is loaded. Start a cell with %%pinprof to record it."


class Page:
    """The report of a cell; in a notebook that shows only text, its headline and the capture."""

    def __init__(self, result: Result, path: Path, height: int, *, whole: bool) -> None:
        self._result, self._path, self._height, self._whole = result, path, height, whole

    def _repr_html_(self) -> str:
        show = notebook.whole if self._whole else notebook.cell
        return show(self._result.page(), self._height)

    def __repr__(self) -> str:
        return f"{self._result.headline}\nCapture: {self._path}"


class CellFailed(Exception):
    """Stop after a cell whose own error IPython has shown, so that "run all cells" stops. Shows one line."""

    def _render_traceback_(self) -> list[str]:
        return [f"pinprof: {self}"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        unknown = re.search(r"--[\w-]+", message.partition("unrecognized arguments:")[2])
        near = difflib.get_close_matches(unknown[0], _OPTIONS, 1) if unknown else []
        raise UsageError(f"%%pinprof: {message}.", f"Did you mean {near[0]}? {_USAGE}" if near else _USAGE, "magic")


def _arguments(line: str) -> argparse.Namespace:
    parser = _Parser("%%pinprof", add_help=False, allow_abbrev=False)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--frequency", type=int, default=999)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--whole", action="store_true")
    try:
        given = parser.parse_args(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"%%pinprof: {error}.", _USAGE, "magic") from error
    if given.height < _SHORTEST:
        raise UsageError(f"%%pinprof: --height {given.height} is too small.", f"Give {_SHORTEST} or more.", "magic")
    return given


def _length_ns(result: Result) -> int:
    """How long the cell took: it is the first range of its recording."""
    ranges = result.analysis.capture.ranges
    return int(ranges.end_ns[0] - ranges.start_ns[0]) if len(ranges) else 0


def load(shell: Any) -> None:
    """Add the magic to an IPython shell, and output the parts that all reports share."""
    from IPython.display import display

    from pinprof import api

    def magic(line: str, cell: str) -> Page | None:
        """Record this cell and show its report."""
        try:
            options = _arguments(line)
            with api.record(" ".join(options.name) or "cell", frequency=options.frequency) as recording:
                # It prints the cell's output, and what the cell raises.
                ran = shell.run_cell(cell)
            path = recording.path
            assert path is not None
            error = ran.error_before_exec or ran.error_in_exec
            if error is not None:
                text = f"the cell failed with {type(error).__name__}, so there is no report. Capture: {path}"
                raise CellFailed(text)
            length_ns = _length_ns(recording.result)
            if length_ns < LEAST_NS:
                text = f"the cell took {format_ns(length_ns)}, which is too short for a report. Capture: {path}"
                say(f"pinprof: {text}")
                return None
            return Page(recording.result, path, options.height, whole=options.whole)
        except PinprofError as error:
            raise CellFailed(str(error)) from None

    shell.register_magic_function(magic, magic_kind="cell", magic_name="pinprof")
    display(Loaded())  # type: ignore[no-untyped-call]
