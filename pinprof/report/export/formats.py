"""The formats that reports are exported in, each written by one function of a module imported when asked for."""

from __future__ import annotations

import gzip
import importlib
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, NamedTuple, cast

from pinprof.analyze import Analysis
from pinprof.errors import CollectError, UsageError


class Export(NamedTuple):
    """One format: `function(analysis, target)` of `module` writes it."""

    module: str
    function: str
    suffix: str
    """Of the file's default name; one that ends in `.gz` is compressed."""
    target: Literal["text", "binary", "directory"]
    """What the function writes to: a stream of either kind, or a directory it makes."""
    summary: str


EXPORTS: dict[str, Export] = {
    "speedscope": Export("speedscope", "write", ".speedscope.json", "text", "speedscope.app: a profile per event"),
    "pprof": Export("pprof", "write", ".pb.gz", "binary", "go tool pprof: a sample type per event, cause labels"),
    "firefox": Export("firefox", "write", ".firefox.json.gz", "text", "profiler.firefox.com: causes as categories"),
    "trace": Export("trace", "write", ".trace.json.gz", "text", "Perfetto, chrome://tracing: ranges and causes"),
    "csv": Export("tables", "write_csv", ".csv.d", "directory", "samples, ranges and leaves as CSV tables"),
    "parquet": Export("tables", "write_parquet", ".parquet.d", "directory", "the same tables as Parquet"),
}
"""By the name that `--format` takes, in the order of the help."""


def export(name: str, analysis: Analysis, output: Path | None) -> None:
    """Write one format to a file (a directory for tables), or a stream format to standard output for None.

    A file whose name ends in `.gz` is compressed. UsageError for an unknown format or tables without a directory,
    CollectError when the output cannot be written.
    """
    if name not in EXPORTS:
        raise UsageError(f"No export is called {name!r}.", f"There are: {', '.join(EXPORTS)}.", "format")
    chosen = EXPORTS[name]
    function = getattr(importlib.import_module(f"pinprof.report.export.{chosen.module}"), chosen.function)
    if chosen.target == "directory":
        if output is None:
            raise UsageError(f"{name} is a directory of tables.", "Name it with -o, for example -o tables.", "format")
        _write(output, lambda: function(analysis, output))
    elif output is None:
        sys.stdout.flush()
        with _encoded(sys.stdout.buffer, chosen) as stream:
            function(analysis, stream)
    else:
        _write(output, lambda: _write_file(function, analysis, output, chosen))


def _write(output: Path, action: Callable[[], None]) -> None:
    try:
        action()
    except OSError as error:
        reason = error.strerror or str(error)
        raise CollectError(
            f"{output} cannot be written: {reason}.", "Choose another place with -o.", "output"
        ) from error


def _write_file(function: Callable[[Analysis, object], None], analysis: Analysis, output: Path, chosen: Export) -> None:
    """Write beside the file and rename when whole: a recording that does not fit the format leaves nothing behind."""
    if output.exists() and not output.is_file():
        with output.open("wb") as device:
            _write_stream(function, analysis, device, output.name, chosen)
        return
    partial = output.with_name(f"{output.name}.partial")
    try:
        with partial.open("wb") as file:
            _write_stream(function, analysis, file, output.name, chosen)
        partial.replace(output)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _write_stream(
    function: Callable[[Analysis, object], None], analysis: Analysis, file: IO[bytes], name: str, chosen: Export
) -> None:
    if not name.endswith(".gz"):
        with _encoded(file, chosen) as stream:
            function(analysis, stream)
        return
    # Neither name nor time in the header: the same report gives the same bytes.
    with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed, _encoded(cast("IO[bytes]", packed), chosen) as stream:
        function(analysis, stream)


@contextmanager
def _encoded(binary: IO[bytes], chosen: Export) -> Iterator[IO[str] | IO[bytes]]:
    """The stream itself, or text on it without closing it."""
    if chosen.target == "binary":
        yield binary
        return
    text = io.TextIOWrapper(binary, encoding="utf-8", newline="\n", write_through=False)
    try:
        yield text
        text.flush()
    finally:
        text.detach()
