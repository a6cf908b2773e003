"""Pickles of plain data, read without the machine that pickles are programs for.

Python's own reader imports and calls what a pickle names. This one knows only the instructions that make dictionaries,
lists, tuples, strings, bytes, numbers, booleans and None; any other is an error, so nothing in a pickle is ever run.
Nothing here recurses, also not the hashing of keys, which are strings and numbers; how much it makes is bounded. A
pickle can have the same list at many places: whoever walks through it counts what it visits.

Source: CPython, Lib/pickletools.py, the binary instructions of protocols 0 to 5.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from pinprof.base.errors import FormatError

MOST_CONTAINERS = 20_000_000
"""Dictionaries, lists and tuples that a pickle may make."""
MOST_DEPTH = 64
"""Containers that may be unfinished at a time."""
_NEWEST = 5
"""The newest protocol."""
_LONGEST_INTEGER = 16
"""Bytes."""
_GET, _LONG_GET, _MEMOIZE, _INT1, _INT4, _STOP = b"hj\x94KJ."
_FLOAT = Struct(">d").unpack
_TEXTS = {b"X": 4, b"\x8c": 1, b"\x8d": 8}
_BYTES = {b"B": 4, b"C": 1, b"\x8e": 8}
_SIMPLE = {b"N": None, b"\x88": True, b"\x89": False}
_EMPTY: dict[bytes, Callable[[], Any]] = {b"}": dict, b"]": list, b")": tuple}
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
_WRITTEN = {b"q": 1, b"r": 4}
_KEYS = (str, int, float, bytes, type(None))


def plain(data: bytes, path: object, remedy: str, slug: str) -> Any:
    """The value of a pickle; FormatError, which names `path`, for one that is damaged, too large or more than data."""
    reading = _Reading(data)
    try:
        return reading.value()
    except _NotPlain as error:
        expected, found = "a pickle of plain data", str(error)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError):
        expected, found = "an instruction of a pickle", "damage"
    raise FormatError(path, expected=expected, found=found, offset=reading.at, remedy=remedy, slug=slug)


class _NotPlain(Exception):
    """What a pickle has that data has not."""


class _Reading:
    """A pickle being read."""

    def __init__(self, data: bytes) -> None:
        self.at = 0
        """Where the instruction begins that is being read."""
        self._data, self._next = data, 0
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        """Stacks that wait for the entries above a mark."""
        self._memo: dict[int, Any] = {}
        self._containers = 0

    def value(self) -> Any:
        """Read until the pickle says that it ends. Instructions that are most of a snapshot are read here."""
        data, memo, stack, at = self._data, self._memo, self._stack, 0
        try:
            while True:
                code = data[at]
                if code == _GET:
                    stack.append(memo[data[at + 1]])
                    at += 2
                elif code == _LONG_GET:
                    stack.append(memo[int.from_bytes(data[at + 1 : at + 5], "little")])
                    at += 5
                elif code == _MEMOIZE:
                    memo[len(memo)] = stack[-1]
                    at += 1
                elif code == _INT1:
                    stack.append(data[at + 1])
                    at += 2
                elif code == _INT4:
                    stack.append(int.from_bytes(data[at + 1 : at + 5], "little", signed=True))
                    at += 5
                else:
                    self._next = at + 1
                    if code == _STOP:
                        return stack.pop()
                    self._others(data[at : at + 1])
                    stack, at = self._stack, self._next
        finally:
            self.at = at

    def _others(self, code: bytes) -> None:
        stack = self._stack
        if code == b"(":
            self._below.append(stack)
            self._stack = []
            if len(self._below) > MOST_DEPTH:
                raise _NotPlain(f"more than {MOST_DEPTH} containers inside one another")
        elif code in _EMPTY:
            stack.append(self._made(_EMPTY[code]()))
        elif code in _TEXTS:
            stack.append(str(self._taken(self._number(_TEXTS[code])), "utf-8", "surrogatepass"))
        elif code in _WRITTEN:
            self._memo[self._number(_WRITTEN[code])] = stack[-1]
        elif code == b"M":
            stack.append(self._number(2))
        elif code == b"\x8a":
            size = self._number(1)
            if size > _LONGEST_INTEGER:
                raise _NotPlain(f"an integer of {size} bytes")
            stack.append(int.from_bytes(self._taken(size), "little", signed=True))
        elif code == b"G":
            stack.append(_FLOAT(self._taken(8))[0])
        elif code in _SIMPLE:
            stack.append(_SIMPLE[code])
        elif code in _BYTES:
            stack.append(self._taken(self._number(_BYTES[code])))
        elif code in _TUPLES:
            count = _TUPLES[code]
            if len(stack) < count:
                raise IndexError
            stack[-count:] = [self._made(tuple(stack[-count:]))]
        elif code in (b"t", b"l", b"d", b"e", b"u"):
            self._of_entries(code)
        elif code == b"a":
            entry = stack.pop()
            self._appended(stack[-1], [entry])
        elif code == b"s":
            value, key = stack.pop(), stack.pop()
            self._entered(stack[-1], [key, value])
        elif code == b"\x80":
            if (protocol := self._number(1)) > _NEWEST:
                raise _NotPlain(f"protocol {protocol}")
        elif code == b"\x95":
            self._taken(8)
        elif code == b"0":
            stack.pop()
        else:
            raise _NotPlain(f"instruction 0x{code.hex()}, which makes or calls something else")

    def _of_entries(self, code: bytes) -> None:
        """What takes all entries above the last mark."""
        entries, self._stack = self._stack, self._below.pop()
        if code == b"t":
            self._stack.append(self._made(tuple(entries)))
        elif code == b"l":
            self._stack.append(self._made(entries))
        elif code == b"e":
            self._appended(self._stack[-1], entries)
        else:
            if code == b"d":
                self._stack.append(self._made({}))
            self._entered(self._stack[-1], entries)

    def _appended(self, container: Any, entries: list[Any]) -> None:
        if type(container) is not list:
            raise TypeError
        container += entries

    def _entered(self, container: Any, entries: list[Any]) -> None:
        if type(container) is not dict:
            raise TypeError
        for key, value in zip(entries[::2], entries[1::2], strict=True):
            if not isinstance(key, _KEYS):
                raise _NotPlain("a key that is a container")
            container[key] = value

    def _made(self, container: Any) -> Any:
        self._containers += 1
        if self._containers > MOST_CONTAINERS:
            raise _NotPlain(f"more than {MOST_CONTAINERS:,} containers")
        return container

    def _number(self, size: int) -> int:
        return int.from_bytes(self._taken(size), "little")

    def _taken(self, size: int) -> bytes:
        taken = self._data[self._next : self._next + size]
        if len(taken) < size:
            raise IndexError
        self._next += size
        return taken
