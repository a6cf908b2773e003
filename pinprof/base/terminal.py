"""The one place that prints: what reaches a terminal goes through `say`, or a console that ends in `write`.

Names from recorded programs, of files, and in the messages of other software are hostile input: `printable` is the one
filter. Printing stops nothing: where the reader has gone (`… | head`) or a stream was closed from the start (`>&-`),
work goes on without it, and `reader_gone` tells the exit status.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import IO

_UNSHOWABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]"
)
"""Control characters, invisible format and direction marks, lone surrogates, and what is no character in XML: Unicode
15.1 categories Cc, Cf, Cs, U+FFFE and U+FFFF."""

_CONTROL_PICTURES = 0x2400
_DELETE, _DELETE_PICTURE = 0x7F, "\u2421"
_STYLES = {"bold": "\x1b[1m", "dim": "\x1b[2m"}
_PLAIN = "\x1b[0m"

_without_reader: set[str] = set()
_closed: set[int] = set()


def printable(name: str) -> str:
    """The name with every character that would not show, or would reorder its surroundings, spelled out.

    C0 controls become their Unicode pictures (`␀`, `␛`), lone surrogates U+FFFD, everything else `⟨U+202E⟩`.
    """
    return _UNSHOWABLE.sub(_spell_out, name)


def printable_lines(text: str) -> str:
    """The same of a text whose line ends are meant."""
    return "\n".join(map(printable, text.split("\n")))


def clipped(text: str, most: int) -> str:
    """A text of at most `most` characters, its beginning."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def say(text: object = "", *, error: bool = False, style: str = "", end: str = "\n") -> None:
    """Print a text of one or more lines to standard output or error; `style` (`bold`, `dim`) on a terminal only."""
    stream = sys.stderr if error else sys.stdout
    shown = printable_lines(str(text))
    if style and stream is not None and stream.isatty() and not os.environ.get("NO_COLOR"):
        shown = f"{_STYLES[style]}{shown}{_PLAIN}"
    write(stream, shown + end)


def write(stream: IO[str] | None, text: str) -> None:
    """Write a text that is printable already, at once; nothing where the reader has gone.

    Nor where standard error cannot be written, as on a full disk: there is no place to say so.
    """
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        forget(stream)
    except OSError:
        if stream is not sys.stderr:
            raise
        _silence(stream)


def flush() -> None:
    """Write what libraries have left in the buffers; OSError where it cannot be, for example on a full disk."""
    for stream in (sys.stdout, sys.stderr):
        try:
            write(stream, "")
        except OSError:
            _silence(stream)
            raise


def forget(stream: IO[str]) -> None:
    """Note that the reader of a stream has gone."""
    _without_reader.add(str(getattr(stream, "name", stream)))
    _silence(stream)


def _silence(stream: IO[str]) -> None:
    """Let what is still written to a stream go nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def reader_gone() -> bool:
    """Whether somebody stopped reading standard output: what a command is for, where it prints there."""
    return str(getattr(sys.stdout, "name", "")) in _without_reader


def open_closed_streams() -> None:
    """Put nothing in the place of standard streams that are closed, so that no other file gets their numbers.

    Programs that are started find them closed, as they would without pinprof: these are not inherited.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            _closed.add(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def output_closed() -> bool:
    """Whether standard output was closed when pinprof started."""
    return 1 in _closed


def _spell_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return _DELETE_PICTURE
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"⟨U+{code:04X}⟩"
