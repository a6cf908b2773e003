"""Raw callchains (addresses) → the model's stack table (functions): resolve, merge, build the prefix tree.

Every distinct address is resolved once; one with inlined functions stands for a run of frames. Chains are then merged
as chains of functions, and the tree is built level by level over the distinct ones; a chain that has parted from all
others needs no more comparing, so the cost of deep, all-different stacks is that of writing them down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pinprof.model import KERNEL, NO_NODE, USER, Bool, Dso, FrameTable, Int32, Int64, StackTable, UInt8, UInt64
from pinprof.read.interning import Interner
from pinprof.read.perf.mappings import NO_DSO, AddressSpaces
from pinprof.read.perf.records import KERNEL_START
from pinprof.read.perf.samples import GUEST
from pinprof.read.symbols.resolver import Resolver

_BLOCK = 1 << 15
"""Samples handled in one go, to bound the size of temporary columns."""
_UNKNOWN_USER_DSO = Dso("[unknown]", "", "anon")
_GUEST_DSO = Dso("[guest]", "", "anon")
_UNKNOWN_KERNEL = "[unknown kernel]"


@dataclass(frozen=True)
class Stacks:
    """The stack table, each sample's node in it, and how many sampled frames have no symbol."""

    table: StackTable
    node: Int32
    unresolved: int


def build_stacks(
    chains: Int32,
    start: Int64,
    length: Int32,
    version: Int32,
    addresses: UInt64,
    spaces: AddressSpaces,
    resolver: Resolver,
) -> Stacks:
    """Stacks of samples whose callchain is `chains[start : start + length]`, leaf first, as indices into `addresses`.

    `version` is each sample's address space (AddressSpaces.version_of); user addresses mean different things in each.
    The samples may come in any order and need not be all. `chains` is used up: what it holds is overwritten.
    """
    order = np.argsort(start, kind="stable")
    length = length[order]
    flat = chains if _are_all(start[order], length, len(chains)) else chains[_positions(start[order], length)]
    sampled = len(addresses)
    if resolver.lines.wanted:
        addresses = _leaves_apart(flat, length, addresses)
    codes = _locate(flat, length, version[order], addresses)
    returns = (codes & np.uint64(0xFFFFFFFF)) < np.uint64(sampled)
    frame_of_code, count, frames, resolved = _resolve(codes, returns, addresses, spaces, resolver)
    if int(count.max(initial=1)) > 1:
        flat, length = _expanded(flat, length, count)
    unresolved = 0
    for block in range(0, len(flat), _BLOCK * 16):
        piece = flat[block : block + _BLOCK * 16]
        piece[:] = frame_of_code[piece]
        unresolved += int((~resolved)[piece].sum())
    distinct, of_sample = _distinct_chains(flat, length)
    begins = np.cumsum(length, dtype=np.int64) - length
    parent, frame, node = _tree(flat, begins[distinct], length[distinct])
    node_of_sample = np.empty(len(order), np.int32)
    node_of_sample[order] = np.append(node, np.int32(NO_NODE))[of_sample]
    return Stacks(StackTable(parent, frame, frames), node_of_sample, unresolved)


def _are_all(start: Int64, length: Int32, total: int) -> bool:
    """Whether chains, in order of their start, are all that there is, each once."""
    start, length = start[length > 0], length[length > 0].astype(np.int64)
    return int(length.sum()) == total and np.array_equal(start, np.cumsum(length) - length)


def _leaves_apart(flat: Int32, length: Int32, addresses: UInt64) -> UInt64:
    """The addresses, and after them once more those at which samples were taken; `flat` is renumbered for these.

    A sampled address is that of an instruction, all others of a user's chain are where a call returns to.
    """
    in_user = addresses < np.uint64(KERNEL_START)
    begins = np.cumsum(length, dtype=np.int64) - length
    leaves = []
    for block in range(0, len(length), _BLOCK):
        begin, end = begins[block : block + _BLOCK], begins[block : block + _BLOCK] + length[block : block + _BLOCK]
        user = np.append(np.flatnonzero(in_user[flat[begin[0] : end[-1]]]) + begin[0], end[-1])
        first = user[np.searchsorted(user, begin)]
        leaves.append(first[first < end])
    leaf = np.concatenate([np.zeros(0, np.int64), *leaves])
    sampled = np.zeros(len(addresses), np.bool_)
    sampled[flat[leaf]] = True
    number = np.cumsum(sampled, dtype=np.int32) + np.int32(len(addresses) - 1)
    flat[leaf] = number[flat[leaf]]
    return np.concatenate([addresses, addresses[sampled]])


