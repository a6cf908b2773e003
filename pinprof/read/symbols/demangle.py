"""Readable function names: C++ by the platform's own libstdc++, Rust's legacy scheme on top of it, v0 by rust_v0.

D and Swift names stay as they are. Source of the Rust escapes: rustc-demangle `legacy.rs`.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Callable
from functools import cache

MAX_PLAIN = 1 << 14
"""Characters of a readable name; one that would be longer stays mangled."""

_MAX_REFERENCES = 32
"""Each reference to an earlier part can double a name: 278 bytes can stand for 436 MB. Of 448,456 names in the
libraries of a development machine, 371 have more."""

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++.so.1")
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")
_RUST = re.compile(r"(_ZN.+)17h[0-9a-f]{16}E(\..*)?")
_RUST_ESCAPE = re.compile(r"\$(?:(LT|GT|RF|BP|C|LP|RP|SP)|u([0-9a-f]{1,6}))\$|\.\.")
_RUST_CHARACTERS = {"LT": "<", "GT": ">", "RF": "&", "BP": "*", "C": ",", "LP": "(", "RP": ")", "SP": "@"}
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}( \[clone .*\])?$")


def demangle(name: str) -> str:
    """The function as its author wrote it, with parameter types for C++; unchanged if it is not mangled."""
    if name.startswith(("_R", "__R")):
        return _rust_v0(name)
    if not name.startswith("_Z"):
        return name
    mangled, plt, _ = name.partition("@plt")
    if len(_REFERENCE.findall(mangled)) > _MAX_REFERENCES:
        return name
    plain = _libstdcxx()(mangled)
    if len(plain) > MAX_PLAIN:
        return name
    if plain != mangled and _RUST.fullmatch(mangled):
        plain = _RUST_HASH.sub("", plain)
        plain = re.sub(r"(^|::)_(?=\$)", r"\1", plain)
        plain = _RUST_ESCAPE.sub(_unescape, plain)
    return plain + plt


def _rust_v0(name: str) -> str:
    from pinprof.read.symbols.rust_v0 import Unreadable, demangle_v0

    if len(name) > MAX_PLAIN:
        return name
    try:
        return demangle_v0(name, MAX_PLAIN)
    except Unreadable:
        return name


def _unescape(match: re.Match[str]) -> str:
    """The characters that a Rust escape stands for; control characters and impossible ones stay escaped."""
    word, code = match.groups()
    if word:
        return _RUST_CHARACTERS[word]
    if code is None:
        return "::"
    character = chr(int(code, 16)) if int(code, 16) <= 0x10FFFF else ""
    return character if character.isprintable() and character else match[0]


@cache
def _libstdcxx() -> Callable[[str], str]:
    """A function from mangled to plain names; it returns its argument where libstdc++ is not installed."""
    for name in _LIBRARIES:
        with contextlib.suppress(OSError, AttributeError):
            readable = ctypes.CDLL(name)["__cxa_demangle"]
            break
    else:
        return str
    # The allocator that the process has: the user may preload another than the C library's.
    free = ctypes.CDLL(None).free
    readable.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    status = ctypes.c_int()

    def plain(mangled: str) -> str:
        made = readable(mangled.encode("utf-8", "replace"), None, None, ctypes.byref(status))
        if not made:
            return mangled
        try:
            return ctypes.string_at(made).decode("utf-8", "replace")
        finally:
            free(made)

    return plain
