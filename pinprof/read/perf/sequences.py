"""Distinct sequences of numbers: call chains of places, and stacks of frames."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import Bool, GrowingColumn, Int32, Int64, UInt64
from pinprof.read.interning import Interner

_BLOCK = 1 << 11
"""Sequences handled in one go, so that temporary columns stay in a processor's cache."""


class DistinctSequences:
    """Grows distinct sequences, numbered in the order in which they first appear.

    Sequences are distinguished by a 64-bit hash and then compared in full; of two that meet in the hash without being
    equal, the later one gets a number of its own each time it comes.
    """

    def __init__(self) -> None:
        self._hashes = Interner()
        self._number_of_hash = GrowingColumn(np.int32)
        self._flat = GrowingColumn(np.int32)
        self._start = GrowingColumn(np.int64)
        self._length = GrowingColumn(np.int32)

    def __len__(self) -> int:
        return len(self._length.view)

    @property
    def flat(self) -> Int32:
        """All sequences end to end."""
        return self._flat.view

    @property
    def start(self) -> Int64:
        """Where in `flat` each begins."""
        return self._start.view

    @property
    def length(self) -> Int32:
        """How many numbers each has."""
        return self._length.view

    def add(self, flat: Int32, length: Int32) -> Int32:
        """The number of each of some sequences, end to end, none of which is empty; they may repeat."""
        if not len(length):
            return np.zeros(0, np.int32)
        lengths = length.astype(np.int64)
        begins = np.cumsum(lengths) - lengths
        known = len(self._hashes)
        of_hash = self._hashes.ids(_hashes(flat, lengths))
        new = np.flatnonzero(of_hash >= known)
        # Of several with one hash the first is that of the hash; the others are found to be unequal below.
        first = np.full(len(self._hashes) - known, len(lengths), np.int64)
        np.minimum.at(first, of_hash[new] - known, new)
        own = np.sort(first)
        numbers = self._append(flat, begins[own], lengths[own])
        self._number_of_hash.extend(numbers[np.searchsorted(own, first)])
        number = self._number_of_hash.view[of_hash]
        others = np.ones(len(number), np.bool_)
        others[own] = False
        rows = np.flatnonzero(others)
        unequal = rows[self._differ(flat, begins[rows], lengths[rows], number[rows])]
        number[unequal] = self._append(flat, begins[unequal], lengths[unequal])
        return number

    def _append(self, flat: Int32, begins: Int64, length: Int64) -> Int32:
        """Keep some sequences; their numbers."""
        first, filled = len(self), len(self.flat)
        self._flat.extend(flat[positions(begins, length)])
        self._start.extend(filled + np.cumsum(length) - length)
        self._length.extend(length.astype(np.int32))
        return np.arange(first, first + len(length), dtype=np.int32)

    def _differ(self, flat: Int32, begins: Int64, length: Int64, number: Int32) -> Bool:
        """Whether sequences are not what is kept under their numbers."""
        differs: Bool = length != self.length[number]
        same = np.flatnonzero(~differs)
        differs[same] = _unequal(flat, begins[same], self.flat, self.start[number[same]], length[same])
        return differs


def _hashes(flat: Int32, length: Int64) -> UInt64:
    """A sum of products (multilinear hashing) of each sequence, none of which is empty."""
    factors = _factors(int(length.max(initial=0)) + 1)
    hashes = np.empty(len(length), np.uint64)
    filled = 0
    for block in range(0, len(length), _BLOCK):
        lengths = length[block : block + _BLOCK]
        ends = np.cumsum(lengths)
        within = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
        entries = flat[filled : filled + int(ends[-1])].astype(np.uint64)
        entries += np.uint64(1)
        entries *= factors[within]
        hashes[block : block + _BLOCK] = np.add.reduceat(entries, ends - lengths) ^ factors[lengths]
        filled += int(ends[-1])
    return hashes


def _unequal(flat: Int32, begins: Int64, others: Int32, other_begins: Int64, length: Int64) -> Bool:
    """Per pair of sequences of one length, neither of them empty, whether they differ."""
    differs = np.zeros(len(length), np.bool_)
    for block in range(0, len(length), _BLOCK):
        part = slice(block, block + _BLOCK)
        lengths = length[part]
        different = flat[positions(begins[part], lengths)] != others[positions(other_begins[part], lengths)]
        if different.any():
            ends = np.cumsum(lengths, dtype=np.int64)
            differs[part] = np.add.reduceat(different, ends - lengths, dtype=np.int64) > 0
    return differs


def positions(start: Int64, length: NDArray[np.integer]) -> Int64:
    """Indices start, start+1, … of each interval, end to end."""
    ends = np.cumsum(length, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(start - (ends - length), length)


def _factors(count: int) -> UInt64:
    """Fixed odd pseudo-random numbers (SplitMix64), one per place in a sequence."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)