def _expanded(flat: Int32, length: Int32, count: Int32) -> tuple[Int32, Int32]:
    """Chains of codes → chains of positions among the frames of all codes, and their lengths."""
    start = np.cumsum(count, dtype=np.int64) - count
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(length, dtype=np.int64)])
    grown = np.zeros(len(length), np.int32)
    pieces = []
    for block in range(0, len(length), _BLOCK):
        lengths = length[block : block + _BLOCK]
        piece = flat[before[block] : before[block + len(lengths)]]
        counts = count[piece]
        pieces.append(_positions(start[piece], counts).astype(np.int32))
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        ends = before[block + 1 : block + 1 + len(lengths)] - before[block]
        grown[block : block + len(lengths)] = sums[ends] - sums[ends - lengths]
    return np.concatenate([np.zeros(0, np.int32), *pieces]), grown


def _locate(flat: Int32, length: Int32, version: Int32, addresses: UInt64) -> UInt64:
    """A table of `address index | version << 32`, by which the address indices in `flat` are replaced.

    Kernel addresses have version 0: they mean the same in every process.
    """
    in_kernel = addresses >= np.uint64(KERNEL_START)
    if int(version.max(initial=0)) == int(version.min(initial=2**31 - 1)) or not len(version):
        shared = np.uint64(int(version.max(initial=0)) << 32)
        return np.arange(len(addresses), dtype=np.uint64) | np.where(in_kernel, np.uint64(0), shared)
    located = Interner()
    filled = 0
    for block in range(0, len(length), _BLOCK):
        versions: UInt64 = np.repeat(
            version[block : block + _BLOCK].astype(np.uint64) << np.uint64(32), length[block : block + _BLOCK]
        )
        numbers = flat[filled : filled + len(versions)]
        versions[in_kernel[numbers]] = 0
        numbers[:] = located.ids(versions | numbers.astype(np.uint64))
        filled += len(versions)
    return located.keys


def _resolve(
    codes: UInt64, returns: Bool, addresses: UInt64, spaces: AddressSpaces, resolver: Resolver
) -> tuple[Int32, Int32, FrameTable, Bool]:
    """The frames of all codes end to end, innermost first; how many each has; their table; which have a symbol.

    `returns` marks codes of addresses that calls return to.
    """
    address = addresses[(codes & np.uint64(0xFFFFFFFF)).astype(np.int64)]
    version = (codes >> np.uint64(32)).astype(np.int32)
    names = np.full(len(codes), -1, np.int32)
    runs = np.full(len(codes), -1, np.int32)
    dsos = np.full(len(codes), NO_DSO, np.int32)
    offsets = address.copy()
    kernel = address >= np.uint64(KERNEL_START)
    user = np.flatnonzero(~kernel)
    for number, rows in _by_value(version, user):
        dsos[rows], offsets[rows] = spaces.versions[number].find(address[rows])
    table = list(spaces.dsos)
    for index, dso, pid, rows in _by_source(spaces, user, dsos, version):
        names[rows] = resolver.user(dso, offsets[rows], pid)
        runs[rows] = resolver.runs(dso, offsets[rows] - returns[rows])
        dsos[rows] = index
        for ancestor in _ancestors(spaces, pid) if dso.kind == "jit" else ():
            rows = rows[names[rows] < 0]
            if rows.size:
                names[rows] = resolver.user(dso, offsets[rows], ancestor)
    dsos[user[dsos[user] == NO_DSO]] = len(table)
    dsos[user[address[user] == np.uint64(GUEST)]] = len(table) + 1
    table += [_UNKNOWN_USER_DSO, _GUEST_DSO]
    kernel_rows = np.flatnonzero(kernel)
    kernel_names, kernel_dsos, which = resolver.kernel(address[kernel_rows])
    names[kernel_rows], dsos[kernel_rows] = kernel_names, which + len(table)
    table += kernel_dsos
    count = np.ones(len(codes), np.int32)
    places = np.zeros(len(codes), np.int32)
    texts = [("", 0)]
    if (with_lines := np.flatnonzero(runs >= 0)).size:
        known = resolver.lines.runs
        count[with_lines] = [len(known[run]) for run in runs[with_lines].tolist()]
        numbers: dict[tuple[str, int], int] = {("", 0): 0}
        functions = [
            (name, numbers.setdefault((resolver.lines.paths[path], line) if line else ("", 0), len(numbers)))
            for run in runs[with_lines].tolist()
            for name, path, line in known[run]
        ]
        inside = np.repeat(runs >= 0, count)
        names, dsos, places = (np.repeat(column, count) for column in (names, dsos, places))
        kernel = np.repeat(kernel, count)
        names[inside], places[inside] = np.array(functions, np.int32).T
        texts = list(numbers)
    frame, frames, resolved = _frames(names, dsos, kernel, places, table, resolver.names, texts)
    return frame, count, frames, resolved


