"""How files of a capture are made fit for others: kernel addresses in them are moved (share.py says why)."""

from __future__ import annotations

import gzip
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinprof.base import files
from pinprof.base.columns import ascending
from pinprof.data.perf_format import DATA_OFFSET, FILE_HEAD
from pinprof.data.uvm_events import HEADER_BYTES
from pinprof.streams.stream import found

_KERNEL = 0xFFFF_0000_0000_0000
"""The lowest address that can be the kernel's, on every 64-bit processor that perf knows."""
_MARKERS = 2**64 - 4096
"""From here on numbers stand for something else: PERF_CONTEXT_KERNEL and its like (perf_event_open(2)), and -1."""
_APART = 64 << 20
"""Addresses further apart lie in parts of the kernel that were placed independently, such as its code and modules."""
_FIRST, _STEP = 0xFFFF_8000_0000_0000, 1 << 33
"""Where the parts are moved to."""
_IN_TEXT = re.compile(r"(?i)(?<![0-9a-f])ffff[0-9a-f]{12}(?![0-9a-f])")
_MOST_TEXT = 1 << 30
_PIECE = 1 << 23
"""Words looked at in one go."""

Words = NDArray[np.uint64]


class MovedAddresses:
    """Where each kernel address is moved to."""

    def __init__(self, found: Words) -> None:
        """`found`: words among which they are."""
        words = ascending(found)
        known = words[_is_kernel(words)]
        gaps = np.diff(known, prepend=known[:1]) > _APART
        begins = np.flatnonzero(gaps | (np.arange(len(known)) == 0))
        self._known = known
        part = np.cumsum(gaps).astype(np.uint64)
        # Distances inside a page say nothing, and code is aligned.
        base = (known[begins] & ~np.uint64(0xFFF))[part.astype(np.intp)] if len(known) else known
        self._to = np.uint64(_FIRST) + part * np.uint64(_STEP) + (known - base)

    def words(self, words: Words) -> Words:
        """Numbers of which those that are kernel addresses are moved."""
        if not len(self._known):
            return words
        place = np.minimum(np.searchsorted(self._known, words), len(self._known) - 1)
        return np.where(self._known[place] == words, self._to[place], words)

    def text(self, text: str) -> str:
        """A text in which they are."""
        return _IN_TEXT.sub(lambda word: f"{int(self.words(np.array([int(word[0], 16)], np.uint64))[0]):016x}", text)


class Scrub:
    """What is done to the copy of a file; of this one nothing: it holds no such address."""

    left_out = False
    """Whether it is not copied at all."""

    def __init__(self, *blanks: str) -> None:
        """`blanks`: functions of a path, as a stream names them."""
        self._blanks = blanks

    def blank(self, path: Path) -> None:
        """Overwrite what it holds that is not for others, before anything is looked for in it."""
        for place in self._blanks:
            found(place)(path)

    def addresses(self, path: Path) -> Iterator[Words]:
        """Words in it, all kernel addresses among them."""
        yield from ()

    def change(self, path: Path, moved: MovedAddresses) -> None:
        """Move those that it holds."""


class _LeftOut(Scrub):
    left_out = True


class _Binary(Scrub):
    """A file of whole words behind a head."""

    def _begin(self, _path: Path) -> int:
        return HEADER_BYTES

    def _pieces(self, path: Path) -> Iterator[Words]:
        """What follows the head; changes go into the file."""
        begin = self._begin(path)
        count = (path.stat().st_size - begin) // 8
        if count <= 0:
            return
        words = np.memmap(path, "<u8", "r+", begin, (count,))
        for first in range(0, count, _PIECE):
            yield words[first : first + _PIECE]
        words.flush()

    def addresses(self, path: Path) -> Iterator[Words]:
        for words in self._pieces(path):
            yield ascending(words[_is_kernel(words)])

    def change(self, path: Path, moved: MovedAddresses) -> None:
        for words in self._pieces(path):
            words[:] = moved.words(words)


class _PerfRecords(_Binary):
    def _begin(self, path: Path) -> int:
        with path.open("rb") as file:
            return int(FILE_HEAD.unpack(file.read(FILE_HEAD.size))[DATA_OFFSET])


