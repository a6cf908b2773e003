"""A copy of a capture to give to others: it reads the same, and holds no address of the kernel that it was recorded on.

Where the kernel lies in memory differs at every boot, and is kept from ordinary users, because attacks on the kernel
need it. A capture made by root says it: in the table of the kernel's symbols, in every call chain that goes through the
kernel, and in what other tools noted. The copy is made of the same files without the table and the logs; every address
of the kernel is moved, neighbours together, so that functions keep their names, their order and their distances.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pinprof.base import files
from pinprof.base.errors import CaptureError, CollectError, unwritable
from pinprof.data.uvm_events import HEADER_BYTES
from pinprof.streams import store

_KERNEL = 0xFFFF_0000_0000_0000
"""The lowest address that can be the kernel's, on every 64-bit processor that perf knows."""
_MARKERS = 2**64 - 4096
"""From here on numbers stand for something else: PERF_CONTEXT_KERNEL and its like (perf_event_open(2)), and -1."""
_APART = 64 << 20
"""Addresses further apart lie in parts of the kernel that were placed independently, such as its code and modules."""
_FIRST, _STEP = 0xFFFF_8000_0000_0000, 1 << 33
"""Where the parts are moved to."""
_DATA_SECTION = struct.Struct("<40xQ")
"""perf.data's header, up to the offset of its records (tools/perf/Documentation/perf.data-file-format.txt)."""
_IN_TEXT = re.compile(r"(?i)(?<![0-9a-f])ffff[0-9a-f]{12}(?![0-9a-f])")
_PIECE = 1 << 23
"""Words looked at in one go."""
_PERF_FILES = (store.PERF_DATA, store.CALLS_DATA)
_LEFT_OUT = (store.KALLSYMS, store.LOG, store.CALLS_LOG, store.NSYS_REPORT, "nsys.qdstrm")

Words = NDArray[np.uint64]


def share(capture: Path, target: Path) -> Path:
    """Write the copy, under a name that nothing has yet; its path.

    CaptureError where the capture cannot be read, CollectError where the copy cannot be written.
    """
    store.refuse_links(capture)
    store.read_manifest(capture)
    target = store.captured(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir(files.PRIVATE_FOLDER)
    except FileExistsError as error:
        raise CollectError(f"{target} exists already.", "Give another name with -o.", "output") from error
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        _copy(capture, target)
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise unwritable(target, error) from error
        if isinstance(error, ValueError | KeyError | TypeError | EOFError | struct.error | sqlite3.Error):
            problem = f"{capture} cannot be copied without kernel addresses: {error}."
            raise CaptureError(problem, "Share its page instead: `pinprof report`.", "share") from error
        raise
    return target


def _copy(capture: Path, target: Path) -> None:
    for source in sorted(capture.rglob("*")):
        place = target / source.relative_to(capture)
        if source.is_dir():
            place.mkdir(files.PRIVATE_FOLDER)
        elif source.name not in _LEFT_OUT:
            files.copied(source, place)
    moved = _Moved(_addresses(target))
    for recording in _of_words(target):
        _change_words(recording, moved.words)
    if path := store.part(target, store.SYMBOLS):
        _change_symbols(path, moved.words)
    if path := store.part(target, store.PERF_SCRIPT):
        text = gzip.decompress(path.read_bytes()).decode("utf-8", "surrogateescape")
        files.written(path, gzip.compress(moved.text(text).encode("utf-8", "surrogateescape"), 6, mtime=0))
    if path := store.part(target, store.NSYS_SQLITE):
        _change_database(path, moved)


def _of_words(capture: Path) -> list[Path]:
    """Recordings that may hold addresses of the kernel as words; an event of managed memory says where code was."""
    parts = [store.part(capture, name) for name in _PERF_FILES]
    return [path for path in parts if path] + sorted((capture / store.UVM).glob("*.bin"))


def _addresses(capture: Path) -> Words:
    """Every kernel address of a capture's recordings and symbols, ascending."""
    found = [np.zeros(0, np.uint64)]
    for recording in _of_words(capture):
        found += [np.unique(words[_is_kernel(words)]) for words in _pieces(recording)]
    if path := store.part(capture, store.SYMBOLS):
        found.append(np.array(json.loads(gzip.decompress(path.read_bytes()))["kernel"]["ips"], np.uint64))
    if path := store.part(capture, store.PERF_SCRIPT):
        text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        found.append(np.array([int(word, 16) for word in set(_IN_TEXT.findall(text))], np.uint64))
    if path := store.part(capture, store.NSYS_SQLITE):
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
            for table, column in _address_columns(base):
                rows = base.execute(f"SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'integer'")  # noqa: S608
                found.append(np.array([number & (2**64 - 1) for (number,) in rows], np.uint64))
            for (text,) in _texts(base):
                found.append(np.array([int(word, 16) for word in _IN_TEXT.findall(text)], np.uint64))
    words = np.unique(np.concatenate(found))
    return words[_is_kernel(words)]


class _Moved:
    """Where each kernel address is moved to."""

    def __init__(self, known: Words) -> None:
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


def _is_kernel(words: Words) -> NDArray[np.bool_]:
    kernel: NDArray[np.bool_] = (words >= np.uint64(_KERNEL)) & (words < np.uint64(_MARKERS))
    return kernel


def _pieces(path: Path) -> Iterator[Words]:
    """What follows the header of a file of whole words; changes go into the file."""
    begin = HEADER_BYTES
    if path.name in _PERF_FILES:
        with path.open("rb") as file:
            (begin,) = _DATA_SECTION.unpack(file.read(_DATA_SECTION.size))
    count = (path.stat().st_size - begin) // 8
    if count <= 0:
        return
    words = np.memmap(path, "<u8", "r+", begin, (count,))
    for first in range(0, count, _PIECE):
        yield words[first : first + _PIECE]
    words.flush()


def _change_words(path: Path, moved: Callable[[Words], Words]) -> None:
    for words in _pieces(path):
        words[:] = moved(words)


def _change_symbols(path: Path, moved: Callable[[Words], Words]) -> None:
    symbols = json.loads(gzip.decompress(path.read_bytes()))
    symbols["kernel"]["ips"] = moved(np.array(symbols["kernel"]["ips"], np.uint64)).tolist()
    files.written(path, gzip.compress(json.dumps(symbols, separators=(",", ":")).encode(), mtime=0))


def _change_database(path: Path, moved: _Moved) -> None:
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


def _signed(moved: _Moved, number: int) -> int:
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


def _texts(base: sqlite3.Connection) -> list[tuple[str]]:
    found = []
    for table, column in _text_columns(base):
        query = f"SELECT {column} FROM {table} WHERE typeof({column}) = 'text' AND {column} LIKE '%ffff%'"  # noqa: S608
        found += base.execute(query).fetchall()
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
