"""Readable function names: C++ by the platform's own libstdc++, Rust's legacy scheme on top of it, v0 by rust_v0.

D and Swift names stay as they are. Source of the Rust escapes: rustc-demangle `legacy.rs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

MAX_PLAIN = 1 << 14
"""Characters of a readable name; one that would be longer stays mangled."""

_MAX_REFERENCES = 32
"""Each reference to an earlier part can double a name: 278 bytes can stand for 436 MB. Of 448,456 names in the
libraries of a development machine, 371 have more."""

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
    try:
        # Imported here: it searches for the library, and most captures hold no C++.
        import cxxfilt
    except (ImportError, OSError):
        return str

    def plain(mangled: str) -> str:
        try:
            demangled: bytes = cxxfilt.demangleb(mangled.encode("utf-8", "replace"))
        except (cxxfilt.Error, AttributeError):
            return mangled
        return demangled.decode("utf-8", "replace")

    return plain
