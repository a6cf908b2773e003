"""Call chains of addresses → distinct chains of places in files, a chunk of samples at a time.

Processes have the same file at different addresses, so addresses are replaced by places first: what many short
processes do comes to few distinct chains, and what is kept grows with these alone.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Bool, Int32, Int64, Table, UInt64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.read.perf import kernels
from pinprof.read.perf.addresses import GUEST
from pinprof.read.perf.mappings import NO_DSO, SpaceTable
from pinprof.read.perf.records import KERNEL_START
from pinprof.read.perf.sequences import DistinctSequences, positions

NO_CHAIN = -1
KERNEL_DSO = -2
_CACHE_BITS = 14
"""As in `chains.c`: addresses whose places are remembered."""


@dataclass(frozen=True, eq=False, repr=False)
class ChainAddresses(Table):
    """What an address of a chain means, whatever process it is of."""

    dso: Int32
    """Index into AddressSpaces.dsos, NO_DSO where nothing is mapped, KERNEL_DSO for the kernel."""
    owner: Int32
    """Of code made at run time the first version of its process's address space, else 0."""
    offset: UInt64
    """In the file; the address where there is no file; 0 where nothing is mapped, GUEST for a guest."""
    leaf: Bool
    """Whether a sample was taken at it; to all other places of a program calls return."""


@dataclass(frozen=True)
class Chains:
    """Distinct chains, leaf first."""

    places: ChainAddresses
    flat: Int32
    """All chains end to end, as indices into `places`."""
    length: Int32

    def length_of(self, chain: Int32) -> Int32:
        """For each of some chains; 0 for NO_CHAIN."""
        return np.append(self.length, np.int32(0))[chain]

    def innermost(self, count: int) -> Chains:
        """The same chains, of which no more than `count` frames are kept."""
        begins = np.cumsum(self.length, dtype=np.int64) - self.length
        length = np.minimum(self.length, np.int32(count))
        return Chains(self.places, self.flat[positions(begins, length)], length)


class ChainGatherer:
    """Grows distinct chains chunk by chunk, numbered in the order in which they first appear."""

    def __init__(self) -> None:
        self._places = PlaceTable()
        self._chains = DistinctSequences()

    def __len__(self) -> int:
        return len(self._chains)

    def add(self, chains: Chains) -> Int32:
        """The number of each of some chains, none of which is empty; they may repeat."""
        return self._chains.add(self._places.numbers(chains.places)[chains.flat], chains.length)

    def numbers_of(self, entries: UInt64, length: Int32, version: Int32, spaces: SpaceTable) -> Int32:
        """Per sample the number of its chain; NO_CHAIN without one.

        `entries` are all samples' addresses end to end, `version` is each sample's address space.
        """
        number = np.full(len(length), NO_CHAIN, np.int32)
        chained = np.flatnonzero(length)
        # Those without chain take no room.
        flat = self._places.of(entries, length[chained], version[chained], spaces)
        number[chained] = self._chains.add(flat, length[chained])
        return number

    def result(self) -> Chains:
        """All chains; the gatherer must not be used afterwards."""
        return Chains(self._places.meaning(), self._chains.flat, self._chains.length)

    def since(self, first: int) -> Chains:
        """The chains from a number on, with no places but theirs."""
        if first == len(self):
            return Chains(ChainAddresses.empty(), np.zeros(0, np.int32), np.zeros(0, np.int32))
        flat = self._chains.flat[self._chains.start[first] :]
        seen = np.zeros(len(self._places), np.bool_)
        seen[flat] = True
        number = (np.cumsum(seen) - 1).astype(np.int32)
        return Chains(self._places.meaning(seen), number[flat], self._chains.length[first:])


