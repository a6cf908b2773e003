"""What `chains.c` does with addresses and chains is what Python does without it, however little room there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.errors import ToolMissing
from pinprof.data.model import UInt64
from pinprof.machine.libraries import Library
from pinprof.read.perf import kernels
from pinprof.read.perf import records as rec
from pinprof.read.perf.addresses import GUEST, UNKNOWN_KERNEL, UNKNOWN_USER, address_chains
from pinprof.read.perf.chains import KERNEL_DSO, ChainGatherer, PlaceTable
from pinprof.read.perf.mappings import NO_DSO, AddressSpaces, SpaceTable, Spells
from pinprof.read.perf.records import CommRecord, MapRecord
from pinprof.read.perf.sequences import DistinctSequences
from tests.support.examples import examples

Answer = TypeVar("Answer")

WORD = st.sampled_from(
    [
        rec.CONTEXT_KERNEL, rec.CONTEXT_USER, rec.CONTEXT_USER_DEFERRED, rec.CONTEXT_LOWEST, rec.CONTEXT_LOWEST - 1,
        rec.KERNEL_START, rec.KERNEL_START + 5, GUEST, 0, 1, 0x1000, 0x1010, 0x5000,
    ]
)  # fmt: skip
CHAINS = st.lists(st.lists(WORD, max_size=9), max_size=20)


@pytest.fixture(autouse=True)
def built() -> None:
    if kernels.library() is None:
        pytest.skip("there is no C compiler")


def test_where_it_cannot_be_built_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: Library) -> Path:
        raise ToolMissing("There is no C compiler.", "Install one.", "c-library")

    monkeypatch.setattr(Library, "find", missing)
    assert kernels.library.__wrapped__() is None


def without_library(answer: Callable[[], Answer]) -> Answer:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernels, "library", lambda: None)
        return answer()


def end_to_end(chains: list[list[int]]) -> tuple[UInt64, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    words = np.array([word for chain in chains for word in chain], np.uint64)
    return words, np.array([len(chain) for chain in chains], np.int64)


@pytest.mark.slow
@examples(300)
@given(CHAINS)
def test_addresses_and_cookies_are_the_same(chains: list[list[int]]) -> None:
    words, length = end_to_end(chains)

    def made() -> list[list[int]]:
        return [column.tolist() for column in address_chains(words, np.cumsum(length) - length, length)]

    assert made() == without_library(made)


def test_markers_say_what_addresses_are() -> None:
    user, kernel, guest = rec.CONTEXT_USER, rec.CONTEXT_KERNEL, rec.CONTEXT_LOWEST
    low, high = 0x1000, rec.KERNEL_START + 1
    chains = [
        [high, low],
        [kernel, high, low, user, low, high],
        [guest, low],
        [],
        [user],
        [kernel, high, rec.CONTEXT_USER_DEFERRED, 77],
    ]
    words, length = end_to_end(chains)
    entries, lengths, later, cookies = address_chains(words, np.cumsum(length) - length, length)
    assert entries.tolist() == [high, low, high, UNKNOWN_KERNEL, low, UNKNOWN_USER, GUEST, high]
    assert lengths.tolist() == [2, 4, 1, 0, 0, 1]
    assert (later.tolist(), cookies.tolist()) == ([5], [77])


def test_chains_that_leave_the_words_are_empty() -> None:
    words = np.arange(1, 5, dtype=np.uint64)
    entries, lengths, *_ = address_chains(words, np.array([0, 3, 9, -1]), np.array([2, 2, 1, 2]))
    assert (entries.tolist(), lengths.tolist()) == ([1, 2], [2, 0, 0, 0])


def spaces() -> SpaceTable:
    """Version 1: two files, and code made at run time; version 2, after an exec: one file elsewhere."""
    made = AddressSpaces(Spells([(np.array([7, 7], np.int32), np.array([1, 11]), np.array([1, 11]))]))
    made.apply(0, MapRecord(7, 0x1000, 0x1008, 0x40, "/a", ""), {})
    made.apply(0, MapRecord(7, 0x1008, 0x2000, 0, "/b", ""), {})
    made.apply(0, MapRecord(7, 0x5000, 0x6000, 0, "//anon", ""), {})
    made.apply(10, CommRecord(7, 7, "b", True), {})
    made.apply(10, MapRecord(7, 0x1000, 0x2000, 0, "/a", ""), {})
    return made.table()


def plain(entries: list[int]) -> list[int]:
    """What `address_chains` leaves: no markers."""
    return [entry for entry in entries if entry < rec.CONTEXT_LOWEST]


@pytest.mark.slow
@examples(200)
@given(st.lists(st.tuples(st.lists(WORD, max_size=9).map(plain), st.integers(0, 2)), max_size=40), st.booleans())
def test_chains_have_the_same_numbers_and_meaning(samples: list[tuple[list[int], int]], little_room: bool) -> None:
    entries, length = end_to_end([chain for chain, _ in samples])
    version, known = np.array([which for _, which in samples], np.int32), spaces()

    def made() -> tuple[object, ...]:
        gatherer, other = ChainGatherer(), ChainGatherer()
        numbers = gatherer.numbers_of(entries, length.astype(np.int32), version, known)
        passed_on = other.add(gatherer.since(0)) if len(gatherer) else np.zeros(0, np.int32)
        return numbers.tolist(), passed_on.tolist(), *(told(each) for each in (gatherer, other))

    with pytest.MonkeyPatch.context() as patched:
        if little_room:
            patched.setattr(kernels, "_FIRST_BITS", 1)
        assert made() == without_library(made)


def told(gatherer: ChainGatherer) -> list[list[int]]:
    chains = gatherer.result()
    return [column.tolist() for column in (*vars(chains.places).values(), chains.flat, chains.length)]


def test_places_are_what_is_mapped_and_calls_return_to_all_but_the_innermost_of_a_program() -> None:
    high = rec.KERNEL_START + 1
    entries, length = end_to_end([[high, 0x1007, 0x1008, 0x1007], [0x5000, 0x2000], [GUEST], [0x1000], [high]])
    table, known = PlaceTable(), spaces()
    numbers = table.of(entries, length.astype(np.int32), np.array([1, 1, 1, 2, 0], np.int32), known)
    means = table.meaning().take(numbers)
    assert means.dso.tolist() == [KERNEL_DSO, 0, 1, 0, 2, NO_DSO, NO_DSO, 0, KERNEL_DSO]
    assert means.offset.tolist() == [high, 0x47, 0, 0x47, 0x5000, 0, GUEST, 0, high]
    assert means.leaf.tolist() == [False, True, False, False, True, False, False, True, False]
    assert means.owner.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert table.numbers(table.meaning()).tolist() == list(range(len(table)))


def test_lengths_that_are_not_those_of_the_addresses_are_refused() -> None:
    with pytest.raises(ValueError, match="other lengths"):
        PlaceTable().of(np.zeros(3, np.uint64), np.array([2], np.int32), np.zeros(1, np.int32), spaces())


@pytest.mark.parametrize("library", [True, False])
def test_many_sequences_keep_their_numbers_as_room_grows(library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not library:
        monkeypatch.setattr(kernels, "library", lambda: None)
    random = np.random.default_rng(1)
    rows = [random.integers(0, 3, size).astype(np.int32) for size in random.integers(1, 12, 9000)]
    length = np.array([len(row) for row in rows], np.int32)
    sequences = DistinctSequences()
    half = int(length[:4000].sum())
    flat = np.concatenate(rows)
    numbers = [*sequences.add(flat[:half], length[:4000]), *sequences.add(flat[half:], length[4000:])]
    known: dict[bytes, int] = {}
    assert numbers == [known.setdefault(row.tobytes(), len(known)) for row in rows]
    kept = [sequences.flat[start : start + size] for start, size in zip(sequences.start, sequences.length, strict=True)]
    assert [row.tobytes() for row in kept] == list(known)
