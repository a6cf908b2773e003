"""The prefix tree holds each sample's chain of functions, exactly, whatever the chains are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinprof.base.columns import GrowingColumn
from pinprof.data.model import NO_NODE, Dso, Int32, UInt64
from pinprof.read.perf import kernels
from pinprof.read.perf.chains import NO_CHAIN, ChainGatherer
from pinprof.read.perf.mappings import AddressSpaces, SpaceTable, Spells
from pinprof.read.perf.records import CommRecord, MapRecord
from pinprof.read.perf.stacks import ResolvedStacks, build_stacks
from pinprof.read.symbols.resolver import Resolver
from tests.support.examples import examples

KERNEL = 2**63
ADDRESSES = np.array([0x10, 0x11, 0x20, 0x90, KERNEL + 1, KERNEL + 2, KERNEL + 0x50], np.uint64)
"""Two in one function, one in another, one unmapped, two kernel functions' and one without symbol."""


class Names(Resolver):
    """Names of the form `path:offset/16`, for user offsets below 0x30 and kernel addresses below 0x50."""

    def user(self, dso: Dso, file_offsets: UInt64, pid: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        names = [f"{dso.path}:{offset // 16}" for offset in file_offsets.tolist()]
        return np.array([self._numbered.number(name) for name in names], np.int32)

    def kernel(self, ips: UInt64):  # type: ignore[no-untyped-def]
        names = [self._numbered.number(f"k{ip - KERNEL}") if ip - KERNEL < 0x50 else -1 for ip in ips.tolist()]
        return np.array(names, np.int32), [Dso("[kernel.kallsyms]", "", "kernel")], np.zeros(len(ips), np.int32)


def spaces() -> SpaceTable:
    """Version 1: /a mapped at 0 to 0x80; version 2, after an exec at time 10: /b there."""
    made = AddressSpaces(Spells([(np.array([7, 7], np.int32), np.array([1, 11]), np.array([1, 11]))]))
    made.apply(0, MapRecord(7, 0, 0x80, 0, "/a", ""), {})
    made.apply(10, CommRecord(7, 7, "b", True), {})
    made.apply(10, MapRecord(7, 0, 0x80, 0, "/b", ""), {})
    return made.table()


def expected(address: int, version: int) -> str:
    value = int(ADDRESSES[address])
    if value >= KERNEL:
        return f"k{value - KERNEL}" if value - KERNEL < 0x50 else "[unknown kernel]"
    if version == 0 or value >= 0x80:
        return "[unknown]"
    return f"/{'ab'[version - 1]}:{value // 16}"


def build(chains: list[list[int]], versions: list[int], order: list[int]) -> ResolvedStacks:
    """Stacks of the samples in `order`, their chains lying in the order given."""
    length = np.array([len(chain) for chain in chains], np.int32)
    start = np.cumsum(length, dtype=np.int64) - length
    flat = np.array([address for chain in chains for address in chain], np.int32)
    rows = np.array(order, np.int64)
    version = np.array(versions, np.int32)
    parts = [flat[begin : begin + count] for begin, count in zip(start[rows], length[rows], strict=True)]
    return build_from(np.concatenate([flat[:0], *parts]), length[rows], version[rows], Names())


def build_from(flat: Int32, length: Int32, version: Int32, resolver: Resolver, several: int = 2) -> ResolvedStacks:
    """Stacks of samples whose chains lie end to end, gathered from several reducers' chunks of three samples."""
    known, gatherer, numbers = spaces(), ChainGatherer(), [np.zeros(0, np.int32)]
    reducers = [(ChainGatherer(), GrowingColumn(np.int32)) for _ in range(several)]
    ends = np.append(0, np.cumsum(length))
    for first in range(0, len(length), 3):
        last = min(first + 3, len(length))
        entries = ADDRESSES[flat[ends[first] : ends[last]]]
        reducer, told = reducers[first % several]
        before = len(reducer)
        chain = reducer.numbers_of(entries, length[first:last], version[first:last], known)
        told.extend(gatherer.add(reducer.since(before)))
        numbers.append(np.append(told.view, np.int32(NO_CHAIN))[chain])
    return build_stacks(gatherer.result(), np.concatenate(numbers), known, resolver)


CHAIN = st.lists(st.integers(0, len(ADDRESSES) - 1), max_size=12)


@pytest.mark.slow
@examples(200)
@given(st.lists(st.tuples(CHAIN, st.integers(0, 2)), min_size=1, max_size=60), st.randoms(), st.booleans())
def test_every_sample_keeps_its_chain_of_functions(samples, random, all_of_them: bool) -> None:  # type: ignore[no-untyped-def]
    chains, versions = [list(chain) for chain, _ in samples], [version for _, version in samples]
    order = list(range(len(samples)))
    random.shuffle(order)
    order = order if all_of_them else order[: len(order) // 2]
    built = build(chains, versions, order)
    table = built.table
    unresolved = 0
    for sample, node in zip(order, built.node.tolist(), strict=True):
        wanted = [expected(address, versions[sample]) for address in chains[sample]]
        assert [table.frames.symbol[int(table.frame[above])] for above in table.chain(node)] == wanted
        unresolved += sum(name.startswith("[") for name in wanted)
    assert built.unresolved == unresolved
    assert (table.parent < np.arange(len(table))).all()
    pairs = list(zip(table.parent.tolist(), table.frame.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    used = {ancestor for node in built.node.tolist() for ancestor in table.chain(node)}
    assert used == set(range(len(table)))


def test_chains_that_meet_in_the_hash_are_still_told_apart(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(kernels, "factor", lambda: 0)
    chains = [[0], [2], [0], [4], [2], [0, 2], [2, 0]]
    built = build(chains, [1] * len(chains), list(range(len(chains))))
    table = built.table
    for chain, node in zip(chains, built.node.tolist(), strict=True):
        names = [table.frames.symbol[int(table.frame[above])] for above in table.chain(node)]
        assert names == [expected(address, 1) for address in chain]
    assert len(table) == 5


@pytest.mark.slow
@examples(50)
@given(st.lists(CHAIN, min_size=1, max_size=30))
def test_whoever_reduces_the_stacks_come_in_one_order(chains: list[list[int]]) -> None:
    length = np.array([len(chain) for chain in chains], np.int32)
    flat = np.array([address for chain in chains for address in chain], np.int32)
    version = np.ones(len(chains), np.int32)
    told = []
    for several in (1, 2, 4):
        built = build_from(flat, length, version, Names(), several)
        table = built.table
        told.append((table.frames.function, *(column.tolist() for column in (table.parent, table.frame, built.node))))
    assert told[0] == told[1] == told[2]


def test_samples_without_chain_have_no_node() -> None:
    assert build([[], [0], []], [1, 1, 1], [0, 1, 2]).node.tolist() == [NO_NODE, 0, NO_NODE]
    assert len(build([[], []], [0, 0], [1, 0]).table) == 0


RUNS = {0x10: [("outer", 3)], 0x1F: [("inner", 7), ("outer", 4)]}
"""Known lines by instruction; a call at 0x1f returns to 0x20."""


class Inlining(Names):
    """Names with the lines of `RUNS`."""

    def __init__(self) -> None:
        super().__init__(recording=True)
        self.lines.paths.append("/src/a.cpp")
        for run in RUNS.values():
            self.lines.runs.append(tuple((self._numbered.number(name), 0, line) for name, line in run))

    def runs(self, dso: Dso, file_offsets: UInt64) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        known = list(RUNS)
        return np.array([known.index(at) if at in known else -1 for at in file_offsets.tolist()], np.int32)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(CHAIN, min_size=1, max_size=60))
def test_an_address_with_inlined_functions_is_several_frames(chains: list[list[int]]) -> None:
    length = np.array([len(chain) for chain in chains], np.int32)
    flat = np.array([address for chain in chains for address in chain], np.int32)
    version = np.ones(len(chains), np.int32)
    built = build_from(flat, length, version, Inlining())
    frames = built.table.frames
    for chain, node in zip(chains, built.node.tolist(), strict=True):
        wanted, called = [], False
        for index in chain:
            value = int(ADDRESSES[index])
            run = RUNS.get(value - called) if value < KERNEL else None
            wanted += [f"{name} (a.cpp:{line})" for name, line in run] if run else [expected(index, 1)]
            called = called or value < KERNEL
        assert [frames.symbol[int(built.table.frame[above])] for above in built.table.chain(node)] == wanted
    for index, symbol in enumerate(frames.symbol):
        named = symbol.endswith(")")
        assert frames.source_of(index) == ("/src/a.cpp" if named else "")
        assert frames.function[index] == (symbol.partition(" (")[0] if named else symbol)
