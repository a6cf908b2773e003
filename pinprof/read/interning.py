"""Numbering of distinct 64-bit keys, a whole numpy column at a time.

A vectorised hash table with linear probing: some 10 ns per looked-up key as long as the distinct ones stay in cache,
where sorting (`np.unique`) costs several times that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinprof.data.model import Int32, UInt64

_FREE = -1
_PIECE = 1 << 15
"""Keys looked up in one go: temporaries and a table for that many stay in cache."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: multiplying spreads every input bit into the upper half (Knuth, vol. 3, 6.4)."""


class Interner:
    """Distinct keys, numbered from 0 in the order of the batches they first appear in."""

    def __init__(self) -> None:
        self._size = 0
        self._keys = np.zeros(1024, np.uint64)
        self._slots: Int32 = np.full(4096, _FREE, np.int32)

    def __len__(self) -> int:
        return self._size

    @property
    def keys(self) -> UInt64:
        """The keys by number."""
        return self._keys[: self._size]

    def ids(self, keys: UInt64) -> Int32:
        """The number of each key; new keys are numbered on the way."""
        if len(keys) <= _PIECE:
            return self._ids(keys)
        numbers = np.empty(len(keys), np.int32)
        for start in range(0, len(keys), _PIECE):
            numbers[start : start + _PIECE] = self._ids(keys[start : start + _PIECE])
        return numbers

    def _ids(self, keys: UInt64) -> Int32:
        self._reserve(len(keys))
        slot = self._hash(keys)
        number = self._slots[slot]
        # Free slots hold -1, the last entry of the column, which is always spare and may happen to equal a key.
        pending = np.flatnonzero((self._keys[number] != keys) | (number == _FREE))
        mask = len(self._slots) - 1
        slot, wanted = slot[pending], keys[pending]
        while pending.size:
            self._claim(slot, wanted)
            claimed = self._slots[slot]
            match = self._keys[claimed] == wanted
            number[pending[match]] = claimed[match]
            left = ~match
            pending, wanted, slot = pending[left], wanted[left], (slot[left] + 1) & mask
        return number

    def _claim(self, slot: NDArray[np.int64], wanted: UInt64) -> None:
        """Put new keys into those of the slots that are free; of several claimants of one slot the last wins."""
        free = np.flatnonzero(self._slots[slot] == _FREE)
        if not free.size:
            return
        place = slot[free]
        claim = np.arange(len(free), dtype=np.int32)
        self._slots[place] = claim
        winners = np.flatnonzero(self._slots[place] == claim)
        first = self._size
        self._size += len(winners)
        self._keys[first : self._size] = wanted[free[winners]]
        self._slots[place[winners]] = np.arange(first, self._size, dtype=np.int32)

    def _hash(self, keys: UInt64) -> NDArray[np.int64]:
        mixed = keys ^ (keys >> np.uint64(32))
        mixed *= _MIX
        mixed >>= np.uint64(65 - len(self._slots).bit_length())
        return mixed.view(np.int64)

    def _reserve(self, more: int) -> None:
        """Room for `more` keys: the column keeps a spare entry at its end, slots stay at most half full."""
        if self._size + more >= len(self._keys):
            grown = np.zeros(1 << (self._size + more).bit_length(), np.uint64)
            grown[: self._size] = self.keys
            self._keys = grown
        if 2 * (self._size + more) > len(self._slots):
            self._slots = np.full(1 << (2 * (self._size + more)).bit_length(), _FREE, np.int32)
            self._refill()

    def _refill(self) -> None:
        """Enter every key into an empty slot table."""
        mask = len(self._slots) - 1
        numbers = np.arange(self._size, dtype=np.int32)
        slot = self._hash(self.keys)
        while numbers.size:
            free = self._slots[slot] == _FREE
            self._slots[slot[free]] = numbers[free]
            left = self._slots[slot] != numbers
            numbers, slot = numbers[left], (slot[left] + 1) & mask
