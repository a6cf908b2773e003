"""JSON from files of any size and any damage: whole documents, or the elements of one array as a stream."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from pinprof.base.errors import FormatError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.read.byte_source import ByteSource
from pinprof.read.reader import Progress, untold

_WHOLE_LIMIT = 1 << 30
_ELEMENT_LIMIT = 64 << 20
"""Characters of one array element or one other value beside the streamed array."""

_NO_SPACE = re.compile(r"[^ \t\n\r]")


def document(path: Path, what: str) -> dict[str, Any]:
    """The object a file holds; FormatError for anything else. `what` names the format in the message."""
    text = ByteSource(path).whole(_WHOLE_LIMIT).decode("utf-8", "replace")
    try:
        value = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise not_json(path, what, error.pos, error.msg) from None
    except (RecursionError, ValueError) as error:
        raise not_json(path, what, 0, "values that are nested too deeply or too long") from error
    if not isinstance(value, dict):
        raise not_json(path, what, 0, f"a {type(value).__name__}")
    return value


def items(value: object) -> list[Any]:
    """A list; an empty one for what is none."""
    return value if isinstance(value, list) else []


def not_json(path: Path, what: str, offset: int, found: str) -> FormatError:
    """The error of a file that is not the JSON its format says."""
    remedy = "Write the file again with the tool that made it."
    return FormatError(str(path), expected=f"{what} JSON", found=found, offset=offset, remedy=remedy, slug="json")


@dataclass
class ArrayStream:
    """The elements of one top-level array, one by one; the other top-level values are kept in `others` meanwhile.

    A document that is itself an array is streamed too. The array may lack its end, as the Trace Event Format allows.
    """

    path: Path
    key: str
    what: str
    progress: Progress = untold
    others: dict[str, Any] = field(default_factory=dict)
    damage: str = ""
    """After reading: why elements may be missing, empty when the document was whole."""

    def __post_init__(self) -> None:
        self._source = ByteSource(self.path, self.progress)
        self._decoder = json.JSONDecoder()
        self._buffer, self._at, self._consumed = "", 0, 0
        self._text: Iterator[str] = iter(())
        self._ended = False

    def elements(self) -> Iterator[Any]:
        """Every whole element, in the file's order; FormatError when the file does not even begin as one."""
        decode = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = (decode.decode(chunk) for chunk in self._source.chunks())
        first = self._peek()
        if first not in ("{", "["):
            raise not_json(self.path, self.what, 0, repr(self._buffer[:16]) if self._buffer else "an empty file")
        self._at += 1
        try:
            yield from self._array() if first == "[" else self._object()
        except (ValueError, RecursionError):
            self.damage = f"the JSON ends or is damaged at character {self._consumed + self._at}"
        if self._source.damage:
            self.damage = self._source.damage

    def _object(self) -> Iterator[Any]:
        while (mark := self._peek()) != "}":
            if mark == ",":
                self._at += 1
                continue
            key = self._value()
            if self._peek() != ":":
                raise ValueError
            self._at += 1
            if key == self.key and self._peek() == "[":
                self._at += 1
                yield from self._array()
            else:
                self.others[str(key)] = self._value()

    def _array(self) -> Iterator[Any]:
        while (mark := self._peek()) != "]":
            if mark == ",":
                self._at += 1
                continue
            yield self._value()
        self._at += 1

    def _peek(self) -> str:
        """The next character other than a space; ValueError at the end of the file."""
        while True:
            if found := _NO_SPACE.search(self._buffer, self._at):
                self._at = found.start()
                return found[0]
            self._at = len(self._buffer)
            if not self._more():
                if not self._buffer and not self._consumed:
                    return ""
                raise ValueError

    def _value(self) -> Any:
        """The value that begins here; reads on until it is whole."""
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError:
                if len(self._buffer) - self._at > _ELEMENT_LIMIT or not self._more():
                    raise
                continue
            # A number at the edge of the buffer may go on beyond it.
            if end == len(self._buffer) and not isinstance(value, (dict, list, str)) and self._more():
                continue
            self._at = end
            return value

    def _more(self) -> bool:
        """Read on; the buffer at least doubles, so that values of any length cost time in proportion."""
        wanted = len(self._buffer) - self._at
        pieces = [self._buffer[self._at :]]
        got = 0
        while got <= wanted and not self._ended:
            piece = next(self._text, None)
            self._ended = piece is None
            pieces.append(piece or "")
            got += len(piece or "")
        self._consumed += self._at
        self._buffer, self._at = "".join(pieces), 0
        return got > 0
