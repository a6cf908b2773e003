"""Call chains of addresses → distinct chains of places in files, a chunk of samples at a time.

Processes have the same file at different addresses, so addresses are replaced by places first: what many short
processes do comes to few distinct chains, and what is kept grows with these alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Bool, Int32, Int64, Table, UInt64
from pinprof.base.lazy_dataclass import dataclass
from pinprof.read.interning import Interner
from pinprof.read.perf.addresses import GUEST
from pinprof.read.perf.mappings import NO_DSO, SpaceTable
from pinprof.read.perf.records import KERNEL_START
from pinprof.read.perf.sequences import DistinctSequences, positions

NO_CHAIN = -1
KERNEL_DSO = -2
_BLOCK = 1 << 11
"""Chains handled in one go, so that temporary columns stay in a processor's cache."""
_KEY_BITS = 63
_NUMBER = np.uint64(0xFFFFFFFF)


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
        self._offsets, self._kinds, self._places = Interner(), Interner(), Interner()
        self._chains = DistinctSequences()

    def __len__(self) -> int:
        return len(self._chains)

    def add(self, chains: Chains) -> Int32:
        """The number of each of some chains, none of which is empty; they may repeat."""
        return self._chains.add(self._number(chains.places)[chains.flat], chains.length)

    def numbers_of(self, entries: UInt64, length: Int32, version: Int32, spaces: SpaceTable) -> Int32:
        """Per sample the number of its chain; NO_CHAIN without one.

        `entries` are all samples' addresses end to end, `version` is each sample's address space.
        """
        number = np.full(len(length), NO_CHAIN, np.int32)
        chained = np.flatnonzero(length)
        # Those without chain take no room.
        places, flat = _located(entries, length[chained], version[chained], spaces)
        number[chained] = self.add(Chains(places, flat, length[chained]))
        return number

    def result(self) -> Chains:
        """All chains; the gatherer must not be used afterwards."""
        return Chains(self._meaning(self._places.keys), self._chains.flat, self._chains.length)

    def since(self, first: int) -> Chains:
        """The chains from a number on, with no places but theirs."""
        if first == len(self):
            return Chains(ChainAddresses.empty(), np.zeros(0, np.int32), np.zeros(0, np.int32))
        flat = self._chains.flat[self._chains.start[first] :]
        seen = np.zeros(len(self._places), np.bool_)
        seen[flat] = True
        number = (np.cumsum(seen) - 1).astype(np.int32)
        return Chains(self._meaning(self._places.keys[seen]), number[flat], self._chains.length[first:])

    def _meaning(self, keys: UInt64) -> ChainAddresses:
        kind = self._kinds.keys[(keys >> np.uint64(32)).astype(np.int64)]
        return ChainAddresses(
            dso=(kind >> np.uint64(33)).astype(np.int32) + np.int32(KERNEL_DSO),
            owner=((kind >> np.uint64(1)) & _NUMBER).astype(np.int32),
            offset=self._offsets.keys[(keys & _NUMBER).astype(np.int64)],
            leaf=(kind & np.uint64(1)) > 0,
        )

    def _number(self, places: ChainAddresses) -> Int32:
        kind = (places.dso.astype(np.int64) - KERNEL_DSO).astype(np.uint64) << np.uint64(33)
        kind |= places.owner.astype(np.uint64) << np.uint64(1) | places.leaf.astype(np.uint64)
        keys = self._kinds.ids(kind).astype(np.uint64) << np.uint64(32)
        return self._places.ids(keys | self._offsets.ids(places.offset).astype(np.uint64))