class PlaceTable:
    """Grows distinct places of one recording, each of which is two words: what kind it is, and its offset.

    A kind is the DSO's number less KERNEL_DSO, above 32 bits of the owner and one that says whether it is a leaf.
    """

    def __init__(self) -> None:
        self._table, self._kept = kernels.HashTable.empty(), kernels.PlaceRows(factor=kernels.factor())
        # Of a kernel that has no addresses below KERNEL_START, so that nothing is in it.
        cache = np.full(2 << _CACHE_BITS, 2**64 - 1, np.uint64)
        cache[::2] = 0
        room = self._table.room
        self._kept.point(kinds=np.empty(room, np.uint64), offsets=np.empty(room, np.uint64), cache=cache)
        self._kept.table = ctypes.addressof(self._table)
        self._known: dict[tuple[int, int], int] = {}
        """Their numbers, where there is no library."""

    def __len__(self) -> int:
        return self._table.count

    def of(self, entries: UInt64, length: Int32, version: Int32, spaces: SpaceTable) -> Int32:
        """The place of each address of some chains, which lie end to end; `version` is each chain's address space."""
        if int(length.sum(dtype=np.int64)) != len(entries):
            raise ValueError("chains of other lengths than there are addresses")
        flat = np.empty(len(entries), np.int32)
        if (library := kernels.library()) is None:
            self._find_slowly(entries, length, version, spaces, flat)
            return flat
        known = ctypes.byref(self._kept), ctypes.byref(spaces.for_library)
        done, position = 0, 0
        while done < len(length):
            rest = entries[position:], length[done:], version[done:], flat[position:]
            *pointers, out = (column.ctypes.data for column in rest)
            last = done + library.pinprof_perf_places(*known, *pointers, len(length) - done, out)
            position += int(length[done:last].sum(dtype=np.int64))
            done = last
            if done < len(length):
                self._reserve(int(length[done]))
        return flat

    def numbers(self, places: ChainAddresses) -> Int32:
        """The number of each of some places."""
        kind = (places.dso.astype(np.int64) - KERNEL_DSO).astype(np.uint64) << np.uint64(33)
        kind |= places.owner.astype(np.uint64) << np.uint64(1) | places.leaf.astype(np.uint64)
        numbers, offset = np.empty(len(kind), np.int32), np.ascontiguousarray(places.offset)
        self._reserve(len(kind))
        if (library := kernels.library()) is None:
            numbers[:] = [self._number(*row) for row in zip(kind.tolist(), offset.tolist(), strict=True)]
        else:
            columns = kind.ctypes.data, offset.ctypes.data, len(kind), numbers.ctypes.data
            library.pinprof_perf_numbers(ctypes.byref(self._kept), *columns)
        return numbers

    def meaning(self, rows: Bool | slice = slice(None)) -> ChainAddresses:
        """All places, or some."""
        count = len(self)
        kind, offset = (self._kept.column(name)[:count][rows] for name in ("kinds", "offsets"))
        return ChainAddresses(
            dso=(kind >> np.uint64(33)).astype(np.int32) + np.int32(KERNEL_DSO),
            owner=((kind >> np.uint64(1)) & np.uint64(0xFFFFFFFF)).astype(np.int32),
            offset=offset,
            leaf=(kind & np.uint64(1)) > 0,
        )

    def _reserve(self, more: int) -> None:
        """Room for `more` places."""
        if (count := len(self)) + more > self._table.room:
            self._table.reserve(more)
            names = ("kinds", "offsets")
            columns = {name: kernels.grown(self._kept.column(name), count, self._table.room) for name in names}
            self._kept.point(**columns)

    def _find_slowly(self, entries: UInt64, length: Int32, version: Int32, spaces: SpaceTable, flat: Int32) -> None:
        found: dict[tuple[int, int, bool], int] = {}
        at = 0
        for size, space in zip(length.tolist(), version.tolist(), strict=True):
            innermost = True
            for address in entries[at : at + size].tolist():
                kernel = address >= KERNEL_START
                key = (address, 0, False) if kernel else (address, space, innermost)
                innermost = innermost and kernel
                if key not in found:
                    self._reserve(1)
                    found[key] = self._number(*((0, address) if kernel else _located(address, space, key[2], spaces)))
                flat[at] = found[key]
                at += 1

    def _number(self, kind: int, offset: int) -> int:
        """The number of a place, for which there is room."""
        number = self._known.setdefault((kind, offset), len(self))
        if number == len(self):
            self._kept.column("kinds")[number], self._kept.column("offsets")[number] = kind, offset
            self._table.count += 1
        return number


def _located(address: int, version: int, leaf: bool, spaces: SpaceTable) -> tuple[int, int]:
    """Kind and offset of what an address of a program means in one version of its address space."""
    (dso,), (offset,) = (column.tolist() for column in spaces.find(version, np.array([address], np.uint64)))
    if address == GUEST or dso == NO_DSO:
        return NO_DSO - KERNEL_DSO << 33, GUEST if address == GUEST else 0
    owner = int(spaces.owner[version]) if spaces.by_process[dso] else 0
    return dso - KERNEL_DSO << 33 | owner << 1 | leaf, offset


def by_value(column: NDArray[np.integer], rows: Int64) -> list[tuple[int, Int64]]:
    """Each value that a column has in these rows, ascending, with its rows in their order; linear in the rows."""
    values = column[rows]
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order])) + 1
    parts = np.split(rows[order], ends) if len(rows) else []
    return [(int(column[part[0]]), part) for part in parts]