class _Symbols(Scrub):
    """The sealed symbols: a table of the kernel's addresses."""

    def addresses(self, path: Path) -> Iterator[Words]:
        yield _sealed(path).kernel.addresses

    def change(self, path: Path, moved: MovedAddresses) -> None:
        symbols = _sealed(path)
        kernel = replace(symbols.kernel, addresses=moved.words(symbols.kernel.addresses))
        replace(symbols, kernel=kernel).save(path)


def _sealed(path: Path) -> Any:
    return found("pinprof.read.symbols.sealed:SealedSymbols").load(path)


class _Text(Scrub):
    """A text, as it is or compressed."""

    def addresses(self, path: Path) -> Iterator[Words]:
        yield _words_in(self._text(path))

    def change(self, path: Path, moved: MovedAddresses) -> None:
        text = moved.text(self._text(path)).encode("utf-8", "surrogateescape")
        files.written(path, gzip.compress(text, 6, mtime=0) if path.suffix == ".gz" else text)

    def _text(self, path: Path) -> str:
        plain: bytes = found("pinprof.read.packed:unpacked")(path.read_bytes(), _MOST_TEXT)
        return plain.decode("utf-8", "surrogateescape")


class _Database(Scrub):
    """A database of SQLite."""

    def addresses(self, path: Path) -> Iterator[Words]:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
            for table, column in _address_columns(base):
                rows = base.execute(f"SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'integer'")  # noqa: S608
                yield np.array([number & (2**64 - 1) for (number,) in rows], np.uint64)
            for table, column in _text_columns(base):
                query = f"SELECT {column} FROM {table} WHERE typeof({column}) = 'text' AND {column} LIKE '%ffff%'"  # noqa: S608
                for (text,) in base.execute(query):
                    yield _words_in(text)

    def change(self, path: Path, moved: MovedAddresses) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            base.execute("PRAGMA journal_mode = OFF")
            base.create_function("moved", 1, lambda number: _signed(moved, number), deterministic=True)
            base.create_function("moved_text", 1, moved.text, deterministic=True)
            for table, column in _address_columns(base):
                base.execute(f"UPDATE {table} SET {column} = moved({column}) WHERE {column} < 0")  # noqa: S608
            for table, column in _text_columns(base):
                base.execute(f"UPDATE {table} SET {column} = moved_text({column}) WHERE {column} LIKE '%ffff%'")  # noqa: S608
            # What was there before may still lie in pages that are free now.
            base.execute("VACUUM")


AS_IS, LEFT_OUT = Scrub(), _LeftOut()
MANIFEST = Scrub("pinprof.streams.store:rewrite_manifest")
"""Only what a manifest may say, without what looks like a secret."""
PERF_DATA = _PerfRecords("pinprof.collect.perf_host_name:forget", "pinprof.read.perf.shared:blank_samples")
CALLS_DATA = _PerfRecords("pinprof.read.perf.shared:blank_calls")
PERF_RECORDS, UVM_EVENTS = _PerfRecords(), _Binary()
"""An event of managed memory says where code was."""
SYMBOLS, TEXT, DATABASE = _Symbols(), _Text(), _Database()


def _is_kernel(words: Words) -> NDArray[np.bool_]:
    kernel: NDArray[np.bool_] = (words >= np.uint64(_KERNEL)) & (words < np.uint64(_MARKERS))
    return kernel


def _words_in(text: str) -> Words:
    return np.array([int(word, 16) for word in set(_IN_TEXT.findall(text))], np.uint64)


def _signed(moved: MovedAddresses, number: int) -> int:
    word = int(moved.words(np.array([number & (2**64 - 1)], np.uint64))[0])
    return word - 2**64 if word >= 2**63 else word


def _columns(base: sqlite3.Connection) -> list[tuple[str, str]]:
    tables = base.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0").fetchall()
    return [(table, row[1]) for (table,) in tables for row in base.execute(f"PRAGMA table_info({_quoted(table)})")]


def _address_columns(base: sqlite3.Connection) -> list[tuple[str, str]]:
    """Columns of addresses of code (nsys: SAMPLING_CALLCHAINS.originalIP), quoted for SQL."""
    return [
        (_quoted(table), _quoted(name)) for table, name in _columns(base) if name.lower().endswith(("ip", "address"))
    ]


def _text_columns(base: sqlite3.Connection) -> list[tuple[str, str]]:
    """Columns of texts that may name a function by its address (nsys: StringIds.value), quoted for SQL."""
    return [(_quoted(table), _quoted(name)) for table, name in _columns(base) if name == "value"]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
