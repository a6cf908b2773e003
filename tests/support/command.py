"""The command line in the process of the test: half a second less than a process of its own, where none is tested."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess

from pinprof import cli


def called(main: Callable[[Sequence[str]], object], arguments: Sequence[str]) -> CompletedProcess[str]:
    """What a command prints, and its status, as subprocess.run would tell; a status is returned or raised."""
    output, errors = _stream(), _stream()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = main(arguments)
        except SystemExit as ended:
            status = ended.code
    return CompletedProcess(list(arguments), status or 0, _written(output), _written(errors))


def pinprof(*arguments: str | Path, cwd: Path | None = None) -> CompletedProcess[str]:
    """`pinprof ARGUMENTS` in a directory."""
    with contextlib.chdir(cwd or "."):
        return called(cli.main, [str(argument) for argument in arguments])


def _stream() -> io.TextIOWrapper:
    """What a command takes for its standard output: text, above bytes."""
    return io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()
