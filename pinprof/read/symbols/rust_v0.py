"""Readable names of Rust's v0 mangling (`_R…`), without hashes of crates and types of constants.

A recursive descent over the grammar of RFC 2603, which is small, stable, and unknown to libstdc++: an own reader of two
hundred lines decides what hostile names cost. `Name` reads and writes at once; while it skips, it writes nothing and
follows no reference back, so work is bounded by what is written.

Sources: Rust RFC 2603 (grammar), "v0 Symbol Format" of The rustc book (constants), rustc-demangle `v0.rs` (spelling).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MAX_DEPTH = 150
"""Nested types and paths of one name; Python's own stack allows no thousand calls."""

_SYMBOL = re.compile(r"__?R(?=[A-Z])([!-~]*?)((?:\.[\w.$-]*)?)", re.ASCII)
_LLVM = re.compile(r"\.llvm\.[0-9A-Fa-f]+(?=\.|$)")
_BASIC = {
    "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize",
    "l": "i32", "m": "u32", "n": "i128", "o": "u128", "p": "_", "s": "i16", "t": "u16", "u": "()", "v": "...",
    "x": "i64", "y": "u64", "z": "!",
}  # fmt: skip
_UNSIGNED, _SIGNED = frozenset("htmyoj"), frozenset("aslxni")
_SPECIAL = {"C": "closure", "S": "shim"}
_BASE_62 = {
    digit: value for value, digit in enumerate("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
}
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "\0": "\\0"}


class Unreadable(ValueError):
    """Not a name of this mangling, or one that is too deep or too long."""


def demangle_v0(name: str, longest: int) -> str:
    """The path of a Rust function; Unreadable for anything else, and where it would be over `longest` characters."""
    symbol = _SYMBOL.fullmatch(name)
    if symbol is None:
        raise Unreadable(name)
    reader = Name(symbol[1], longest)
    reader.path(in_value=True)
    if not reader.at_end:
        # The crate that a generic function was instantiated in.
        with reader.skipping():
            reader.path()
    if not reader.at_end:
        raise Unreadable(name)
    suffix = _LLVM.sub("", symbol[2])
    return reader.written + (f" [clone {suffix}]" if suffix else "")


