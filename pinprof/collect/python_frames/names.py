"""Names of `threading.Thread` objects, for interpreters that do not give them to the kernel themselves (3.14 does).

The outermost frame of such a thread is `Thread._bootstrap(self)`. The attributes of `self` lie in an array whose order
its class shares with all instances, or in a dict. Sources: Include/internal/pycore_{object,dict}.h of 3.11 to 3.13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pinprof.collect.python_frames.code import text
from pinprof.collect.python_frames.layout import InterpreterLayout
from pinprof.collect.python_frames.memory import read, word

NAMED_BY_INTERPRETER = (3, 14)
_TYPE, _KEYS_OF_DICT, _VALUES_OF_DICT = 8, 32, 40
_CACHED_KEYS = {(3, 11): 872, (3, 12): 880, (3, 13): 880}
"""In a class: the names of its instances' attributes."""
_DICT, _ARRAY = -24, -32
"""Before an object: its dict, and to 3.11 the array."""
_INLINE = 16
"""Behind an object's header, from 3.13 on: the array, its fourth byte 1 while it counts."""
_GENERAL = 0
_MOST_ATTRIBUTES = 256


def thread_name(pid: int, layout: InterpreterLayout, frame: int) -> str:
    """The name of the Thread whose `_bootstrap` this frame is; LookupError or ValueError where it cannot be read."""
    thread = word(pid, frame + layout.locals)
    for name, value in _attributes(pid, layout.version, thread):
        if value and text(pid, layout, name) == "_name":
            return text(pid, layout, value)
    raise LookupError("a thread without name")


def _attributes(pid: int, version: tuple[int, int], thread: int) -> Iterator[tuple[int, int]]:
    """(name, value) of each attribute, as addresses."""
    keys = word(pid, word(pid, thread + _TYPE) + _CACHED_KEYS[version])
    place = word(pid, thread + _DICT)
    if version == (3, 11):
        values = word(pid, thread + _ARRAY)
    elif version == (3, 12):
        values = place + 1 if place & 1 else 0
    else:
        values = thread + _INLINE + 8 if read(pid, thread + _INLINE, 4)[3] == 1 else 0
    if not values:
        keys, values = word(pid, place + _KEYS_OF_DICT), word(pid, place + _VALUES_OF_DICT)
    head = read(pid, keys, 32)
    count = min(struct.unpack_from("<q", head, 24)[0], _MOST_ATTRIBUTES)
    step = 24 if head[10] == _GENERAL else 16
    entries = read(pid, keys + 32 + (1 << head[9]), step * count)
    for row in range(count):
        name, value = struct.unpack_from("<QQ", entries, step * row + step - 16)
        yield name, word(pid, values + 8 * row) if values else value
