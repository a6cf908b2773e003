"""Addresses to function names: sealed symbols first, then kallsyms, ELF files, perf maps and the vdso.

The source lines of the program's own code and the functions inlined there are in `lines.py`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from pinprof.base.numbering import Numbering
from pinprof.data.model import Dso, Int32, UInt64
from pinprof.read.symbols.demangle import demangle
from pinprof.read.symbols.elf import ElfSymbols, own_vdso, read_elf_bytes
from pinprof.read.symbols.kallsyms import KernelText
from pinprof.read.symbols.kept import KeptSymbols
from pinprof.read.symbols.lines import LineResolver
from pinprof.read.symbols.perf_map import load_perf_map
from pinprof.read.symbols.sealed import SealedAddresses, SealedSymbols, UserKey, user_key

__all__ = ["Resolver", "SealedSymbols"]

CORE_KERNEL = "[kernel.kallsyms]"


class _Symbols(Protocol):
    """What a source of symbols can do: rows of addresses, and the name of a row."""

    def find(self, addresses: UInt64, /) -> Int32: ...
    def name(self, row: int, /) -> str: ...


class Resolver:
    """Turns addresses into function names for one capture; results are indices into `names`, -1 if unresolved.

    `kallsyms` is a saved /proc/kallsyms, `symfs` a directory that holds the recording machine's files, `sealed` the
    capture's own symbols. With `recording`, the capture was made on this machine a moment ago: its perf maps and its
    vdso are the ones found here, and every answer is remembered for `seal()`.

    `kept` are symbol tables that earlier captures have loaded, and to which this one adds.

    A file with another build id than the recorded one is not used. For a capture with sealed symbols only `symfs` and
    files of known build id are read beside them: what else lies here belongs to another machine or another time.
    """

    def __init__(
        self,
        *,
        kallsyms: Path | None = None,
        symfs: Path | None = None,
        sealed: SealedSymbols | None = None,
        recording: bool = False,
        kept: KeptSymbols | None = None,
    ) -> None:
        self._numbered, self._kernel_paths = Numbering[str](), Numbering([CORE_KERNEL])
        self.names = self._numbered.items
        self._kallsyms_path = kallsyms
        self._kallsyms: KernelText | None = None
        self._symfs = symfs
        self._sealed = sealed
        self._recording = recording
        self._kept = kept or KeptSymbols()
        self._sources: dict[UserKey, _Symbols | None] = {}
        self._kernel_answers: list[tuple[UInt64, Int32, Int32]] = []
        self._user_answers: dict[UserKey, list[tuple[UInt64, Int32]]] = defaultdict(list)
        self.lines = LineResolver(self._numbered, partial(self._candidates, foreign=False), sealed, recording=recording)

    @property
    def kernel_hidden(self) -> bool:
        """Whether kptr_restrict hid the kernel's addresses from the recording: then no kernel frame has a name."""
        if self._sealed is not None and not self._sealed.kernel_hidden:
            return False
        kallsyms = self._load_kallsyms()
        return self._sealed is not None if kallsyms is None else kallsyms.hidden

    def kernel(self, ips: UInt64) -> tuple[Int32, list[Dso], Int32]:
        """Per kernel address: its name, the table of DSOs, and its index into that table.

        Unresolved addresses belong to `[kernel.kallsyms]`, the table's first entry.
        """
        names, dsos = np.full(len(ips), -1, np.int32), np.zeros(len(ips), np.int32)
        if (sealed := self._sealed) is not None:
            rows = sealed.kernel.find(ips)
            names = self._interned(np.where(rows >= 0, _at(sealed.kernel.names, rows), -1), sealed.names.__getitem__)
            table = np.array([*map(self._kernel_paths.number, sealed.kernel_dsos)] or [0], np.int32)
            dsos = np.where(names >= 0, table[_at(sealed.kernel_dso, rows)], 0).astype(np.int32)
        open_rows = np.flatnonzero(names < 0)
        if open_rows.size and (kallsyms := self._load_kallsyms()) is not None:
            found = kallsyms.around(ips[open_rows])
            rows = found.find(ips[open_rows])
            names[open_rows] = self._interned(rows, found.name)
            dsos[open_rows] = _per_row(rows, lambda row: self._kernel_paths.number(found.module(row)), missing=0)
        if self._recording:
            self._kernel_answers.append((ips, names, dsos))
        modules = [Dso(path, "", "module") for path in self._kernel_paths.items[1:]]
        return names, [Dso(CORE_KERNEL, "", "kernel"), *modules], dsos

    def user(self, dso: Dso, file_offsets: UInt64, pid: int) -> Int32:
        """Per offset in a DSO's file its name; for the kinds `jit` and `anon` offsets are addresses of `pid`."""
        key = user_key(dso, pid)
        names = np.full(len(file_offsets), -1, np.int32)
        if self._sealed is not None and (sealed := self._sealed.user.get(key)) is not None:
            rows = sealed.find(file_offsets)
            names = self._interned(np.where(rows >= 0, _at(sealed.names, rows), -1), self._sealed.names.__getitem__)
        open_rows = np.flatnonzero(names < 0)
        if open_rows.size:
            names[open_rows] = self._from_source(dso, key, file_offsets[open_rows])
        if self._recording:
            self._user_answers[key].append((file_offsets, names))
        return names

    def runs(self, dso: Dso, file_offsets: UInt64) -> Int32:
        """Per offset of an instruction what stands there, as an index into `lines.runs`; -1 where no line is known.

        For a return address the instruction is the call before it.
        """
        return self.lines.user(dso, file_offsets, lambda offsets: self._from_source(dso, user_key(dso, 0), offsets))

    def seal(self) -> SealedSymbols:
        """Every answer given so far, for a capture to carry; ValueError without `recording`."""
        if not self._recording:
            raise ValueError("only a resolver of a recording remembers its answers")
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        place = np.full(len(order) + 1, -1, np.int32)  # the last entry stands for a name of -1
        place[order] = np.arange(len(order))
        ips, rows = _first_of_each([answer[0] for answer in self._kernel_answers])
        names = place[_joined([answer[1] for answer in self._kernel_answers])[rows]]
        dsos = _joined([answer[2] for answer in self._kernel_answers])[rows]
        user = {}
        for key, answers in self._user_answers.items():
            offsets, rows = _first_of_each([answer[0] for answer in answers])
            user[key] = SealedAddresses(offsets, place[_joined([answer[1] for answer in answers])[rows]])
        paths = self._kernel_paths.items
        by_path = sorted(range(len(paths)), key=paths.__getitem__)
        rank = np.argsort(np.array(by_path)).astype(np.int32)
        return SealedSymbols(
            names=tuple(self.names[index] for index in order),
            kernel=SealedAddresses(ips, names),
            kernel_dso=rank[dsos],
            kernel_dsos=tuple(paths[index] for index in by_path),
            kernel_hidden=self.kernel_hidden,
            user=user,
            lines=self.lines.seal(place),
        )

    def _from_source(self, dso: Dso, key: UserKey, offsets: UInt64) -> Int32:
        """Names from what lies here now."""
        if (source := self._source(dso, key)) is None:
            return np.full(len(offsets), -1, np.int32)
        return self._interned(source.find(offsets), lambda row: demangle(source.name(row)))

    def _interned(self, rows: Int32, name: Callable[[int], str]) -> Int32:
        """Per row of some table the index of its name, -1 for a row of -1."""
        return _per_row(rows, lambda row: self._numbered.number(name(row)), missing=-1)

    def _load_kallsyms(self) -> KernelText | None:
        if self._kallsyms is None and self._kallsyms_path is not None:
            self._kallsyms = self._kept.kallsyms(self._kallsyms_path)
        return self._kallsyms

    def _source(self, dso: Dso, key: UserKey) -> _Symbols | None:
        """The symbols of a DSO, loaded once."""
        if key not in self._sources:
            self._sources[key] = self._load(dso, key[3])
        return self._sources[key]

    def _load(self, dso: Dso, pid: int) -> _Symbols | None:
        foreign = self._sealed is not None
        if dso.kind in ("jit", "anon"):
            roots = [self._symfs] if self._symfs else []
            for root in roots if foreign else [*roots, Path("/")]:
                if functions := load_perf_map(root / f"tmp/perf-{pid}.map"):
                    return functions
            return None
        images: Iterable[ElfSymbols | None]
        if dso.kind == "vdso":
            images = [read_elf_bytes(own_vdso())] if dso.build_id or self._recording else []
        else:
            images = (self._kept.elf(path, root) for root, path in self._candidates(dso, foreign=foreign))
        return next((image for image in images if image and image.is_build(dso.build_id)), None)

    def _candidates(self, dso: Dso, *, foreign: bool) -> Iterator[tuple[Path, Path]]:
        """Where a DSO's file may be, as (root of the debug files, path): symfs, here, perf's cache of files."""
        if dso.kind != "file" or not dso.path.startswith("/") or "\0" in dso.path:
            return
        here = Path("/")
        if self._symfs is not None:
            yield self._symfs, self._symfs / dso.path.lstrip("/")
            yield self._symfs, self._symfs / dso.name
        if dso.build_id or not (foreign or self._symfs):
            yield here, Path(dso.path)
        if len(dso.build_id) > 2 and dso.build_id.isalnum():
            cache = Path(os.path.expanduser("~")) / ".debug/.build-id"  # noqa: PTH111 — Path.expanduser may raise
            yield here, cache / dso.build_id[:2] / dso.build_id[2:] / "elf"


def _at(column: Int32, rows: Int32) -> Int32:
    """The column's values at rows, of which those that are -1 give any value."""
    return column[rows] if len(column) else np.zeros(len(rows), np.int32)


def _per_row(rows: Int32, value: Callable[[int], int], missing: int) -> Int32:
    """Call `value` once per distinct row; rows of -1 give `missing`."""
    distinct, inverse = np.unique(rows, return_inverse=True)
    return np.array([missing if row < 0 else value(row) for row in distinct.tolist()] or [missing], np.int32)[inverse]


def _joined(columns: list[Int32]) -> Int32:
    return np.concatenate([np.zeros(0, np.int32), *columns])


def _first_of_each(columns: list[UInt64]) -> tuple[UInt64, Int32]:
    """The distinct addresses of several columns, ascending, and the row of each in the joined column."""
    addresses, rows = np.unique(np.concatenate([np.zeros(0, np.uint64), *columns]), return_index=True)
    return addresses, rows.astype(np.int32)