class Name:
    """One mangled name behind its `_R`, read from left to right."""

    def __init__(self, text: str, longest: int) -> None:
        self._text = text
        self._at = 0
        self._out: list[str] = []
        self._room = longest
        self._silent = False
        self._depth = 0
        self._lifetimes = 0

    @property
    def at_end(self) -> bool:
        """Whether everything is read."""
        return self._at == len(self._text)

    @property
    def written(self) -> str:
        """The readable name so far."""
        return "".join(self._out)

    @contextmanager
    def skipping(self) -> Iterator[None]:
        """Read without writing."""
        before, self._silent = self._silent, True
        yield
        self._silent = before

    def path(self, *, in_value: bool = False) -> None:
        """A path; in values generic arguments follow `::`."""
        kind = self._next()
        with self._deeper():
            if kind == "C":
                self._disambiguator()
                self._write(self._identifier())
            elif kind in "MX":
                self._disambiguator()
                with self.skipping():
                    self.path()
                self._qualified(with_trait=kind == "X")
            elif kind == "Y":
                self._qualified(with_trait=True)
            elif kind == "N":
                self._nested(in_value=in_value)
            elif kind == "I":
                self.path(in_value=in_value)
                self._write("::<" if in_value else "<")
                self._list(self._generic_argument)
                self._write(">")
            elif kind == "B":
                self._back(lambda: self.path(in_value=in_value))
            else:
                raise Unreadable(kind)

    def _qualified(self, *, with_trait: bool) -> None:
        """`<type>` or `<type as trait>`."""
        self._write("<")
        self._type()
        if with_trait:
            self._write(" as ")
            self.path()
        self._write(">")

    def _nested(self, *, in_value: bool) -> None:
        namespace = self._next()
        if not namespace.isalpha():
            raise Unreadable(namespace)
        self.path(in_value=in_value)
        number = self._disambiguator()
        name = self._identifier()
        if namespace.isupper():
            named = f":{name}" if name else ""
            self._write(f"::{{{_SPECIAL.get(namespace, namespace)}{named}#{number}}}")
        elif name:
            self._write(f"::{name}")

    def _generic_argument(self) -> None:
        if self._eat("L"):
            self._lifetime(self._base_62())
        elif self._eat("K"):
            self._constant(in_value=False)
        else:
            self._type()

    def _type(self) -> None:
        kind = self._next()
        if kind in _BASIC:
            self._write(_BASIC[kind])
            return
        with self._deeper():
            if kind in "RQ":
                self._write("&")
                if self._eat("L") and (number := self._base_62()):
                    self._lifetime(number)
                    self._write(" ")
                self._write("mut " if kind == "Q" else "")
                self._type()
            elif kind in "PO":
                self._write("*const " if kind == "P" else "*mut ")
                self._type()
            elif kind in "AS":
                self._write("[")
                self._type()
                if kind == "A":
                    self._write("; ")
                    self._constant(in_value=True)
                self._write("]")
            elif kind == "T":
                self._tuple(self._type)
            elif kind == "F":
                self._binding(self._function)
            elif kind == "D":
                self._write("dyn ")
                self._binding(self._dyn_traits)
                if not self._eat("L"):
                    raise Unreadable("a trait object without a lifetime")
                if number := self._base_62():
                    self._write(" + ")
                    self._lifetime(number)
            elif kind == "B":
                self._back(self._type)
            else:
                self._at -= 1
                self.path()

    def _function(self) -> None:
        self._write("unsafe " if self._eat("U") else "")
        if self._eat("K"):
            abi = "C" if self._eat("C") else self._identifier().replace("_", "-")
            self._write(f'extern "{abi}" ')
        self._write("fn(")
        self._list(self._type)
        self._write(")")
        if not self._eat("u"):
            self._write(" -> ")
            self._type()

    def _dyn_traits(self) -> None:
        self._list(self._dyn_trait, " + ")

    def _dyn_trait(self) -> None:
        opened = self._open_path()
        while self._eat("p"):
            self._write(", " if opened else "<")
            opened = True
            self._write(f"{self._identifier()} = ")
            self._type()
        self._write(">" if opened else "")

    def _open_path(self) -> bool:
        """A path whose generic arguments, if it has any, may go on: whether they do."""
        opened = False
        if self._eat("B"):

            def follow() -> None:
                nonlocal opened
                opened = self._open_path()

            self._back(follow)
        elif self._eat("I"):
            self.path()
            self._write("<")
            self._list(self._generic_argument)
            opened = True
        else:
            self.path()
        return opened

    def _constant(self, *, in_value: bool) -> None:
        """A constant; anything but a number, character or truth value stands in braces among types."""
        kind = self._next()
        with self._deeper():
            if kind == "p":
                self._write("_")
            elif kind in _UNSIGNED or kind in _SIGNED:
                self._write("-" if kind in _SIGNED and self._eat("n") else "")
                digits = self._hex()
                self._write(str(int(digits or "0", 16)) if len(digits) <= 16 else f"0x{digits}")
            elif kind == "b":
                self._write({"0": "false", "1": "true"}.get(self._hex()) or self._refuse("no truth value"))
            elif kind == "c":
                self._write(f"'{_escaped(self._character())}'")
            elif kind == "B":
                self._back(lambda: self._constant(in_value=in_value))
            else:
                self._write("" if in_value else "{")
                self._compound(kind)
                self._write("" if in_value else "}")

    def _compound(self, kind: str) -> None:
        if kind == "e":
            self._write(f"*{self._string()}")
        elif kind == "R" and self._eat("e"):
            self._write(self._string())
        elif kind in "RQ":
            self._write("&" if kind == "R" else "&mut ")
            self._constant(in_value=True)
        elif kind == "A":
            self._write("[")
            self._list(lambda: self._constant(in_value=True))
            self._write("]")
        elif kind == "T":
            self._tuple(lambda: self._constant(in_value=True))
        elif kind == "V":
            self.path(in_value=True)
            shape = self._next()
            if shape == "T":
                self._write("(")
                self._list(lambda: self._constant(in_value=True))
                self._write(")")
            elif shape == "S":
                self._write(" { ")
                self._list(self._field)
                self._write(" }")
            elif shape != "U":
                raise Unreadable(shape)
        else:
            raise Unreadable(kind)

    def _field(self) -> None:
        self._disambiguator()
        self._write(f"{self._identifier()}: ")
        self._constant(in_value=True)

    def _tuple(self, item: Callable[[], None]) -> None:
        self._write("(")
        self._write(",)" if self._list(item) == 1 else ")")

    def _list(self, item: Callable[[], None], separator: str = ", ") -> int:
        """Items up to `E`, and their number."""
        count = 0
        while not self._eat("E"):
            self._write(separator if count else "")
            item()
            count += 1
        return count

    def _binding(self, inside: Callable[[], None]) -> None:
        """What follows a binder of lifetimes: `for<'a> …`."""
        bound = self._base_62() + 1 if self._eat("G") else 0
        if bound > len(self._text):
            raise Unreadable("more lifetimes than letters")
        if bound:
            self._write("for<")
            for number in range(bound):
                self._lifetimes += 1
                self._write(", " if number else "")
                self._lifetime(1)
            self._write("> ")
        inside()
        self._lifetimes -= bound

    def _lifetime(self, number: int) -> None:
        """The lifetime bound `number` binders out, 0 for an erased one."""
        depth = self._lifetimes - number
        if number and depth < 0 and not self._silent:
            raise Unreadable("a lifetime that nothing binds")
        self._write("'_" if not number else f"'{chr(ord('a') + depth)}" if depth < 26 else f"'_{depth}")

    def _back(self, read: Callable[[], None]) -> None:
        """Read what stands at an earlier place once more."""
        start = self._at - 1
        place = self._base_62()
        if place >= start:
            raise Unreadable("a reference that does not lead back")
        if not self._silent:
            resumed, self._at = self._at, place
            read()
            self._at = resumed

    def _identifier(self) -> str:
        encoded = self._eat("u")
        digits = re.compile(r"0|[1-9]\d{0,4}", re.ASCII).match(self._text, self._at)
        if digits is None:
            raise Unreadable("a name without a length")
        self._at = digits.end()
        self._eat("_")
        name = self._text[self._at : self._at + int(digits[0])]
        if len(name) < int(digits[0]):
            raise Unreadable("a name that is cut short")
        self._at += len(name)
        return _from_punycode(name) if encoded else name

    def _disambiguator(self) -> int:
        return self._base_62() + 1 if self._eat("s") else 0

    def _base_62(self) -> int:
        if self._eat("_"):
            return 0
        value = 0
        while (digit := self._next()) != "_":
            if digit not in _BASE_62 or value >= 1 << 64:
                raise Unreadable(digit)
            value = value * 62 + _BASE_62[digit]
        return value + 1

    def _hex(self) -> str:
        """Digits up to `_`, without zeros before them but for zero itself."""
        end = self._text.find("_", self._at)
        digits = self._text[self._at : end] if end >= 0 else "?"
        if not re.fullmatch(r"[0-9a-f]*", digits):
            raise Unreadable(digits)
        self._at = end + 1
        return digits.lstrip("0") or ("0" if digits else "")

    def _character(self) -> str:
        value = int(self._hex() or "0", 16)
        if value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
            raise Unreadable("no character")
        return chr(value)

    def _string(self) -> str:
        end = self._text.find("_", self._at)
        digits, self._at = self._text[self._at : max(end, 0)], end + 1
        try:
            text = bytes.fromhex(digits).decode()
        except ValueError:
            raise Unreadable("no text") from None
        return f'"{_escaped(text)}"' if end >= 0 else self._refuse("text without an end")

    def _next(self) -> str:
        if self.at_end:
            raise Unreadable("cut short")
        self._at += 1
        return self._text[self._at - 1]

    def _eat(self, letter: str) -> bool:
        """Whether this letter comes next, which is then behind."""
        if not self._text.startswith(letter, self._at):
            return False
        self._at += 1
        return True

    def _write(self, text: str) -> None:
        if not self._silent and text:
            self._room -= len(text)
            if self._room < 0:
                raise Unreadable("too long")
            self._out.append(text)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unreadable("too deep")
        yield
        self._depth -= 1

    def _refuse(self, why: str) -> str:
        raise Unreadable(why)


def _escaped(text: str) -> str:
    return "".join(
        _ESCAPES.get(letter) or (letter if letter.isprintable() else f"\\u{{{ord(letter):x}}}") for letter in text
    )


def _from_punycode(name: str) -> str:
    """RFC 3492, with `_` as the delimiter."""
    plain, _, encoded = name.rpartition("_")
    try:
        text = f"{plain}-{encoded}".removeprefix("-").encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        raise Unreadable(name) from None
    if not text.isprintable():
        raise Unreadable(name)
    return text
