"""Distinct call chains of places → the model's stack table (functions): resolve, merge, build the prefix tree.

Every distinct place is resolved once; one with inlined functions stands for a run of frames. Chains are then merged as
chains of functions, and the tree is built level by level over the distinct ones; a chain that has parted from all
others needs no more comparing, so the cost of deep, all-different stacks is that of writing them down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import put_together, slices
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import KERNEL, NO_NODE, USER, Bool, Dso, FrameTable, Int32, Int64, StackTable, UInt8
from pinprof.read.interning import Interner
from pinprof.read.perf.addresses import GUEST
from pinprof.read.perf.chains import KERNEL_DSO, ChainAddresses, Chains, by_value
from pinprof.read.perf.mappings import NO_DSO, SpaceTable
from pinprof.read.perf.sequences import DistinctSequences, positions
from pinprof.read.symbols.resolver import Resolver

_BLOCK = 1 << 15
"""Samples handled in one go, to bound the size of temporary columns."""
_UNKNOWN_USER_DSO = Dso("[unknown]", "", "anon")
_GUEST_DSO = Dso("[guest]", "", "anon")
_UNKNOWN_KERNEL = "[unknown kernel]"


@dataclass(frozen=True)
class ResolvedStacks:
    """The stack table, each sample's node in it, and how many sampled frames have no symbol."""

    table: StackTable
    node: Int32
    unresolved: int


def build_stacks(chains: Chains, chain: Int32, spaces: SpaceTable, resolver: Resolver) -> ResolvedStacks:
    """Stacks of samples by the number of their chain; these need not be all of a recording's."""
    count_of_chain = np.zeros(len(chains.length) + 1, np.int64)  # the last is of no chain
    for part in slices(len(chain)):
        np.add.at(count_of_chain, chain[part].astype(np.intp), 1)
    count_of_chain = count_of_chain[:-1]
    used = np.flatnonzero(count_of_chain)
    begins = np.cumsum(chains.length, dtype=np.int64) - chains.length
    length, weight = chains.length[used], count_of_chain[used]
    flat = chains.flat[positions(begins[used], length)]
    seen = np.zeros(len(chains.places), np.bool_)
    seen[flat] = True
    number = (np.cumsum(seen) - 1).astype(np.int32)
    flat = number[flat]
    frame_of_place, count, frames, resolved = _resolve(chains.places.take(seen), spaces, resolver)
    if int(count.max(initial=1)) > 1:
        flat, length = _expanded(flat, length, count)
    flat_frames = frame_of_place[flat]
    unresolved = int(np.repeat(weight, length)[~resolved[flat_frames]].sum())
    distinct = DistinctSequences()
    of_used = distinct.add(flat_frames, length)
    parent, frame, node = _tree(distinct.flat, distinct.start, distinct.length)
    node_of_chain = np.full(len(chains.length) + 1, NO_NODE, np.int32)
    node_of_chain[used] = node[of_used]
    nodes = put_together((node_of_chain[chain[part]] for part in slices(len(chain))), len(chain), np.int32)
    return ResolvedStacks(StackTable(parent, frame, frames), nodes, unresolved)


def _expanded(flat: Int32, length: Int32, count: Int32) -> tuple[Int32, Int32]:
    """Chains of places → chains of positions among the frames of all places, and their lengths."""
    start = np.cumsum(count, dtype=np.int64) - count
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(length, dtype=np.int64)])
    grown = np.zeros(len(length), np.int32)
    pieces = []
    for block in range(0, len(length), _BLOCK):
        lengths = length[block : block + _BLOCK]
        piece = flat[before[block] : before[block + len(lengths)]]
        counts = count[piece]
        pieces.append(positions(start[piece], counts).astype(np.int32))
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        ends = before[block + 1 : block + 1 + len(lengths)] - before[block]
        grown[block : block + len(lengths)] = sums[ends] - sums[ends - lengths]
    return np.concatenate([np.zeros(0, np.int32), *pieces]), grown


def _resolve(places: ChainAddresses, spaces: SpaceTable, resolver: Resolver) -> tuple[Int32, Int32, FrameTable, Bool]:
    """The frames of all places end to end, innermost first; how many each has; their table; which have a symbol."""
    names = np.full(len(places), -1, np.int32)
    runs = np.full(len(places), -1, np.int32)
    dsos = places.dso.copy()
    kernel = dsos == KERNEL_DSO
    table = list(spaces.dsos)
    for index, pid, rows in _by_source(places, spaces):
        dso, offsets = table[index], places.offset[rows]
        names[rows] = resolver.user(dso, offsets, pid)
        runs[rows] = resolver.runs(dso, offsets - ~places.leaf[rows])
        for ancestor in _ancestors(spaces, pid) if dso.kind == "jit" else ():
            rows = rows[names[rows] < 0]
            if rows.size:
                names[rows] = resolver.user(dso, places.offset[rows], ancestor)
    dsos[dsos == NO_DSO] = len(table)
    dsos[~kernel & (places.offset == np.uint64(GUEST)) & (dsos == len(table))] = len(table) + 1
    table += [_UNKNOWN_USER_DSO, _GUEST_DSO]
    kernel_rows = np.flatnonzero(kernel)
    kernel_names, kernel_dsos, which = resolver.kernel(places.offset[kernel_rows])
    names[kernel_rows], dsos[kernel_rows] = kernel_names, which + len(table)
    table += kernel_dsos
    count = np.ones(len(names), np.int32)
    lines = np.zeros(len(names), np.int32)
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
        names, dsos, lines = (np.repeat(column, count) for column in (names, dsos, lines))
        kernel = np.repeat(kernel, count)
        names[inside], lines[inside] = np.array(functions, np.int32).T
        texts = list(numbers)
    frame, frames, resolved = _frames(names, dsos, kernel, lines, table, resolver.names, texts)
    return frame, count, frames, resolved


def _ancestors(spaces: SpaceTable, pid: int) -> Iterator[int]:
    """Processes whose code, made at run time before they forked, a process goes on to run."""
    seen = {pid}
    while (pid := spaces.forked_from.get(pid, pid)) not in seen:
        seen.add(pid)
        yield pid


def _by_source(places: ChainAddresses, spaces: SpaceTable) -> Iterator[tuple[int, int, Int64]]:
    """User places grouped by what their symbols come from: a DSO, or for code made at run time a DSO and a process."""
    for index, of_dso in by_value(places.dso, np.flatnonzero(places.dso >= 0)):
        for owner, rows in by_value(places.owner, of_dso):
            yield index, int(spaces.pid_of[owner]) if owner else 0, rows


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
    functions, sources = [], []
    for name, dso, where in zip(names[first].tolist(), frame_dso.tolist(), places[first].tolist(), strict=True):
        functions.append(texts[name] if name >= 0 else _unresolved_name(unique_dsos[dso]))
        sources.append(lines[where])
    mode: UInt8 = np.where(kernel[first], KERNEL, USER).astype(np.uint8)
    frames = FrameTable(tuple(functions), frame_dso, mode, unique_dsos)
    if len(lines) > 1:
        source, line = zip(*sources, strict=True) if sources else ((), ())
        frames = replace(frames, source=source, line=line)
    return frame.reshape(-1).astype(np.int32), frames, names[first] >= 0


def _unresolved_name(dso: Dso) -> str:
    """What stands for the name of a function without symbol."""
    if dso.kind == "kernel":
        return _UNKNOWN_KERNEL
    return dso.name if dso.name.startswith("[") else f"[{dso.name}]"


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