def _ancestors(spaces: AddressSpaces, pid: int) -> Iterator[int]:
    """Processes whose code, made at run time before they forked, a process goes on to run."""
    seen = {pid}
    while (pid := spaces.forked_from.get(pid, pid)) not in seen:
        seen.add(pid)
        yield pid


def _by_source(
    spaces: AddressSpaces, user: NDArray[np.int64], dsos: Int32, version: Int32
) -> list[tuple[int, Dso, int, NDArray[np.int64]]]:
    """User rows grouped by what their symbols come from: a DSO, or for code made at run time a DSO and a process."""
    groups: dict[tuple[int, int], list[NDArray[np.int64]]] = defaultdict(list)
    for index, rows in _by_value(dsos, user):
        if index == NO_DSO:
            continue
        if spaces.dsos[index].kind not in ("jit", "anon"):
            groups[index, 0].append(rows)
            continue
        for number, of_version in _by_value(version, rows):
            groups[index, spaces.versions[number].pid].append(of_version)
    return [(index, spaces.dsos[index], pid, np.concatenate(rows)) for (index, pid), rows in groups.items()]


def _by_value(column: Int32, rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each value that a column has in these rows, ascending, with its rows in their order; linear in the rows."""
    values = column[rows]
    order = np.argsort(values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])) + 1, len(rows))
    for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist() if len(rows) else [], strict=False):
        yield int(values[order[begin]]), rows[order[begin:end]]


def _frames(
    names: Int32,
    dsos: Int32,
    kernel: Bool,
    places: Int32,
    table: list[Dso],
    texts: list[str],
    lines: list[tuple[str, int]],
) -> tuple[Int32, FrameTable, Bool]:
    """Merge (place, name, DSO) triples into frames; equal DSOs in the table count as one.

    `names` are indices into `texts`, `places` into `lines`: (source file, line), of which the first stands for none.
    """
    merged: dict[Dso, int] = {}
    place = np.array([merged.setdefault(dso, len(merged)) for dso in table], np.int64)
    keys = (places.astype(np.int64) * (len(texts) + 1) + names + 1) * len(merged) + place[dsos]
    _, first, frame = np.unique(keys, return_index=True, return_inverse=True)
    unique_dsos = tuple(merged)
    frame_dso = place[dsos[first]].astype(np.int32)
    symbols, sources = [], []
    for name, dso, where in zip(names[first].tolist(), frame_dso.tolist(), places[first].tolist(), strict=True):
        symbol = texts[name] if name >= 0 else _unresolved_name(unique_dsos[dso])
        source, line = lines[where]
        symbols.append(f"{symbol} ({source.rpartition('/')[2]}:{line})" if line else symbol)
        sources.append(source)
    mode: UInt8 = np.where(kernel[first], KERNEL, USER).astype(np.uint8)
    frames = FrameTable(tuple(symbols), frame_dso, mode, unique_dsos, tuple(sources) if len(lines) > 1 else ())
    return frame.reshape(-1).astype(np.int32), frames, names[first] >= 0


def _unresolved_name(dso: Dso) -> str:
    """What stands for the name of a function without symbol."""
    if dso.kind == "kernel":
        return _UNKNOWN_KERNEL
    return dso.name if dso.name.startswith("[") else f"[{dso.name}]"


def _distinct_chains(flat: Int32, length: Int32) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first sample of each distinct chain, and per sample the index of its chain, -1 without chain.

    Chains are distinguished by a 64-bit sum of products (multilinear hashing) and then compared in full; of two chains
    that meet in the hash without being equal, the later samples each keep a chain of their own.
    """
    chained = np.flatnonzero(length > 0)
    begins = np.cumsum(length, dtype=np.int64) - length
    factors = _factors(int(length.max(initial=0)) + 1)
    hashes = np.empty(len(chained), np.uint64)
    for block in range(0, len(chained), _BLOCK):
        rows = chained[block : block + _BLOCK]
        lengths = length[rows].astype(np.int64)
        ends = np.cumsum(lengths)
        within = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
        # Chains of consecutive samples lie end to end: those without chain take no room.
        entries = flat[begins[rows[0]] : begins[rows[-1]] + lengths[-1]].astype(np.uint64)
        entries += np.uint64(1)
        entries *= factors[within]
        hashes[block : block + _BLOCK] = np.add.reduceat(entries, ends - lengths) ^ factors[lengths]
    chain = Interner().ids(hashes).astype(np.int64)
    first = np.full(int(chain.max(initial=-1)) + 1, len(length), np.int64)
    np.minimum.at(first, chain, chained)
    unequal = _unequal(flat, begins, length, chained, first[chain])
    chain[unequal] = len(first) + np.arange(len(unequal))
    of_sample = np.full(len(length), -1, np.int64)
    of_sample[chained] = chain
    return np.concatenate([first, chained[unequal]]), of_sample


def _unequal(
    flat: Int32, begins: Int64, length: Int32, samples: NDArray[np.int64], others: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Indices of the samples whose chain differs from that of the sample beside it in `others`."""
    differs = length[samples] != length[others]
    to_compare = np.flatnonzero(~differs & (samples != others))
    for block in range(0, len(to_compare), _BLOCK):
        rows = to_compare[block : block + _BLOCK]
        lengths = length[samples[rows]]
        different = flat[_positions(begins[samples[rows]], lengths)] != flat[_positions(begins[others[rows]], lengths)]
        if different.any():
            ends = np.cumsum(lengths, dtype=np.int64)
            differs[rows] = np.add.reduceat(different, ends - lengths, dtype=np.int64) > 0
    return np.flatnonzero(differs)


def _tree(flat: Int32, begins: Int64, length: Int32) -> tuple[Int32, Int32, Int32]:
    """Parent and frame of each node of the prefix tree of distinct chains, and each chain's innermost node."""
    nodes = Interner()
    node = np.zeros(len(length), np.int32)  # 0 is above the roots; nodes count from 1 until the end
    depth = 0
    live = np.flatnonzero(length > 0)
    tails: list[NDArray[np.int64]] = []
    tail_depths: list[NDArray[np.int64]] = []
    while live.size:
        frame = flat[begins[live] + length[live] - 1 - depth]
        number = nodes.ids((node[live].astype(np.uint64) << np.uint64(32)) | frame.view(np.uint32))
        node[live] = number + 1
        depth += 1
        alone = np.bincount(number, minlength=len(nodes))[number] == 1
        done = length[live] == depth
        tail = live[alone & ~done]
        tails.append(tail)
        tail_depths.append(np.full(len(tail), depth, np.int64))
        live = live[~alone & ~done]
    parent = (nodes.keys >> np.uint64(32)).astype(np.int32)
    frames = (nodes.keys & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)
    if tails:
        parent, frames = _append_tails(
            flat, begins, length, node, np.concatenate(tails), np.concatenate(tail_depths), parent, frames
        )
    return parent - 1, frames, node - 1


def _append_tails(
    flat: Int32,
    begins: Int64,
    length: Int32,
    node: Int32,
    tail: NDArray[np.int64],
    depth: NDArray[np.int64],
    parent: Int32,
    frame: Int32,
) -> tuple[Int32, Int32]:
    """Nodes for what is left of chains that share no further prefix: each chain's own run, outermost first."""
    lengths = length[tail] - depth
    total = int(lengths.sum())
    size = len(parent)
    parents, frames = np.empty(size + total, np.int32), np.empty(size + total, np.int32)
    parents[:size], frames[:size] = parent, frame
    filled = size
    for block in range(0, len(tail), _BLOCK):
        rows, count = tail[block : block + _BLOCK], lengths[block : block + _BLOCK]
        ends = np.cumsum(count)
        span = slice(filled, filled + int(ends[-1]))
        within = np.arange(int(ends[-1])) - np.repeat(ends - count, count)
        frames[span] = flat[np.repeat(begins[rows] + count - 1, count) - within]
        parents[span] = np.arange(span.start, span.stop)  # the node before, as nodes count from 1 here
        parents[filled + ends - count] = node[rows]
        node[rows] = filled + ends
        filled = span.stop
    return parents, frames


def _positions(start: Int64, length: NDArray[np.integer]) -> NDArray[np.int64]:
    """Indices start, start+1, … of each interval, end to end."""
    ends = np.cumsum(length, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(start - (ends - length), length)


def _factors(count: int) -> UInt64:
    """Fixed odd pseudo-random numbers (SplitMix64), one per place in a chain."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)
