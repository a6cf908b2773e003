"""Where an export goes: standard output, or a file that appears under its name once it is whole."""

from __future__ import annotations

import errno
import gzip
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from pinprof.base import files, terminal
from pinprof.base.errors import unwritable

STANDARD_OUTPUT = Path("-")


@contextmanager
def binary_output(output: Path | None) -> Iterator[IO[bytes]]:
    """A file, compressed where its name ends in `.gz`, or standard output for None and `-`.

    A file is written beside its place and renamed when whole: what cannot be exported leaves nothing behind. A folder
    that does not exist is made.
    CollectError when it cannot be written.
    """
    if output is None or output == STANDARD_OUTPUT:
        if terminal.output_closed():
            raise unwritable("Standard output", OSError(errno.EBADF, "it is closed"))
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        if files.is_stream(output):
            with files.stream(output) as device:
                yield device
            return
        output.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(output) as file:
            if output.name.endswith(".gz"):
                # Neither name nor time in the header: the same report gives the same bytes.
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield file
    except OSError as error:
        raise unwritable(output, error) from error


@contextmanager
def text_output(output: Path | None) -> Iterator[IO[str]]:
    """UTF-8 text where `binary_output` writes; what UTF-8 cannot say is escaped."""
    with binary_output(output) as file, encoded(file) as text:
        yield text


@contextmanager
def encoded(binary: IO[bytes], errors: str = "backslashreplace") -> Iterator[IO[str]]:
    """Text on a stream of bytes, which stays open."""
    text = io.TextIOWrapper(binary, encoding="utf-8", errors=errors, newline="\n", write_through=False)
    try:
        yield text
        text.flush()
    finally:
        text.detach()
