"""The formats that reports are exported in, each written by one function of a module imported when asked for."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from pinprof.analyze import Run
from pinprof.base.errors import UsageError, unwritable
from pinprof.report.export.streams import STANDARD_OUTPUT, binary_output, encoded


class Export(NamedTuple):
    """One format: `function(analysis, target, all_frames=…)` of `module` writes it."""

    module: str
    function: str
    suffix: str
    """Ending of the file's default name; one that ends in `.gz` is compressed."""
    target: Literal["text", "binary", "directory"]
    """What the function writes to: a stream of either kind, or a directory it makes."""
    summary: str


EXPORTS: dict[str, Export] = {
    "agent": Export("agent", "write", ".agent.txt", "text", "programs that change code: the answer in 2,000 tokens"),
    "speedscope": Export("speedscope", "write", ".speedscope.json", "text", "speedscope.app: a profile per event"),
    "pprof": Export("pprof", "write", ".pb.gz", "binary", "go tool pprof: a sample type per event, cause labels"),
    "firefox": Export("firefox", "write", ".firefox.json.gz", "text", "profiler.firefox.com: causes as categories"),
    "trace": Export("trace", "write", ".trace.json.gz", "text", "Perfetto, chrome://tracing: ranges and causes"),
    "csv": Export("tables", "write_csv", ".csv.d", "directory", "samples, ranges and leaves as CSV tables"),
    "parquet": Export("tables", "write_parquet", ".parquet.d", "directory", "the same tables as Parquet"),
}
"""By the name that `--format` takes, in the order of the help."""


def export(name: str, analysis: Run, output: Path | None, *, all_frames: bool = False) -> None:
    """Write one format to a file (a directory for tables), or a stream format to standard output for None.

    A file whose name ends in `.gz` is compressed. UsageError for an unknown format or tables without a directory,
    CollectError when the output cannot be written.
    """
    if name not in EXPORTS:
        raise UsageError(f"There is no export {name!r}.", f"There are: {', '.join(EXPORTS)}.", "format")
    chosen = EXPORTS[name]
    module = importlib.import_module(f"pinprof.report.export.{chosen.module}")
    function = partial(getattr(module, chosen.function), all_frames=all_frames)
    if chosen.target == "directory":
        if output is None or output == STANDARD_OUTPUT:
            raise UsageError(f"{name} is a directory of tables.", "Name it with -o, for example -o tables.", "format")
        _write_directory(function, analysis, output)
        return
    with binary_output(output) as file:
        if chosen.target == "binary":
            function(analysis, file)
        else:
            with encoded(file, errors="strict") as text:
                function(analysis, text)


def _write_directory(function: Callable[[Run, Path], None], analysis: Run, output: Path) -> None:
    there = output.exists()
    try:
        function(analysis, output)
    except OSError as error:
        if not there:
            shutil.rmtree(output, ignore_errors=True)
        raise unwritable(output, error) from error