def _located(entries: UInt64, length: Int32, version: Int32, spaces: SpaceTable) -> tuple[ChainAddresses, Int32]:
    """The distinct places of some chains, and the chains as indices into these."""
    versions, which = np.unique(version, return_inverse=True)
    end = spaces.end
    width = (end + 1).bit_length()
    if width + 1 + len(versions).bit_length() > _KEY_BITS:
        return _located_apart(entries, length, version, spaces)
    keys = Interner()
    flat = np.empty(len(entries), np.int32)
    bounds = np.append(0, np.cumsum(length, dtype=np.int64))
    for block in range(0, len(length), _BLOCK):
        last = min(block + _BLOCK, len(length))
        begins, part = bounds[block:last], slice(bounds[block], bounds[last])
        space = which[block:last].astype(np.uint64) << np.uint64(width + 1)
        flat[part] = keys.ids(_keys(entries[part], begins - begins[0], space, end, width))
    return _places(keys.keys, versions, spaces, width), flat


def _located_apart(entries: UInt64, length: Int32, version: Int32, spaces: SpaceTable) -> tuple[ChainAddresses, Int32]:
    """The same of the two halves of the address spaces, where numbers of all do not fit into keys."""
    half = np.sort(version)[len(version) // 2]
    below = version < half if (version < half).any() else version <= half
    of_entry = np.repeat(below, length)
    flat = np.empty(len(entries), np.int32)
    places, flat[of_entry] = _located(entries[of_entry], length[below], version[below], spaces)
    others, rest = _located(entries[~of_entry], length[~below], version[~below], spaces)
    flat[~of_entry] = rest + np.int32(len(places))
    return places.joined(others), flat


def _keys(entries: UInt64, begins: Int64, space: UInt64, end: int, width: int) -> UInt64:
    """Per address a number that says its address space too, and whether it is the innermost of a program.

    For a user: address, leaf (bit `width`) and space above that. Nothing is mapped at `end` and beyond, so that `end`
    stands for all that but a guest, and `end + 1` for a guest.
    """
    keys = np.minimum(entries, np.uint64(end))
    keys[entries == np.uint64(GUEST)] = end + 1
    length = np.diff(begins, append=len(entries))
    keys |= np.repeat(space, length)
    in_kernel = entries >= np.uint64(KERNEL_START)
    kernel = np.flatnonzero(in_kernel)
    keys[kernel] = entries[kernel]
    leaf = begins[length > 0]
    outer = leaf[in_kernel[leaf]]
    leaf = leaf[~in_kernel[leaf]]
    # Chains that begin in the kernel have the program's part where the kernel's first run ends.
    if len(outer):
        changes = np.flatnonzero(in_kernel[:-1] & ~in_kernel[1:]) + 1
        following = np.append(begins, len(entries))[np.searchsorted(begins, outer, side="right")]
        place = np.append(changes, len(entries))[np.searchsorted(changes, outer)]
        leaf = np.concatenate([leaf, place[place < following]])
    keys[leaf] |= np.uint64(1 << width)
    return keys


def _places(keys: UInt64, versions: Int32, spaces: SpaceTable, width: int) -> ChainAddresses:
    """What keys mean."""
    found = ChainAddresses.of(len(keys), dso=KERNEL_DSO, offset=keys)
    user = np.flatnonzero(keys < np.uint64(KERNEL_START))
    address = keys[user] & np.uint64((1 << width) - 1)
    space = (keys[user] >> np.uint64(width + 1)).astype(np.int64)
    found.leaf[user] = (keys[user] >> np.uint64(width)) & np.uint64(1) > 0
    for number, rows in by_value(space, np.arange(len(user))):
        version = versions[number]
        dso, offset = spaces.find(version, address[rows])
        at = user[rows]
        nowhere = dso == NO_DSO
        found.dso[at], found.offset[at] = dso, np.where(nowhere, np.uint64(0), offset)
        found.leaf[at[nowhere]] = False
        found.owner[at[spaces.by_process[dso]]] = spaces.owner[version]
    guests = user[address == np.uint64(spaces.end + 1)]
    found.dso[guests], found.offset[guests] = NO_DSO, GUEST
    return found


def by_value(column: NDArray[np.integer], rows: Int64) -> list[tuple[int, Int64]]:
    """Each value that a column has in these rows, ascending, with its rows in their order; linear in the rows."""
    values = column[rows]
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order])) + 1
    parts = np.split(rows[order], ends) if len(rows) else []
    return [(int(column[part[0]]), part) for part in parts]
